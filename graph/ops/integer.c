/* Operators on integers with explicit scales and zero points: ConvInteger, MatMulInteger,
 * MatMulIntegerToFloat, QLinearConv, QLinearMatMul, DynamicQuantizeLinear. Sums are int32 and wrap.
 */
#include <math.h>

#include "ops_internal.h"

static qb_status expect_quantized(qb_ctx *cx, const qb_infer_args *args, int32_t i) {
    const qb_value *x = qb_infer_in(args, i);
    if (!x || x->dtype == QB_DTYPE_NONE || x->dtype == QB_DTYPE_U8 || x->dtype == QB_DTYPE_S8)
        return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "input %d '%s': expected type u8 or s8, got %s", i,
                   x->name, qb_dtype_text(x->dtype));
}

/* --- MatMulInteger and QLinearMatMul --------------------------------------------------------- */

static qb_status infer_matmul_integer(qb_ctx *cx, const qb_infer_args *args) {
    for (int32_t i = 0; i < 4; i++) QB_TRY(expect_quantized(cx, args, i));
    return qb_infer_product(cx, args, 0, 1, QB_DTYPE_S32);
}

static qb_status eval_matmul_integer(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                     qb_tensor *out) {
    qb_eval_operand a = {.tensor = &in[0], .zero = qb_eval_has(node, in, 2) ? &in[2] : NULL};
    qb_eval_operand b = {.tensor = &in[1], .zero = qb_eval_has(node, in, 3) ? &in[3] : NULL};
    return qb_eval_product(cx, node, &a, &b, QB_DTYPE_S32, out[0].data);
}

static qb_status infer_qlinear_matmul(qb_ctx *cx, const qb_infer_args *args) {
    static const int32_t quantized_inputs[] = {0, 2, 3, 5, 7};
    for (int32_t i = 0; i < 5; i++) QB_TRY(expect_quantized(cx, args, quantized_inputs[i]));
    return qb_infer_product(cx, args, 0, 3, qb_infer_in(args, 7)->dtype);
}

/* Scale k of a tensor with one scale or many. */
static float scale_at(const qb_tensor *scale, int64_t k) {
    int64_t n = qb_shape_count(&scale->desc.shape);
    return (float)qb_number_get(scale->desc.dtype, scale->data, n == 1 ? 0 : k);
}

static int32_t zero_at(const qb_tensor *zero, int64_t k) {
    int64_t n = qb_shape_count(&zero->desc.shape);
    return (int32_t)qb_integer_get(zero->desc.dtype, zero->data, n == 1 ? 0 : k);
}

/* Parameters count along rows (or are one) on the left and along columns on the right. */
static qb_status check_lengths(qb_ctx *cx, const qb_tensor *in, int64_t rows, int64_t columns) {
    static const int32_t index[] = {1, 4, 6, 7};
    const int64_t allowed[] = {rows, columns, 1, 1};
    for (int32_t i = 0; i < 4; i++) {
        int64_t n = qb_shape_count(&in[index[i]].desc.shape);
        if (n != 1 && n != allowed[i])
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "input %d: expected 1 or %lld elements, got "
                           "%lld",
                           index[i], (long long)allowed[i], (long long)n);
    }
    return QB_OK;
}

static qb_status eval_qlinear_matmul(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                     qb_tensor *out) {
    qb_shape a = qb_shape_as_matrix(&in[0].desc.shape, true);
    qb_shape b = qb_shape_as_matrix(&in[3].desc.shape, false);
    int64_t rows = a.dim[a.rank - 2], columns = b.dim[b.rank - 1];
    int64_t n = qb_shape_count(&out[0].desc.shape);
    QB_TRY(check_lengths(cx, in, rows, columns));
    QB_RELEASED(qb_temp_give_at) int32_t *sums = qb_temp_take(cx, (size_t)n, sizeof *sums);
    if (!sums) return cx->code;
    qb_eval_operand left = {.tensor = &in[0], .zero = &in[2]};
    qb_eval_operand right = {.tensor = &in[3], .zero = &in[5]};
    qb_status status = qb_eval_product(cx, node, &left, &right, QB_DTYPE_S32, sums);
    qb_dtype dtype = out[0].desc.dtype;
    float y_scale = scale_at(&in[6], 0);
    for (int64_t i = 0; i < n && status == QB_OK; i++) {
        float scale = scale_at(&in[1], i / columns % rows) * scale_at(&in[4], i % columns);
        int32_t q = qb_quantize_value((float)sums[i] * scale, y_scale, zero_at(&in[7], 0), dtype);
        qb_integer_put(dtype, out[0].data, i, (uint64_t)q);
    }
    return status;
}

/* Float sums with their scales: one multiplication by the scales' rounded product. */
static qb_status infer_matmul_scaled(qb_ctx *cx, const qb_infer_args *args) {
    static const int32_t quantized_inputs[] = {0, 1, 4, 5};
    for (int32_t i = 0; i < 4; i++) QB_TRY(expect_quantized(cx, args, quantized_inputs[i]));
    return qb_infer_product(cx, args, 0, 1, QB_DTYPE_F32);
}

static qb_status check_scales(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              int64_t columns) {
    static const int32_t index[] = {2, 3, 6};
    const int64_t allowed[] = {1, columns, columns};
    for (int32_t i = 0; i < 3; i++) {
        if (!qb_eval_has(node, in, index[i])) continue;
        const qb_desc *desc = &in[index[i]].desc;
        const int64_t n = qb_shape_count(&desc->shape);
        if (desc->dtype != QB_DTYPE_F32 || (n != 1 && n != allowed[i]))
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "input %d: expected %lld elements of f32, got %lld of %s", index[i],
                           (long long)allowed[i], (long long)n, qb_dtype_text(desc->dtype));
    }
    return QB_OK;
}

static qb_status eval_matmul_scaled(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                    qb_tensor *out) {
    const qb_shape *shape = &out[0].desc.shape, *b_shape = &in[1].desc.shape;
    const int64_t n = qb_shape_count(shape);
    const int64_t columns = b_shape->rank > 1 ? b_shape->dim[b_shape->rank - 1] : 1;
    QB_TRY(check_scales(cx, node, in, columns));
    qb_eval_operand a = {.tensor = &in[0], .zero = qb_eval_has(node, in, 4) ? &in[4] : NULL};
    qb_eval_operand b = {.tensor = &in[1], .zero = qb_eval_has(node, in, 5) ? &in[5] : NULL};
    const qb_tensor *bias = qb_eval_has(node, in, 6) ? &in[6] : NULL;
    QB_RELEASED(qb_temp_give_at) int32_t *sums = qb_temp_take(cx, (size_t)n, sizeof *sums);
    if (!sums) return cx->code;
    qb_status status = qb_eval_product(cx, node, &a, &b, QB_DTYPE_S32, sums);
    for (int64_t i = 0; i < n && status == QB_OK; i++) {
        const float scale = scale_at(&in[2], 0) * scale_at(&in[3], i % columns);
        float f32 = (float)sums[i] * scale;
        if (bias) f32 += scale_at(bias, i % columns);
        ((float *)out[0].data)[i] = f32;
    }
    return status;
}

QB_OP(matmul_integer_to_float, "MatMulIntegerToFloat", "com.microsoft", 1, 4, 7, 1, 0, NULL, FLOAT,
      infer_matmul_scaled, eval_matmul_scaled, .weight_input = -1, .types = QB_TYPES_QUANTIZED,
      .traits = QB_TRAIT_WINDOW | QB_TRAIT_INTEGERS, .upgrade = qb_scaled_product_upgrade,
      .kernel = {QB_KIND_MATMUL_SCALED});
QB_OP_SIMPLE(matmul_integer, "MatMulInteger", 10, 2, 4, 1, 0, NULL, FLOAT, infer_matmul_integer,
             eval_matmul_integer, .types = QB_TYPES_QUANTIZED,
             .traits = QB_TRAIT_WINDOW | QB_TRAIT_INTEGERS, .kernel = {QB_KIND_MATMUL_INTEGER});
QB_OP_SIMPLE(qlinear_matmul, "QLinearMatMul", 10, 8, 8, 1, 0, NULL, FLOAT, infer_qlinear_matmul,
             eval_qlinear_matmul, .upgrade = qb_qlinear_matmul_upgrade, .types = QB_TYPES_QUANTIZED,
             .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW | QB_TRAIT_INTEGERS);

/* --- ConvInteger and QLinearConv ------------------------------------------------------------- */

QB_ATTRS(conv_attrs, QB_A_CONV);

static qb_status infer_conv(qb_ctx *cx, const qb_infer_args *args, int32_t weight, qb_dtype dtype) {
    const qb_conv_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *w = qb_infer_in(args, weight);
    qb_shape out = {.rank = -1};
    if (x->shape.rank < 0) return qb_infer_set(cx, args, 0, dtype, &out);
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 5));
    QB_TRY(qb_infer_rank(cx, args, weight, x->shape.rank, x->shape.rank));
    qb_window window;
    int64_t group = attrs->group, c = x->shape.dim[1];
    out = (qb_shape){.rank = x->shape.rank, .dim = {x->shape.dim[0]}};
    out.dim[1] = w->shape.rank < 0 ? QB_DIM_UNKNOWN : w->shape.dim[0];
    bool known = c >= 0 && w->shape.rank >= 0 && w->shape.dim[0] >= 0 && w->shape.dim[1] >= 0;
    if (known && (w->shape.dim[1] * group != c || w->shape.dim[0] % group != 0))
        return qb_fail(
            cx, QB_STATUS_INVALID, "weight %lldx%lld does not fit %lld channels in %lld groups",
            (long long)w->shape.dim[0], (long long)w->shape.dim[1], (long long)c, (long long)group);
    QB_TRY(qb_conv_window(cx, attrs, &x->shape, &w->shape, &window, out.dim + 2));
    return qb_infer_set(cx, args, 0, dtype, &out);
}

static qb_status infer_conv_integer(qb_ctx *cx, const qb_infer_args *args) {
    for (int32_t i = 0; i < 4; i++) QB_TRY(expect_quantized(cx, args, i));
    return infer_conv(cx, args, 1, QB_DTYPE_S32);
}

static qb_status infer_qlinear_conv(qb_ctx *cx, const qb_infer_args *args) {
    static const int32_t quantized_inputs[] = {0, 2, 3, 5, 7};
    for (int32_t i = 0; i < 5; i++) QB_TRY(expect_quantized(cx, args, quantized_inputs[i]));
    return infer_conv(cx, args, 3, qb_infer_in(args, 7)->dtype);
}

/* A convolution of integers seen in three spatial dimensions. */
typedef struct conv {
    const qb_tensor *x, *w;
    const qb_tensor *x_zero, *w_zero; /* may be NULL */
    qb_window window;
    int64_t size[3], kernel[3], out[3], group; /* missing dimensions are 1 */
    int64_t channels, filters;                 /* of a whole sample; input and output */
} conv;

static qb_status conv_of(qb_ctx *cx, const qb_node *node, const qb_tensor *x, const qb_tensor *w,
                         const qb_shape *out, conv *c) {
    const qb_conv_attrs *attrs = node->attrs;
    c->x = x, c->w = w, c->group = attrs->group;
    QB_TRY(qb_conv_window(cx, attrs, &x->desc.shape, &w->desc.shape, &c->window, NULL));
    c->channels = x->desc.shape.dim[1], c->filters = w->desc.shape.dim[0];
    for (int32_t d = 0; d < 3; d++) {
        int32_t from = d - (3 - c->window.n); /* the last dimensions are the real ones */
        c->size[d] = from < 0 ? 1 : x->desc.shape.dim[2 + from];
        c->kernel[d] = from < 0 ? 1 : c->window.kernel[from];
        c->out[d] = from < 0 ? 1 : out->dim[2 + from];
    }
    return QB_OK;
}

/* Parameter i: one number, or one a filter when `many`. */
static qb_status check_count(qb_ctx *cx, const qb_tensor *in, int32_t i, int64_t filters,
                             bool many) {
    int64_t n = qb_shape_count(&in[i].desc.shape);
    if (n == 1 || (many && n == filters)) return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID, "input %d: expected %lld elements, got %lld", i,
                   (long long)(many ? filters : 1), (long long)n);
}

/* Where tap k of output position o lies in the data; false in the padding. */
static bool tap(const conv *c, const int64_t o[3], const int64_t k[3], int64_t *at) {
    *at = 0;
    for (int32_t d = 0; d < 3; d++) {
        int32_t from = d - (3 - c->window.n);
        int64_t i = from < 0 ? 0
                             : o[d] * c->window.stride[from] - c->window.pad_begin[from] +
                                   k[d] * c->window.dilation[from];
        if (i < 0 || i >= c->size[d]) return false;
        *at = *at * c->size[d] + i;
    }
    return true;
}

/* One output element: filter m of sample n at position o. */
static uint32_t conv_sum(const conv *c, int64_t n, int64_t m, const int64_t o[3]) {
    int64_t per_group = c->channels / c->group, first = m / (c->filters / c->group) * per_group;
    int64_t plane = c->size[0] * c->size[1] * c->size[2];
    int64_t taps = c->kernel[0] * c->kernel[1] * c->kernel[2], at;
    uint64_t x_zero = c->x_zero ? (uint64_t)(int64_t)zero_at(c->x_zero, 0) : 0;
    uint64_t w_zero = c->w_zero ? (uint64_t)(int64_t)zero_at(c->w_zero, m) : 0;
    uint64_t sum = 0;
    for (int64_t t = 0; t < taps; t++) {
        const int64_t k[3] = {t / (c->kernel[1] * c->kernel[2]), t / c->kernel[2] % c->kernel[1],
                              t % c->kernel[2]};
        if (!tap(c, o, k, &at)) continue;
        for (int64_t i = 0; i < per_group; i++) {
            uint64_t x = qb_integer_get(c->x->desc.dtype, c->x->data,
                                        (n * c->channels + first + i) * plane + at);
            uint64_t w =
                qb_integer_get(c->w->desc.dtype, c->w->data, (m * per_group + i) * taps + t);
            sum += (x - x_zero) * (w - w_zero);
        }
    }
    return (uint32_t)sum;
}

static void conv_all(const conv *c, int64_t samples, int32_t *sums) {
    int64_t plane = c->out[0] * c->out[1] * c->out[2];
    for (int64_t i = 0; i < samples * c->filters * plane; i++) {
        int64_t p = i % plane, m = i / plane % c->filters;
        const int64_t o[3] = {p / (c->out[1] * c->out[2]), p / c->out[2] % c->out[1],
                              p % c->out[2]};
        sums[i] = (int32_t)conv_sum(c, i / plane / c->filters, m, o);
    }
}

static qb_status eval_conv_integer(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                   qb_tensor *out) {
    conv c = {.x_zero = qb_eval_has(node, in, 2) ? &in[2] : NULL,
              .w_zero = qb_eval_has(node, in, 3) ? &in[3] : NULL};
    QB_TRY(conv_of(cx, node, &in[0], &in[1], &out[0].desc.shape, &c));
    if (c.x_zero) QB_TRY(check_count(cx, in, 2, c.filters, false));
    if (c.w_zero) QB_TRY(check_count(cx, in, 3, c.filters, true));
    conv_all(&c, in[0].desc.shape.dim[0], out[0].data);
    return QB_OK;
}

static qb_status eval_qlinear_conv(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                   qb_tensor *out) {
    conv c = {.x_zero = &in[2], .w_zero = &in[5]};
    QB_TRY(conv_of(cx, node, &in[0], &in[3], &out[0].desc.shape, &c));
    for (int32_t i = 1; i < 8; i++)
        if (i != 3) QB_TRY(check_count(cx, in, i, c.filters, i == 4 || i == 5));
    if (qb_eval_has(node, in, 8)) {
        if (in[8].desc.dtype != QB_DTYPE_S32) return qb_eval_refuse(cx, node, in[8].desc.dtype);
        QB_TRY(check_count(cx, in, 8, c.filters, true));
        if (c.filters > 1 && qb_shape_count(&in[8].desc.shape) == 1)
            return qb_fail(cx, QB_STATUS_INVALID, "bias: expected %lld elements, got 1",
                           (long long)c.filters);
    }
    int64_t n = qb_shape_count(&out[0].desc.shape), plane = c.out[0] * c.out[1] * c.out[2];
    QB_RELEASED(qb_temp_give_at) int32_t *sums = qb_temp_take(cx, (size_t)n, sizeof *sums);
    if (!sums) return cx->code;
    conv_all(&c, in[0].desc.shape.dim[0], sums);
    const int32_t *bias = qb_eval_has(node, in, 8) ? in[8].data : NULL;
    qb_dtype dtype = out[0].desc.dtype;
    float y_scale = scale_at(&in[6], 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t m = i / plane % c.filters;
        int32_t sum = (int32_t)((uint32_t)sums[i] + (bias ? (uint32_t)bias[m] : 0u));
        float f32 = (float)sum * (scale_at(&in[1], 0) * scale_at(&in[4], m));
        int32_t q = qb_quantize_value(f32, y_scale, zero_at(&in[7], 0), dtype);
        qb_integer_put(dtype, out[0].data, i, (uint64_t)q);
    }
    return QB_OK;
}

QB_OP_SIMPLE(conv_integer, "ConvInteger", 10, 2, 4, 1, sizeof(qb_conv_attrs), conv_attrs, FLOAT,
             infer_conv_integer, eval_conv_integer, .types = QB_TYPES_QUANTIZED,
             .traits = QB_TRAIT_WINDOW | QB_TRAIT_INTEGERS);
QB_OP_SIMPLE(qlinear_conv, "QLinearConv", 10, 8, 9, 1, sizeof(qb_conv_attrs), conv_attrs, FLOAT,
             infer_qlinear_conv, eval_qlinear_conv, .upgrade = qb_qlinear_conv_upgrade,
             .types = QB_TYPES_QUANTIZED, .traits = QB_TRAIT_WINDOW | QB_TRAIT_INTEGERS);

/* --- DynamicQuantizeLinear ------------------------------------------------------------------- */

static qb_status infer_dynamic(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape scalar = {.rank = 0};
    if (x->dtype != QB_DTYPE_NONE && x->dtype != QB_DTYPE_F32)
        return qb_fail(cx, QB_STATUS_INVALID, "input 0 '%s': expected type f32, got %s", x->name,
                       qb_dtype_text(x->dtype));
    QB_TRY(qb_infer_set(cx, args, 1, QB_DTYPE_F32, &scalar));
    QB_TRY(qb_infer_set(cx, args, 2, QB_DTYPE_U8, &scalar));
    return qb_infer_set(cx, args, 0, QB_DTYPE_U8, &x->shape);
}

/* The range of the data, zero included, on 256 quantized values. All zero: scale 1. */
static qb_status eval_dynamic(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    (void)cx;
    const float *x = in[0].data;
    int64_t n = qb_shape_count(&in[0].desc.shape);
    float low = 0.0f, high = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    float scale = low == high ? 1.0f : (high - low) / 255.0f;
    float zero = rintf(fminf(fmaxf(0.0f - low / scale, 0.0f), 255.0f));
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)out[0].data)[i] =
            (uint8_t)qb_quantize_value(x[i], scale, (int32_t)zero, QB_DTYPE_U8);
    if (node->n_out > 1 && node->out[1] >= 0) *(float *)out[1].data = scale;
    if (node->n_out > 2 && node->out[2] >= 0) *(uint8_t *)out[2].data = (uint8_t)zero;
    return QB_OK;
}

QB_OP_SIMPLE(dynamic_quantize_linear, "DynamicQuantizeLinear", 11, 1, 1, 3, 0, NULL, FLOAT,
             infer_dynamic, eval_dynamic, .types = "f32",
             .traits = QB_TRAIT_INTEGERS | QB_TRAIT_ALL_OUTPUTS,
             .kernel = {QB_KIND_DYNAMIC_QUANTIZE});
