/* Spectra: DFT, STFT and the windows HannWindow, HammingWindow and BlackmanWindow. Sums and angles
 * are in double. */
#include <math.h>

#include "graph/rewrite_internal.h"
#include "kernels/fourier.h"
#include "ops_internal.h"

#define PI 3.14159265358979323846

/* Fails unless there is one number in `n` that is at least `low`. */
static qb_status expect_one(qb_ctx *cx, const char *what, int32_t n, int64_t v, int64_t low) {
    if (n == 1 && v >= low && v <= QB_ATTR_BIG) return QB_OK;
    if (n != 1) return qb_fail(cx, QB_STATUS_INVALID, "%s: expected one number, got %d", what, n);
    return qb_fail(cx, QB_STATUS_INVALID, "%s: expected %lld to %d, got %lld", what, (long long)low,
                   QB_ATTR_BIG, (long long)v);
}

/* The number in input i while inferring: QB_DIM_UNKNOWN when it is left out or not known. */
static qb_status infer_number(qb_ctx *cx, const qb_infer_args *args, int32_t i, const char *what,
                              int64_t low, int64_t *v) {
    int32_t n;
    *v = QB_DIM_UNKNOWN;
    QB_TRY(qb_infer_ints(cx, args, i, v, 1, &n));
    return n < 0 ? QB_OK : expect_one(cx, what, n, *v, low);
}

/* --- transforms ------------------------------------------------------------------------------ */

static qb_status transform(qb_ctx *cx, const qb_fourier *how, int32_t axis, const qb_tensor *x,
                           const float *window, qb_tensor *y) {
    const qb_fourier_plan plan = qb_fourier_plan_of(how, axis, &x->desc.shape, &y->desc.shape);
    const int64_t roots = qb_fourier_roots(&plan), workspace = qb_fourier_workspace(&plan);
    double *made = QB_NEW(cx, qb_temp_take(cx, (size_t)(roots + workspace), sizeof *made));
    qb_fourier_fill_roots(&plan, made);
    qb_fourier_run(&plan, made, x->data, window, 0, plan.lines, y->data, made + roots);
    qb_temp_give(made);
    return QB_OK;
}

/* --- DFT ------------------------------------------------------------------------------------- */

typedef struct dft_attrs {
    int64_t inverse, onesided, axis;
} dft_attrs;
QB_ATTRS(dft_table, QB_A_INT(dft_attrs, inverse, "inverse", 0, 0, 1),
         QB_A_INT(dft_attrs, onesided, "onesided", 0, 0, 1),
         QB_A_OLD_INT(dft_attrs, axis, "axis", 1));

/* Length of the transform when none is given. */
static int64_t default_length(const dft_attrs *attrs, int64_t n) {
    if (!attrs->inverse || !attrs->onesided) return n;
    return n < 0 ? QB_DIM_UNKNOWN : n > 0 ? 2 * (n - 1) : 0;
}

static int64_t bins_of(bool onesided, int64_t length) {
    if (!onesided) return length;
    return length < 0 ? QB_DIM_UNKNOWN : length / 2 + 1;
}

static qb_status infer_dft(qb_ctx *cx, const qb_infer_args *args) {
    const dft_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    const bool back_to_float = attrs->inverse && attrs->onesided;
    int64_t length, given = -2;
    int32_t n = 1, axis;
    QB_TRY(qb_infer_rank(cx, args, 0, 2, QB_MAX_RANK));
    QB_TRY(infer_number(cx, args, 1, "dft_length", 1, &length));
    if (qb_infer_in(args, 2)) QB_TRY(qb_infer_ints(cx, args, 2, &given, 1, &n));
    qb_shape out = x->shape;
    if (out.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    const int64_t parts = out.dim[out.rank - 1];
    if (parts >= 0 && parts != 2 && (parts != 1 || back_to_float))
        return qb_fail(cx, QB_STATUS_INVALID, "last dimension: expected %s, got %lld",
                       back_to_float ? "2" : "1 or 2", (long long)parts);
    if (parts == 2 && attrs->onesided && !attrs->inverse)
        return qb_fail(cx, QB_STATUS_INVALID, "onesided: expected a real signal");
    if (n == 1) {
        QB_TRY(qb_axis_resolve(cx, given, out.rank, &axis));
        if (axis == out.rank - 1)
            return qb_fail(cx, QB_STATUS_INVALID, "axis: expected any but the last dimension");
        if (!qb_infer_in(args, 1)) length = default_length(attrs, out.dim[axis]);
        out.dim[axis] = bins_of(attrs->onesided && !attrs->inverse, length);
    } else {
        out = qb_shape_unknown(out.rank);
    }
    out.dim[out.rank - 1] = back_to_float ? 1 : 2;
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status eval_dft(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const dft_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_dft);
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    int64_t length, given = -2;
    int32_t n = 1, axis;
    if (qb_eval_has(node, in, 2)) QB_TRY(qb_eval_ints(cx, &in[2], &given, 1, &n));
    QB_TRY(expect_one(cx, "axis", n, given, -x->rank));
    QB_TRY(qb_axis_resolve(cx, given, x->rank, &axis));
    length = default_length(attrs, x->dim[axis]);
    if (qb_eval_has(node, in, 1)) QB_TRY(qb_eval_ints(cx, &in[1], &length, 1, &n));
    if (qb_shape_count(y) == 0) return QB_OK;
    QB_TRY(expect_one(cx, "dft_length", n, length, 1));
    const qb_fourier how = {length, 0, attrs->inverse != 0, attrs->onesided != 0};
    return transform(cx, &how, axis, &in[0], NULL, &out[0]);
}

/* Before opset 20 the axis was an attribute. */
static qb_status upgrade_dft(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    dft_attrs *attrs = graph->nodes[node].attrs;
    int32_t id;
    if (version >= 20) return QB_OK;
    const qb_shape scalar = {.rank = 0};
    QB_TRY(qb_node_const_ints(cx, graph, node, "axis", &attrs->axis, 1, &id));
    graph->values[id].shape = scalar;
    attrs->axis = 1;
    return qb_node_input_set(cx, graph, node, 2, id);
}

QB_OP_SIMPLE(dft, "DFT", 17, 1, 3, 1, sizeof(dft_attrs), dft_table, FLOAT, infer_dft, eval_dft,
             .upgrade = upgrade_dft, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_WINDOW,
             .kernel = {QB_KIND_FOURIER});

/* --- STFT ------------------------------------------------------------------------------------ */

QB_ATTRS(stft_table, QB_A_INT(dft_attrs, onesided, "onesided", 1, 0, 1));

static qb_status infer_stft(qb_ctx *cx, const qb_infer_args *args) {
    const dft_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = qb_shape_unknown(4);
    int64_t step, length;
    QB_TRY(qb_infer_rank(cx, args, 0, 2, 3));
    QB_TRY(qb_infer_rank(cx, args, 2, 1, 1));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    QB_TRY(infer_number(cx, args, 1, "frame_step", 1, &step));
    QB_TRY(infer_number(cx, args, 3, "frame_length", 1, &length));
    const int64_t window = qb_infer_length(args, 2);
    if (window >= 0 && length >= 0 && window != length)
        return qb_fail(cx, QB_STATUS_INVALID, "window: expected frame_length %lld, got %lld",
                       (long long)length, (long long)window);
    out.dim[3] = 2;
    if (x->shape.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    const int64_t parts = x->shape.rank == 3 ? x->shape.dim[2] : 1, n = x->shape.dim[1];
    if (parts >= 0 && (parts < 1 || parts > (attrs->onesided ? 1 : 2)))
        return qb_fail(cx, QB_STATUS_INVALID, "last dimension: expected %s, got %lld",
                       attrs->onesided ? "1 (onesided)" : "1 or 2", (long long)parts);
    if (length < 0 && !qb_infer_in(args, 3)) length = qb_infer_in(args, 2) ? window : n;
    out.dim[0] = x->shape.dim[0];
    out.dim[2] = bins_of(attrs->onesided != 0, length);
    if (length >= 0 && n >= 0 && (length < 1 || length > n))
        return qb_fail(cx, QB_STATUS_INVALID, "frame_length: expected 1 to %lld, got %lld",
                       (long long)n, (long long)length);
    if (length >= 0 && n >= 0 && step >= 0) out.dim[1] = (n - length) / step + 1;
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status eval_stft(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_EVAL_IN_F32(eval_stft);
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    const bool has_window = qb_eval_has(node, in, 2);
    int64_t step, length = has_window ? qb_shape_count(&in[2].desc.shape) : x->dim[1];
    int32_t count;
    QB_TRY(qb_eval_ints(cx, &in[1], &step, 1, &count));
    QB_TRY(expect_one(cx, "frame_step", count, step, 1));
    if (qb_eval_has(node, in, 3)) QB_TRY(qb_eval_ints(cx, &in[3], &length, 1, &count));
    if (qb_shape_count(y) == 0) return QB_OK;
    QB_TRY(expect_one(cx, "frame_length", count, length, 1));
    const qb_fourier how = {.length = length, .step = step};
    return transform(cx, &how, 0, &in[0], has_window ? in[2].data : NULL, &out[0]);
}

QB_OP_SIMPLE(stft, "STFT", 17, 2, 4, 1, sizeof(dft_attrs), stft_table, FLOAT, infer_stft, eval_stft,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_WINDOW, .kernel = {QB_KIND_FOURIER});

/* --- for kernels ----------------------------------------------------------------------------- */

/* The number that input i holds; left alone where it is left out. */
static bool constant_number(const qb_graph *graph, const qb_node *node, int32_t i, int64_t *out) {
    const int32_t value = qb_node_in(node, i);
    int32_t n;
    return value < 0 || (qb_value_int_list(graph, value, out, 1, &n) && n == 1);
}

bool qb_node_fourier(const qb_graph *graph, const qb_node *node, qb_fourier *out, int32_t *axis) {
    const dft_attrs *attrs = node->attrs;
    const qb_shape *x = &graph->values[node->in[0]].shape;
    const bool frames = qb_attr_find(node->op, "inverse") == NULL;
    int64_t along = frames ? 0 : -2;
    *out = (qb_fourier){.length = x->dim[1], .onesided = attrs->onesided != 0};
    if (frames) {
        const int32_t window = qb_node_in(node, 2);
        if (window >= 0) out->length = qb_shape_count(&graph->values[window].shape);
        return constant_number(graph, node, 1, &out->step) && out->step > 0 &&
               constant_number(graph, node, 3, &out->length) && out->length > 0;
    }
    if (!constant_number(graph, node, 2, &along)) return false;
    *axis = (int32_t)(along < 0 ? along + x->rank : along);
    if (*axis < 0 || *axis >= x->rank - 1) return false;
    out->inverse = attrs->inverse != 0;
    out->length = default_length(attrs, x->dim[*axis]);
    return constant_number(graph, node, 1, &out->length) && out->length > 0;
}

/* --- windows --------------------------------------------------------------------------------- */

typedef struct window_attrs {
    int64_t output_datatype, periodic;
} window_attrs;
QB_ATTRS(window_table, QB_A_INT(window_attrs, output_datatype, "output_datatype", 1, 0, 63),
         QB_A_INT(window_attrs, periodic, "periodic", 1, 0, 1));

static qb_status output_type(qb_ctx *cx, int64_t code, qb_dtype *dtype) {
    *dtype = qb_dtype_from_onnx((int)code);
    if (*dtype != QB_DTYPE_NONE) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                   "attribute output_datatype: type %lld is not supported", (long long)code);
}

static qb_status infer_window(qb_ctx *cx, const qb_infer_args *args) {
    const window_attrs *attrs = qb_infer_at(args)->attrs;
    qb_shape out = qb_shape_unknown(1);
    qb_dtype dtype;
    QB_TRY(output_type(cx, attrs->output_datatype, &dtype));
    QB_TRY(infer_number(cx, args, 0, "size", 0, &out.dim[0]));
    return qb_infer_set(cx, args, 0, dtype, &out);
}

/* sum over i of c[i] cos(2 pi i k / n), n the size or, unless periodic, one less */
static qb_status eval_window(const qb_node *node, const double c[3], qb_tensor *out) {
    const window_attrs *attrs = node->attrs;
    const int64_t size = qb_shape_count(&out[0].desc.shape);
    const double n = (double)(attrs->periodic ? size : size - 1);
    for (int64_t k = 0; k < size; k++) {
        const double angle = 2 * PI * (double)k / n;
        qb_number_put(out[0].desc.dtype, out[0].data, k,
                      c[0] + c[1] * cos(angle) + c[2] * cos(2 * angle));
    }
    return QB_OK;
}

#define WINDOW(SYMBOL, NAME, ...)                                                                  \
    static qb_status eval_##SYMBOL(qb_ctx *cx, const qb_node *node, const qb_tensor *in,           \
                                   qb_tensor *out) {                                               \
        static const double c[3] = {__VA_ARGS__};                                                  \
        (void)cx, (void)in;                                                                        \
        return eval_window(node, c, out);                                                          \
    }                                                                                              \
    QB_OP_SIMPLE(SYMBOL, NAME, 17, 1, 1, 1, sizeof(window_attrs), window_table, FLOAT,             \
                 infer_window, eval_##SYMBOL, .types = QB_TYPES_NUMBERS)
WINDOW(hann_window, "HannWindow", 0.5, -0.5);
WINDOW(hamming_window, "HammingWindow", 25.0 / 46.0, -21.0 / 46.0);
WINDOW(blackman_window, "BlackmanWindow", 0.42, -0.5, 0.08);
