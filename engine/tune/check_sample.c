/* What of a step the reference computes: a few channels of a convolution, a few rows of a product,
 * or all of what is small. */
#include <math.h>
#include <string.h>

#include "engine/tune/check_internal.h"
#include "kernels/heads.h"

/* Multiplications, or elements, of the reference for a step. */
#define WORK_MOST (1 << 18)
/* The least part that there is may take this many times as much. */
#define WORK_LEAST 64

static const qb_tactic *reference_of(qb_kind kind) {
    for (const qb_tactic *const *t = qb_tactics(); *t; t++)
        if ((*t)->kind == kind && strcmp((*t)->backend, "ref") == 0) return *t;
    return NULL;
}

static int64_t at_most(int64_t n, int64_t most) { return n < 1 ? 1 : n > most ? most : n; }

static const void *behind(const void *data, const qb_desc *desc, int64_t elements) {
    return data ? (const char *)data + (size_t)elements * qb_dtype_size(desc->dtype) : NULL;
}

/* Scales and zero points of channels from `first` on. */
static void narrow(qb_qparams *q, int64_t first, int64_t n) {
    if (q->n <= 1) return;
    q->scale += first;
    if (q->zero) q->zero += first;
    q->n = (int32_t)n;
}

/* The results of the residual that the sample is for, side by side. */
static qb_status take_residual(qb_ctx *cx, qb_check_sample *s) {
    qb_desc *desc = &s->in[QB_IN_RESIDUAL];
    const size_t size = qb_dtype_size(desc->dtype);
    const int64_t n = qb_shape_count(&s->problem.out.shape);
    char *copy = QB_NEW(cx, qb_alloc(cx, (size_t)n, size));
    for (int64_t i = 0; i < n; i += s->run)
        memcpy(copy + (size_t)i * size,
               behind(s->data[QB_IN_RESIDUAL], desc, s->first + i / s->run * s->of),
               (size_t)s->run * size);
    desc->shape = s->problem.out.shape;
    s->own = copy;
    s->data[QB_IN_RESIDUAL] = copy;
    return QB_OK;
}

/* The first rows of a few channels of the first image. */
static qb_status sample_conv(qb_ctx *cx, uint64_t seed, qb_check_sample *s, bool *taken) {
    qb_problem *p = &s->problem;
    qb_desc *x = &s->in[QB_IN_DATA], *w = &s->in[QB_IN_WEIGHT];
    const int64_t channels = p->out.shape.dim[1], rows = p->out.shape.dim[2];
    const int64_t line = qb_shape_span(&p->out.shape, 3, p->out.shape.rank),
                  each = qb_shape_span(&w->shape, 1, w->shape.rank);
    *taken = line * each <= (int64_t)WORK_MOST * WORK_LEAST;
    if (!*taken) return QB_OK;
    const int64_t group = p->group, a_group = channels / group;
    const int64_t n_rows = at_most(WORK_MOST / (line * each), rows);
    const int64_t n = at_most(WORK_MOST / (line * each * n_rows), a_group < 4 ? a_group : 4);
    const int64_t chosen = (int64_t)(seed % (uint64_t)group);
    const int64_t first = chosen * a_group + (int64_t)(seed / 7 % (uint64_t)(a_group - n + 1));
    s->first = first * rows * line;
    s->of = rows * line;
    s->run = n_rows * line;
    s->whole = false;
    x->channel_total = x->shape.dim[1];
    x->channel_offset = chosen * (x->shape.dim[1] / group);
    x->shape.dim[0] = 1;
    x->shape.dim[1] /= group;
    s->data[QB_IN_WEIGHT] = behind(s->data[QB_IN_WEIGHT], w, first * each);
    w->shape.dim[0] = n;
    narrow(&w->q, first, n);
    if (qb_problem_has(p, QB_IN_BIAS)) {
        s->data[QB_IN_BIAS] = behind(s->data[QB_IN_BIAS], &s->in[QB_IN_BIAS], first);
        s->in[QB_IN_BIAS].shape.dim[0] = n;
        narrow(&s->in[QB_IN_BIAS].q, first, n);
    }
    p->group = 1;
    p->out.shape.dim[0] = 1;
    p->out.shape.dim[1] = n;
    p->out.shape.dim[2] = n_rows;
    return qb_problem_has(p, QB_IN_RESIDUAL) ? take_residual(cx, s) : QB_OK;
}

/* The first rows of the first matrix. */
static qb_status sample_matmul(qb_ctx *cx, qb_check_sample *s, bool *taken) {
    qb_problem *p = &s->problem;
    qb_shape *a = &s->in[QB_IN_DATA].shape, *b = &s->in[QB_IN_WEIGHT].shape, *out = &p->out.shape;
    const int64_t m = out->dim[out->rank - 2], columns = out->dim[out->rank - 1];
    const int64_t k = a->dim[a->rank - (p->transpose_a ? 2 : 1)], each = columns * k;
    const int64_t rows = p->transpose_a ? m : at_most(WORK_MOST / (each < 1 ? 1 : each), m);
    *taken = rows * each <= (int64_t)WORK_MOST * WORK_LEAST && each > 0 && m > 0;
    if (!*taken) return QB_OK;
    for (int32_t d = 0; d < a->rank - 2; d++) a->dim[d] = 1;
    for (int32_t d = 0; d < b->rank - 2; d++) b->dim[d] = 1;
    for (int32_t d = 0; d < out->rank - 2; d++) out->dim[d] = 1;
    if (!p->transpose_a) a->dim[a->rank - 2] = rows;
    out->dim[out->rank - 2] = rows;
    s->run = s->of = rows * columns;
    s->whole = false;
    return qb_problem_has(p, QB_IN_RESIDUAL) ? take_residual(cx, s) : QB_OK;
}

/* Some queries of the first head of the first item. */
static qb_status sample_attention(qb_check_sample *s, bool *taken) {
    qb_problem *p = &s->problem;
    qb_attention *a = &p->views;
    qb_shape *mask = &s->in[3].shape; /* whose first matrix is that head's */
    *taken = qb_attention_of(p, a);
    if (!*taken) return QB_OK;
    const int64_t each = a->keys * (3 * a->size + a->value_size);
    *taken = each > 0 && each <= (int64_t)WORK_MOST * WORK_LEAST && a->rows > 0;
    if (!*taken) return QB_OK;
    p->has_views = true;
    p->group = a->batch = 1;
    a->rows = at_most(WORK_MOST / each, a->rows);
    s->first = a->out.offset;
    s->of = a->out.stride[3];
    s->run = a->value_size;
    s->whole = false;
    a->out = (qb_heads){.inner = 1, .stride = {0, 0, 0, a->value_size}};
    p->out.shape = (qb_shape){.rank = 2, .dim = {a->rows, a->value_size}};
    for (int32_t d = 0; d < 2 && mask->rank > 2; d++) mask->dim[d] = mask->dim[mask->rank - 2 + d];
    if (mask->rank > 2) mask->rank = 2;
    if (mask->rank == 2 && mask->dim[0] != 1) mask->dim[0] = a->rows;
    return QB_OK;
}

/* All of it: what the reference looks at for each result counts. */
static bool is_small(const qb_problem *p) {
    double each = 1;
    for (int32_t d = 0; d < p->window.n && p->kind != QB_KIND_UNARY; d++)
        each *= (double)p->window.kernel[d];
    if (p->kind == QB_KIND_CONV_TRANSPOSE)
        each *= (double)p->in[QB_IN_DATA].shape.dim[1] / (double)p->group;
    const double n = (double)qb_shape_count(&p->out.shape) * each;
    return n >= 1 && n <= (double)WORK_MOST * 4;
}

qb_status qb_check_sample_of(qb_ctx *cx, const qb_problem *row, const void *const *data,
                             uint64_t seed, qb_check_sample *out, bool *taken) {
    const qb_tactic *reference = reference_of(row->kind);
    *out = (qb_check_sample){.problem = *row, .whole = true};
    *taken = false;
    for (int32_t i = 0; i < row->n_in; i++) {
        out->in[i] = row->in[i];
        out->data[i] = data[i];
    }
    out->problem.in = out->in;
    out->run = out->of = qb_shape_count(&row->out.shape);
    if (!reference || out->run < 1 || !qb_tactic_takes(reference, row, NULL)) return QB_OK;
    if (row->kind == QB_KIND_CONV) return sample_conv(cx, seed, out, taken);
    if (row->kind == QB_KIND_MATMUL) return sample_matmul(cx, out, taken);
    if (row->kind == QB_KIND_ATTENTION) return sample_attention(out, taken);
    *taken = is_small(row);
    return QB_OK;
}

qb_status qb_check_reference(qb_ctx *cx, const qb_check_sample *sample, void *out) {
    const qb_tactic *reference = reference_of(sample->problem.kind);
    const bool constant[QB_MAX_INPUTS] = {false};
    QB_RELEASED(qb_kernel_free_at) qb_kernel *kernel = NULL;
    QB_TRY(reference->create(cx, reference, &sample->problem, constant, 1, &kernel));
    const qb_launch launch = {.in = sample->data, .out = out};
    return kernel->launch(cx, kernel, &launch);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* |x| of floats in new memory. */
static float *absolute(qb_ctx *cx, const qb_desc *desc, const void *data) {
    qb_desc whole = *desc; /* a slice is of all channels */
    if (whole.channel_total > 0) whole.shape.dim[1] = whole.channel_total;
    const int64_t n = qb_shape_count(&whole.shape);
    float *out = qb_alloc(cx, (size_t)n, sizeof *out);
    for (int64_t i = 0; out && i < n; i++) out[i] = fabsf(((const float *)data)[i]);
    return out;
}

/* The sums of |a b| for each result: rounding errors are a share of them. */
static qb_status sums_of_magnitudes(qb_ctx *cx, const qb_check_sample *s, float *sums) {
    qb_check_sample m = *s;
    qb_status status = QB_OK;
    float *own[3] = {0};
    m.problem.in = m.in;
    m.problem.act = (qb_act){0};
    m.problem.scale = fabsf(m.problem.scale);
    m.in[QB_IN_RESIDUAL].dtype = QB_DTYPE_NONE;
    for (int32_t i = 0; i <= QB_IN_BIAS && i < m.problem.n_in; i++) {
        if (!qb_problem_has(&s->problem, i)) continue;
        m.data[i] = own[i] = absolute(cx, &s->in[i], s->data[i]);
        if (!own[i]) QB_GO(cx->code);
    }
    status = qb_check_reference(cx, &m, sums);
out:
    for (int i = 0; i < 3; i++) qb_free(own[i]);
    return status;
}

static bool is_float_sum(const qb_problem *p) {
    return (p->kind == QB_KIND_CONV || p->kind == QB_KIND_MATMUL) && p->out.q.n == 0 &&
           p->in[QB_IN_DATA].dtype == QB_DTYPE_F32 && p->in[QB_IN_WEIGHT].dtype == QB_DTYPE_F32;
}

/* A weight is off by what its score is, which is a sum of products of data below 2. */
static void add_errors_of_scores(const qb_problem *p, double largest, int64_t n, double *bound) {
    const double terms = (double)p->views.size + 8, sum = 4 * (double)p->views.size;
    const double error = fabs((double)p->scale) * sum * terms * ldexp(1.0, -24);
    for (int64_t i = 0; i < n; i++) bound[i] += 4 * error * largest;
}

qb_status qb_check_bounds(qb_ctx *cx, const qb_check_sample *s, const float *expected, int bits,
                          double *bound) {
    const int64_t n = qb_shape_count(&s->problem.out.shape);
    const double step = ldexp(1.0, -bits);
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (fabsf(expected[i]) > largest) largest = fabs((double)expected[i]);
    for (int64_t i = 0; i < n; i++) bound[i] = 2 * step * largest + 1e-5 * largest + 1e-6;
    if (s->problem.kind == QB_KIND_ATTENTION) add_errors_of_scores(&s->problem, largest, n, bound);
    if (!is_float_sum(&s->problem)) return QB_OK;
    QB_FREED float *sums = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *sums));
    const qb_status status = sums_of_magnitudes(cx, s, sums);
    const double terms = qb_problem_flops(&s->problem) / 2 / (double)n + 8;
    /* Transformed windows (Winograd) lose some digits more, functions of the sum stretch it. */
    const double share = 4 * (terms * ldexp(1.0, -24) + 2 * (bits < 24 ? step : 0));
    for (int64_t i = 0; i < n && status == QB_OK; i++) bound[i] += share * (double)sums[i];
    return status;
}
