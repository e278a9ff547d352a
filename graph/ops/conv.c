/* Conv and ConvTranspose. */
#include "ops_internal.h"

QB_ATTRS(conv_attrs, QB_A_CONV);

QB_ATTRS(conv_transpose_attrs, QB_A_CONV,
         QB_A_INTS(qb_conv_attrs, output_padding, "output_padding", 0, QB_ATTR_BIG),
         QB_A_INTS(qb_conv_attrs, output_shape, "output_shape", 1, QB_ATTR_BIG));

/* The kernel's sizes from the weight, checked against kernel_shape. */
static qb_status spec_of(qb_ctx *cx, const qb_conv_attrs *attrs, const qb_shape *x,
                         const qb_shape *weight, qb_window_spec *spec) {
    *spec = (qb_window_spec){.auto_pad = attrs->auto_pad,
                             .strides = attrs->strides,
                             .pads = attrs->pads,
                             .dilations = attrs->dilations,
                             .n = x->rank - 2};
    if (spec->n < 1 || spec->n > 3)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected 1 to 3 spatial dimensions, got %d",
                       spec->n);
    QB_TRY(qb_attr_list_check(cx, "kernel_shape", &attrs->kernel_shape, spec->n, 1));
    for (int32_t d = 0; d < spec->n; d++) {
        int64_t given = attrs->kernel_shape.n ? attrs->kernel_shape.v[d] : QB_DIM_UNKNOWN;
        int64_t size = weight && weight->rank == x->rank ? weight->dim[2 + d] : QB_DIM_UNKNOWN;
        if (given >= 0 && size >= 0 && given != size)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "attribute kernel_shape: expected the weight's %lld, got %lld",
                           (long long)size, (long long)given);
        spec->kernel[d] = size >= 0 ? size : given;
    }
    return QB_OK;
}

qb_status qb_conv_window(qb_ctx *cx, const qb_conv_attrs *attrs, const qb_shape *x,
                         const qb_shape *weight, qb_window *window, int64_t *out) {
    qb_window_spec spec;
    int64_t unused[3];
    QB_TRY(spec_of(cx, attrs, x, weight, &spec));
    QB_TRY(qb_window_begin(cx, &spec, window));
    return qb_window_resolve(cx, &spec, x->dim + 2, window, out ? out : unused);
}

/* One dimension: the padding that makes the given (or SAME) output size, then the output size. */
static qb_status transpose_size(qb_ctx *cx, const qb_conv_attrs *attrs, int32_t d, int64_t in,
                                qb_window *w, int64_t *out) {
    bool lower, same = qb_auto_pad_same(attrs->auto_pad, &lower);
    int64_t wanted = attrs->output_shape.n ? attrs->output_shape.v[d] : QB_DIM_UNKNOWN;
    *out = wanted;
    if (in < 0 || w->kernel[d] < 0) return QB_OK;
    if (in > QB_ATTR_BIG)
        return qb_fail(cx, QB_STATUS_INVALID, "spatial dimension %d: %lld is too large", d,
                       (long long)in);
    int64_t extra = attrs->output_padding.n ? attrs->output_padding.v[d] : 0;
    int64_t full = w->stride[d] * (in - 1) + extra + (w->kernel[d] - 1) * w->dilation[d] + 1;
    if (wanted < 0 && same) wanted = in * w->stride[d];
    if (wanted >= 0) {
        int64_t total = full - wanted > 0 ? full - wanted : 0;
        bool upper = same && !lower;
        w->pad_begin[d] = upper ? total / 2 : total - total / 2;
        w->pad_end[d] = total - w->pad_begin[d];
        *out = wanted;
        return QB_OK;
    }
    *out = full - w->pad_begin[d] - w->pad_end[d];
    if (in == 0 || *out < 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "spatial dimension %d: size %lld gives output size %lld", d, (long long)in,
                       (long long)*out);
    return QB_OK;
}

qb_status qb_conv_transpose_window(qb_ctx *cx, const qb_conv_attrs *attrs, const qb_shape *x,
                                   const qb_shape *weight, qb_window *window, int64_t *out) {
    qb_window_spec spec;
    int64_t unused[3];
    QB_TRY(spec_of(cx, attrs, x, weight, &spec));
    QB_TRY(qb_window_begin(cx, &spec, window));
    QB_TRY(qb_attr_list_check(cx, "output_padding", &attrs->output_padding, spec.n, 0));
    QB_TRY(qb_attr_list_check(cx, "output_shape", &attrs->output_shape, spec.n, 1));
    for (int32_t d = 0; d < spec.n; d++)
        QB_TRY(transpose_size(cx, attrs, d, x->dim[2 + d], window, out ? &out[d] : &unused[d]));
    return QB_OK;
}

/* Channels against weight, group and bias. For Conv the weight is [M, C/g, k...], for ConvTranspose
 * [C, M/g, k...]. *m is the number of output channels or unknown. */
static qb_status check_channels(qb_ctx *cx, const qb_infer_args *args, bool transpose, int64_t *m) {
    const qb_conv_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *w = qb_infer_in(args, 1);
    const qb_value *bias = qb_infer_in(args, 2);
    int64_t group = attrs->group, c = x->shape.dim[1];
    if (group < 1 || group > QB_ATTR_BIG)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute group: expected at least 1, got %lld",
                       (long long)group);
    if (c >= 0 && c % group != 0)
        return qb_fail(cx, QB_STATUS_INVALID, "%lld input channels are not divisible by group %lld",
                       (long long)c, (long long)group);
    *m = QB_DIM_UNKNOWN;
    if (w->shape.rank < 0) return QB_OK;
    int64_t w0 = w->shape.dim[0], w1 = w->shape.dim[1];
    if (transpose) {
        QB_TRY(qb_expect_dim(cx, "weight dimension 0 (input channels)", c, w0));
        QB_TRY(qb_dim_mul(cx, w1, group, m));
    } else {
        QB_TRY(qb_expect_dim(cx, "weight dimension 1 (input channels / group)",
                             c >= 0 ? c / group : QB_DIM_UNKNOWN, w1));
        if (w0 >= 0 && w0 % group != 0)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "%lld output channels are not divisible by group %lld", (long long)w0,
                           (long long)group);
        *m = w0;
    }
    if (bias && bias->shape.rank == 1)
        QB_TRY(qb_expect_dim(cx, "bias size (output channels)", *m, bias->shape.dim[0]));
    return QB_OK;
}

static qb_status infer(qb_ctx *cx, const qb_infer_args *args, bool transpose) {
    const qb_conv_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0), *w = qb_infer_in(args, 1);
    qb_shape out = {.rank = -1};
    QB_TRY(qb_infer_same_type(cx, args, 1));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    QB_TRY(qb_infer_rank(cx, args, 2, 1, 1));
    if (x->shape.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 5));
    QB_TRY(qb_infer_rank(cx, args, 1, x->shape.rank, x->shape.rank));
    qb_window window;
    out = (qb_shape){.rank = x->shape.rank, .dim = {x->shape.dim[0]}};
    QB_TRY(check_channels(cx, args, transpose, &out.dim[1]));
    QB_TRY((transpose ? qb_conv_transpose_window : qb_conv_window)(cx, attrs, &x->shape, &w->shape,
                                                                   &window, out.dim + 2));
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status infer_conv(qb_ctx *cx, const qb_infer_args *args) {
    return infer(cx, args, false);
}

static qb_status infer_conv_transpose(qb_ctx *cx, const qb_infer_args *args) {
    return infer(cx, args, true);
}

static qb_status eval(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                      qb_kind kind) {
    const qb_conv_attrs *attrs = node->attrs;
    qb_desc desc[3] = {in[0].desc, in[1].desc};
    const void *data[3] = {in[0].data, in[1].data};
    qb_problem p = {.kind = kind, .n_in = 2, .in = desc, .out = out[0].desc, .group = attrs->group};
    if (qb_eval_has(node, in, 2)) {
        desc[2] = in[2].desc, data[2] = in[2].data;
        p.n_in = 3;
    }
    QB_TRY(qb_op_window(cx, node, &in[0].desc.shape, &in[1].desc.shape, &p.window));
    if (kind == QB_KIND_CONV)
        qb_ref_conv(&p, data, out[0].data, qb_threads(cx));
    else
        qb_ref_conv_transpose(&p, data, out[0].data, qb_threads(cx));
    return QB_OK;
}

static qb_status eval_conv(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    QB_EVAL_IN_F32(eval_conv);
    return eval(cx, node, in, out, QB_KIND_CONV);
}

static qb_status eval_conv_transpose(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                     qb_tensor *out) {
    QB_EVAL_IN_F32(eval_conv_transpose);
    return eval(cx, node, in, out, QB_KIND_CONV_TRANSPOSE);
}

QB_OP(conv, "Conv", "", 7, 2, 3, 1, sizeof(qb_conv_attrs), conv_attrs, COMPUTE, infer_conv,
      eval_conv, .weight_input = 1, .weight_axis = 0, .types = QB_TYPES_FLOATS,
      .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW, .kernel = {QB_KIND_CONV});

QB_OP(conv_transpose, "ConvTranspose", "", 7, 2, 3, 1, sizeof(qb_conv_attrs), conv_transpose_attrs,
      COMPUTE, infer_conv_transpose, eval_conv_transpose, .weight_input = 1, .weight_axis = 1,
      .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW,
      .kernel = {QB_KIND_CONV_TRANSPOSE});
