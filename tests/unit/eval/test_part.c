/* What a part of a comparison measured of each sample, where it contradicts itself: its hash says
 * only that these are the bytes that somebody wrote. */
#include <jansson.h>
#include <string.h>

#include "base/file.h"
#include "eval/part.h"
#include "qb_test.h"

#define RESULTS QB_SOURCE_DIR "/tests/fuzz/corpus/part/"
#define LARGEST ((size_t)1 << 20)

/* An answer of a classifier of ten classes that is right about class 3, as it is packed. */
typedef struct packed {
    int32_t label, top1, rank;
    int32_t size[2];
} packed;

/* A sequence of a language model and what one engine answered, as they are packed. */
typedef struct sequence {
    int64_t places, told, right, same;
} sequence;

/* What was measured in a part of the corpus, and where a known answer stands in it. */
typedef struct sample {
    const char *file;
    const void *known;
    size_t n;
} sample;

static const packed right = {3, 3, 0, {10, 0}};
static const sequence told = {12, 11, 8, 12};
static const sample classify = {"classify", &right, sizeof right},
                    tokens = {"tokens", &told, sizeof told};

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

/* Merges a part whose `n` bytes at `offset` of the known answer are these. */
static qb_status merge(qb_ctx *cx, const sample *from, size_t offset, const void *bytes, size_t n) {
    char path[QB_TEST_PATH], *results, *at;
    size_t size;
    int64_t shared;
    qb_run *run = NULL;
    qb_test_join(path, RESULTS, from->file);
    assert_ok(cx, qb_file_read(cx, path, LARGEST, &results, &size));
    at = memmem(results, size, from->known, from->n);
    assert_non_null(at);
    if (n > 0) memcpy(at + offset, bytes, n);
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
    assert_ok(&cx, merge(&cx, &classify, 0, NULL, 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fails(&cx, merge(&cx, &classify, cases[i].offset, cases[i].bytes, cases[i].n),
                     QB_STATUS_FORMAT);
        assert_message(&cx, "part_1.json: damaged: an answer");
        assert_message(&cx, cases[i].message);
        qb_ctx_clear(&cx);
    }
}

/* Their sums would overflow, and a share be more than all. */
static void more_tokens_than_places_are_refused(void **state) {
    (void)state;
    static const struct {
        size_t offset;
        int64_t number;
    } cases[] = {{offsetof(sequence, places), -1},     {offsetof(sequence, places), INT64_MAX},
                 {offsetof(sequence, places), 10},     {offsetof(sequence, told), 13},
                 {offsetof(sequence, told), -1},       {offsetof(sequence, right), 12},
                 {offsetof(sequence, right), -1},      {offsetof(sequence, same), 13},
                 {offsetof(sequence, same), INT64_MIN}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, merge(&cx, &tokens, 0, NULL, 0));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fails(&cx, merge(&cx, &tokens, cases[i].offset, &cases[i].number, sizeof(int64_t)),
                     QB_STATUS_FORMAT);
        assert_message(&cx, "part_1.json: damaged: a number of things that cannot be");
        qb_ctx_clear(&cx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_tokens_than_places_are_refused),
        cmocka_unit_test(answers_that_contradict_themselves_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
