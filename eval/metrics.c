#include <math.h>
#include <string.h>

#include "eval/eval.h"

#define QB_METRIC(name) extern const qb_metric qb_metric_##name;
#include "eval/metrics.def"

const qb_metric *const qb_metrics[] = {
#define QB_METRIC(name) &qb_metric_##name,
#include "eval/metrics.def"
    NULL};

const qb_metric *qb_metric_find(const char *name) {
    for (const qb_metric *const *m = qb_metrics; *m; m++)
        if (strcmp((*m)->name, name) == 0) return *m;
    return NULL;
}

qb_estimate qb_estimate_of(double value) { return (qb_estimate){value, {NAN, NAN}}; }

qb_estimate qb_estimate_none(void) { return qb_estimate_of(NAN); }

qb_output_kind qb_output_kind_of(qb_dtype dtype, const qb_shape *shape) {
    if (shape->rank == 4 && (shape->dim[1] == 1 || shape->dim[1] == 3) && shape->dim[2] != 1 &&
        shape->dim[3] != 1)
        return QB_OUTPUT_IMAGE;
    int32_t wide = 0; /* dimensions that hold more than one value */
    for (int32_t i = 1; i < shape->rank; i++) wide += shape->dim[i] != 1;
    const bool one = wide == 0 && (shape->rank != 1 || shape->dim[0] == 1 || shape->dim[0] < 0);
    if (one) return qb_dtype_is_float(dtype) ? QB_OUTPUT_TENSOR : QB_OUTPUT_CLASS;
    return shape->rank >= 1 && wide <= 1 ? QB_OUTPUT_CLASSES : QB_OUTPUT_TENSOR;
}
