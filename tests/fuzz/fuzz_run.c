/* qb_run_parse (compare.json) and all that reads its result, on any text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/gate.h"
#include "reports/report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was read can be written and read again, and is the same. */
static void write_again(qb_ctx *cx, const qb_run *run) {
    char *first, *second;
    qb_run *back;
    if (qb_run_json(cx, run, &first) != QB_OK) abort();
    if (qb_run_parse(cx, "again.json", first, strlen(first), &back) != QB_OK) abort();
    if (qb_run_json(cx, back, &second) != QB_OK) abort();
    if (strcmp(first, second) != 0) abort();
    qb_free(first);
    qb_free(second);
    qb_run_free(back);
}

static void judge(qb_ctx *cx, const qb_run *run) {
    static qb_gate_check checks[4096];
    qb_gate_limits limits = {.mlperf = true, .relative = true, .baseline = run};
#define X(field, option, unit, least, most, text) limits.field = 1;
    QB_GATE_LIMITS(X)
#undef X
    limits.confidence = (qb_confidence)(run->samples % 3);
    int32_t n;
    bool held;
    if (qb_gate(cx, run, NULL, &limits, checks, 4096, &n, &held) != QB_OK) abort();
    bool all = n > 0;
    for (int32_t i = 0; i < n; i++) all = all && checks[i].held && checks[i].measured;
    if (held != all) abort();
}

static void show(qb_ctx *cx, const qb_run *run) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream) return;
    qb_report_table(stream, run);
    qb_report_markdown(stream, run);
    qb_report_tsv(stream, run);
    if (qb_report_html(cx, run, NULL, NULL, stream) != QB_OK) abort();
    for (const qb_figure *const *f = qb_figures; *f; f++) {
        if ((*f)->applies && !(*f)->applies(run)) continue;
        if ((*f)->data(cx, run, stream) != QB_OK) abort();
        if ((*f)->script(cx, run, "x.tsv", stream) != QB_OK) abort();
    }
    fclose(stream);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_run *run = NULL;
    if (qb_run_parse(&cx, "fuzz.json", (const char *)data, size, &run) == QB_OK) {
        write_again(&cx, run);
        judge(&cx, run);
        show(&cx, run);
    } else if (cx.code == QB_OK || cx.message[0] == '\0' || run) {
        abort(); /* a failure says why and gives nothing */
    }
    qb_run_free(run);
    return 0;
}
