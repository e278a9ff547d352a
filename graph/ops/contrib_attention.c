/* Attention of onnxruntime's transformers in products, which are quantized and fused as those of
 * any other model. Keys that were cached come before new ones and fill their tensor: a buffer with
 * room behind them is not told from it. */
#include "contrib_internal.h"

#define MS "com.microsoft"

typedef struct heads_attrs {
    int64_t heads, kv_heads, unidirectional, do_rotary, interleaved, window, rotary_size;
    int64_t smooth, packed, no_norm, bits[2];
    qb_ints sizes; /* of all heads of queries, keys and values */
    float scale, masked, softcap, rotary_scale, rotary_base;
} heads_attrs;

#define HEADS_COMMON                                                                               \
    QB_A_FLOAT(heads_attrs, masked, "mask_filter_value", -10000.0f),                               \
        QB_A_NEED_INT(heads_attrs, heads, "num_heads", 1, QB_ATTR_BIG),                            \
        QB_A_FLOAT(heads_attrs, scale, "scale", 0.0f),                                             \
        QB_A_INT(heads_attrs, unidirectional, "unidirectional", 0, 0, 1)

/* 0 is the default, too. */
static float scale_of(const heads_attrs *attrs) {
    return attrs->scale == 0.0f ? NAN : attrs->scale;
}

/* --- masks -------------------------------------------------------------------------------------
 */

/* 0 where the condition holds, else `masked`. */
static int32_t bias_where(qb_build *b, int32_t condition, int32_t like, float masked) {
    return QB_BUILD(b, "Where", condition, qb_build_float(b, like, 0.0f),
                    qb_build_float(b, like, masked));
}

/* What is added to scores [batch, heads, queries, keys] for a mask of keys: how many of each item,
 * or a condition for each key [batch, keys] or for each query and key. */
static int32_t mask_bias(qb_build *b, int32_t mask, int32_t like, int32_t keys, float masked) {
    const int32_t rank = qb_build_shape(b, mask)->rank;
    if (mask < 0) return -1;
    if (rank == 2 || rank == 3) {
        const int32_t axes = rank == 2 ? QB_BUILD_INTS(b, 1, 2) : QB_BUILD_INTS(b, 1);
        const int32_t seen = qb_build_cast(b, mask, QB_DTYPE_BOOL);
        return bias_where(b, QB_BUILD(b, "Unsqueeze", seen, axes), like, masked);
    }
    if (rank != 1) {
        qb_build_refuse(b, "a mask of another form than [batch], [batch, keys] or [batch, queries, "
                           "keys]");
        return -1;
    }
    const int64_t batch = qb_build_shape(b, like)->dim[0], n = qb_build_shape(b, mask)->dim[0];
    if (batch > 0 && n > 0 && batch != n)
        qb_build_refuse(b, "a mask with starts beside the lengths");
    const int32_t places =
        QB_BUILD(b, "Range", qb_build_int(b, 0), qb_build_dim(b, keys, 2), qb_build_int(b, 1));
    const int32_t lengths =
        QB_BUILD(b, "Unsqueeze", qb_build_cast(b, mask, QB_DTYPE_S64), QB_BUILD_INTS(b, 1, 2, 3));
    return bias_where(b, QB_BUILD(b, "Less", places, lengths), like, masked);
}

/* --- Attention, QAttention ---------------------------------------------------------------------
 */

static int32_t part(qb_build *b, int32_t x, int64_t begin, int64_t end, int64_t axis) {
    return QB_BUILD(b, "Slice", x, QB_BUILD_INTS(b, begin), QB_BUILD_INTS(b, end),
                    QB_BUILD_INTS(b, axis));
}

/* Keys or values with those before them. */
static int32_t behind(qb_build *b, int32_t past, int32_t x) {
    if (past < 0) return x;
    x = QB_BUILD(b, "Concat", past, x);
    qb_build_set_int(b, "axis", 2);
    return x;
}

/* Past and present hold keys and values in one: [2, batch, heads, length, size]. */
static int32_t past_part(qb_build *b, int32_t past, int64_t which) {
    return past < 0 ? -1 : QB_BUILD(b, "Gather", past, qb_build_int(b, which));
}

static void present_output(qb_build *b, int32_t k, int32_t v) {
    if (!qb_build_wants(b, 1)) return;
    const int32_t axis = QB_BUILD_INTS(b, 0);
    const int32_t both =
        QB_BUILD(b, "Concat", QB_BUILD(b, "Unsqueeze", k, axis), QB_BUILD(b, "Unsqueeze", v, axis));
    qb_build_set_int(b, "axis", 0);
    qb_build_output(b, 1, both);
}

void qb_build_packed_attention(qb_build *b, int32_t packed, int64_t width,
                               const qb_packed_attention *a) {
    const heads_attrs *attrs = b->graph->nodes[b->node].attrs;
    int64_t size[3] = {width / 3, width / 3, width / 3}, at = 0;
    int32_t x[3];
    if (attrs->sizes.n == 3) memcpy(size, attrs->sizes.v, sizeof size);
    if (attrs->do_rotary) qb_build_refuse(b, "attribute do_rotary: expected 0");
    if (width < 1 || (attrs->sizes.n != 0 && attrs->sizes.n != 3))
        qb_build_refuse(b, "sizes of queries, keys and values that are not known");
    for (int i = 0; i < 3; at += size[i++])
        x[i] = qb_build_split_heads(b, part(b, packed, at, at + size[i], 2), attrs->heads);
    x[1] = behind(b, past_part(b, a->past, 0), x[1]);
    x[2] = behind(b, past_part(b, a->past, 1), x[2]);
    const qb_products h = {.q = x[0],
                           .k = x[1],
                           .v = x[2],
                           .heads = attrs->heads,
                           .kv_heads = attrs->heads,
                           .bias = {mask_bias(b, a->mask, a->like, x[1], attrs->masked), a->bias},
                           .causal = attrs->unidirectional != 0,
                           .before = -1,
                           .masked = attrs->masked,
                           .scale = scale_of(attrs)};
    qb_build_output(b, 0, qb_build_join_heads(b, qb_build_attention(b, &h)));
    present_output(b, x[1], x[2]);
}

/* Inputs: x, weight and bias of queries, keys and values in one, mask, past, bias of scores. */
static qb_status upgrade_attention(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const int32_t weight = qb_build_in(&b, 1), bias = qb_build_in(&b, 2), x = qb_build_in(&b, 0);
    const qb_shape *w = qb_build_shape(&b, weight);
    const int64_t width = w->rank == 2 ? w->dim[1] : 0;
    (void)version;
    if (qb_build_in(&b, 6) >= 0) qb_build_refuse(&b, "input past_sequence_length");
    int32_t packed = QB_BUILD(&b, "MatMul", x, weight);
    if (bias >= 0) packed = QB_BUILD(&b, "Add", packed, bias);
    qb_build_packed_attention(&b, packed, width,
                              &(qb_packed_attention){.mask = qb_build_in(&b, 3),
                                                     .past = qb_build_in(&b, 4),
                                                     .bias = qb_build_in(&b, 5),
                                                     .like = x});
    return qb_build_end(&b);
}

QB_ATTRS(attention_attrs, QB_A_INT(heads_attrs, do_rotary, "do_rotary", 0, 0, 1), HEADS_COMMON,
         QB_A_INT(heads_attrs, packed, "past_present_share_buffer", 0, 0, 0),
         QB_A_INTS(heads_attrs, sizes, "qkv_hidden_sizes", 1, QB_ATTR_BIG),
         QB_A_INT(heads_attrs, rotary_size, "rotary_embedding_dim", 0, 0, QB_ATTR_BIG));
QB_OP_OF_FILES(ms_attention, "Attention", MS, 2, 7, 2, sizeof(heads_attrs), attention_attrs,
               upgrade_attention, .types = QB_TYPES_FLOATS);

/* Inputs: x, weight, bias, scales of both, mask, zero points of both, past. */
static qb_status upgrade_qattention(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    int32_t in[9];
    (void)version;
    for (int32_t i = 0; i < 9; i++) in[i] = qb_build_in(&b, i);
    const qb_shape *w = qb_build_shape(&b, in[1]);
    const int64_t width = w->rank == 2 ? w->dim[1] : 0;
    const int32_t packed = qb_build_scaled_product(
        &b, (const int32_t[]){in[0], in[1], in[3], in[4], in[6], in[7], in[2]});
    qb_build_packed_attention(
        &b, packed, width,
        &(qb_packed_attention){.mask = in[5], .past = in[8], .bias = -1, .like = packed});
    return qb_build_end(&b);
}

QB_OP_OF_FILES(qattention, "QAttention", MS, 5, 9, 2, sizeof(heads_attrs), attention_attrs,
               upgrade_qattention, .types = QB_TYPES_QUANTIZED, .traits = QB_TRAIT_INTEGERS);

/* --- MultiHeadAttention ------------------------------------------------------------------------
 */

enum {
    MULTI_Q,
    MULTI_K,
    MULTI_V,
    MULTI_BIAS,
    MULTI_MASK,
    MULTI_SCORES,
    MULTI_PAST_K,
    MULTI_PAST_V,
    MULTI_INPUTS
};

/* Part i of a bias of queries, keys and values in one. */
static int32_t biased(qb_build *b, int32_t x, int32_t bias, int64_t i) {
    const qb_shape *all = qb_build_shape(b, bias), *own = qb_build_shape(b, x);
    if (bias < 0) return x;
    const int64_t n = own->rank == 3 ? own->dim[2] : -1;
    const int64_t total = all->rank == 1 ? all->dim[0] : -1;
    if (n < 1 || total < 1) {
        qb_build_refuse(b, "a bias of sizes that are not known");
        return -1;
    }
    const int64_t begin = i == 2 ? total - n : i * n; /* values may have another size */
    return QB_BUILD(b, "Add", x, part(b, bias, begin, begin + n, 0));
}

static int32_t multi_head(qb_build *b, int32_t x, int32_t bias, int64_t i, int64_t heads) {
    const int32_t rank = qb_build_shape(b, x)->rank;
    if (rank == 4) return x; /* [batch, heads, length, size]: keys and values of another sequence */
    if (rank != 3) qb_build_refuse(b, "queries, keys and values in one tensor");
    return qb_build_split_heads(b, biased(b, x, bias, i), heads);
}

static qb_status upgrade_multi(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const heads_attrs *attrs = graph->nodes[node].attrs;
    int32_t in[MULTI_INPUTS], x[3];
    (void)version;
    for (int32_t i = 0; i < MULTI_INPUTS; i++) in[i] = qb_build_in(&b, i);
    if (in[MULTI_K] < 0 || in[MULTI_V] < 0 || graph->nodes[node].n_in > MULTI_INPUTS)
        qb_build_refuse(&b, "queries, keys and values in one tensor, or a buffer of past ones");
    for (int i = 0; i < 3; i++) x[i] = multi_head(&b, in[i], in[MULTI_BIAS], i, attrs->heads);
    x[1] = behind(&b, in[MULTI_PAST_K], x[1]);
    x[2] = behind(&b, in[MULTI_PAST_V], x[2]);
    const qb_products h = {
        .q = x[0],
        .k = x[1],
        .v = x[2],
        .heads = attrs->heads,
        .kv_heads = attrs->heads,
        .bias = {mask_bias(&b, in[MULTI_MASK], in[0], x[1], attrs->masked), in[MULTI_SCORES]},
        .causal = attrs->unidirectional != 0,
        .before = -1,
        .masked = attrs->masked,
        .scale = scale_of(attrs)};
    qb_build_output(&b, 0, qb_build_join_heads(&b, qb_build_attention(&b, &h)));
    qb_build_output(&b, 1, x[1]);
    qb_build_output(&b, 2, x[2]);
    return qb_build_end(&b);
}

QB_ATTRS(multi_attrs, HEADS_COMMON);
QB_OP_OF_FILES(multi_head_attention, "MultiHeadAttention", MS, 1, 10, 4, sizeof(heads_attrs),
               multi_attrs, upgrade_multi, .types = QB_TYPES_FLOATS);

/* --- RotaryEmbedding ---------------------------------------------------------------------------
 */

/* [batch, length] from a first place: place, place + 1 ... of each item. `x`: with those sizes, the
 * length as dimension `dim`. */
static int32_t places_from(qb_build *b, int32_t first, int32_t x, int64_t dim) {
    const int32_t length = qb_build_dim(b, x, dim), batch = qb_build_dim(b, x, 0);
    const int32_t steps = QB_BUILD(b, "Range", qb_build_int(b, 0), length, qb_build_int(b, 1));
    const int32_t row =
        QB_BUILD(b, "Unsqueeze", QB_BUILD(b, "Add", first, steps), QB_BUILD_INTS(b, 0));
    const int32_t to = QB_BUILD(b, "Concat", QB_BUILD(b, "Unsqueeze", batch, QB_BUILD_INTS(b, 0)),
                                QB_BUILD_INTS(b, 1));
    qb_build_set_int(b, "axis", 0);
    return QB_BUILD(b, "Expand", row, to);
}

static int32_t rotated(qb_build *b, int32_t x, int32_t cos, int32_t sin, int32_t places,
                       const heads_attrs *attrs) {
    const int32_t y = QB_BUILD(b, "RotaryEmbedding", x, cos, sin, places);
    qb_build_set_int(b, "interleaved", attrs->interleaved);
    qb_build_set_int(b, "num_heads", attrs->heads);
    qb_build_set_int(b, "rotary_embedding_dim", attrs->rotary_size);
    return y;
}

static qb_status upgrade_rotary(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const heads_attrs *attrs = graph->nodes[node].attrs;
    const int32_t x = qb_build_in(&b, 0), cos = qb_build_in(&b, 2), sin = qb_build_in(&b, 3);
    int32_t places = qb_build_in(&b, 1);
    (void)version;
    if (attrs->rotary_scale != 1.0f) qb_build_refuse(&b, "attribute scale: expected 1");
    if (qb_build_shape(&b, places)->rank == 1)
        places = places_from(&b, places, x, qb_build_shape(&b, x)->rank == 4 ? 2 : 1);
    qb_build_output(&b, 0, rotated(&b, x, cos, sin, places, attrs));
    return qb_build_end(&b);
}

QB_ATTRS(rotary_attrs, QB_A_INT(heads_attrs, interleaved, "interleaved", 0, 0, 1),
         QB_A_INT(heads_attrs, packed, "is_packed_batching", 0, 0, 0),
         QB_A_INT(heads_attrs, heads, "num_heads", 0, 0, QB_ATTR_BIG),
         QB_A_INT(heads_attrs, rotary_size, "rotary_embedding_dim", 0, 0, QB_ATTR_BIG),
         QB_A_FLOAT(heads_attrs, rotary_scale, "scale", 1.0f));
QB_OP_OF_FILES(ms_rotary_embedding, "RotaryEmbedding", MS, 4, 4, 1, sizeof(heads_attrs),
               rotary_attrs, upgrade_rotary, .types = QB_TYPES_FLOATS);

/* --- GroupQueryAttention -----------------------------------------------------------------------
 */

enum {
    GROUP_Q,
    GROUP_K,
    GROUP_V,
    GROUP_PAST_K,
    GROUP_PAST_V,
    GROUP_LENGTHS,
    GROUP_TOTAL,
    GROUP_COS,
    GROUP_SIN,
    GROUP_PLACES,
    GROUP_SCORES,
    GROUP_INPUTS
};

/* Queries, keys and values side by side become three. */
static void take_apart(qb_build *b, const heads_attrs *attrs, int32_t *in) {
    const qb_shape *shape = qb_build_shape(b, in[GROUP_Q]);
    const int64_t width = shape->rank == 3 ? shape->dim[2] : 0;
    const int64_t size = width / (attrs->heads + 2 * attrs->kv_heads), packed = in[GROUP_Q];
    int64_t at = 0;
    if (in[GROUP_K] >= 0) return;
    if (width < 1) qb_build_refuse(b, "queries, keys and values of a size that is not known");
    for (int i = 0; i < 3; i++) {
        const int64_t own = size * (i == 0 ? attrs->heads : attrs->kv_heads);
        in[GROUP_Q + i] = part(b, (int32_t)packed, at, at + own, 2);
        at += own;
    }
}

static qb_status upgrade_group(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const heads_attrs *attrs = graph->nodes[node].attrs;
    heads_attrs of_rows = *attrs; /* what is rotated has its heads apart */
    int32_t in[GROUP_INPUTS], x[3];
    (void)version;
    of_rows.heads = 0;
    for (int32_t i = 0; i < GROUP_INPUTS; i++) in[i] = qb_build_in(&b, i);
    if (graph->nodes[node].n_in > GROUP_INPUTS || attrs->window >= 0 || attrs->smooth > 0)
        qb_build_refuse(&b, "a window, smooth softmax, sinks or quantized caches");
    take_apart(&b, attrs, in);
    for (int i = 0; i < 3; i++)
        x[i] = qb_build_split_heads(&b, in[GROUP_Q + i], i == 0 ? attrs->heads : attrs->kv_heads);
    if (attrs->do_rotary) {
        const int32_t first =
            in[GROUP_PAST_K] < 0 ? qb_build_int(&b, 0) : qb_build_dim(&b, in[GROUP_PAST_K], 2);
        const int32_t places =
            in[GROUP_PLACES] >= 0 ? in[GROUP_PLACES] : places_from(&b, first, x[0], 2);
        for (int i = 0; i < 2; i++)
            x[i] = rotated(&b, x[i], in[GROUP_COS], in[GROUP_SIN], places, &of_rows);
    }
    x[1] = behind(&b, in[GROUP_PAST_K], x[1]);
    x[2] = behind(&b, in[GROUP_PAST_V], x[2]);
    const qb_products h = {.q = x[0],
                           .k = x[1],
                           .v = x[2],
                           .heads = attrs->heads,
                           .kv_heads = attrs->kv_heads,
                           .bias = {-1, in[GROUP_SCORES]},
                           .causal = true,
                           .before = -1,
                           .masked = -65504.0f, /* which halves have */
                           .scale = scale_of(attrs),
                           .softcap = attrs->softcap};
    qb_build_output(&b, 0, qb_build_join_heads(&b, qb_build_attention(&b, &h)));
    qb_build_output(&b, 1, x[1]);
    qb_build_output(&b, 2, x[2]);
    return qb_build_end(&b);
}

QB_ATTRS(group_attrs, QB_A_INT(heads_attrs, do_rotary, "do_rotary", 0, 0, 1),
         QB_A_NEED_INT(heads_attrs, kv_heads, "kv_num_heads", 1, QB_ATTR_BIG),
         QB_A_INT(heads_attrs, window, "local_window_size", -1, -1, QB_ATTR_BIG),
         QB_A_NEED_INT(heads_attrs, heads, "num_heads", 1, QB_ATTR_BIG),
         QB_A_INT(heads_attrs, interleaved, "rotary_interleaved", 0, 0, 1),
         QB_A_FLOAT(heads_attrs, scale, "scale", 0.0f),
         QB_A_INT(heads_attrs, smooth, "smooth_softmax", 0, -1, 1),
         QB_A_FLOAT(heads_attrs, softcap, "softcap", 0.0f));
QB_OP_OF_FILES(group_query_attention, "GroupQueryAttention", MS, 1, 14, 4, sizeof(heads_attrs),
               group_attrs, upgrade_group, .types = QB_TYPES_FLOATS);
