#include "cli/out/diagnosis.h"

#include <stdarg.h>
#include <string.h>

static const char *const kind_text[] = {"good", "note", "bad"};

static qb_status found(qb_ctx *cx, qb_finding *out, qb_finding_kind kind, const char *remedy,
                       const char *fmt, va_list args) {
    char text[512];
    vsnprintf(text, sizeof text, fmt, args);
    *out = (qb_finding){.kind = kind, .text = qb_strdup(cx, text)};
    if (remedy) out->remedy = qb_strdup(cx, remedy);
    return out->text && (!remedy || out->remedy) ? QB_OK : cx->code;
}

qb_status qb_found(qb_ctx *cx, qb_finding *out, qb_finding_kind kind, const char *remedy,
                   const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    qb_status status = found(cx, out, kind, remedy, fmt, args);
    va_end(args);
    return status;
}

void qb_finding_release(qb_finding *finding) {
    QB_FREE_ALL(finding->text, finding->remedy);
    *finding = (qb_finding){0};
}

static json_t *finding_json(const char *check, const qb_finding *f) {
    return json_pack("{s:s, s:s, s:o, s:o}", "check", check, "kind", kind_text[f->kind], "text",
                     qb_json_text(f->text), "remedy",
                     f->remedy ? qb_json_text(f->remedy) : json_null());
}

qb_status qb_diagnosis_add(qb_ctx *cx, qb_diagnosis *diagnosis, qb_finding *finding) {
    if (diagnosis->faults_only && finding->kind == QB_FINDING_GOOD) {
        qb_finding_release(finding);
        return QB_OK;
    }
    if (!diagnosis->list) diagnosis->list = json_array();
    diagnosis->n_bad += finding->kind == QB_FINDING_BAD;
    if (!qb_json_on_stdout(diagnosis->common)) {
        printf("%-4s  %-10s %s\n", kind_text[finding->kind], diagnosis->check, finding->text);
        if (finding->remedy) printf("%16s -> %s\n", "", finding->remedy);
    }
    const bool added =
        json_array_append_new(diagnosis->list, finding_json(diagnosis->check, finding)) == 0;
    qb_finding_release(finding);
    return added ? QB_OK : qb_fail(cx, QB_STATUS_NOMEM, "out of memory");
}

qb_status qb_diagnosis_say(qb_ctx *cx, qb_diagnosis *diagnosis, qb_finding_kind kind,
                           const char *remedy, const char *fmt, ...) {
    qb_finding finding = {0};
    va_list args;
    va_start(args, fmt);
    qb_status status = found(cx, &finding, kind, remedy, fmt, args);
    va_end(args);
    if (status == QB_OK) return qb_diagnosis_add(cx, diagnosis, &finding);
    qb_finding_release(&finding);
    return status;
}

static qb_status add_kept(qb_ctx *cx, qb_diagnosis *diagnosis, json_t *kept) {
    const char *kind, *text, *remedy = json_string_value(json_object_get(kept, "remedy"));
    if (json_unpack(kept, "{s:s, s:s, s:s}", "check", &diagnosis->check, "kind", &kind, "text",
                    &text) != 0)
        return qb_fail(cx, QB_STATUS_FORMAT, "a finding has no check, kind and text");
    int k = QB_FINDING_GOOD;
    while (k < QB_FINDING_BAD && strcmp(kind, kind_text[k]) != 0) k++;
    return qb_diagnosis_say(cx, diagnosis, (qb_finding_kind)k, remedy, "%s", text);
}

qb_status qb_diagnosis_again(qb_ctx *cx, qb_diagnosis *diagnosis, const char *origin,
                             const char *kept) {
    json_t *list = json_loads(kept, 0, NULL);
    json_t *one;
    size_t i;
    qb_status status =
        json_is_array(list) ? QB_OK : qb_fail(cx, QB_STATUS_FORMAT, "no list of findings");
    json_array_foreach(list, i, one) if (status == QB_OK) status = add_kept(cx, diagnosis, one);
    json_decref(list);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s: doctor", origin);
}

json_t *qb_diagnosis_take(qb_diagnosis *diagnosis) {
    json_t *list = diagnosis->list ? diagnosis->list : json_array();
    diagnosis->list = NULL;
    return list;
}

qb_status qb_diagnosis_end(qb_ctx *cx, qb_diagnosis *diagnosis, const char *schema) {
    QB_TRY(qb_json_out(cx, diagnosis->common,
                       json_pack("{s:s, s:s, s:o}", "schema", schema, "version", QB_VERSION,
                                 "findings", qb_diagnosis_take(diagnosis))));
    if (diagnosis->n_bad == 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_CHECK, "%d %s bad", diagnosis->n_bad,
                   diagnosis->n_bad == 1 ? "check is" : "checks are");
}

void qb_diagnosis_release(qb_diagnosis *diagnosis) { json_decref(diagnosis->list); }
