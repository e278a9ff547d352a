/* Attention (opset 23 to 25) and RotaryEmbedding. */
#include <math.h>

#include "build_internal.h"

typedef struct attention_attrs {
    int64_t is_causal, q_num_heads, kv_num_heads, qk_matmul_output_mode, softmax_precision;
    int64_t left_window_size, right_window_size; /* -1: open on that side */
    float scale;                                 /* NaN: 1 / sqrt(head size) */
    float softcap;
} attention_attrs;
QB_ATTRS(attention_table, QB_A_INT(attention_attrs, is_causal, "is_causal", 0, 0, 1),
         QB_A_INT(attention_attrs, kv_num_heads, "kv_num_heads", 0, 0, QB_ATTR_BIG),
         QB_A_INT(attention_attrs, left_window_size, "left_window_size", -1, -1, QB_ATTR_BIG),
         QB_A_INT(attention_attrs, q_num_heads, "q_num_heads", 0, 0, QB_ATTR_BIG),
         QB_A_INT(attention_attrs, qk_matmul_output_mode, "qk_matmul_output_mode", 0, 0, 3),
         QB_A_INT(attention_attrs, right_window_size, "right_window_size", -1, -1, QB_ATTR_BIG),
         QB_A_FLOAT(attention_attrs, scale, "scale", NAN),
         QB_A_FLOAT(attention_attrs, softcap, "softcap", 0.0f),
         QB_A_INT(attention_attrs, softmax_precision, "softmax_precision", 0, 0, 0));

enum { IN_Q, IN_K, IN_V, IN_MASK, IN_PAST_KEY, IN_PAST_VALUE, IN_LENGTHS, N_ATTENTION_IN };
/* What the output qk_matmul_output shows. */
enum { SHOW_PRODUCT, SHOW_SOFTCAP, SHOW_BIAS, SHOW_SOFTMAX };

/* Q, K or V as [batch, heads, length, size], whatever its rank, with its strides. */
typedef struct heads {
    int64_t batch, heads, length, size;
    int64_t stride[4];
} heads;

/* Wraps where a size is not known yet or absurd: strides are used only when memory holds it all. */
static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static qb_status heads_of(qb_ctx *cx, const char *what, const qb_shape *shape, int64_t n_heads,
                          heads *out) {
    const int64_t *dim = shape->dim;
    if (shape->rank == 4) {
        *out = (heads){dim[0], dim[1], dim[2], dim[3], {0}};
        out->stride[1] = times(dim[2], dim[3]);
        out->stride[0] = times(dim[1], out->stride[1]);
        out->stride[2] = dim[3];
    } else {
        if (n_heads < 1 || (dim[2] >= 0 && dim[2] % n_heads != 0))
            return qb_fail(cx, QB_STATUS_INVALID,
                           "%s: expected a multiple of %lld heads, got size %lld", what,
                           (long long)n_heads, (long long)dim[2]);
        int64_t size = dim[2] < 0 ? QB_DIM_UNKNOWN : dim[2] / n_heads;
        *out = (heads){dim[0], n_heads, dim[1], size, {0}};
        out->stride[0] = times(dim[1], dim[2]);
        out->stride[1] = size;
        out->stride[2] = dim[2];
    }
    out->stride[3] = 1;
    return QB_OK;
}

typedef struct attention {
    heads q, k, v;
    int64_t past, total; /* cached positions, and with the new ones */
} attention;

/* Sizes from shapes, which may have unknown dimensions. `past` shapes may be NULL. */
static qb_status attention_of(qb_ctx *cx, const attention_attrs *attrs, const qb_shape *const *in,
                              attention *a) {
    QB_TRY(heads_of(cx, "query", in[IN_Q], attrs->q_num_heads, &a->q));
    QB_TRY(heads_of(cx, "key", in[IN_K], attrs->kv_num_heads, &a->k));
    QB_TRY(heads_of(cx, "value", in[IN_V], attrs->kv_num_heads, &a->v));
    QB_TRY(qb_expect_dim(cx, "key: batch", a->q.batch, a->k.batch));
    QB_TRY(qb_expect_dim(cx, "value: batch", a->q.batch, a->v.batch));
    QB_TRY(qb_expect_dim(cx, "key: head size", a->q.size, a->k.size));
    QB_TRY(qb_expect_dim(cx, "value: heads", a->k.heads, a->v.heads));
    QB_TRY(qb_expect_dim(cx, "value: length", a->k.length, a->v.length));
    if (a->q.heads >= 0 && a->k.heads >= 0 && (a->k.heads == 0 || a->q.heads % a->k.heads != 0))
        return qb_fail(cx, QB_STATUS_INVALID, "%lld query heads do not share %lld key heads evenly",
                       (long long)a->q.heads, (long long)a->k.heads);
    a->past = in[IN_PAST_KEY] ? in[IN_PAST_KEY]->dim[2] : 0;
    a->total = a->past == 0 ? a->k.length : QB_DIM_UNKNOWN;
    if (a->past > 0 && qb_dim_known(a->k.length) &&
        __builtin_add_overflow(a->past, a->k.length, &a->total))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "too many keys: %lld and %lld",
                       (long long)a->past, (long long)a->k.length);
    for (int32_t i = 0; i < 2; i++) {
        const qb_shape *past = in[IN_PAST_KEY + i];
        const heads *with = i ? &a->v : &a->k;
        if (!past) continue;
        QB_TRY(qb_expect_dim(cx, "past: batch", a->q.batch, past->dim[0]));
        QB_TRY(qb_expect_dim(cx, "past: heads", with->heads, past->dim[1]));
        QB_TRY(qb_expect_dim(cx, "past: length", a->past, past->dim[2]));
        QB_TRY(qb_expect_dim(cx, "past: head size", with->size, past->dim[3]));
    }
    return QB_OK;
}

/* The mask broadcasts to [batch, heads, length, total]; its last dimension may be shorter. */
static qb_status check_mask(qb_ctx *cx, const attention *a, const qb_value *mask) {
    const qb_shape *shape = &mask->shape;
    if (mask->dtype != QB_DTYPE_BOOL && mask->dtype != QB_DTYPE_NONE &&
        !qb_dtype_is_float(mask->dtype))
        return qb_fail(cx, QB_STATUS_INVALID, "mask: expected bool or a float type, got %s",
                       qb_dtype_text(mask->dtype));
    const int64_t full[4] = {a->q.batch, a->q.heads, a->q.length, a->total};
    for (int32_t d = 0; d < shape->rank; d++) {
        int32_t to = d + 4 - shape->rank;
        int64_t dim = shape->dim[d], most = full[to];
        bool good = dim < 0 || most < 0 || dim == most || dim == 1 || (to == 3 && dim < most);
        if (!good)
            return qb_fail(cx, QB_STATUS_INVALID, "mask: dimension %d: expected %lld, got %lld", d,
                           (long long)most, (long long)dim);
    }
    return QB_OK;
}

static qb_status infer_attention(qb_ctx *cx, const qb_infer_args *args) {
    const qb_shape *shapes[N_ATTENTION_IN] = {0};
    qb_shape unknown = {.rank = -1};
    qb_dtype type_q = qb_infer_in(args, IN_Q)->dtype, type_v = qb_infer_in(args, IN_V)->dtype;
    bool known = true, past_key = qb_infer_in(args, IN_PAST_KEY) != NULL;
    if (past_key != (qb_infer_in(args, IN_PAST_VALUE) != NULL))
        return qb_fail(cx, QB_STATUS_INVALID, "expected past_key and past_value together");
    QB_TRY(qb_infer_floats(cx, args, IN_Q, IN_V));
    QB_TRY(qb_infer_floats(cx, args, IN_PAST_KEY, IN_PAST_VALUE));
    for (int32_t i = 0; i < N_ATTENTION_IN; i++) {
        const qb_value *v = qb_infer_in(args, i);
        if (!v) continue;
        static const int32_t low[] = {3, 3, 3, 1, 4, 4, 1}, high[] = {4, 4, 4, 4, 4, 4, 1};
        QB_TRY(qb_infer_rank(cx, args, i, low[i], high[i]));
        shapes[i] = &v->shape;
        known = known && v->shape.rank >= 0;
    }
    for (int32_t i = 0; i < 4; i++)
        QB_TRY(qb_infer_set(cx, args, i, i == 0 || i == 3 ? type_q : type_v, &unknown));
    if (!known) return QB_OK;
    attention a;
    QB_TRY(attention_of(cx, qb_infer_at(args)->attrs, shapes, &a));
    if (shapes[IN_MASK]) QB_TRY(check_mask(cx, &a, qb_infer_in(args, IN_MASK)));
    if (shapes[IN_LENGTHS])
        QB_TRY(qb_expect_dim(cx, "nonpad_kv_seqlen: size", a.q.batch, shapes[IN_LENGTHS]->dim[0]));
    qb_shape y = {.rank = 4, .dim = {a.q.batch, a.q.heads, a.q.length, a.v.size}};
    if (shapes[IN_Q]->rank == 3) {
        y = (qb_shape){.rank = 3, .dim = {a.q.batch, a.q.length}};
        QB_TRY(qb_dim_mul(cx, a.q.heads, a.v.size, &y.dim[2]));
    }
    qb_shape key = {.rank = 4, .dim = {a.k.batch, a.k.heads, a.total, a.k.size}};
    qb_shape value = {.rank = 4, .dim = {a.v.batch, a.v.heads, a.total, a.v.size}};
    qb_shape scores = {.rank = 4, .dim = {a.q.batch, a.q.heads, a.q.length, a.total}};
    QB_TRY(qb_infer_set(cx, args, 0, type_q, &y));
    QB_TRY(qb_infer_set(cx, args, 1, qb_infer_in(args, IN_K)->dtype, &key));
    QB_TRY(qb_infer_set(cx, args, 2, type_v, &value));
    return qb_infer_set(cx, args, 3, type_q, &scores);
}

/* Cached and new positions in one [batch, heads, total, size] block. */
static void join(const heads *h, int64_t past, const float *cached, const float *fresh, float *to) {
    int64_t total = past + h->length;
    for (int64_t b = 0; b < h->batch; b++)
        for (int64_t n = 0; n < h->heads; n++)
            for (int64_t i = 0; i < total; i++) {
                const float *from = i < past ? cached + ((b * h->heads + n) * past + i) * h->size
                                             : fresh + b * h->stride[0] + n * h->stride[1] +
                                                   (i - past) * h->stride[2];
                memcpy(to + ((b * h->heads + n) * total + i) * h->size, from,
                       (size_t)h->size * sizeof *to);
            }
}

/* What is added to the score of key j: 0, the mask's value, or minus infinity. */
typedef struct bias {
    const qb_tensor *mask;
    int64_t stride[4], width; /* of the mask; positions behind its width are masked */
    int64_t first, visible;   /* keys before the first and from `visible` on are masked */
} bias;

static bias bias_of(const qb_tensor *mask) {
    bias out = {.mask = mask};
    if (!mask) return out;
    const qb_shape *shape = &mask->desc.shape;
    int64_t next = 1;
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        out.stride[d + 4 - shape->rank] = shape->dim[d] == 1 ? 0 : next;
        next *= shape->dim[d];
    }
    out.width = shape->dim[shape->rank - 1];
    return out;
}

static double bias_at(const bias *m, int64_t b, int64_t h, int64_t i, int64_t j) {
    if (j < m->first || j >= m->visible) return -INFINITY;
    if (!m->mask) return 0.0;
    if (m->width > 1 && j >= m->width) return -INFINITY;
    int64_t at = b * m->stride[0] + h * m->stride[1] + i * m->stride[2] + j * m->stride[3];
    double v = qb_number_get(m->mask->desc.dtype, m->mask->data, at);
    if (m->mask->desc.dtype == QB_DTYPE_BOOL) return v != 0.0 ? 0.0 : -INFINITY;
    return v;
}

/* Softmax of n scores in place; a row without any allowed key is all zero. */
static void softmax(double *row, int64_t n) {
    double max = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < n; j++) max = row[j] > max || isnan(row[j]) ? row[j] : max;
    for (int64_t j = 0; j < n; j++) {
        row[j] = max == -INFINITY ? 0.0 : exp(row[j] - max);
        sum += row[j];
    }
    for (int64_t j = 0; j < n && sum != 0.0; j++) row[j] /= sum;
}

static void show(float *to, const double *row, int64_t n) {
    for (int64_t j = 0; j < n; j++) to[j] = (float)row[j];
}

/* One query position: q [size], keys [total, size], values [total, v size]; `shown` may be NULL. */
typedef struct query {
    const float *q, *keys, *values;
    float *y, *shown;
    int64_t b, h, i;
} query;

static void attend(const attention *a, const attention_attrs *attrs, const bias *m, const query *q,
                   double *row, double *sums) {
    double scale = isnan(attrs->scale) ? 1.0 / sqrt((double)a->q.size) : (double)attrs->scale;
    double cap = (double)attrs->softcap;
    int64_t mode = attrs->qk_matmul_output_mode, n = a->total;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0.0;
        for (int64_t k = 0; k < a->q.size; k++)
            sum += (double)q->q[k] * (double)q->keys[j * a->q.size + k];
        row[j] = sum * scale;
    }
    if (q->shown && mode == SHOW_PRODUCT) show(q->shown, row, n);
    for (int64_t j = 0; j < n && cap > 0.0; j++) row[j] = cap * tanh(row[j] / cap);
    if (q->shown && mode == SHOW_SOFTCAP) show(q->shown, row, n);
    for (int64_t j = 0; j < n; j++) row[j] += bias_at(m, q->b, q->h, q->i, j);
    if (q->shown && mode == SHOW_BIAS) show(q->shown, row, n);
    softmax(row, n);
    if (q->shown && mode == SHOW_SOFTMAX) show(q->shown, row, n);
    for (int64_t k = 0; k < a->v.size; k++) sums[k] = 0.0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < a->v.size && row[j] != 0.0; k++)
            sums[k] += row[j] * (double)q->values[j * a->v.size + k];
    for (int64_t k = 0; k < a->v.size; k++) q->y[k] = (float)sums[k];
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Keys that query i of sample b may see: all that are not padding, with is_causal those up to its
 * own place, and those inside the window around it. Its place counts from the end of what came
 * before. */
static void see_keys(const attention *a, const attention_attrs *attrs, const qb_tensor *lengths,
                     int64_t b, int64_t i, bias *m) {
    int64_t place = a->past + i;
    m->first = 0;
    m->visible = a->total;
    if (lengths) {
        int64_t length = (int64_t)qb_integer_get(lengths->desc.dtype, lengths->data, b);
        m->visible = least(m->visible, length);
        if (a->past == 0) place += length - a->q.length;
    }
    if (attrs->is_causal) m->visible = least(m->visible, place + 1);
    if (attrs->right_window_size >= 0)
        m->visible = least(m->visible, place + attrs->right_window_size + 1);
    if (attrs->left_window_size >= 0) m->first = place - attrs->left_window_size;
}

static void attend_all(const attention *a, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                       const float *keys, const float *values, double *scratch) {
    const attention_attrs *attrs = node->attrs;
    const qb_tensor *lengths = qb_eval_has(node, in, IN_LENGTHS) ? &in[IN_LENGTHS] : NULL;
    bias m = bias_of(qb_eval_has(node, in, IN_MASK) ? &in[IN_MASK] : NULL);
    bool shows = node->n_out > 3 && node->out[3] >= 0, flat = in[IN_Q].desc.shape.rank == 3;
    int64_t rows = a->q.batch * a->q.heads * a->q.length, share = a->q.heads / a->k.heads;
    for (int64_t r = 0; r < rows; r++) {
        int64_t i = r % a->q.length, h = r / a->q.length % a->q.heads;
        int64_t b = r / a->q.length / a->q.heads, kv = b * a->k.heads + h / share;
        int64_t to = flat ? (b * a->q.length + i) * a->q.heads + h : r;
        query q = {.b = b, .h = h, .i = i};
        q.q = (const float *)in[IN_Q].data + b * a->q.stride[0] + h * a->q.stride[1] +
              i * a->q.stride[2];
        q.keys = keys + kv * a->total * a->k.size;
        q.values = values + kv * a->total * a->v.size;
        q.y = (float *)out[0].data + to * a->v.size;
        q.shown = shows ? (float *)out[3].data + r * a->total : NULL;
        see_keys(a, attrs, lengths, b, i, &m);
        attend(a, attrs, &m, &q, scratch, scratch + a->total);
    }
}

static qb_status eval_attention(qb_ctx *cx, const qb_node *node, const qb_tensor *in,
                                qb_tensor *out) {
    QB_EVAL_IN_F32(eval_attention);
    const qb_shape *shapes[N_ATTENTION_IN] = {0};
    for (int32_t i = 0; i < N_ATTENTION_IN; i++)
        if (qb_eval_has(node, in, i)) shapes[i] = &in[i].desc.shape;
    attention a;
    QB_TRY(attention_of(cx, node->attrs, shapes, &a));
    int64_t n_key = a.k.batch * a.k.heads * a.total * a.k.size;
    int64_t n_value = a.v.batch * a.v.heads * a.total * a.v.size;
    QB_RELEASED(qb_temp_give_at) float *keys = qb_temp_take(cx, (size_t)n_key, sizeof *keys);
    QB_RELEASED(qb_temp_give_at) float *values = qb_temp_take(cx, (size_t)n_value, sizeof *values);
    QB_RELEASED(qb_temp_give_at)
    double *scratch = qb_temp_take(cx, (size_t)(a.total + a.v.size), sizeof *scratch);
    if (!keys || !values || !scratch) return cx->code;
    join(&a.k, a.past, a.past ? in[IN_PAST_KEY].data : NULL, in[IN_K].data, keys);
    join(&a.v, a.past, a.past ? in[IN_PAST_VALUE].data : NULL, in[IN_V].data, values);
    attend_all(&a, node, in, out, keys, values, scratch);
    if (node->n_out > 1 && node->out[1] >= 0 && n_key)
        memcpy(out[1].data, keys, (size_t)n_key * sizeof *keys);
    if (node->n_out > 2 && node->out[2] >= 0 && n_value)
        memcpy(out[2].data, values, (size_t)n_value * sizeof *values);
    return QB_OK;
}

/* --- in products -------------------------------------------------------------------------------
 */

/* What kernels of an Attention do not know and products do: causal order, keys for several heads of
 * queries, cached ones, a cap, masks of conditions. */
static bool is_better_apart(const qb_build *b, const attention_attrs *attrs, int64_t n_heads,
                            int64_t kv_heads) {
    const int32_t mask = qb_build_in(b, IN_MASK);
    const qb_shape *shape = qb_build_shape(b, mask), *k = qb_build_shape(b, qb_build_in(b, IN_K));
    const bool past = qb_build_in(b, IN_PAST_KEY) >= 0;
    const bool conditions = mask >= 0 && b->graph->values[mask].dtype == QB_DTYPE_BOOL;
    const bool more =
        attrs->is_causal || attrs->softcap > 0.0f || n_heads != kv_heads || past || conditions;
    const int64_t keys = k->dim[k->rank == 3 ? 1 : 2];
    const int64_t width = shape->rank > 0 ? shape->dim[shape->rank - 1] : QB_DIM_UNKNOWN;
    const bool whole = mask < 0 || width == 1 || (width != -1 && width == keys && !past);
    return more && whole && n_heads > 0 && kv_heads > 0 && qb_build_in(b, IN_LENGTHS) < 0 &&
           attrs->left_window_size < 0 && attrs->right_window_size < 0 && !qb_build_wants(b, 3) &&
           attrs->softmax_precision == 0;
}

/* Of a mask of conditions what is added. */
static int32_t added(qb_build *b, int32_t mask, int32_t like) {
    if (mask < 0 || b->graph->values[mask].dtype != QB_DTYPE_BOOL) return mask;
    return QB_BUILD(b, "Where", mask, qb_build_float(b, like, 0.0f),
                    qb_build_float(b, like, -INFINITY));
}

static int32_t with_past(qb_build *b, int32_t past, int32_t x) {
    if (past < 0) return x;
    x = QB_BUILD(b, "Concat", past, x);
    qb_build_set_int(b, "axis", 2);
    return x;
}

static qb_status upgrade_attention(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const attention_attrs *attrs = graph->nodes[node].attrs;
    const int32_t in[] = {qb_build_in(&b, IN_Q), qb_build_in(&b, IN_K), qb_build_in(&b, IN_V)};
    const int32_t past = qb_build_in(&b, IN_PAST_KEY), mask = qb_build_in(&b, IN_MASK);
    const qb_shape q = *qb_build_shape(&b, in[IN_Q]), k = *qb_build_shape(&b, in[IN_K]);
    int64_t n_heads = attrs->q_num_heads, kv_heads = attrs->kv_num_heads;
    int32_t x[3];
    (void)version;
    if (q.rank == 4 && k.rank == 4) n_heads = q.dim[1], kv_heads = k.dim[1];
    if ((q.rank != 3 && q.rank != 4) || k.rank != q.rank ||
        qb_build_shape(&b, in[IN_V])->rank != q.rank ||
        !is_better_apart(&b, attrs, n_heads, kv_heads))
        return QB_OK;
    const bool rows = q.rank == 3;
    for (int i = 0; i < 3; i++)
        x[i] = rows ? qb_build_split_heads(&b, in[i], i == 0 ? n_heads : kv_heads) : in[i];
    x[IN_K] = with_past(&b, past, x[IN_K]);
    x[IN_V] = with_past(&b, qb_build_in(&b, IN_PAST_VALUE), x[IN_V]);
    const qb_products h = {.q = x[IN_Q],
                           .k = x[IN_K],
                           .v = x[IN_V],
                           .heads = n_heads,
                           .kv_heads = kv_heads,
                           .bias = {-1, added(&b, mask, in[IN_Q])},
                           .causal = attrs->is_causal != 0,
                           .before = past >= 0 ? qb_build_dim(&b, past, 2) : qb_build_int(&b, 0),
                           .masked = -INFINITY,
                           .none = mask >= 0,
                           .scale = attrs->scale,
                           .softcap = attrs->softcap};
    const int32_t y = qb_build_attention(&b, &h);
    qb_build_output(&b, 0, rows ? qb_build_join_heads(&b, y) : y);
    qb_build_output(&b, 1, x[IN_K]);
    qb_build_output(&b, 2, x[IN_V]);
    return qb_build_end(&b);
}

QB_OP_SIMPLE(attention, "Attention", 23, 3, 7, 4, sizeof(attention_attrs), attention_table, FLOAT,
             infer_attention, eval_attention, .upgrade = upgrade_attention,
             .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_ITEMWISE | QB_TRAIT_WINDOW,
             .kernel = {QB_KIND_ATTENTION});

/* --- RotaryEmbedding ------------------------------------------------------------------------- */

typedef struct rotary_attrs {
    int64_t interleaved, num_heads, rotary_embedding_dim;
} rotary_attrs;
QB_ATTRS(rotary_table, QB_A_INT(rotary_attrs, interleaved, "interleaved", 0, 0, 1),
         QB_A_INT(rotary_attrs, num_heads, "num_heads", 0, 0, QB_ATTR_BIG),
         QB_A_INT(rotary_attrs, rotary_embedding_dim, "rotary_embedding_dim", 0, 0, QB_ATTR_BIG));

static qb_status infer_rotary(qb_ctx *cx, const qb_infer_args *args) {
    const rotary_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, 0);
    int32_t cache = qb_infer_in(args, 3) ? 2 : 3;
    QB_TRY(qb_infer_floats(cx, args, 1, 2));
    QB_TRY(qb_infer_rank(cx, args, 0, 3, 4));
    QB_TRY(qb_infer_rank(cx, args, 1, cache, cache));
    QB_TRY(qb_infer_rank(cx, args, 2, cache, cache));
    QB_TRY(qb_infer_rank(cx, args, 3, 2, 2));
    heads h;
    if (x->shape.rank == 3 || x->shape.rank == 4)
        QB_TRY(heads_of(cx, "data", &x->shape, attrs->num_heads, &h));
    return qb_infer_same(cx, args);
}

/* Half the rotated size, checked against head and caches. */
static qb_status rotary_half(qb_ctx *cx, const rotary_attrs *attrs, const heads *h,
                             const qb_tensor *in, bool by_id, int64_t *half) {
    int64_t size = attrs->rotary_embedding_dim ? attrs->rotary_embedding_dim : h->size;
    *half = size / 2;
    if (size > h->size || size % 2 != 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "rotary size: expected an even one up to %lld, got "
                       "%lld",
                       (long long)h->size, (long long)size);
    for (int32_t i = 1; i < 3; i++) {
        const qb_shape *shape = &in[i].desc.shape;
        QB_TRY(qb_expect_dim(cx, "cache: size", *half, shape->dim[shape->rank - 1]));
        if (by_id) continue;
        QB_TRY(qb_expect_dim(cx, "cache: batch", h->batch, shape->dim[0]));
        QB_TRY(qb_expect_dim(cx, "cache: length", h->length, shape->dim[1]));
    }
    return QB_OK;
}

static void rotate(const float *x, float *y, const float *c, const float *s, int64_t half,
                   int64_t size, bool interleaved) {
    for (int64_t k = 0; k < half; k++) {
        int64_t first = interleaved ? 2 * k : k, second = interleaved ? 2 * k + 1 : half + k;
        float a = x[first], b = x[second];
        y[first] = c[k] * a - s[k] * b;
        y[second] = s[k] * a + c[k] * b;
    }
    for (int64_t k = 2 * half; k < size; k++) y[k] = x[k];
}

static qb_status eval_rotary(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const rotary_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_rotary);
    bool by_id = qb_eval_has(node, in, 3);
    heads h;
    int64_t half;
    QB_TRY(heads_of(cx, "data", &in[0].desc.shape, attrs->num_heads, &h));
    QB_TRY(rotary_half(cx, attrs, &h, in, by_id, &half));
    if (by_id) {
        QB_TRY(qb_expect_dim(cx, "position_ids: batch", h.batch, in[3].desc.shape.dim[0]));
        QB_TRY(qb_expect_dim(cx, "position_ids: length", h.length, in[3].desc.shape.dim[1]));
    }
    for (int64_t b = 0; b < h.batch; b++)
        for (int64_t i = 0; i < h.length; i++) {
            int64_t row = b * h.length + i;
            int64_t rows = in[1].desc.shape.dim[0] < in[2].desc.shape.dim[0]
                               ? in[1].desc.shape.dim[0]
                               : in[2].desc.shape.dim[0];
            if (by_id) QB_TRY_WRAP(cx, qb_eval_index(cx, &in[3], row, rows, &row), "position_ids");
            const float *c = (const float *)in[1].data + row * half;
            const float *s = (const float *)in[2].data + row * half;
            for (int64_t n = 0; n < h.heads; n++) {
                int64_t at = b * h.stride[0] + n * h.stride[1] + i * h.stride[2];
                rotate((const float *)in[0].data + at, (float *)out[0].data + at, c, s, half,
                       h.size, attrs->interleaved != 0);
            }
        }
    return QB_OK;
}

QB_OP_SIMPLE(rotary_embedding, "RotaryEmbedding", 23, 3, 4, 1, sizeof(rotary_attrs), rotary_table,
             FLOAT, infer_rotary, eval_rotary, .types = QB_TYPES_FLOATS);
