#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/eval.h"

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, int64_t n, int p) {
    int64_t at = n - 1 - (100 - p) * n / 100; /* in integers: (1 - 0.9) * 100 is not 10 */
    return sorted[at > 0 ? at : 0];
}

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
    qsort(ms, (size_t)n, sizeof *ms, by_value);
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) sum += ms[i];
    out->mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) square += (ms[i] - out->mean) * (ms[i] - out->mean);
    out->cv = out->mean > 0 ? sqrt(square / (double)n) / out->mean : NAN;
    out->median = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
    out->p90 = percentile(ms, n, 90);
    out->p95 = percentile(ms, n, 95);
    out->p99 = percentile(ms, n, 99);
    out->min = ms[0];
    out->max = ms[n - 1];
}
