/* MatMul and Gemm. */
#include <math.h>

#include "ops_internal.h"

QB_ATTRS(gemm_attrs, QB_A_FLOAT(qb_gemm_attrs, alpha, "alpha", 1.0f),
         QB_A_FLOAT(qb_gemm_attrs, beta, "beta", 1.0f),
         QB_A_INT(qb_gemm_attrs, trans_a, "transA", 0, 0, 1),
         QB_A_INT(qb_gemm_attrs, trans_b, "transB", 0, 0, 1));

static qb_status check_inner(qb_ctx *cx, const qb_shape *a, const qb_shape *b, int64_t ka,
                             int64_t kb) {
    if (ka < 0 || kb < 0 || ka == kb) return QB_OK;
    char text_a[QB_TEXT_MAX], text_b[QB_TEXT_MAX];
    return qb_fail(cx, QB_STATUS_INVALID, "inner dimensions of %s and %s differ: %lld and %lld",
                   qb_shape_text(a, text_a, sizeof text_a), qb_shape_text(b, text_b, sizeof text_b),
                   (long long)ka, (long long)kb);
}

qb_shape qb_shape_as_matrix(const qb_shape *shape, bool left) {
    if (shape->rank != 1) return *shape;
    qb_shape matrix = {.rank = 2, .dim = {1, 1}};
    matrix.dim[left ? 1 : 0] = shape->dim[0];
    return matrix;
}

qb_status qb_infer_product(qb_ctx *cx, const qb_infer_args *args, int32_t left, int32_t right,
                           qb_dtype dtype) {
    const qb_value *va = qb_infer_in(args, left), *vb = qb_infer_in(args, right);
    qb_shape out = {.rank = -1};
    if (va->shape.rank < 0 || vb->shape.rank < 0) return qb_infer_set(cx, args, 0, dtype, &out);
    QB_TRY(qb_infer_rank(cx, args, left, 1, QB_MAX_RANK));
    QB_TRY(qb_infer_rank(cx, args, right, 1, QB_MAX_RANK));
    qb_shape a = qb_shape_as_matrix(&va->shape, true), b = qb_shape_as_matrix(&vb->shape, false);
    QB_TRY(check_inner(cx, &va->shape, &vb->shape, a.dim[a.rank - 1], b.dim[b.rank - 2]));
    int64_t m = a.dim[a.rank - 2], n = b.dim[b.rank - 1];
    a.rank -= 2, b.rank -= 2;
    QB_TRY_WRAP(cx, qb_shape_broadcast(cx, &a, &b, &out), "leading dimensions");
    if (va->shape.rank > 1) out.dim[out.rank++] = m;
    if (vb->shape.rank > 1) out.dim[out.rank++] = n;
    return qb_infer_set(cx, args, 0, dtype, &out);
}

static qb_status infer_matmul(qb_ctx *cx, const qb_infer_args *args) {
    QB_TRY(qb_infer_same_type(cx, args, 1));
    return qb_infer_product(cx, args, 0, 1, qb_infer_in(args, 0)->dtype);
}

static qb_status eval_matmul(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_EVAL_HALVES(eval_matmul);
    if (in[0].desc.dtype != QB_DTYPE_F32) {
        qb_eval_operand a = {.tensor = &in[0]}, b = {.tensor = &in[1]};
        return qb_eval_product(cx, node, &a, &b, out[0].desc.dtype, out[0].data);
    }
    qb_desc desc[2] = {in[0].desc, in[1].desc};
    const void *data[2] = {in[0].data, in[1].data};
    qb_problem p = {
        .kind = QB_KIND_MATMUL, .n_in = 2, .in = desc, .out = out[0].desc, .scale = 1.0f};
    desc[0].shape = qb_shape_as_matrix(&in[0].desc.shape, true);
    desc[1].shape = qb_shape_as_matrix(&in[1].desc.shape, false);
    qb_shape *shape = &p.out.shape; /* with both matrix dimensions */
    if (in[1].desc.shape.rank == 1) shape->dim[shape->rank++] = 1;
    if (in[0].desc.shape.rank == 1) {
        shape->dim[shape->rank] = shape->dim[shape->rank - 1];
        shape->dim[shape->rank - 1] = 1;
        shape->rank++;
    }
    qb_ref_matmul(&p, data, out[0].data, qb_threads(cx));
    return QB_OK;
}

static qb_status infer_gemm(qb_ctx *cx, const qb_infer_args *args) {
    const qb_gemm_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *a = qb_infer_in(args, 0), *b = qb_infer_in(args, 1), *c = qb_infer_in(args, 2);
    QB_TRY(qb_infer_rank(cx, args, 0, 2, 2));
    QB_TRY(qb_infer_rank(cx, args, 1, 2, 2));
    QB_TRY(qb_infer_rank(cx, args, 2, 0, 2));
    QB_TRY(qb_infer_same_type(cx, args, 1));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    qb_shape out = qb_shape_unknown(2);
    int64_t ka = QB_DIM_UNKNOWN, kb = QB_DIM_UNKNOWN;
    if (a->shape.rank == 2) {
        out.dim[0] = a->shape.dim[attrs->trans_a ? 1 : 0];
        ka = a->shape.dim[attrs->trans_a ? 0 : 1];
    }
    if (b->shape.rank == 2) {
        out.dim[1] = b->shape.dim[attrs->trans_b ? 0 : 1];
        kb = b->shape.dim[attrs->trans_b ? 1 : 0];
    }
    QB_TRY(check_inner(cx, &a->shape, &b->shape, ka, kb));
    if (c && c->shape.rank >= 0) { /* C must fit the product, not the other way round */
        qb_shape both;
        QB_TRY_WRAP(cx, qb_shape_broadcast(cx, &out, &c->shape, &both), "input 2 '%s'", c->name);
        for (int32_t d = 0; d < 2; d++)
            if (out.dim[d] >= 0 && both.dim[d] != out.dim[d])
                return qb_fail(cx, QB_STATUS_INVALID,
                               "input 2 '%s': dimension %d does not broadcast to %lld", c->name, d,
                               (long long)out.dim[d]);
    }
    return qb_infer_set(cx, args, 0, a->dtype, &out);
}

/* Doubles, and integers, which add up exactly when alpha and beta are 1. */
static qb_status eval_gemm_exactly(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                   qb_tensor *out) {
    const qb_gemm_attrs *attrs = node->attrs;
    qb_dtype dtype = out[0].desc.dtype;
    void *y = out[0].data;
    bool plain = attrs->alpha == 1.0f && attrs->beta == 1.0f && qb_dtype_is_integer(dtype);
    bool has_c = qb_eval_has(node, in, 2);
    qb_eval_operand a = {.tensor = &in[0], .transposed = attrs->trans_a != 0};
    qb_eval_operand b = {.tensor = &in[1], .transposed = attrs->trans_b != 0};
    QB_TRY(qb_eval_product(cx, node, &a, &b, dtype, y));
    qb_shape scalar = {.rank = 0};
    const qb_shape *shapes[1] = {has_c ? &in[2].desc.shape : &scalar};
    qb_walk w;
    for (qb_walk_broadcast(&w, &out[0].desc.shape, shapes, 1); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) {
            int64_t at = w.out + i, from = w.at[0] + i * w.step[0];
            if (plain) {
                uint64_t c = has_c ? qb_integer_get(dtype, in[2].data, from) : 0;
                qb_integer_put(dtype, y, at, qb_integer_get(dtype, y, at) + c);
                continue;
            }
            double v = (double)attrs->alpha * qb_number_get(dtype, y, at);
            if (has_c) v += (double)attrs->beta * qb_number_get(dtype, in[2].data, from);
            qb_number_put(dtype, y, at, dtype == QB_DTYPE_F64 ? v : trunc(v));
        }
    return QB_OK;
}

static qb_status eval_gemm(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_gemm_attrs *attrs = node->attrs;
    QB_EVAL_HALVES(eval_gemm);
    if (in[0].desc.dtype != QB_DTYPE_F32) return eval_gemm_exactly(cx, node, in, out);
    qb_desc desc[2] = {in[0].desc, in[1].desc};
    const void *data[2] = {in[0].data, in[1].data};
    qb_problem p = {.kind = QB_KIND_MATMUL,
                    .n_in = 2,
                    .in = desc,
                    .out = out[0].desc,
                    .scale = attrs->alpha,
                    .transpose_a = attrs->trans_a != 0,
                    .transpose_b = attrs->trans_b != 0};
    qb_ref_matmul(&p, data, out[0].data, qb_threads(cx));
    if (!qb_eval_has(node, in, 2)) return QB_OK;
    const qb_shape *shapes[1] = {&in[2].desc.shape};
    const float *c = in[2].data;
    float *y = out[0].data;
    qb_walk w;
    for (qb_walk_broadcast(&w, &out[0].desc.shape, shapes, 1); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++)
            y[w.out + i] += attrs->beta * c[w.at[0] + i * w.step[0]];
    return QB_OK;
}

QB_OP(gemm, "Gemm", "", 7, 2, 3, 1, sizeof(qb_gemm_attrs), gemm_attrs, COMPUTE, infer_gemm,
      eval_gemm, .weight_input = 1, .weight_axis = 1, .types = QB_TYPES_NUMBERS,
      .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW, .kernel = {QB_KIND_MATMUL});

QB_OP(matmul, "MatMul", "", 7, 2, 2, 1, 0, NULL, COMPUTE, infer_matmul, eval_matmul,
      .weight_input = 1, .weight_axis = -1, .types = QB_TYPES_NUMBERS,
      .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW, .kernel = {QB_KIND_MATMUL});
