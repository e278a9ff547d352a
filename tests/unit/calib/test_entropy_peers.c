/* The entropy variants give the thresholds that the tools themselves give on the same histogram. */
#include "qb_test.h"

#include <math.h>
#include <stdlib.h>

#include "calib/calib.h"
#include "entropy_reference.h"

#define N 1024 /* bins a side */
#define HALF (QB_STATS_BINS / 2)
#define KINDS (int)(sizeof entropy_reference / sizeof entropy_reference[0])

static uint64_t right_count(int kind, int64_t i) {
    const uint64_t last = i == N - 1;
    switch (kind) {
    case 0:
        return (i < 900 ? (uint64_t)(3000000 / ((i + 12) * (i + 12))) : 0) + (i == 0 ? 20000 : 0) +
               last;
    case 1: return (uint64_t)((1 << 20) / (i * i / 64 + 8) + i * 7919 % 13);
    case 2: return (i < 300 ? (uint64_t)(5000 - 16 * i) : 0) + 3 * last;
    case 3: return (i % 37 == 5 ? (uint64_t)(900000 / (i + 3)) : 0) + 2 * last;
    default: {
        const int64_t hump = 800 - llabs(i - 250) * 5;
        return (hump > 0 ? (uint64_t)hump : 0) + last;
    }
    }
}

static uint64_t left_count(int kind, int64_t i) {
    if (kind == 1) return right_count(kind, i) / 3 + (uint64_t)(i * 104729 % 5);
    return kind == 4 && i > 500 && i % 3 == 0 ? 40 : 0;
}

/* Bins of width 1; the extremes leave room for every threshold. */
static void fill(qb_stats *stats, int kind) {
    qb_stats_init(stats);
    stats->exponent = 12;
    stats->min = -N;
    stats->max = N;
    stats->zeros = entropy_reference[kind].zeros;
    for (int i = 0; i < N; i++) {
        stats->bin[HALF + i] = right_count(kind, i);
        stats->bin[HALF - 1 - i] = left_count(kind, i);
        stats->count += stats->bin[HALF + i] + stats->bin[HALF - 1 - i];
    }
}

static qb_range choose(const char *method, int kind) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_method_choice choice;
    qb_range range;
    qb_stats *stats = malloc(sizeof *stats);
    fill(stats, kind);
    const qb_observed seen = {.stats = stats};
    assert_ok(&cx, qb_method_parse(&cx, method, &choice));
    assert_ok(&cx, choice.method->range(&cx, &seen, &choice, &range));
    free(stats);
    return range;
}

static void assert_end(const char *method, int kind, double got, double expected) {
    if (fabs(got - expected) > 1e-6 * fabs(expected))
        fail_msg("%s, histogram %d: threshold %.9g, expected %.9g", method, kind, got, expected);
}

static void nvidia_is_as_its_calibrator(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        assert_end("nvidia", kind, choose("entropy:nvidia", kind).hi,
                   entropy_reference[kind].nvidia);
}

static void ort_is_as_onnxruntime_computes(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        const qb_range range = choose("entropy:ort", kind);
        assert_end("ort", kind, range.lo, entropy_reference[kind].ort_low);
        assert_end("ort", kind, range.hi, entropy_reference[kind].ort_high);
    }
}

static void ncnn_is_as_its_tool(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        assert_end("ncnn", kind, choose("entropy:ncnn", kind).hi, entropy_reference[kind].ncnn);
}

static void ppq_is_as_its_observer(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        assert_end("ppq", kind, choose("entropy:ppq", kind).hi, entropy_reference[kind].ppq);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nvidia_is_as_its_calibrator),
    cmocka_unit_test(ort_is_as_onnxruntime_computes),
    cmocka_unit_test(ncnn_is_as_its_tool),
    cmocka_unit_test(ppq_is_as_its_observer),
};

QB_TEST_MAIN(tests)
