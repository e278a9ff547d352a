#include "random_lines.h"

#include <math.h>

#include "kernels/ref.h"

static void make_quantized(qb_rng *rng, random_case *c, qb_desc *desc, int32_t at, float scale) {
    desc->dtype = random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    c->scale[at] = scale;
    c->zero[at] = (int32_t)random_between(rng, 0, 90);
    desc->q = (qb_qparams){desc->dtype, -1, 1, &c->scale[at], &c->zero[at]};
}

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
        if (random_chance(rng, 40)) { /* several, in order */
            const int64_t n = x->shape.dim[p->axis];
            if (n > 60 && random_chance(rng, 30)) x->shape.dim[p->axis] = n * 5;
            p->out.shape.dim[p->axis] = random_between(rng, 1, n);
            p->extreme.last = false;
        }
    } else if (random_chance(rng, 40)) {
        if (random_chance(rng, 70)) make_quantized(rng, c, x, 0, 0.02f);
        if (random_chance(rng, 70)) make_quantized(rng, c, &p->out, CASE_INPUTS, 0.07f);
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
    const qb_desc *x = &c->in[0], *y = &c->problem.out;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = first + (how.reverse ? n - 1 - i : i) * step;
        double v = qb_number_get(x->dtype, c->data[0], at);
        if (x->q.n > 0) v = (double)(x->q.scale[0] * (float)(v - x->q.zero[0]));
        double result = how.exclusive ? sum : sum + v;
        if (y->q.n > 0)
            result = qb_quantize_value((float)result, y->q.scale[0], y->q.zero[0], y->dtype);
        qb_number_put(y->dtype, c->expected, at, result);
        sum += v;
    }
}

/* NaN is larger than any number. */
static int order(float v, float w) {
    if (isnan(v) || isnan(w)) return (int)isnan(v) - (int)isnan(w);
    return (v > w) - (v < w);
}

/* Does v come before w, of two that are not the same? */
static bool is_before(const random_case *c, float v, float w) {
    return order(v, w) * (c->problem.extreme.smallest ? -1 : 1) > 0;
}

/* The places of the k first; those of `out` are `step` apart, too. Numbers that were rounded may be
 * equal. */
static void extremes(const random_case *c, int64_t first, int64_t n, int64_t step, int64_t k,
                     int64_t *out) {
    const float *x = (const float *)c->data[0] + first;
    for (int64_t i = 0; i < k; i++) {
        int64_t best = -1;
        for (int64_t at = 0; at < n; at++) {
            const int64_t before = i > 0 ? out[(i - 1) * step] : -1;
            const float v = x[at * step], last = i > 0 ? x[before * step] : 0;
            const bool later =
                i == 0 || is_before(c, last, v) || (order(v, last) == 0 && at > before);
            if (!later) continue;
            const float w = best < 0 ? 0 : x[best * step];
            if (best < 0 || is_before(c, v, w) || (c->problem.extreme.last && order(v, w) == 0))
                best = at;
        }
        out[i * step] = best;
    }
}

void random_lines_reference(random_case *c) {
    const qb_shape *x = &c->in[0].shape;
    int64_t n = x->dim[c->problem.axis], k = c->problem.out.shape.dim[c->problem.axis], inner = 1;
    for (int32_t d = c->problem.axis + 1; d < x->rank; d++) inner *= x->dim[d];
    for (int64_t line = 0, count = qb_shape_count(x) / n; line < count; line++) {
        const int64_t first = line / inner * n * inner + line % inner;
        if (c->problem.kind == QB_KIND_SCAN)
            scan(c, first, n, inner);
        else
            extremes(c, first, n, inner, k,
                     (int64_t *)c->expected + line / inner * k * inner + line % inner);
    }
}
