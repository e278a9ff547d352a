/* What a part of a comparison measured of each sample, where it contradicts itself: its hash says
 * only that these are the bytes that somebody wrote. */
#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "eval/part.h"
#include "qb_test.h"

#define RESULTS QB_SOURCE_DIR "/tests/fuzz/corpus/part/classify"
#define LARGEST ((size_t)1 << 20)

/* An answer of a classifier of ten classes that is right about class 3, as it is packed. */
typedef struct packed {
    int32_t label, top1, rank;
    int32_t size[2];
} packed;

static char *find_answer(char *bytes, size_t size) {
    const packed right = {3, 3, 0, {10, 0}};
    char *at = memmem(bytes, size, &right, sizeof right);
    assert_non_null(at);
    return at;
}

/* The record of two rows. */
static json_t *record(qb_ctx *cx) {
    qb_run *run;
    char *text;
    assert_ok(cx, qb_run_create(cx, 2, &run));
    char **const of_run[] = {&run->model, &run->dataset, &run->version,
                             &run->cpu,   &run->host_os, &run->libraries};
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++) *of_run[i] = qb_strdup(cx, "x");
    for (int r = 0; r < 2; r++) {
        char **const of_row[] = {&run->row[r].precision, &run->row[r].backend,
                                 &run->row[r].calibration};
        for (size_t i = 0; i < 3; i++) *of_row[i] = qb_strdup(cx, r ? "int8" : "fp32");
    }
    assert_ok(cx, qb_run_json(cx, run, &text));
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    qb_free(text);
    qb_run_free(run);
    return json;
}

/* Merges a part whose `n` bytes at `offset` of that answer are these. */
static qb_status merge(qb_ctx *cx, size_t offset, const void *bytes, size_t n) {
    char *results;
    size_t size;
    int64_t shared;
    qb_run *run = NULL;
    assert_ok(cx, qb_file_read(cx, RESULTS, LARGEST, &results, &size));
    if (n > 0) memcpy(find_answer(results, size) + offset, bytes, n);
    qb_part part = {.name = qb_strdup(cx, "part_1.json"),
                    .shard = 1,
                    .shards = 1,
                    .results = results,
                    .size = size,
                    .record = record(cx)};
    const qb_status status = qb_parts_merge(cx, &part, 1, &run, &shared);
    qb_part_release(&part);
    qb_run_free(run);
    return status;
}

static void answers_that_contradict_themselves_are_refused(void **state) {
    (void)state;
    const int32_t none = -1, other = 4, first = 1;
    const double negative = -1;
    const size_t sums = sizeof(packed);
    const struct {
        size_t offset, n;
        const void *bytes;
        const char *message;
    } cases[] = {
        {offsetof(packed, label), sizeof none, &none, "contradicts its class"},
        {offsetof(packed, label), sizeof other, &other, "contradicts its class"},
        {offsetof(packed, top1), sizeof other, &other, "contradicts its class"},
        {offsetof(packed, rank), sizeof first, &first, "contradicts its class"},
        {sums, sizeof negative, &negative, "below 0"},
        {sums + sizeof negative, sizeof negative, &negative, "below 0"},
    };
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, merge(&cx, 0, NULL, 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fails(&cx, merge(&cx, cases[i].offset, cases[i].bytes, cases[i].n),
                     QB_STATUS_FORMAT);
        assert_message(&cx, "part_1.json: damaged: an answer");
        assert_message(&cx, cases[i].message);
        qb_ctx_clear(&cx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_that_contradict_themselves_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
