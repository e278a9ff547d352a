#include "cli/bench/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "cli/out/json.h"
#include "cli/out/steps.h"

/* As trtexec warns: above this, the clock or other work disturbs. */
#define UNSTABLE_CV 0.025
/* So does this part of the GPU's time that the host takes to start a query. */
#define SLOW_ENQUEUE 0.8

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

static const struct {
    const char *label, *key;
} parts[QB_BENCH_PARTS] = {[QB_BENCH_ENQUEUE] = {"Enqueue Time", "enqueue"},
                           [QB_BENCH_H2D] = {"H2D Latency", "h2d"},
                           [QB_BENCH_COMPUTE] = {"GPU Compute Time", "compute"},
                           [QB_BENCH_D2H] = {"D2H Latency", "d2h"}};

static double part_of(const qb_query *q, qb_bench_part part) {
    switch (part) {
    case QB_BENCH_ENQUEUE: return q->device.enqueue;
    case QB_BENCH_H2D: return q->device.h2d;
    case QB_BENCH_COMPUTE: return q->device.compute;
    default: return q->device.d2h;
    }
}

/* trtexec's: host buffer to host buffer, on a device the sum of copies and steps. */
static double latency(const qb_bench *bench, const qb_query *q) {
    return bench->on_device ? q->device.h2d + q->device.compute + q->device.d2h
                            : q->end_ms - q->start_ms;
}

/* Sorts ms. */
static void spread_of(double *ms, int64_t n, const qb_bench_summary *s, qb_bench_spread *out) {
    double square = 0;
    for (int64_t i = 0; i < n; i++) out->sum += ms[i];
    qb_sort_doubles(ms, (size_t)n);
    out->mean = out->sum / (double)n;
    for (int64_t i = 0; i < n; i++) square += (ms[i] - out->mean) * (ms[i] - out->mean);
    out->cv = out->mean > 0 ? sqrt(square / (double)n) / out->mean : 0;
    out->min = ms[0];
    out->max = ms[n - 1];
    out->median = qb_median(ms, n);
    for (int32_t i = 0; i < s->n_percentiles; i++)
        out->percentile[i] = qb_percentile(ms, n, s->percent[i]);
}

qb_status qb_bench_summarize(qb_ctx *cx, const qb_bench *bench, int64_t batch,
                             qb_bench_summary *out) {
    const int64_t n = bench->n;
    QB_FREED double *ms = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *ms));
    for (int64_t i = 0; i < n; i++) ms[i] = latency(bench, &bench->query[i]);
    spread_of(ms, n, out, &out->latency);
    for (int p = 0; p < QB_BENCH_PARTS && bench->on_device; p++) {
        for (int64_t i = 0; i < n; i++) ms[i] = part_of(&bench->query[i], (qb_bench_part)p);
        spread_of(ms, n, out, &out->part[p]);
    }
    out->wall_ms = bench->wall_ms;
    out->throughput = (double)n / (bench->wall_ms / 1e3);
    out->items_per_s = out->throughput * (double)batch;
    return QB_OK;
}

static double mib(size_t bytes) { return (double)bytes / (1 << 20); }

qb_status qb_bench_print_engine(qb_ctx *cx, const qb_engine *engine) {
    const char *device = qb_engine_device(engine);
    QB_FREED char *processor = device ? NULL : qb_processor_name(cx);
    qb_engine_memory memory;
    if (!device && !processor) return cx->code;
    qb_engine_memory_of(engine, &memory);
    printf("=== Device Information ===\nSelected Device: %s\n", device ? device : processor);
    if (!device) printf("Threads of a stream: %d\n", qb_engine_threads(engine));
    printf("Created engine with size: %.4g MiB\n"
           "Created execution context with device memory size: %.4g MiB\n\n",
           mib(qb_engine_bytes(engine)), mib(memory.arena + memory.workspace));
    return QB_OK;
}

/* ---- text ---- */

static void print_spread(FILE *to, const char *label, const qb_bench_summary *s,
                         const qb_bench_spread *v) {
    fprintf(to, "%s: min = %g ms, max = %g ms, mean = %g ms, median = %g ms", label, v->min, v->max,
            v->mean, v->median);
    for (int32_t i = 0; i < s->n_percentiles; i++)
        fprintf(to, ", percentile(%g%%) = %g ms", s->percent[i], v->percentile[i]);
    fprintf(to, "\n");
}

static void print_trace(FILE *to, const qb_bench *bench, int64_t every) {
    fprintf(to, "=== Trace details ===\nTrace averages of %lld runs:\n", (long long)every);
    for (int64_t i = 0; i + every <= bench->n; i += every) {
        double host = 0, compute = 0, enqueue = 0;
        for (int64_t k = i; k < i + every; k++) {
            host += latency(bench, &bench->query[k]) / (double)every;
            compute += bench->query[k].device.compute / (double)every;
            enqueue += bench->query[k].device.enqueue / (double)every;
        }
        if (bench->on_device)
            fprintf(to,
                    "Average on %lld runs - GPU latency: %g ms - Host latency: %g ms "
                    "(enqueue %g ms)\n",
                    (long long)every, compute, host, enqueue);
        else
            fprintf(to, "Average on %lld runs - Latency: %g ms\n", (long long)every, host);
    }
    fprintf(to, "\n");
}

/* trtexec's, with its bounds. */
static void print_warnings(FILE *to, const qb_bench *bench, const qb_bench_summary *s,
                           int32_t streams) {
    const qb_bench_spread *compute = &s->part[QB_BENCH_COMPUTE];
    const qb_bench_spread *unsteady = bench->on_device ? compute : &s->latency;
    if (bench->on_device && s->part[QB_BENCH_ENQUEUE].median > SLOW_ENQUEUE * compute->median)
        fprintf(to,
                "Throughput may be bound by the host: starting a query (enqueue) takes %.0f %% of "
                "the GPU's time for it.\n",
                100 * s->part[QB_BENCH_ENQUEUE].median / compute->median);
    for (int p = 0; p < QB_BENCH_PARTS && bench->on_device; p++)
        if ((p == QB_BENCH_H2D || p == QB_BENCH_D2H) && s->part[p].median >= compute->median)
            fprintf(to,
                    "Throughput may be bound by copies: %s is not below GPU Compute Time; "
                    "--noDataTransfers leaves them out.\n",
                    parts[p].label);
    if (unsteady->cv > UNSTABLE_CV)
        fprintf(to,
                "Unstable: the coefficient of variation is %.1f %% (over %.1f %%):\nlook at the "
                "median.\n",
                100 * unsteady->cv, 100 * UNSTABLE_CV);
    if (streams > 1)
        fprintf(to,
                "%d streams at once: latencies include waiting for each other; look at the "
                "throughput.\n",
                (int)streams);
}

void qb_bench_print(FILE *to, const qb_bench *bench, const qb_bench_summary *s,
                    const qb_bench_said *said) {
    fprintf(to, "Warmup completed %lld queries over %g ms\n", (long long)bench->warmup_queries,
            said->warmup_ms);
    fprintf(to, "Timing trace has %lld queries over %.3g s\n\n", (long long)bench->n,
            s->wall_ms / 1e3);
    if (said->every > 0) print_trace(to, bench, said->every);
    fprintf(to, "=== Performance summary ===\nThroughput: %g qps (%g items/s)\n", s->throughput,
            s->items_per_s);
    print_spread(to, "Latency", s, &s->latency);
    for (int p = 0; p < QB_BENCH_PARTS && bench->on_device; p++)
        print_spread(to, parts[p].label, s, &s->part[p]);
    fprintf(to, "Total Host Walltime: %g s\n", s->wall_ms / 1e3);
    if (bench->on_device)
        fprintf(to, "Total GPU Compute Time: %g s\n", s->part[QB_BENCH_COMPUTE].sum / 1e3);
    fprintf(to,
            "\n%s\nThroughput: queries (batches) over the wall time from the first start to the\n"
            "last end.\n",
            bench->on_device
                ? "Latency: copies in (H2D), steps and copies out (D2H) of a batch, by the GPU's "
                  "clock.\nEnqueue: until all of it was started."
                : "Latency: one run of a batch, host buffer to host buffer.");
    print_warnings(to, bench, s, said->streams);
}

/* ---- JSON ---- */

json_t *qb_bench_summary_json(const qb_bench *bench, const qb_bench_summary *s) {
    const qb_bench_spread *l = &s->latency;
    json_t *percentiles = json_array();
    for (int32_t i = 0; i < s->n_percentiles; i++)
        json_array_append_new(
            percentiles, json_pack("{s:f, s:f}", "percent", s->percent[i], "ms", l->percentile[i]));
    json_t *root = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o}", "throughput_qps",
                             s->throughput, "items_per_s", s->items_per_s, "wall_ms", s->wall_ms,
                             "min_ms", l->min, "max_ms", l->max, "mean_ms", l->mean, "median_ms",
                             l->median, "cv", l->cv, "percentiles", percentiles);
    for (int p = 0; p < QB_BENCH_PARTS && bench->on_device; p++)
        json_object_set_new(root, parts[p].key,
                            json_pack("{s:f, s:f, s:f, s:f}", "min_ms", s->part[p].min, "max_ms",
                                      s->part[p].max, "mean_ms", s->part[p].mean, "median_ms",
                                      s->part[p].median));
    return root;
}

/* On the host, copies and the start of a query take no time. */
json_t *qb_bench_times_json(const qb_bench *bench) {
    json_t *list = json_array();
    for (int64_t i = 0; i < bench->n; i++) {
        const qb_query *q = &bench->query[i];
        const double begin = q->start_ms + q->device.h2d, end = q->end_ms - q->device.d2h;
        json_array_append_new(
            list,
            json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                      "stream", (int)q->stream, "startEnqMs", q->start_ms, "endEnqMs",
                      q->start_ms + q->device.enqueue, "startH2dMs", q->start_ms, "endH2dMs", begin,
                      "startComputeMs", begin, "endComputeMs", end, "startD2hMs", end, "endD2hMs",
                      q->end_ms, "enqMs", q->device.enqueue, "h2dMs", q->device.h2d, "computeMs",
                      bench->on_device ? q->device.compute : latency(bench, q), "d2hMs",
                      q->device.d2h, "latencyMs", latency(bench, q)));
    }
    return list;
}

json_t *qb_bench_layers_json(const qb_engine *engine) {
    json_t *list = qb_steps_json(engine);
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info s;
        qb_engine_step(engine, i, &s);
        json_object_set_new(json_array_get(list, (size_t)i), "output", qb_json_text(s.output));
    }
    return list;
}

static double sum_of(const double *value, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += value[i];
    return sum;
}

/* What the medians of the steps are multiplied by, their sum in *all, milliseconds; 1 on a device,
 * whose steps were scaled when they were measured. */
static double scale_of(const qb_engine *engine, qb_bench_steps *p, double median_ms, double *all) {
    *all = 0;
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        double *step = p->seconds + i * p->runs;
        qb_sort_doubles(step, (size_t)p->runs);
        *all += 1e3 * qb_median(step, p->runs);
    }
    qb_sort_doubles(p->late, (size_t)p->runs);
    *all += 1e3 * qb_median(p->late, p->runs);
    return qb_engine_device(engine) || isnan(median_ms) || !(*all > 0) ? 1 : median_ms / *all;
}

/* The first row: how many runs, and what was measured before it was scaled. */
static json_t *profile_head(const qb_engine *engine, const qb_bench_steps *p, double all) {
    json_t *head = json_pack("{s:I}", "count", (json_int_t)p->runs);
    if (p->runs == 0) return head;
    if (!qb_engine_device(engine)) {
        json_object_set_new(head, "unscaledMs", json_real(all));
        return head;
    }
    const double ms = 1e3 / (double)p->runs;
    json_object_set_new(head, "raw",
                        json_pack("{s:f, s:f, s:f}", "betweenMarksMs",
                                  sum_of(p->raw.step, qb_engine_n_steps(engine)) * ms, "marksMs",
                                  p->raw.marks * ms, "wholeMs", p->raw.whole * ms));
    return head;
}

/* Of sorted seconds, each of which is `ms` milliseconds. */
static json_t *profile_row(json_t *name, const char *tactic, const double *seconds, int64_t runs,
                           double ms, double total) {
    const double sum = sum_of(seconds, runs);
    return json_pack("{s:o, s:s, s:f, s:f, s:f, s:f}", "name", name, "tactic", tactic, "timeMs",
                     sum * ms, "averageMs", sum * ms / (double)runs, "medianMs",
                     qb_median(seconds, runs) * ms, "percentage", 100 * sum / total);
}

json_t *qb_bench_profile_json(const qb_engine *engine, qb_bench_steps *p, double median_ms) {
    const int32_t n = qb_engine_n_steps(engine);
    const double late = sum_of(p->late, p->runs);
    const double total = sum_of(p->seconds, n * p->runs) + late;
    double all;
    const double ms = 1e3 * scale_of(engine, p, median_ms, &all);
    json_t *list = json_pack("[o]", profile_head(engine, p, all));
    for (int32_t i = 0; i < n; i++) {
        qb_step_info s;
        qb_engine_step(engine, i, &s);
        json_t *row = profile_row(qb_json_text(s.name), s.tactic, p->seconds + i * p->runs, p->runs,
                                  ms, total);
        if (s.on_device)
            json_object_set_new(row, "rawMs", json_real(p->raw.step[i] * 1e3 / (double)p->runs));
        json_array_append_new(list, row);
    }
    if (late > 0) {
        char tactic[64];
        snprintf(tactic, sizeof tactic, p->late_engines > 0 ? "node, %d engines" : "node",
                 (int)p->late_engines);
        json_array_append_new(list,
                              profile_row(json_string("all nodes whose sizes come with the data"),
                                          tactic, p->late, p->runs, ms, total));
    }
    return list;
}

/* What the sums of the steps were scaled from. */
static void print_raw(const json_t *head) {
    double between, marks, whole;
    const json_t *unscaled = json_object_get(head, "unscaledMs");
    if (unscaled)
        printf("The steps' times are scaled to the median latency; timed one by one they take "
               "%.4f ms.\n",
               json_real_value(unscaled));
    json_t *raw = json_object_get(head, "raw");
    if (json_unpack(raw, "{s:F, s:F, s:F}", "betweenMarksMs", &between, "marksMs", &marks,
                    "wholeMs", &whole) != 0)
        return;
    printf("The steps' times are scaled to the run without marks between them, %.4f ms. Unscaled: "
           "%.4f ms between marks, which cost %.4f ms by themselves, and keep a step from starting "
           "while the one before it ends.\n",
           whole, between, marks);
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
    print_raw(json_array_get(profile, 0));
}
