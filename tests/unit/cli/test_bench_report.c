/* What bench prints of queries on a GPU and on a processor, from times that are known. */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>

#include "cli/bench/report.h"

/* Query i of n on a GPU: copies in take a, steps b, copies out c and starting d milliseconds. */
static qb_query on_gpu(int i, double a, double b, double c, double d) {
    const double start = 10.0 * i;
    return (qb_query){0, start, start + a + b + c, {a, b, c, d}};
}

static char *printed(const qb_bench *bench, int64_t batch, const qb_bench_said *said) {
    qb_ctx cx;
    qb_bench_summary summary = {0};
    char *text;
    size_t size;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_bench_percents(&cx, "90,99", &summary));
    assert_ok(&cx, qb_bench_summarize(&cx, bench, batch, &summary));
    FILE *to = open_memstream(&text, &size);
    assert_non_null(to);
    qb_bench_print(to, bench, &summary, said);
    fclose(to);
    return text;
}

static void check(char *text, const char *const *lines, const char *const *absent) {
    for (; *lines; lines++)
        if (!strstr(text, *lines)) fail_msg("expected '%s' in\n%s", *lines, text);
    for (; *absent; absent++)
        if (strstr(text, *absent)) fail_msg("'%s' in\n%s", *absent, text);
    free(text);
}

static void a_gpu_has_all_lines_of_trtexec(void **state) {
    (void)state;
    qb_query query[] = {on_gpu(0, 0.25, 1, 0.25, 0.125), on_gpu(1, 0.25, 1, 0.25, 0.125),
                        on_gpu(2, 0.5, 1, 0.25, 0.25), on_gpu(3, 0.5, 1, 0.25, 0.25)};
    const qb_bench bench = {query, 4, 7, 40, true};
    const char *const lines[] = {
        "Warmup completed 7 queries over 200 ms\nTiming trace has 4 queries over 0.04 s\n",
        "Average on 2 runs - GPU latency: 1 ms - Host latency: 1.5 ms (enqueue 0.125 ms)\n"
        "Average on 2 runs - GPU latency: 1 ms - Host latency: 1.75 ms (enqueue 0.25 ms)\n",
        "\nThroughput: 100 qps (800 items/s)\n",
        "\nLatency: min = 1.5 ms, max = 1.75 ms, mean = 1.625 ms, median = 1.625 ms, "
        "percentile(90%) = 1.75 ms, percentile(99%) = 1.75 ms\n",
        "\nEnqueue Time: min = 0.125 ms, max = 0.25 ms, mean = 0.1875 ms, median = 0.1875 ms, ",
        "\nH2D Latency: min = 0.25 ms, max = 0.5 ms, mean = 0.375 ms, median = 0.375 ms, ",
        "\nGPU Compute Time: min = 1 ms, max = 1 ms, mean = 1 ms, median = 1 ms, ",
        "\nD2H Latency: min = 0.25 ms, max = 0.25 ms, ",
        "\nTotal Host Walltime: 0.04 s\nTotal GPU Compute Time: 0.004 s\n",
        NULL};
    /* The copies vary, the computation does not: nothing is unstable. */
    const char *const absent[] = {"bound by", "Unstable", "streams at once", NULL};
    const qb_bench_said said = {200, 2, 1};
    check(printed(&bench, 8, &said), lines, absent);
}

static void slow_hosts_and_copies_are_said(void **state) {
    (void)state;
    qb_query query[] = {on_gpu(0, 1, 1, 0.5, 0.9), on_gpu(1, 1, 1, 0.5, 0.9)};
    const qb_bench bench = {query, 2, 1, 20, true};
    const char *const lines[] = {"bound by the host: starting a query (enqueue) takes 90 %",
                                 "bound by copies: H2D Latency is not below GPU Compute Time",
                                 "4 streams at once", NULL};
    const char *const absent[] = {"copies: D2H", "Trace", NULL};
    const qb_bench_said said = {0, 0, 4};
    check(printed(&bench, 1, &said), lines, absent);
}

static void a_processor_has_neither_copies_nor_an_enqueue(void **state) {
    (void)state;
    qb_query query[] = {{.end_ms = 4}, {.start_ms = 4, .end_ms = 10}};
    const qb_bench bench = {query, 2, 1, 10, false};
    const char *const lines[] = {"Average on 2 runs - Latency: 5 ms\n",
                                 "\nThroughput: 200 qps (200 items/s)\n",
                                 "\nLatency: min = 4 ms, max = 6 ms, mean = 5 ms, median = 5 ms",
                                 "Unstable: the coefficient of variation is 20.0 %", NULL};
    const char *const absent[] = {"GPU", "Enqueue", "H2D", "D2H", "bound by", NULL};
    const qb_bench_said said = {200, 2, 1};
    check(printed(&bench, 1, &said), lines, absent);
}

/* The keys of trtexec's --exportTimes. */
static void times_follow_each_other(void **state) {
    (void)state;
    qb_query query[] = {on_gpu(1, 0.25, 1, 0.5, 0.125)};
    const qb_bench bench = {query, 1, 1, 1.75, true};
    static const struct {
        const char *key;
        double ms;
    } expected[] = {{"startEnqMs", 10},    {"endEnqMs", 10.125},      {"startH2dMs", 10},
                    {"endH2dMs", 10.25},   {"startComputeMs", 10.25}, {"endComputeMs", 11.25},
                    {"startD2hMs", 11.25}, {"endD2hMs", 11.75},       {"enqMs", 0.125},
                    {"h2dMs", 0.25},       {"computeMs", 1},          {"d2hMs", 0.5},
                    {"latencyMs", 1.75}};
    json_t *times = qb_bench_times_json(&bench);
    const json_t *one = json_array_get(times, 0);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_float_equal(json_real_value(json_object_get(one, expected[i].key)), expected[i].ms,
                           1e-12);
    json_decref(times);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_gpu_has_all_lines_of_trtexec),
    cmocka_unit_test(slow_hosts_and_copies_are_said),
    cmocka_unit_test(a_processor_has_neither_copies_nor_an_enqueue),
    cmocka_unit_test(times_follow_each_other),
};

QB_TEST_MAIN(tests)
