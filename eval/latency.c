#include <math.h>

#include "base/sort.h"
#include "eval/bench.h"
#include "eval/eval.h"

void qb_latency_of(double *ms, int64_t n, qb_latency *out) {
    *out = (qb_latency){.runs = n,
                        .mean = NAN,
                        .median = NAN,
                        .p90 = NAN,
                        .p95 = NAN,
                        .p99 = NAN,
                        .min = NAN,
                        .max = NAN,
                        .cv = NAN,
                        .median_ci = {NAN, NAN},
                        .ratio_ci = {NAN, NAN}};
    if (n < 1) return;
    qb_sort_doubles(ms, (size_t)n);
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) sum += ms[i];
    out->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) square += (ms[i] - out->mean) * (ms[i] - out->mean);
    out->cv = out->mean > 0 ? sqrt(square / (double)n) / out->mean : NAN;
    out->median = qb_median(ms, n);
    out->p90 = qb_percentile(ms, n, 90);
    out->p95 = qb_percentile(ms, n, 95);
    out->p99 = qb_percentile(ms, n, 99);
    out->min = ms[0];
    out->max = ms[n - 1];
}
