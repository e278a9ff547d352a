/* qbench doctor: what this machine has, what is missing and how to get it. */
#include <stdarg.h>

#include "cli/check.h"
#include "cli/json_out.h"

typedef struct options {
    qb_common common;
} options;

static const qb_opt table[] = {QB_COMMON_OPTIONS, {0}};

#define QB_CHECK(name) extern const qb_check qb_check_##name;
#include "cli/checks.def"
#undef QB_CHECK

static const qb_check *const checks[] = {
#define QB_CHECK(name) &qb_check_##name,
#include "cli/checks.def"
#undef QB_CHECK
};

static const char *const kind_text[] = {"good", "note", "bad"};

qb_status qb_found(qb_ctx *cx, qb_finding *out, qb_finding_kind kind, const char *remedy,
                   const char *fmt, ...) {
    va_list args;
    char text[512];
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    *out = (qb_finding){.kind = kind, .text = qb_strdup(cx, text)};
    if (remedy) out->remedy = qb_strdup(cx, remedy);
    return out->text && (!remedy || out->remedy) ? QB_OK : cx->code;
}

static void release(qb_finding *finding) {
    qb_free(finding->text);
    qb_free(finding->remedy);
}

static json_t *finding_json(const char *name, const qb_finding *f) {
    return json_pack("{s:s, s:s, s:o, s:o}", "check", name, "kind", kind_text[f->kind], "text",
                     qb_json_string(f->text), "remedy",
                     f->remedy ? qb_json_string(f->remedy) : json_null());
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    (void)arguments;
    const options *o = opts;
    int n_bad = 0;
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        qb_finding finding = {0};
        qb_status status = checks[i]->look(cx, &finding);
        if (status == QB_OK) {
            n_bad += finding.kind == QB_FINDING_BAD;
            if (!qb_json_on_stdout(&o->common)) {
                printf("%-4s  %-10s %s\n", kind_text[finding.kind], checks[i]->name, finding.text);
                if (finding.remedy) printf("%16s -> %s\n", "", finding.remedy);
            }
            json_array_append_new(list, finding_json(checks[i]->name, &finding));
        }
        release(&finding);
        if (status != QB_OK) {
            json_decref(list);
            return status;
        }
    }
    QB_TRY(qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:s, s:o}", "schema", "qbench.doctor/1", "version",
                                 QB_VERSION, "findings", list)));
    return n_bad == 0 ? QB_OK : qb_fail(cx, QB_STATUS_CHECK, "%d of the checks are bad", n_bad);
}

const qb_command qb_command_doctor = {
    .name = "doctor",
    .usage = "[options]",
    .summary = "look at processor, memory, libraries, GPU and tools",
    .notes =
        "'note' costs speed or leaves something out, 'bad' makes a command fail (exit code 3).",
    .example = "qbench doctor",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 0,
    .run = run,
};
