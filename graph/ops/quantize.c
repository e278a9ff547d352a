/* QuantizeLinear and DequantizeLinear: one scale a tensor, an index of an
 * axis, or a block along it. */
#include <math.h>

#include "base/vector_loop.h"
#include "build_internal.h"

typedef struct quantize_attrs {
    int64_t axis, block_size, output_dtype, saturate, precision;
} quantize_attrs;
static const qb_attr_desc quantize_table[] = {
    QB_A_INT(quantize_attrs, axis, "axis", 1, 0, 0),
    QB_A_INT(quantize_attrs, block_size, "block_size", 0, 0, 0),
    QB_A_INT(quantize_attrs, output_dtype, "output_dtype", 0, 0, 0),
    QB_A_INT(quantize_attrs, precision, "precision", 0, 0, 1), /* float, whatever it says */
    QB_A_INT(quantize_attrs, saturate, "saturate", 1, 0, 1),
    QB_A_END,
};
QB_ATTRS(dequantize_table, QB_A_INT(quantize_attrs, axis, "axis", 1, 0, 0),
         QB_A_INT(quantize_attrs, block_size, "block_size", 0, 0, 0),
         QB_A_INT(quantize_attrs, output_dtype, "output_dtype", 0, 0, 0));

static bool is_quantized(qb_dtype dtype) {
    return dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8 || dtype == QB_DTYPE_U16 ||
           dtype == QB_DTYPE_S16 || dtype == QB_DTYPE_S32;
}

static qb_status expect_type(qb_ctx *cx, const char *what, qb_dtype dtype, bool good) {
    if (good || dtype == QB_DTYPE_NONE) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: type %s is not supported", what,
                   qb_dtype_text(dtype));
}

/* Where the scale of each element lies: one for all, one an index of an axis, or one for each block
 * of `block` neighbours along it. */
typedef struct grid {
    int64_t inner, size, block, n; /* elements behind the axis, its size, and its scales */
} grid;

static qb_status grid_of(qb_ctx *cx, const quantize_attrs *attrs, const qb_shape *x,
                         const qb_shape *scale, grid *out) {
    *out = (grid){1, 1, 1, 1};
    int64_t n = qb_shape_count(scale);
    if (n == 1 && (attrs->block_size == 0 || scale->rank == 0)) return QB_OK;
    int32_t axis;
    QB_TRY(qb_axis_resolve(cx, attrs->axis, x->rank, &axis));
    out->size = x->dim[axis];
    for (int32_t d = axis + 1; d < x->rank; d++) /* wraps only where nothing can be run */
        out->inner = (int64_t)((uint64_t)out->inner * (uint64_t)x->dim[d]);
    out->n = n;
    if (attrs->block_size == 0) {
        if (scale->rank == 1 && n == out->size) return QB_OK;
        return qb_fail(cx, QB_STATUS_INVALID, "scale: expected %lld elements (axis %d), got %lld",
                       (long long)out->size, axis, (long long)n);
    }
    out->block = attrs->block_size;
    qb_shape wanted = *x;
    wanted.dim[axis] = out->n = out->size / out->block + (out->size % out->block > 0);
    if (qb_shape_equal(&wanted, scale)) return QB_OK;
    char a[QB_TEXT_MAX], b[QB_TEXT_MAX];
    return qb_fail(cx, QB_STATUS_INVALID, "scale: expected shape %s for blocks of %lld, got %s",
                   qb_shape_text(&wanted, a, sizeof a), (long long)out->block,
                   qb_shape_text(scale, b, sizeof b));
}

/* The scale of element i. */
static int64_t grid_at(const grid *g, int64_t i, bool blocks) {
    if (g->n == 1 && !blocks) return 0;
    int64_t along = i / g->inner % g->size / g->block;
    if (!blocks) return along;
    return (i / g->inner / g->size * g->n + along) * g->inner + i % g->inner;
}

static bool has_blocks(const quantize_attrs *attrs, const qb_shape *scale) {
    return attrs->block_size != 0 && scale->rank > 0;
}

/* Elements from one on that share its scale. */
static int64_t run_of(const grid *g, int64_t count, bool blocks) {
    return blocks ? 1 : g->n == 1 ? count : g->inner;
}

/* qb_quantize_value of n floats, for types of up to 16 bits; the bounds are those less the zero
 * point. */
QB_LOOP(quantize_floats,
        (const float *x, int64_t n, float scale, float low, float high, int32_t zero, int32_t *q),
        (x, n, scale, low, high, zero, q)) {
    for (int64_t i = 0; i < n; i++) {
        float v = nearbyintf(x[i] / scale);
        v = v != v ? 0.0f : v;
        v = v < low ? low : v;
        v = v > high ? high : v;
        q[i] = (int32_t)v + zero;
    }
}

static void quantize_run(const float *x, int64_t n, float scale, int32_t zero, qb_dtype to,
                         void *out, int64_t at) {
    enum { PIECE = 256 };
    int32_t q[PIECE];
    const float low = (float)(qb_quantize_value(-INFINITY, 1, 0, to) - zero);
    const float high = (float)(qb_quantize_value(INFINITY, 1, 0, to) - zero);
    for (int64_t done = 0; done < n; done += PIECE) {
        const int64_t some = n - done < PIECE ? n - done : PIECE;
        quantize_floats(x + done, some, scale, low, high, zero, q);
        for (int64_t i = 0; i < some; i++) {
            if (qb_dtype_size(to) == 1)
                ((uint8_t *)out)[at + done + i] = (uint8_t)q[i];
            else
                ((uint16_t *)out)[at + done + i] = (uint16_t)q[i];
        }
    }
}

#define STEPS(T) /* exact: integers of up to 16 bits */                                            \
    for (int64_t i = 0; i < n; i++) y[i] = (float)((int32_t)((const T *)x)[at + i] - zero) * scale

static void dequantize_run(const void *x, int64_t at, int64_t n, qb_dtype from, float scale,
                           int32_t zero, float *y) {
    switch (from) {
    case QB_DTYPE_U8: STEPS(uint8_t); break;
    case QB_DTYPE_S8: STEPS(int8_t); break;
    case QB_DTYPE_U16: STEPS(uint16_t); break;
    default: STEPS(int16_t); break;
    }
}

/* Scale and zero point against the data's shape. */
static qb_status check_params(qb_ctx *cx, const qb_infer_args *args) {
    const quantize_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *scale = qb_infer_in(args, 1);
    const qb_value *zero = qb_infer_in(args, 2);
    if (attrs->block_size < 0)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute block_size: expected at least 0, got %lld",
                       (long long)attrs->block_size);
    QB_TRY(expect_type(cx, "scale", scale->dtype,
                       scale->dtype == QB_DTYPE_F32 || qb_dtype_is_16bit_float(scale->dtype)));
    if (attrs->block_size == 0) {
        QB_TRY(qb_infer_rank(cx, args, 1, 0, 1));
        QB_TRY(qb_infer_rank(cx, args, 2, 0, 1));
    }
    if (zero && qb_shape_known(&zero->shape) && qb_shape_known(&scale->shape) &&
        qb_shape_count(&zero->shape) != qb_shape_count(&scale->shape))
        return qb_fail(cx, QB_STATUS_INVALID, "zero point: expected %lld elements, got %lld",
                       (long long)qb_shape_count(&scale->shape),
                       (long long)qb_shape_count(&zero->shape));
    grid g;
    if (!qb_shape_known(&scale->shape) || x->shape.rank < 0) return QB_OK;
    if (!qb_shape_known(&x->shape) && attrs->block_size != 0) return QB_OK;
    if (!qb_shape_known(&x->shape) && qb_shape_count(&scale->shape) != 1) {
        int32_t axis;
        QB_TRY(qb_axis_resolve(cx, attrs->axis, x->shape.rank, &axis));
        if (x->shape.dim[axis] < 0) return QB_OK;
    }
    return grid_of(cx, attrs, &x->shape, &scale->shape, &g);
}

static qb_status infer_quantize(qb_ctx *cx, const qb_infer_args *args) {
    const quantize_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *zero = qb_infer_in(args, 2);
    qb_dtype dtype = zero                  ? zero->dtype
                     : attrs->output_dtype ? qb_dtype_from_onnx((int)attrs->output_dtype)
                                           : QB_DTYPE_U8;
    if (attrs->output_dtype && qb_dtype_to_onnx(dtype) != attrs->output_dtype)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute output_dtype: type %lld",
                       (long long)attrs->output_dtype);
    bool data =
        x->dtype == QB_DTYPE_F32 || x->dtype == QB_DTYPE_S32 || qb_dtype_is_16bit_float(x->dtype);
    QB_TRY(expect_type(cx, "zero point", dtype, is_quantized(dtype) && dtype != QB_DTYPE_S32));
    QB_TRY(expect_type(cx, "data", x->dtype, data));
    QB_TRY(check_params(cx, args));
    return qb_infer_set(cx, args, 0, dtype, &x->shape);
}

/* The result has the type of the scale, or output_dtype's. */
static qb_status infer_dequantize(qb_ctx *cx, const qb_infer_args *args) {
    const quantize_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_dtype dtype = attrs->output_dtype ? qb_dtype_from_onnx((int)attrs->output_dtype)
                                         : qb_infer_in(args, 1)->dtype;
    QB_TRY(
        expect_type(cx, "output", dtype, dtype == QB_DTYPE_F32 || qb_dtype_is_16bit_float(dtype)));
    QB_TRY(expect_type(cx, "data", x->dtype, is_quantized(x->dtype)));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    QB_TRY(check_params(cx, args));
    if (attrs->output_dtype && dtype == QB_DTYPE_NONE)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "attribute output_dtype: type %lld",
                       (long long)attrs->output_dtype);
    return qb_infer_set(cx, args, 0, dtype, &x->shape);
}

static qb_status eval_quantize(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                               qb_tensor *out) {
    const quantize_attrs *attrs = node->attrs;
    grid g;
    QB_TRY(grid_of(cx, attrs, &in[0].desc.shape, &in[1].desc.shape, &g));
    bool has_zero = qb_eval_has(node, in, 2), blocks = has_blocks(attrs, &in[1].desc.shape);
    qb_dtype from = in[0].desc.dtype, to = out[0].desc.dtype;
    const int64_t count = qb_shape_count(&in[0].desc.shape), run = run_of(&g, count, blocks);
    for (int64_t i = 0; i < count; i += run) {
        const int64_t k = grid_at(&g, i, blocks);
        const float scale = (float)qb_number_get(in[1].desc.dtype, in[1].data, k);
        const int32_t zero = has_zero ? (int32_t)qb_number_get(to, in[2].data, k) : 0;
        if (from == QB_DTYPE_F32) {
            quantize_run((const float *)in[0].data + i, run, scale, zero, to, out[0].data, i);
            continue;
        }
        for (int64_t j = i; j < i + run; j++) {
            const float v = (float)qb_number_get(from, in[0].data, j);
            qb_number_put(to, out[0].data, j, qb_quantize_value(v, scale, zero, to));
        }
    }
    return QB_OK;
}

static qb_status eval_dequantize(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                 qb_tensor *out) {
    const quantize_attrs *attrs = node->attrs;
    grid g;
    QB_TRY(grid_of(cx, attrs, &in[0].desc.shape, &in[1].desc.shape, &g));
    bool has_zero = qb_eval_has(node, in, 2), blocks = has_blocks(attrs, &in[1].desc.shape);
    qb_dtype from = in[0].desc.dtype, to = out[0].desc.dtype;
    const int64_t count = qb_shape_count(&in[0].desc.shape), run = run_of(&g, count, blocks);
    const bool is_plain = to == QB_DTYPE_F32 && qb_dtype_size(from) <= 2;
    for (int64_t i = 0; i < count; i += run) {
        const int64_t k = grid_at(&g, i, blocks);
        const double zero = has_zero ? qb_number_get(from, in[2].data, k) : 0.0;
        const float scale = (float)qb_number_get(in[1].desc.dtype, in[1].data, k);
        if (is_plain) {
            dequantize_run(in[0].data, i, run, from, scale, (int32_t)zero,
                           (float *)out[0].data + i);
            continue;
        }
        for (int64_t j = i; j < i + run; j++) { /* the difference is exact in double */
            const float steps = (float)(qb_number_get(from, in[0].data, j) - zero);
            qb_number_put(to, out[0].data, j, (double)(steps * scale));
        }
    }
    return QB_OK;
}

QB_OP_SIMPLE(quantize_linear, "QuantizeLinear", 10, 2, 3, 1, sizeof(quantize_attrs), quantize_table,
             FLOAT, infer_quantize, eval_quantize, .types = "f16, bf16, f32, s32",
             .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_INTEGERS);
QB_OP_SIMPLE(dequantize_linear, "DequantizeLinear", 10, 2, 3, 1, sizeof(quantize_attrs),
             dequantize_table, FLOAT, infer_dequantize, eval_dequantize,
             .types = "u8, s8, u16, s16, s32", .traits = QB_TRAIT_ITEMWISE);

/* onnxruntime had 16 bits, and more types of scales, before ai.onnx. */
QB_OP_OF_FILES(ms_quantize_linear, "QuantizeLinear", "com.microsoft", 2, 3, 1,
               sizeof(quantize_attrs), quantize_table, qb_rename_upgrade,
               .types = "f16, bf16, f32, s32", .traits = QB_TRAIT_INTEGERS);
QB_OP_OF_FILES(ms_dequantize_linear, "DequantizeLinear", "com.microsoft", 2, 3, 1,
               sizeof(quantize_attrs), dequantize_table, qb_rename_upgrade,
               .types = "u8, s8, u16, s16, s32");
