/* Sliding windows: defaults, auto_pad and output sizes. */
#include "ops_internal.h"

qb_status qb_attr_list_check(qb_ctx *cx, const char *name, const qb_ints *list, int32_t n,
                             int64_t low) {
    if (list->n != 0 && list->n != n)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute %s: expected %d values, got %d", name, n,
                       list->n);
    for (int32_t i = 0; i < list->n; i++)
        if (list->v[i] < low || list->v[i] > QB_ATTR_BIG)
            return qb_fail(cx, QB_STATUS_INVALID,
                           "attribute %s: expected values from %lld to %d, got %lld", name,
                           (long long)low, QB_ATTR_BIG, (long long)list->v[i]);
    return QB_OK;
}

bool qb_auto_pad_same(const char *auto_pad, bool *lower) {
    *lower = auto_pad && strcmp(auto_pad, "SAME_LOWER") == 0;
    return *lower || (auto_pad && strcmp(auto_pad, "SAME_UPPER") == 0);
}

static qb_status check_auto_pad(qb_ctx *cx, const char *auto_pad) {
    bool lower;
    if (!auto_pad || strcmp(auto_pad, "NOTSET") == 0 || strcmp(auto_pad, "VALID") == 0 ||
        qb_auto_pad_same(auto_pad, &lower))
        return QB_OK;
    return qb_fail(cx, QB_STATUS_INVALID,
                   "attribute auto_pad: expected NOTSET, SAME_UPPER, SAME_LOWER or VALID, got '%s'",
                   auto_pad);
}

qb_status qb_window_begin(qb_ctx *cx, const qb_window_spec *spec, qb_window *out) {
    if (spec->n < 1 || spec->n > 3)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected 1 to 3 spatial dimensions, got %d",
                       spec->n);
    QB_TRY(check_auto_pad(cx, spec->auto_pad));
    QB_TRY(qb_attr_list_check(cx, "strides", &spec->strides, spec->n, 1));
    QB_TRY(qb_attr_list_check(cx, "dilations", &spec->dilations, spec->n, 1));
    QB_TRY(qb_attr_list_check(cx, "pads", &spec->pads, 2 * spec->n, 0));
    *out = (qb_window){.n = spec->n};
    bool explicit_pads = !spec->auto_pad || strcmp(spec->auto_pad, "NOTSET") == 0;
    for (int32_t d = 0; d < spec->n; d++) {
        if (spec->kernel[d] == 0 || spec->kernel[d] > QB_ATTR_BIG)
            return qb_fail(cx, QB_STATUS_INVALID, "kernel size: expected 1 to %d, got %lld",
                           QB_ATTR_BIG, (long long)spec->kernel[d]);
        out->kernel[d] = spec->kernel[d];
        out->stride[d] = spec->strides.n ? spec->strides.v[d] : 1;
        out->dilation[d] = spec->dilations.n ? spec->dilations.v[d] : 1;
        if (explicit_pads && spec->pads.n) {
            out->pad_begin[d] = spec->pads.v[d];
            out->pad_end[d] = spec->pads.v[spec->n + d];
        }
    }
    return QB_OK;
}

/* SAME: ceil(in / stride) outputs; the odd element of padding goes to the end, or to the beginning
 * for SAME_LOWER. */
static int64_t pad_same(qb_window *w, int32_t d, int64_t in, int64_t extent, bool lower) {
    int64_t out = in / w->stride[d] + (in % w->stride[d] != 0);
    int64_t total = out > 0 ? (out - 1) * w->stride[d] + extent - in : 0;
    if (total < 0) total = 0;
    w->pad_begin[d] = lower ? total - total / 2 : total / 2;
    w->pad_end[d] = total - w->pad_begin[d];
    return out;
}

static qb_status out_size(qb_ctx *cx, const qb_window_spec *spec, int32_t d, int64_t in,
                          qb_window *w, int64_t *out) {
    bool lower, same = qb_auto_pad_same(spec->auto_pad, &lower);
    *out = QB_DIM_UNKNOWN;
    if (w->kernel[d] < 0) return QB_OK;
    int64_t extent = (w->kernel[d] - 1) * w->dilation[d] + 1; /* both below 2^31 */
    if (in < 0) { /* unknown, but a window may keep it */
        bool keeps = same || w->pad_begin[d] + w->pad_end[d] == extent - 1;
        if (w->stride[d] == 1 && keeps) *out = in;
        return QB_OK;
    }
    int64_t padded = in, pad = w->pad_begin[d] + w->pad_end[d];
    if (in > INT64_MAX / 4)
        return qb_fail(cx, QB_STATUS_INVALID, "spatial dimension %d: %lld is too large", d,
                       (long long)in);
    if (same) {
        *out = pad_same(w, d, in, extent, lower);
        return QB_OK;
    }
    padded += pad;
    if (padded < extent)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "spatial dimension %d: size %lld with padding %lld is smaller than the "
                       "window's extent %lld",
                       d, (long long)in, (long long)pad, (long long)extent);
    int64_t span = padded - extent;
    *out = span / w->stride[d] + 1;
    /* ceil_mode: one more when the last window is cut, if it starts inside the data or the padding
     * before it. */
    if (spec->ceil_mode && span % w->stride[d] != 0 && *out * w->stride[d] < in + w->pad_begin[d])
        ++*out;
    return QB_OK;
}

qb_status qb_window_resolve(qb_ctx *cx, const qb_window_spec *spec, const int64_t *in,
                            qb_window *window, int64_t *out) {
    for (int32_t d = 0; d < spec->n; d++) QB_TRY(out_size(cx, spec, d, in[d], window, &out[d]));
    return QB_OK;
}

qb_status qb_op_window(qb_ctx *cx, const qb_node *node, const qb_shape *x, const qb_shape *weight,
                       qb_window *out) {
    const char *name = node->op->name;
    if (strcmp(name, "Conv") == 0) return qb_conv_window(cx, node->attrs, x, weight, out, NULL);
    if (strcmp(name, "ConvTranspose") == 0)
        return qb_conv_transpose_window(cx, node->attrs, x, weight, out, NULL);
    if (strcmp(name, "MaxPool") == 0 || strcmp(name, "AveragePool") == 0)
        return qb_pool_window(cx, node->attrs, x, out, NULL);
    if (strcmp(name, "GlobalMaxPool") == 0 || strcmp(name, "GlobalAveragePool") == 0)
        return qb_global_window(cx, x, out);
    return qb_fail(cx, QB_STATUS_INVALID, "%s has no window", name);
}
