#include "random_lines.h"

#include <math.h>

#include "kernels/ref.h"

void random_lines_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_desc *x = &c->in[0];
    x->dtype = QB_DTYPE_F32;
    x->shape.rank = (int32_t)random_between(rng, 1, 4);
    for (int32_t d = 0; d < x->shape.rank; d++) x->shape.dim[d] = random_between(rng, 1, 9);
    p->axis = (int32_t)random_between(rng, 0, x->shape.rank - 1);
    p->n_in = 1;
    if (random_chance(rng, 40)) x->shape.dim[p->axis] = random_between(rng, 60, 700);
    if (random_chance(rng, 20)) x->shape.dim[x->shape.rank - 1] = random_between(rng, 17, 600);
    p->out.dtype = x->dtype;
    p->out.shape = x->shape;
    p->scan = (qb_scan){random_chance(rng, 50), random_chance(rng, 50)};
    p->extreme = (qb_extreme){random_chance(rng, 50), random_chance(rng, 50)};
    if (p->kind == QB_KIND_ARG) {
        p->out.dtype = QB_DTYPE_S64;
        p->out.shape.dim[p->axis] = 1;
    } else if (random_chance(rng, 30)) {
        x->dtype = p->out.dtype = random_chance(rng, 50) ? QB_DTYPE_S32 : QB_DTYPE_S64;
    }
}

void random_lines_finalize(qb_rng *rng, random_case *c) {
    float *x = c->data[0];
    const int64_t n = qb_shape_count(&c->in[0].shape);
    const bool coarse = random_chance(rng, 40), gaps = random_chance(rng, 30);
    for (int64_t i = 0; i < n; i++) {
        if (coarse) x[i] = roundf(x[i]);
        if (gaps && random_chance(rng, 3)) x[i] = NAN;
    }
}

static void scan(random_case *c, int64_t first, int64_t n, int64_t step) {
    const qb_scan how = c->problem.scan;
    const qb_dtype dtype = c->problem.out.dtype;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + (how.reverse ? n - 1 - i : i) * step;
        const double with = sum + qb_number_get(dtype, c->data[0], at);
        qb_number_put(dtype, c->expected, at, how.exclusive ? sum : with);
        sum = with;
    }
}

/* NaN is larger than any number. */
static int order(float v, float w) {
    if (isnan(v) || isnan(w)) return (int)isnan(v) - (int)isnan(w);
    return (v > w) - (v < w);
}

static int64_t extreme(const random_case *c, int64_t first, int64_t n, int64_t step) {
    const qb_extreme how = c->problem.extreme;
    const float *x = (const float *)c->data[0] + first;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        const int sign = order(x[i * step], x[best * step]) * (how.smallest ? -1 : 1);
        if (sign > 0 || (how.last && sign == 0)) best = i;
    }
    return best;
}

void random_lines_reference(random_case *c) {
    const qb_shape *x = &c->in[0].shape;
    int64_t n = x->dim[c->problem.axis], inner = 1;
    for (int32_t d = c->problem.axis + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t line = 0, count = qb_shape_count(x) / n; line < count; line++) {
        const int64_t first = line / inner * n * inner + line % inner;
        if (c->problem.kind == QB_KIND_SCAN)
            scan(c, first, n, inner);
        else
            ((int64_t *)c->expected)[line] = extreme(c, first, n, inner);
    }
}
