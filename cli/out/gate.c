#include "cli/out/gate.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "cli/settings/gate_policy.h"

/* "%" and "points" stand apart from the number, "x" does not; a record's unit comes bare. */
static const char *gap(const char *unit) { return unit[0] && !strchr(" x", unit[0]) ? " " : ""; }

void qb_gate_check_text(const qb_gate_check *c, char text[QB_GATE_TEXT]) {
    const double off = fabs(c->limit - c->value);
    const char *of = c->metric ? " of " : "", *metric = c->metric ? c->metric : "";
    const char *unit = c->unit ? c->unit : "", *apart = gap(unit);
    char by[32];
    snprintf(by, sizeof by, off < 100 ? "%.3g" : "%.0f", off);
    if (!c->measured)
        snprintf(text, QB_GATE_TEXT, "%s%s%.40s: could not be measured (limit %g%s%.16s): %s",
                 c->name, of, metric, c->limit, apart, unit, c->reason);
    else
        snprintf(text, QB_GATE_TEXT, "%s%s%.40s: %.5g%s%.16s, limit %g%s%.16s (%s %s)%s%s", c->name,
                 of, metric, c->value, apart, unit, c->limit, apart, unit,
                 qb_gate_margin(c) > -1e-9 ? "margin"
                 : c->at_most              ? "over by"
                                           : "short by",
                 by, c->reason[0] ? ": " : "", c->reason);
}

static const char *word_of(const qb_gate_check *c) {
    return c->held ? "PASS" : c->blocked ? "BLOCKED" : "FAIL";
}

/* The check that decides: of those that did not hold, if any, the one with the least margin. */
static const qb_gate_check *deciding(const qb_gate_result *r) {
    const qb_gate_check *found = NULL;
    for (int32_t i = 0; i < r->n; i++) {
        const qb_gate_check *c = &r->check[i];
        if (r->failed > 0 && c->held) continue;
        if (r->failed > r->blocked && c->blocked) continue;
        if (!found || qb_gate_margin(c) < qb_gate_margin(found)) found = c;
    }
    return found;
}

/* In the verdict: the check's own line and the record's warnings say the rest. */
static void text_in_short(const qb_gate_check *c, char text[QB_GATE_TEXT]) {
    qb_gate_check check = *c;
    if (c->blocked)
        snprintf(check.reason, sizeof check.reason, "a warning touches it (--allow %.40s)",
                 c->blocked);
    qb_gate_check_text(&check, text);
}

void qb_gate_verdict(const qb_gate_result *r, char text[QB_GATE_TEXT]) {
    const qb_gate_check *c = deciding(r);
    char line[QB_GATE_TEXT] = "";
    if (c) text_in_short(c, line);
    if (r->failed > 0)
        snprintf(text, QB_GATE_TEXT, "%s: %d of %d checks did not hold; %.64s %.500s",
                 r->failed > r->blocked ? "FAIL" : "BLOCKED", r->failed, r->n, c ? c->row : "",
                 line);
    else
        snprintf(text, QB_GATE_TEXT, "PASS: %d of %d checks held; the closest is %.64s %.500s",
                 r->n, r->n, c ? c->row : "", line);
}

void qb_gate_print(FILE *stream, const qb_gate_result *r) {
    char text[QB_GATE_TEXT];
    fprintf(stream, "%s: model %s, data %s, %lld samples", QB_SHOWN(r->path), r->run->model,
            r->run->dataset, (long long)r->run->samples);
    if (r->run->skipped > 0) fprintf(stream, " (%lld skipped)", (long long)r->run->skipped);
    fputc('\n', stream);
    for (int32_t i = 0; i < r->run->n_warnings; i++) {
        char warning[QB_WARNING_TEXT];
        const char *said = qb_warning_said(r->run, i, warning);
        if (said) fprintf(stream, "warning: %s\n", said);
    }
    for (int32_t i = 0; i < r->n; i++) {
        qb_gate_check_text(&r->check[i], text);
        fprintf(stream, "%s %s %s\n", word_of(&r->check[i]), r->check[i].row, text);
    }
    qb_gate_verdict(r, text);
    fprintf(stream, "%s\n", text);
}

/* ---- GitHub ---- */

/* Workflow commands end at the line's end and take %, CR and LF as escapes. */
static void put_annotation(FILE *stream, const char *text) {
    for (; *text; text++) {
        if (*text == '%')
            fputs("%25", stream);
        else
            fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
    }
}

void qb_gate_annotate(FILE *stream, const qb_gate_result *r) {
    for (int32_t i = 0; i < r->run->n_warnings; i++) {
        char text[QB_WARNING_TEXT];
        const char *said = qb_warning_said(r->run, i, text);
        if (!said) continue;
        fputs("::warning title=qbench gate::", stream);
        put_annotation(stream, said);
        fputc('\n', stream);
    }
    for (int32_t i = 0; i < r->n; i++) {
        char text[QB_GATE_TEXT];
        qb_gate_check_text(&r->check[i], text);
        fprintf(stream, "::%s title=qbench gate::", r->check[i].held ? "notice" : "error");
        put_annotation(stream, r->check[i].row);
        fputc(' ', stream);
        put_annotation(stream, text);
        fputc('\n', stream);
    }
}

/* ---- JUnit ---- */

static void put_xml(FILE *stream, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", stream); break;
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '"': fputs("&quot;", stream); break;
        default: fputc((unsigned char)*text < ' ' ? ' ' : *text, stream);
        }
    }
}

static void put_case(FILE *stream, const qb_gate_check *c) {
    char text[QB_GATE_TEXT];
    qb_gate_check_text(c, text);
    fprintf(stream, "  <testcase classname=\"");
    put_xml(stream, c->row);
    fprintf(stream, "\" name=\"%s\"", c->name);
    if (c->held) {
        fprintf(stream, "><system-out>");
        put_xml(stream, text);
        fprintf(stream, "</system-out></testcase>\n");
        return;
    }
    fprintf(stream, "><%s message=\"", c->measured ? "failure" : "error");
    put_xml(stream, text);
    fprintf(stream, "\"/></testcase>\n");
}

static void write_junit(FILE *stream, const qb_gate_result *r, const char *error) {
    int32_t unmeasured = error ? 1 : 0;
    for (int32_t i = 0; i < r->n; i++) unmeasured += !r->check[i].measured;
    const int32_t failures = r->failed - (error ? 0 : unmeasured);
    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"qbench gate\" tests=\"%d\" failures=\"%d\" errors=\"%d\">\n",
            r->n + (error != NULL), failures, unmeasured);
    for (int32_t i = 0; i < r->n; i++) put_case(stream, &r->check[i]);
    if (error) {
        fprintf(stream, "  <testcase classname=\"qbench\" name=\"gate\"><error message=\"");
        put_xml(stream, error);
        fprintf(stream, "\"/></testcase>\n");
    }
    if (r->run && r->run->n_warnings > 0) {
        fputs("  <system-out>", stream);
        for (int32_t i = 0; i < r->run->n_warnings; i++) {
            fputs("warning: ", stream);
            put_xml(stream, r->run->warning[i].text);
            fputc('\n', stream);
        }
        fputs("</system-out>\n", stream);
    }
    fprintf(stream, "</testsuite>\n");
}

qb_status qb_gate_junit(qb_ctx *cx, const char *file, const qb_gate_result *result,
                        const char *error) {
    QB_FREED char *said = qb_text_clean(cx, error ? error : "");
    qb_writer writer;
    if (!said) return cx->code;
    QB_TRY(qb_writer_open(cx, file, &writer));
    write_junit(writer.stream, result, error ? said : NULL);
    return qb_writer_commit(cx, &writer);
}

/* ---- JSON ---- */

static json_t *record_json(const qb_gate_result *r) {
    char model[33], data[33];
    qb_hash_hex(r->run->model_hash, model);
    qb_hash_hex(r->run->data_hash, data);
    return json_pack("{s:o, s:s, s:s, s:s, s:s, s:I, s:I}", "file", qb_json_text(r->path), "model",
                     r->run->model, "model_hash", model, "dataset", r->run->dataset, "data_hash",
                     data, "samples", (json_int_t)r->run->samples, "skipped",
                     (json_int_t)r->run->skipped);
}

json_t *qb_gate_json(const qb_gate_result *r) {
    char verdict[QB_GATE_TEXT];
    json_t *list = json_array(), *warnings = json_array();
    for (int32_t i = 0; i < r->run->n_warnings; i++) {
        const qb_run_warning *w = &r->run->warning[i];
        json_array_append_new(warnings,
                              json_pack("{s:s, s:s, s:s, s:s}", "name", w->name, "touches",
                                        w->touches, "row", w->row, "text", w->text));
    }
    for (int32_t i = 0; i < r->n; i++) {
        const qb_gate_check *c = &r->check[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s?, s:s, s:o, s:o, s:o, s:f, s:s, s:b, s:b, s:s?, s:s}",
                            "check", c->name, "metric", c->metric, "precision", c->row, "value",
                            qb_json_finite(c->value), "low", qb_json_finite(c->ci.lo), "high",
                            qb_json_finite(c->ci.hi), "limit", c->limit, "unit",
                            c->unit + strspn(c->unit, " "), "measured", c->measured, "held",
                            c->held, "blocked", c->blocked, "reason", c->reason));
    }
    qb_gate_verdict(r, verdict);
    return json_pack("{s:s, s:o, s:b, s:s, s:o, s:o}", "schema", "qbench.gate/1", "record",
                     record_json(r), "held", r->n > 0 && r->failed == 0, "verdict", verdict,
                     "checks", list, "warnings", warnings);
}

/* ---- for the page ---- */

static qb_status describe_all(qb_ctx *cx, const qb_gate_result *r, qb_verdict_text *out) {
    char text[QB_GATE_TEXT];
    qb_strbuf lines = {0};
    for (int32_t i = 0; i < r->n; i++) {
        qb_gate_check_text(&r->check[i], text);
        qb_strbuf_addf(&lines, "%s %s %s\n", word_of(&r->check[i]), r->check[i].row, text);
    }
    QB_TRY(qb_strbuf_take(cx, &lines, &out->lines));
    qb_gate_verdict(r, text);
    out->word = r->failed == 0 ? "PASS" : r->failed > r->blocked ? "FAIL" : "BLOCKED";
    const char *rest = strstr(text, ": ");
    out->text = qb_strdup(cx, rest ? rest + 2 : text);
    return out->text ? QB_OK : cx->code;
}

qb_status qb_gate_verdict_of(qb_ctx *cx, const qb_common *common, const qb_run *run,
                             qb_verdict_text *out) {
    enum { CHECKS_MAX = 4096 };
    const qb_gate_flags none = {.limits = qb_gate_no_limits()};
    QB_RELEASED(qb_gate_policy_release) qb_gate_policy policy = {0};
    qb_gate_result r = {.run = run};
    QB_FREED qb_gate_check *checks = NULL;
    bool held;
    *out = (qb_verdict_text){0};
    QB_TRY(qb_gate_policy_load(cx, common, &none, &policy));
    if (!qb_gate_has_limit(&policy.limits)) return QB_OK;
    QB_TRY_NEW(cx, r.check = checks = qb_alloc(cx, CHECKS_MAX, sizeof *checks));
    QB_TRY(qb_gate(cx, run, policy.precision, &policy.limits, checks, CHECKS_MAX, &r.n, &held));
    for (int32_t i = 0; i < r.n; i++) {
        r.failed += !checks[i].held;
        r.blocked += checks[i].blocked != NULL;
    }
    return r.n > 0 ? describe_all(cx, &r, out) : QB_OK;
}
