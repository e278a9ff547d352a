/* MaxPool, AveragePool, LpPool and their global forms. */
#include <math.h>

#include "ops_internal.h"

#define COMMON                                                                                     \
    QB_A_STRING(qb_pool_attrs, auto_pad, "auto_pad", "NOTSET"), QB_A_WINDOW(qb_pool_attrs),        \
        QB_A_INT(qb_pool_attrs, ceil_mode, "ceil_mode", 0, 0, 1)

QB_ATTRS(max_attrs, COMMON, QB_A_INT(qb_pool_attrs, storage_order, "storage_order", 0, 0, 1));
QB_ATTRS(average_attrs, COMMON,
         QB_A_INT(qb_pool_attrs, count_include_pad, "count_include_pad", 0, 0, 1));

qb_status qb_pool_window(qb_ctx *cx, const qb_pool_attrs *attrs, const qb_shape *x,
                         qb_window *window, int64_t *out) {
    qb_window_spec spec = {.auto_pad = attrs->auto_pad,
                           .strides = attrs->strides,
                           .pads = attrs->pads,
                           .dilations = attrs->dilations,
                           .n = x->rank - 2,
                           .ceil_mode = attrs->ceil_mode != 0};
    int64_t unused[3];
    if (attrs->kernel_shape.n == 0)
        return qb_fail(cx, QB_STATUS_INVALID, "attribute kernel_shape is required");
    if (spec.n < 1 || spec.n > 3)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected 1 to 3 spatial dimensions, got %d",
                       spec.n);
    QB_TRY(qb_attr_list_check(cx, "kernel_shape", &attrs->kernel_shape, spec.n, 1));
    for (int32_t d = 0; d < spec.n; d++) spec.kernel[d] = attrs->kernel_shape.v[d];
    QB_TRY(qb_window_begin(cx, &spec, window));
    return qb_window_resolve(cx, &spec, x->dim + 2, window, out ? out : unused);
}

qb_status qb_global_window(qb_ctx *cx, const qb_shape *x, qb_window *window) {
    if (x->rank < 3 || x->rank > 5)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected 1 to 3 spatial dimensions, got %d",
                       x->rank - 2);
    *window = (qb_window){.n = x->rank - 2};
    for (int32_t d = 0; d < window->n; d++) {
        window->kernel[d] = x->dim[2 + d];
        window->stride[d] = window->dilation[d] = 1;
    }
    return QB_OK;
}

static qb_status infer_pool(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = {.rank = -1};
    if (x->shape.rank >= 0) {
        QB_TRY(qb_infer_rank(cx, args, 0, 3, 5));
        qb_window window;
        out = x->shape;
        QB_TRY(qb_pool_window(cx, qb_infer_at(args)->attrs, &x->shape, &window, out.dim + 2));
    }
    QB_TRY(qb_infer_set(cx, args, 1, QB_DTYPE_S64, &out));
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status infer_global(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, 0);
    qb_shape out = x->shape;
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 5));
    for (int32_t d = 2; d < out.rank; d++) out.dim[d] = 1;
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

static qb_status eval(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                      qb_pool_kind kind) {
    qb_dtype dtype = in[0].desc.dtype;
    bool small = dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8; /* exact in float */
    if (dtype != QB_DTYPE_F32 && !(kind == QB_POOL_MAX && small))
        return qb_eval_refuse(cx, node, dtype);
    qb_problem p = {
        .kind = QB_KIND_POOL, .n_in = 1, .in = &in[0].desc, .out = out[0].desc, .pool = kind};
    const void *data[1] = {in[0].data};
    QB_TRY(qb_op_window(cx, node, &in[0].desc.shape, NULL, &p.window));
    bool wants_indices = node->n_out > 1 && node->out[1] >= 0;
    void *values = out[0].data;
    QB_RELEASED(qb_temp_give_at) void *unwanted = NULL;
    if (node->out[0] < 0) {
        p.out = (qb_desc){.dtype = QB_DTYPE_F32, .shape = out[1].desc.shape, .q.axis = -1};
        values = unwanted = qb_temp_take(cx, qb_desc_bytes(&p.out), 1);
        if (!values) return cx->code;
    }
    qb_ref_pool(&p, data, values, wants_indices ? out[1].data : NULL, qb_threads(cx));
    return QB_OK;
}

/* storage_order 1 counts positions with the first spatial dimension fastest. */
static void column_major(const qb_shape *x, const qb_shape *y, int64_t *index) {
    const int64_t plane = qb_shape_span(x, 2, x->rank), count = qb_shape_count(y);
    if (plane == 0) return;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = index[i] % plane, moved = 0, stride = plane;
        for (int32_t d = x->rank - 1; d >= 2; d--) {
            stride /= x->dim[d];
            moved += at % x->dim[d] * stride;
            at /= x->dim[d];
        }
        index[i] = index[i] / plane * plane + moved;
    }
}

static qb_status eval_max(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const qb_pool_attrs *attrs = node->attrs;
    if (qb_eval_widens(node, in, true)) return qb_eval_widened(cx, node, in, out, eval_max);
    QB_TRY(eval(cx, node, in, out, QB_POOL_MAX));
    if (attrs->storage_order && node->n_out > 1 && node->out[1] >= 0)
        column_major(&in[0].desc.shape, &out[1].desc.shape, out[1].data);
    return QB_OK;
}

static qb_status eval_average(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                              qb_tensor *out) {
    const qb_pool_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_average);
    return eval(cx, node, in, out,
                attrs->count_include_pad ? QB_POOL_AVG_INCLUDE_PAD : QB_POOL_AVG);
}

static qb_status eval_global_max(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                 qb_tensor *out) {
    QB_EVAL_IN_F32(eval_global_max);
    return eval(cx, node, in, out, QB_POOL_MAX);
}

static qb_status eval_global_average(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                     qb_tensor *out) {
    QB_EVAL_IN_F32(eval_global_average);
    return eval(cx, node, in, out, QB_POOL_AVG);
}

QB_OP_SIMPLE(max_pool, "MaxPool", 7, 1, 1, 2, sizeof(qb_pool_attrs), max_attrs, SAME_SCALE,
             infer_pool, eval_max, .types = QB_TYPES_FLOATS ", u8, s8",
             .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW,
             .kernel = {QB_KIND_POOL, .pool = QB_POOL_MAX});
QB_OP_SIMPLE(average_pool, "AveragePool", 7, 1, 1, 1, sizeof(qb_pool_attrs), average_attrs, ELTWISE,
             infer_pool, eval_average, .types = QB_TYPES_FLOATS,
             .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW,
             .kernel = {QB_KIND_POOL, .pool = QB_POOL_AVG});
QB_OP_SIMPLE(global_max_pool, "GlobalMaxPool", 7, 1, 1, 1, 0, NULL, SAME_SCALE, infer_global,
             eval_global_max, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE,
             .kernel = {QB_KIND_POOL, .pool = QB_POOL_MAX});
QB_OP_SIMPLE(global_average_pool, "GlobalAveragePool", 7, 1, 1, 1, 0, NULL, ELTWISE, infer_global,
             eval_global_average, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE,
             .kernel = {QB_KIND_POOL, .pool = QB_POOL_AVG});

/* --- LpPool: the p-norm of each window ------------------------------------------------------- */

typedef struct lp_attrs {
    qb_pool_attrs pool; /* first, as the table's rows of all pools have it */
    int64_t p;
} lp_attrs;
QB_ATTRS(lp_table, COMMON, QB_A_INT(lp_attrs, p, "p", 2, 1, QB_ATTR_BIG));
QB_ATTRS(global_lp_table, QB_A_INT(lp_attrs, p, "p", 2, 1, QB_ATTR_BIG));

/* The elements of a window that lie inside the data, in one dimension: first, first + step ... */
static void inside(const qb_window *w, int32_t d, int64_t size, int64_t place, int64_t *first,
                   int64_t *n) {
    const int64_t start = place * w->stride[d] - w->pad_begin[d], step = w->dilation[d];
    const int64_t skip = start < 0 ? (-start + step - 1) / step : 0;
    *first = start + skip * step;
    const int64_t fit = *first < size ? (size - 1 - *first) / step + 1 : 0;
    *n = w->kernel[d] - skip < fit ? w->kernel[d] - skip : fit;
    if (*n < 0) *n = 0;
}

/* The window whose place among the outputs has row-major number `place`. */
static double norm_of(const float *x, const qb_shape *shape, const qb_shape *out,
                      const qb_window *w, int64_t place, double p) {
    int64_t first[3], n[3], stride[3], count = 1, next = 1;
    double sum = 0.0;
    for (int32_t d = w->n - 1; d >= 0; d--) {
        inside(w, d, shape->dim[2 + d], place % out->dim[2 + d], &first[d], &n[d]);
        place /= out->dim[2 + d];
        stride[d] = next;
        next *= shape->dim[2 + d];
        count *= n[d];
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0;
        for (int32_t d = w->n - 1; d >= 0; d--) {
            at += (first[d] + rest % n[d] * w->dilation[d]) * stride[d];
            rest /= n[d];
        }
        sum += pow(fabs((double)x[at]), p);
    }
    return pow(sum, 1.0 / p);
}

static qb_status run_lp(const qb_node *node, const qb_window *w, const qb_tensor *in,
                        qb_tensor *out) {
    const lp_attrs *attrs = node->attrs;
    const qb_shape *x = &in[0].desc.shape, *y = &out[0].desc.shape;
    const int64_t plane = qb_shape_span(x, 2, x->rank), places = qb_shape_span(y, 2, x->rank);
    for (int64_t i = 0, n = qb_shape_count(y); i < n; i++)
        ((float *)out[0].data)[i] = (float)norm_of((const float *)in[0].data + i / places * plane,
                                                   x, y, w, i % places, (double)attrs->p);
    return QB_OK;
}

static qb_status eval_lp(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const lp_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_lp);
    qb_window w;
    QB_TRY(qb_pool_window(cx, &attrs->pool, &in[0].desc.shape, &w, NULL));
    return run_lp(node, &w, in, out);
}

static qb_status eval_global_lp(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                qb_tensor *out) {
    QB_EVAL_IN_F32(eval_global_lp);
    qb_window w;
    QB_TRY(qb_global_window(cx, &in[0].desc.shape, &w));
    return run_lp(node, &w, in, out);
}

QB_OP_SIMPLE(lp_pool, "LpPool", 7, 1, 1, 1, sizeof(lp_attrs), lp_table, FLOAT, infer_pool, eval_lp,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW);
QB_OP_SIMPLE(global_lp_pool, "GlobalLpPool", 7, 1, 1, 1, sizeof(lp_attrs), global_lp_table, FLOAT,
             infer_global, eval_global_lp, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE);
