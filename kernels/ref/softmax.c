/* Softmax along one axis: exp(x - max) / sum, the sum in double. An element is NaN where the sum
 * is.
 */
#include <math.h>

#include "ref_internal.h"

static void one_line(const qb_problem *p, const void *in, void *out, int64_t at, int64_t step,
                     int64_t n) {
    const qb_desc *x = &p->in[0];
    float value, max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        qb_ref_load(x, in, at + i * step, 1, 1, &value);
        if (value > max || isnan(value)) max = value;
    }
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        qb_ref_load(x, in, at + i * step, 1, 1, &value);
        sum += (double)expf(value - max);
    }
    for (int64_t i = 0; i < n; i++) {
        qb_ref_load(x, in, at + i * step, 1, 1, &value);
        value = p->zero_nan && isnan(sum) ? 0.0f : (float)((double)expf(value - max) / sum);
        qb_ref_act_run(p->act, &value, 1);
        qb_ref_store(&p->out, out, at + i * step, 1, &value);
    }
}

void qb_ref_softmax(const qb_problem *p, const void *const *in, void *out) {
    const qb_shape *shape = &p->in[0].shape;
    int64_t outer = 1, inner = 1, n = shape->rank > 0 ? shape->dim[p->axis] : 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        if (d < p->axis) outer *= shape->dim[d];
        if (d > p->axis) inner *= shape->dim[d];
    }
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) one_line(p, in[0], out, o * n * inner + i, inner, n);
}
