#include "random_lines.h"

#include "kernels/ref.h"

static void make_quantized(qb_rng *rng, random_case *c, qb_desc *x) {
    x->dtype = random_chance(rng, 50) ? QB_DTYPE_U8 : QB_DTYPE_S8;
    c->scale[0] = 0.02f;
    c->zero[0] = (int32_t)random_between(rng, 0, 40);
    x->q = (qb_qparams){x->dtype, -1, 1, &c->scale[0], &c->zero[0]};
}

/* Many lines side by side. */
static void widen(qb_desc *x, qb_desc *y, int32_t axis) {
    if (axis + 1 < x->shape.rank) x->shape.dim[x->shape.rank - 1] = 301;
    if (axis + 1 < x->shape.rank) y->shape.dim[x->shape.rank - 1] = 301;
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
    p->out.dtype = x->dtype;
    p->out.shape = x->shape;
    p->scan = (qb_scan){random_chance(rng, 50), random_chance(rng, 50)};
    p->extreme = (qb_extreme){random_chance(rng, 50), random_chance(rng, 50)};
    if (p->kind == QB_KIND_ARG) {
        p->out.dtype = QB_DTYPE_S64;
        p->out.shape.dim[p->axis] = 1;
        if (random_chance(rng, 40)) make_quantized(rng, c, x);
        if (random_chance(rng, 15)) widen(x, &p->out, p->axis);
    } else if (random_chance(rng, 30)) {
        x->dtype = p->out.dtype = random_chance(rng, 50) ? QB_DTYPE_S32 : QB_DTYPE_S64;
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

/* Numbers that were rounded may be equal. */
static int64_t extreme(const random_case *c, int64_t first, int64_t n, int64_t step) {
    const qb_extreme how = c->problem.extreme;
    const qb_dtype dtype = c->in[0].dtype;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        const double v = qb_number_get(dtype, c->data[0], first + i * step);
        const double w = qb_number_get(dtype, c->data[0], first + best * step);
        if ((how.smallest ? v < w : v > w) || (how.last && !(v < w) && !(v > w))) best = i;
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
