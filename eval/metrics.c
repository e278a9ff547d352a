#include <string.h>

#include "eval/eval.h"

#define QB_METRIC(name) extern const qb_metric qb_metric_##name;
#include "eval/metrics.def"
#undef QB_METRIC

static const qb_metric *const metrics[] = {
#define QB_METRIC(name) &qb_metric_##name,
#include "eval/metrics.def"
#undef QB_METRIC
};

const qb_metric *const *qb_metrics(int32_t *n) {
    *n = (int32_t)(sizeof metrics / sizeof metrics[0]);
    return metrics;
}

const qb_metric *qb_metric_find(const char *name) {
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
        if (strcmp(metrics[i]->name, name) == 0) return metrics[i];
    return NULL;
}
