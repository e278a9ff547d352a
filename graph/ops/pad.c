/* Pad: constant, reflect, edge and wrap; negative pads crop. CenterCropPad. */
#include "ops_internal.h"

QB_ATTRS(pad_table, QB_A_STRING(qb_pad_attrs, mode, "mode", "constant"),
         QB_A_OLD_INTS(qb_pad_attrs, pads, "pads"),
         QB_A_OLD_FLOAT(qb_pad_attrs, value, "value", 0.0f));

typedef enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } pad_mode;

static qb_status mode_of(qb_ctx *cx, const qb_pad_attrs *attrs, pad_mode *mode) {
    static const char *const text[] = {"constant", "reflect", "edge", "wrap"};
    for (int i = 0; i < 4; i++)
        if (strcmp(attrs->mode, text[i]) == 0) {
            *mode = (pad_mode)i;
            return QB_OK;
        }
    return qb_fail(cx, QB_STATUS_INVALID,
                   "attribute mode: expected constant, reflect, edge or wrap, got '%s'",
                   attrs->mode);
}

/* Spreads the list of pads (all begins, then all ends) over the dimensions. n_axes < 0: all. */
static qb_status spread(qb_ctx *cx, const int64_t *pads, int32_t n_pads, const int64_t *axes,
                        int32_t n_axes, int32_t rank, int64_t *begin, int64_t *end) {
    int32_t n = n_axes < 0 ? rank : n_axes;
    uint32_t mask;
    if (n_pads != 2 * n)
        return qb_fail(cx, QB_STATUS_INVALID, "pads: expected %d values, got %d", 2 * n, n_pads);
    if (n_axes >= 0) QB_TRY(qb_axes_resolve(cx, axes, n_axes, rank, &mask));
    for (int32_t d = 0; d < rank; d++) begin[d] = end[d] = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t axis = n_axes < 0 ? i : axes[i] < 0 ? axes[i] + rank : axes[i];
        if (pads[i] > QB_ATTR_BIG || pads[i] < -QB_ATTR_BIG || pads[n + i] > QB_ATTR_BIG ||
            pads[n + i] < -QB_ATTR_BIG)
            return qb_fail(cx, QB_STATUS_INVALID, "pads: %lld and %lld are out of range",
                           (long long)pads[i], (long long)pads[n + i]);
        begin[axis] = pads[i];
        end[axis] = pads[n + i];
    }
    return QB_OK;
}

static qb_status infer_pad(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    int64_t pads[2 * QB_MAX_RANK], axes[QB_MAX_RANK], begin[QB_MAX_RANK], end[QB_MAX_RANK];
    int32_t n_pads, n_axes;
    qb_shape out = x->shape;
    pad_mode mode = PAD_CONSTANT;
    QB_TRY(mode_of(cx, qb_infer_at(args)->attrs, &mode));
    QB_TRY(qb_infer_same_type(cx, args, 2));
    QB_TRY(qb_infer_ints(cx, args, 1, pads, 2 * QB_MAX_RANK, &n_pads));
    QB_TRY(qb_infer_ints(cx, args, 3, axes, QB_MAX_RANK, &n_axes));
    if (out.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    if (n_pads < 0 || (n_axes < 0 && qb_infer_in(args, 3))) {
        out = qb_shape_unknown(out.rank);
        return qb_infer_set(cx, args, 0, x->dtype, &out);
    }
    QB_TRY(spread(cx, pads, n_pads, axes, n_axes, out.rank, begin, end));
    for (int32_t d = 0; d < out.rank; d++) {
        int64_t size = out.dim[d], sum = begin[d] + end[d];
        if (size < 0) {
            if (begin[d] != 0 || end[d] != 0) out.dim[d] = QB_DIM_UNKNOWN;
            continue;
        }
        if (__builtin_add_overflow(size, sum, &out.dim[d]) || out.dim[d] < 0)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "dimension %d: size %lld cannot be padded by %lld", d, (long long)size,
                           (long long)sum);
        if (size == 0 && out.dim[d] > 0 && mode != PAD_CONSTANT)
            return qb_fail(cx, QB_STATUS_INVALID, "dimension %d: nothing to repeat", d);
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* Where output index `at` comes from in a dimension of size n; -1: the constant. */
static int64_t source(pad_mode mode, int64_t at, int64_t n) {
    if (at >= 0 && at < n) return at;
    switch (mode) {
    case PAD_EDGE: return at < 0 ? 0 : n - 1;
    case PAD_WRAP: return ((at % n) + n) % n;
    case PAD_REFLECT: {
        if (n == 1) return 0;
        int64_t period = 2 * (n - 1), k = ((at % period) + period) % period;
        return k < n ? k : period - k;
    }
    case PAD_CONSTANT: break;
    }
    return -1;
}

/* One row of the output from the input row at `from` (NULL: all constant). */
static void pad_row(pad_mode mode, const char *from, int64_t x_size, int64_t begin, char *to,
                    int64_t y_size, const char *value, size_t size) {
    int64_t i = 0;
    while (i < y_size) {
        int64_t at = from ? source(mode, i - begin, x_size) : -1, n = 1;
        if (at < 0) {
            memcpy(to + (size_t)i * size, value, size);
        } else {
            bool inside = i - begin == at; /* the run up to the end of the input row */
            if (inside) n = x_size - at < y_size - i ? x_size - at : y_size - i;
            memcpy(to + (size_t)i * size, from + (size_t)at * size, (size_t)n * size);
        }
        i += n;
    }
}

static qb_status eval_pad(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    int64_t pads[2 * QB_MAX_RANK], axes[QB_MAX_RANK], begin[QB_MAX_RANK], end[QB_MAX_RANK];
    int32_t n_pads, n_axes = -1;
    pad_mode mode = PAD_CONSTANT;
    QB_TRY(mode_of(cx, node->attrs, &mode));
    QB_TRY(qb_eval_ints(cx, &in[1], pads, 2 * QB_MAX_RANK, &n_pads));
    if (qb_eval_has(node, in, 3)) QB_TRY(qb_eval_ints(cx, &in[3], axes, QB_MAX_RANK, &n_axes));
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    QB_TRY(spread(cx, pads, n_pads, axes, n_axes, x->rank, begin, end));
    size_t size = qb_dtype_size(in[0].desc.dtype);
    static const char zeros[8];
    bool given = qb_eval_has(node, in, 2) && qb_shape_count(&in[2].desc.shape) > 0;
    const char *value = given ? in[2].data : zeros;
    int32_t last = y->rank - 1;
    if (last < 0) return qb_eval_same_bytes(cx, node, in, out);
    int64_t stride[QB_MAX_RANK], index[QB_MAX_RANK] = {0}, count = qb_shape_count(y);
    qb_strides_of(x, stride);
    for (int64_t at = 0; at < count; at += y->dim[last]) {
        int64_t from = 0;
        for (int32_t d = 0; d < last && from >= 0; d++) {
            int64_t k = source(mode, index[d] - begin[d], x->dim[d]);
            from = k < 0 ? -1 : from + k * stride[d];
        }
        pad_row(mode, from < 0 ? NULL : (const char *)in[0].data + (size_t)from * size,
                x->dim[last], begin[last], (char *)out[0].data + (size_t)at * size, y->dim[last],
                value, size);
        for (int32_t d = last - 1; d >= 0; d--) {
            if (++index[d] < y->dim[d]) break;
            index[d] = 0;
        }
    }
    return QB_OK;
}

static qb_status upgrade_pad(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    if (version >= 11) return QB_OK;
    qb_pad_attrs *attrs = graph->nodes[node].attrs;
    qb_shape scalar = {.rank = 0};
    int32_t pads, value;
    QB_TRY(qb_node_const_ints(cx, graph, node, "pads", attrs->pads.v, attrs->pads.n, &pads));
    QB_TRY(qb_node_input_set(cx, graph, node, 1, pads));
    if (attrs->value != 0.0f) {
        QB_TRY(qb_node_const_floats(cx, graph, node, "value", &scalar, &attrs->value, &value));
        QB_TRY(qb_node_input_set(cx, graph, node, 2, value));
    }
    attrs->pads = (qb_ints){0};
    attrs->value = 0.0f;
    return QB_OK;
}

QB_OP_SIMPLE(pad, "Pad", 7, 2, 4, 1, sizeof(qb_pad_attrs), pad_table, FLOAT, infer_pad, eval_pad,
             .upgrade = upgrade_pad, .bound = qb_bound_none, .traits = QB_TRAIT_ITEMWISE,
             .kernel = {.kind = QB_KIND_PAD});

/* --- CenterCropPad --------------------------------------------------------------------------- */

typedef struct center_attrs {
    qb_ints axes;
} center_attrs;
QB_ATTRS(center_table, QB_A_INTS(center_attrs, axes, "axes", 0, 0));

/* Puts `sizes` at their axes of `shape`: all of them, or those that the attribute lists. */
static qb_status set_sizes(qb_ctx *cx, const center_attrs *attrs, const int64_t *sizes, int32_t n,
                           qb_shape *shape) {
    const int32_t wanted = attrs->axes.n ? attrs->axes.n : shape->rank;
    uint32_t mask;
    QB_TRY(qb_axes_resolve(cx, attrs->axes.v, attrs->axes.n, shape->rank, &mask));
    if (n != wanted)
        return qb_fail(cx, QB_STATUS_INVALID, "shape: expected %d sizes, got %d", wanted, n);
    for (int32_t i = 0; i < n; i++) {
        const int64_t axis = attrs->axes.n ? attrs->axes.v[i] : i;
        if (sizes[i] < 0)
            return qb_fail(cx, QB_STATUS_INVALID, "shape: expected no negative size, got %lld",
                           (long long)sizes[i]);
        shape->dim[axis < 0 ? axis + shape->rank : axis] = sizes[i];
    }
    return QB_OK;
}

static qb_status infer_center(qb_ctx *cx, const qb_infer_args *args) {
    const center_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = x->shape;
    int64_t sizes[QB_MAX_RANK];
    int32_t n;
    QB_TRY(qb_infer_ints(cx, args, 1, sizes, QB_MAX_RANK, &n));
    if (out.rank >= 0) {
        if (n < 0)
            out = qb_shape_unknown(out.rank);
        else
            QB_TRY(set_sizes(cx, attrs, sizes, n, &out));
    }
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* What both have is copied, from the middle of the one to the middle of the other. */
static qb_status eval_center(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    const size_t size = qb_dtype_size(in[0].desc.dtype);
    qb_shape both = *x;
    int64_t from[QB_MAX_RANK], to[QB_MAX_RANK], stride_x[QB_MAX_RANK], stride_y[QB_MAX_RANK];
    (void)cx, (void)node;
    qb_strides_of(x, stride_x);
    qb_strides_of(y, stride_y);
    memset(out[0].data, 0, qb_desc_bytes(&out[0].desc));
    for (int32_t d = 0; d < x->rank; d++) {
        both.dim[d] = x->dim[d] < y->dim[d] ? x->dim[d] : y->dim[d];
        from[d] = (x->dim[d] - both.dim[d]) / 2;
        to[d] = (y->dim[d] - both.dim[d]) / 2;
    }
    for (int64_t i = 0, n = qb_shape_count(&both); i < n; i++) {
        int64_t rest = i, at_x = 0, at_y = 0;
        for (int32_t d = x->rank - 1; d >= 0; d--) {
            const int64_t k = rest % both.dim[d];
            rest /= both.dim[d];
            at_x += (from[d] + k) * stride_x[d];
            at_y += (to[d] + k) * stride_y[d];
        }
        memcpy((char *)out[0].data + (size_t)at_y * size,
               (const char *)in[0].data + (size_t)at_x * size, size);
    }
    return QB_OK;
}

QB_OP_SIMPLE(center_crop_pad, "CenterCropPad", 18, 2, 2, 1, sizeof(center_attrs), center_table,
             FLOAT, infer_center, eval_center, .bound = qb_bound_none);
