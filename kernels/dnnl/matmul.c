/* Matrix product with a constant right side, float and 8-bit. */
#include "dnnl_internal.h"

static int64_t columns(const qb_problem *p) { return p->out.shape.dim[p->out.shape.rank - 1]; }

/* The right side is one matrix: all leading dimensions are 1. */
static bool is_matrix(const qb_shape *shape) {
    for (int32_t d = 0; d < shape->rank - 2; d++)
        if (shape->dim[d] != 1) return false;
    return shape->rank >= 2;
}

static bool is_matmul(const qb_problem *p, const bool *constant, qb_dnnl_class type) {
    if (p->kind != QB_KIND_MATMUL || qb_dnnl_is_empty(p) || !constant[QB_IN_WEIGHT] ||
        (qb_problem_has(p, QB_IN_BIAS) && !constant[QB_IN_BIAS]))
        return false;
    const qb_shape *a = &p->in[QB_IN_DATA].shape, *b = &p->in[QB_IN_WEIGHT].shape;
    for (int32_t i = 0; i <= p->n_in; i++) {
        const qb_desc *desc = i < p->n_in ? &p->in[i] : &p->out;
        if (desc->channel_total > 0 ||
            (desc->layout != QB_LAYOUT_ROW && desc->layout != QB_LAYOUT_ANY))
            return false;
    }
    int32_t axis = b->rank - (p->transpose_b ? 2 : 1);
    /* A transposed left side of several matrices is not one matrix. */
    return is_matrix(b) && a->rank >= 2 && p->out.shape.rank >= 2 && p->out.shape.rank == a->rank &&
           (!p->transpose_a || is_matrix(a)) && qb_dnnl_anchor_types(p, type, columns(p), axis);
}

static qb_status strided(qb_ctx *cx, dnnl_data_type_t type, int64_t rows, int64_t cols,
                         bool transposed, dnnl_memory_desc_t *md) {
    QB_TRY(qb_dnnl_check_size(cx, 2, (int64_t[]){rows, cols}));
    dnnl_dims_t dims = {rows, cols}, strides = {transposed ? 1 : cols, transposed ? rows : 1};
    return qb_dnnl_check(cx, dnnl_memory_desc_init_by_strides(md, 2, dims, type, strides),
                         "describing a matrix");
}

/* All leading dimensions of the left side become rows. */
static qb_status describe(qb_ctx *cx, const qb_problem *p, qb_dnnl_anchor *anchor) {
    const qb_shape *a = &p->in[QB_IN_DATA].shape;
    int64_t n = columns(p), m = qb_shape_count(&p->out.shape) / n;
    int64_t k = a->dim[a->rank - (p->transpose_a ? 2 : 1)];
    dnnl_memory_desc_t data, weight, bias = {0}, out;
    dnnl_dims_t weight_dims = {k, n}, bias_dims = {1, n};
    bool has_bias = qb_problem_has(p, QB_IN_BIAS);
    dnnl_data_type_t type = qb_dnnl_type(p->in[QB_IN_DATA].dtype);
    anchor->channels = n;
    anchor->scale_mask = 1 << 1;
    QB_TRY(strided(cx, type, m, k, p->transpose_a, &data));
    QB_TRY(strided(cx, qb_dnnl_type(p->out.dtype), m, n, false, &out));
    if (qb_problem_has(p, QB_IN_RESIDUAL))
        QB_TRY(
            strided(cx, qb_dnnl_type(p->in[QB_IN_RESIDUAL].dtype), m, n, false, &anchor->residual));
    type = qb_dnnl_type(p->in[QB_IN_WEIGHT].dtype);
    QB_TRY(strided(cx, type, k, n, p->transpose_b, &anchor->row));
    QB_TRY(qb_dnnl_check(
        cx, dnnl_memory_desc_init_by_tag(&weight, 2, weight_dims, type, dnnl_format_tag_any),
        "describing the weight"));
    if (has_bias) QB_TRY(qb_dnnl_row(cx, dnnl_f32, 2, bias_dims, &bias));
    return qb_dnnl_check(
        cx,
        dnnl_matmul_desc_init(&anchor->op.matmul, &data, &weight, has_bias ? &bias : NULL, &out),
        "describing the matrix product");
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    qb_dnnl_lowered lowered;
    qb_dnnl_anchor anchor = {.integer = p->in[QB_IN_DATA].q.n > 0};
    (void)constant;
    qb_dnnl_lower(p, &lowered);
    for (int32_t i = 0; i < 4; i++) lowered.in[i].layout = QB_LAYOUT_ROW;
    lowered.p.out.layout = QB_LAYOUT_ROW;
    QB_TRY(describe(cx, &lowered.p, &anchor));
    return qb_dnnl_anchor_create(cx, tactic, &lowered.p, threads, &anchor, out);
}

static bool supports_f32(const qb_problem *p, const bool *constant) {
    return is_matmul(p, constant, QB_DNNL_F32);
}

static bool supports_s8(const qb_problem *p, const bool *constant) {
    return is_matmul(p, constant, QB_DNNL_S8);
}

QB_TACTIC(dnnl_matmul_f32, "dnnl.matmul_f32.packed", "dnnl", QB_KIND_MATMUL, QB_WITHIN_1_LSB,
          supports_f32, create);

QB_TACTIC(dnnl_matmul_s8, "dnnl.matmul_s8.packed", "dnnl", QB_KIND_MATMUL, QB_WITHIN_1_LSB,
          supports_s8, create);
