#include "cli/bench_report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/json_out.h"

/* As trtexec warns: above this, the clock or other work disturbs. */
#define UNSTABLE_CV 0.025

qb_status qb_bench_percents(qb_ctx *cx, const char *text, qb_bench_summary *out) {
    for (const char *at = text; *at;) {
        char *end;
        const double p = strtod(at, &end);
        if (end == at || (*end != ',' && *end != '\0') || !(p >= 0 && p <= 100) ||
            out->n_percentiles == QB_BENCH_PERCENTILES)
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--percentile: expected at most %d numbers from 0 to 100, got '%s'",
                           QB_BENCH_PERCENTILES, text);
        out->percent[out->n_percentiles++] = p;
        at = end + (*end == ',');
    }
    return QB_OK;
}

static double latency(const qb_query *q) { return q->end_ms - q->start_ms; }

qb_status qb_bench_summarize(qb_ctx *cx, const qb_bench *bench, int64_t batch,
                             qb_bench_summary *out) {
    const int64_t n = bench->n;
    double *ms = qb_alloc(cx, (size_t)n, sizeof *ms), sum = 0, square = 0;
    if (!ms) return cx->code;
    for (int64_t i = 0; i < n; i++) sum += ms[i] = latency(&bench->query[i]);
    qsort(ms, (size_t)n, sizeof *ms, qb_by_value);
    out->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) square += (ms[i] - out->mean) * (ms[i] - out->mean);
    out->cv = sqrt(square / (double)n) / out->mean;
    out->min = ms[0];
    out->max = ms[n - 1];
    out->median = qb_median(ms, n);
    for (int32_t i = 0; i < out->n_percentiles; i++)
        out->percentile[i] = qb_percentile(ms, n, out->percent[i]);
    out->wall_ms = bench->wall_ms;
    out->throughput = (double)n / (bench->wall_ms / 1e3);
    out->items_per_s = out->throughput * (double)batch;
    qb_free(ms);
    return QB_OK;
}

void qb_bench_print(const qb_bench *bench, const qb_bench_summary *s, int64_t every,
                    int32_t streams) {
    printf("Warmup completed %lld queries\n", (long long)bench->warmup_queries);
    printf("Timing trace has %lld queries over %.3g s\n\n", (long long)bench->n, s->wall_ms / 1e3);
    if (every > 0) {
        printf("=== Trace details ===\nTrace averages of %lld runs:\n", (long long)every);
        for (int64_t i = 0; i + every <= bench->n; i += every) {
            double sum = 0;
            for (int64_t k = i; k < i + every; k++) sum += latency(&bench->query[k]);
            printf("Average on %lld runs - Latency: %g ms\n", (long long)every,
                   sum / (double)every);
        }
        printf("\n");
    }
    printf("=== Performance summary ===\nThroughput: %g qps (%g items/s)\n", s->throughput,
           s->items_per_s);
    printf("Latency: min = %g ms, max = %g ms, mean = %g ms, median = %g ms", s->min, s->max,
           s->mean, s->median);
    for (int32_t i = 0; i < s->n_percentiles; i++)
        printf(", percentile(%g%%) = %g ms", s->percent[i], s->percentile[i]);
    printf("\nTotal Host Walltime: %g s\n\n", s->wall_ms / 1e3);
    printf(
        "Latency: one run of a batch, host buffer to host buffer. Throughput: queries (batches)\n"
        "over the wall time from the first start to the last end.\n");
    if (s->cv > UNSTABLE_CV)
        printf("Unstable: the coefficient of variation is %.1f %% (over %.1f %%); look at the "
               "median.\n",
               100 * s->cv, 100 * UNSTABLE_CV);
    if (streams > 1)
        printf("%d streams at once: latencies include waiting for each other; look at the "
               "throughput.\n",
               (int)streams);
}

json_t *qb_bench_summary_json(const qb_bench_summary *s) {
    json_t *percentiles = json_array();
    for (int32_t i = 0; i < s->n_percentiles; i++)
        json_array_append_new(
            percentiles, json_pack("{s:f, s:f}", "percent", s->percent[i], "ms", s->percentile[i]));
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "throughput_qps",
                     s->throughput, "items_per_s", s->items_per_s, "wall_ms", s->wall_ms, "min_ms",
                     s->min, "max_ms", s->max, "mean_ms", s->mean, "median_ms", s->median, "cv",
                     s->cv, "percentiles", percentiles);
}

json_t *qb_bench_times_json(const qb_bench *bench) {
    json_t *list = json_array();
    for (int64_t i = 0; i < bench->n; i++) {
        const qb_query *q = &bench->query[i];
        json_array_append_new(list,
                              json_pack("{s:i, s:f, s:f, s:f, s:f}", "stream", (int)q->stream,
                                        "startComputeMs", q->start_ms, "endComputeMs", q->end_ms,
                                        "computeMs", latency(q), "latencyMs", latency(q)));
    }
    return list;
}

json_t *qb_bench_layers_json(const qb_engine *engine) {
    json_t *list = json_array();
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info s;
        qb_engine_step(engine, i, &s);
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:s, s:s, s:s, s:o, s:f, s:f}", "name",
                            qb_json_string(s.name), "op", s.op, "tactic", s.tactic, "impl", s.impl,
                            "dtype", qb_dtype_text(s.dtype), "output", qb_json_string(s.output),
                            "flops", s.flops, "bytes", s.bytes));
    }
    return list;
}

static double sum_of(const double *value, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += value[i];
    return sum;
}

json_t *qb_bench_profile_json(const qb_engine *engine, double *seconds, int64_t runs) {
    const int32_t n = qb_engine_n_steps(engine);
    const double total = sum_of(seconds, n * runs);
    json_t *list = json_pack("[{s:I}]", "count", (json_int_t)runs);
    for (int32_t i = 0; i < n; i++) {
        qb_step_info s;
        double *step = seconds + i * runs;
        const double sum = sum_of(step, runs);
        qb_engine_step(engine, i, &s);
        qsort(step, (size_t)runs, sizeof *step, qb_by_value);
        json_array_append_new(list, json_pack("{s:o, s:s, s:f, s:f, s:f, s:f}", "name",
                                              qb_json_string(s.name), "tactic", s.tactic, "timeMs",
                                              sum * 1e3, "averageMs", sum * 1e3 / (double)runs,
                                              "medianMs", qb_median(step, runs) * 1e3, "percentage",
                                              100 * sum / total));
    }
    return list;
}

void qb_bench_profile_print(json_t *profile) {
    double total = 0, average = 0, median = 0;
    const json_int_t runs =
        json_integer_value(json_object_get(json_array_get(profile, 0), "count"));
    printf("\n=== Profile (%lld iterations) ===\n%10s %10s %10s %8s  %-24s %s\n", (long long)runs,
           "Time(ms)", "Avg.(ms)", "Median(ms)", "Time(%)", "Tactic", "Layer");
    for (size_t i = 1; i < json_array_size(profile); i++) {
        const char *name, *tactic;
        double time, avg, med, percent;
        if (json_unpack(json_array_get(profile, i), "{s:s, s:s, s:F, s:F, s:F, s:F}", "name", &name,
                        "tactic", &tactic, "timeMs", &time, "averageMs", &avg, "medianMs", &med,
                        "percentage", &percent) != 0)
            continue;
        printf("%10.2f %10.4f %10.4f %8.1f  %-24s %s\n", time, avg, med, percent, tactic, name);
        total += time, average += avg, median += med;
    }
    printf("%10.2f %10.4f %10.4f %8.1f  %-24s %s\n", total, average, median, 100.0, "", "Total");
}
