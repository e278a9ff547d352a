/* Parts of a comparison: a text that begins with { is a file, anything else what was measured of
 * each sample in a part with a sound record. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_limit.h"
#include "eval/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The record of two rows. */
static json_t *record(qb_ctx *cx) {
    qb_run *run;
    char *text;
    if (qb_run_create(cx, 2, &run) != QB_OK) abort();
    char **const of_run[] = {&run->model, &run->dataset, &run->version,
                             &run->cpu,   &run->host_os, &run->libraries};
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++) *of_run[i] = qb_strdup(cx, "x");
    for (int r = 0; r < 2; r++) {
        qb_run_row *row = &run->row[r];
        char **const of_row[] = {&row->precision, &row->backend, &row->calibration};
        for (size_t i = 0; i < 3; i++) *of_row[i] = qb_strdup(cx, r ? "int8" : "fp32");
    }
    if (cx->code != QB_OK || qb_run_json(cx, run, &text) != QB_OK) abort();
    json_t *json = json_loads(text, 0, NULL);
    qb_free(text);
    qb_run_free(run);
    return json;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_part part = {0};
    qb_run *run = NULL;
    int64_t shared;
    qb_status status = QB_OK;
    qb_alloc_limit_begin((size_t)256 << 20, (size_t)512 << 20);
    if (size > 0 && data[0] == '{') {
        status = qb_part_parse(&cx, "fuzz", (const char *)data, size, &part);
    } else {
        part = (qb_part){.name = qb_strdup(&cx, "fuzz"),
                         .shard = 1,
                         .shards = 1,
                         .results = qb_alloc(&cx, size + 1, 1),
                         .size = size,
                         .record = record(&cx)};
        if (!part.results || !part.record) abort();
        if (size > 0) memcpy(part.results, data, size);
    }
    if (status == QB_OK) status = qb_parts_merge(&cx, &part, 1, &run, &shared);
    if (status != QB_OK && cx.message[0] == '\0') abort();
    qb_part_release(&part);
    qb_run_free(run);
    qb_alloc_limit_end();
    return 0;
}
