/* Operators of onnxruntime that its optimizers, and tools upon it, write: fused forms of operators
 * of ai.onnx, which take their place when a file is read. Attention is in contrib_attention.c, what
 * is quantized in contrib_quantized.c. */
#include "build_internal.h"

#define MS "com.microsoft"

/* --- activations -------------------------------------------------------------------------------
 */

typedef struct activation_attrs {
    const char *activation;
    qb_floats params;
} activation_attrs;

/* `params`: of the activations that have any, with their defaults where they are left out. */
static int32_t activated(qb_build *b, int32_t x, const char *name, const float *params, int32_t n) {
    static const struct {
        const char *name;
        float alpha, beta;
    } known[] = {{"Relu", 0, 0},
                 {"Tanh", 0, 0},
                 {"Sigmoid", 0, 0},
                 {"LeakyRelu", 0.01f, 0},
                 {"HardSigmoid", 0.2f, 0.5f},
                 {"Clip", 0, 0}};
    size_t k = 0;
    if (!*name) return x;
    while (k < sizeof known / sizeof *known && strcmp(known[k].name, name) != 0) k++;
    if (k == sizeof known / sizeof *known) {
        if (b->status == QB_OK)
            b->status = qb_fail(b->cx, QB_STATUS_UNSUPPORTED,
                                "attribute activation: '%.40s' is not supported", name);
        return -1;
    }
    const float alpha = n > 0 ? params[0] : known[k].alpha,
                beta = n > 1 ? params[1] : known[k].beta;
    if (strcmp(name, "Clip") == 0 && n == 2)
        return QB_BUILD(b, "Clip", x, qb_build_float(b, x, alpha), qb_build_float(b, x, beta));
    const int32_t y = QB_BUILD(b, name, x);
    if (known[k].alpha != 0) qb_build_set_float(b, "alpha", alpha);
    if (known[k].beta != 0) qb_build_set_float(b, "beta", beta);
    return y;
}

static qb_status upgrade_gelu(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const int32_t bias = qb_build_in(&b, 1);
    int32_t x = qb_build_in(&b, 0);
    (void)version;
    if (bias >= 0) x = QB_BUILD(&b, "Add", x, bias);
    x = QB_BUILD(&b, "Gelu", x);
    if (strcmp(graph->nodes[node].op->name, "FastGelu") == 0)
        qb_build_set_string(&b, "approximate", "tanh");
    qb_build_output(&b, 0, x);
    return qb_build_end(&b);
}

QB_ATTRS(quick_attrs, QB_A_FLOAT(qb_alpha_attrs, alpha, "alpha", 1.702f));

static qb_status upgrade_quick_gelu(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const float alpha = ((const qb_alpha_attrs *)graph->nodes[node].attrs)->alpha;
    const int32_t x = qb_build_in(&b, 0);
    (void)version;
    const int32_t scaled = alpha == 1.0f ? x : QB_BUILD(&b, "Mul", x, qb_build_float(&b, x, alpha));
    qb_build_output(&b, 0, QB_BUILD(&b, "Mul", x, QB_BUILD(&b, "Sigmoid", scaled)));
    return qb_build_end(&b);
}

QB_OP_OF_FILES(ms_gelu, "Gelu", MS, 1, 1, 1, 0, NULL, upgrade_gelu, .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(bias_gelu, "BiasGelu", MS, 2, 2, 1, 0, NULL, upgrade_gelu, .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(fast_gelu, "FastGelu", MS, 1, 2, 1, 0, NULL, upgrade_gelu, .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(quick_gelu, "QuickGelu", MS, 1, 1, 1, sizeof(qb_alpha_attrs), quick_attrs,
               upgrade_quick_gelu, .types = QB_TYPES_FLOATS);

/* --- products and convolutions -----------------------------------------------------------------
 */

typedef struct product_attrs {
    qb_gemm_attrs gemm;
    int64_t trans_batch_a, trans_batch_b;
    const char *activation;
    float act_alpha, act_beta;
} product_attrs;

/* Rows and columns in their places. */
static int32_t transposed(qb_build *b, int32_t x, bool swap) {
    const int32_t rank = qb_build_shape(b, x)->rank;
    int64_t perm[QB_MAX_RANK];
    if (!swap) return x;
    if (rank < 2) {
        qb_build_refuse(b, "an operand whose number of dimensions is not known");
        return x;
    }
    for (int32_t d = 0; d < rank; d++) perm[d] = d;
    perm[rank - 1] = rank - 2;
    perm[rank - 2] = rank - 1;
    return qb_build_transpose(b, x, rank, perm);
}

static qb_status upgrade_matmul(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const product_attrs *attrs = graph->nodes[node].attrs;
    const float alpha = attrs->gemm.alpha, params[] = {attrs->act_alpha, attrs->act_beta};
    const char *activation = attrs->activation;
    const bool swap_a = attrs->gemm.trans_a, swap_b = attrs->gemm.trans_b;
    const int32_t a = qb_build_in(&b, 0);
    (void)version;
    if (attrs->trans_batch_a || attrs->trans_batch_b)
        qb_build_refuse(&b, "attributes transBatchA and transBatchB: expected 0");
    int32_t y = QB_BUILD(&b, "MatMul", transposed(&b, a, swap_a),
                         transposed(&b, qb_build_in(&b, 1), swap_b));
    if (alpha != 1.0f) y = QB_BUILD(&b, "Mul", y, qb_build_float(&b, a, alpha));
    qb_build_output(&b, 0, activated(&b, y, activation, params, 2));
    return qb_build_end(&b);
}

static qb_status upgrade_gemm(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const product_attrs attrs = *(const product_attrs *)graph->nodes[node].attrs;
    const float params[] = {attrs.act_alpha, attrs.act_beta};
    const int32_t in[] = {qb_build_in(&b, 0), qb_build_in(&b, 1), qb_build_in(&b, 2)};
    (void)version;
    const int32_t y = qb_build_node(&b, "Gemm", in[2] < 0 ? 2 : 3, in);
    qb_build_set_float(&b, "alpha", attrs.gemm.alpha);
    qb_build_set_float(&b, "beta", attrs.gemm.beta);
    qb_build_set_int(&b, "transA", attrs.gemm.trans_a);
    qb_build_set_int(&b, "transB", attrs.gemm.trans_b);
    qb_build_output(&b, 0, activated(&b, y, attrs.activation, params, 2));
    return qb_build_end(&b);
}

QB_ATTRS(gemm_table, QB_A_STRING(product_attrs, activation, "activation", ""),
         QB_A_FLOAT(product_attrs, act_alpha, "activation_alpha", 0.01f),
         QB_A_FLOAT(product_attrs, act_beta, "activation_beta", 0.0f),
         QB_A_FLOAT(product_attrs, gemm.alpha, "alpha", 1.0f),
         QB_A_FLOAT(product_attrs, gemm.beta, "beta", 1.0f),
         QB_A_INT(product_attrs, gemm.trans_a, "transA", 0, 0, 1),
         QB_A_INT(product_attrs, gemm.trans_b, "transB", 0, 0, 1),
         QB_A_INT(product_attrs, trans_batch_a, "transBatchA", 0, 0, 1),
         QB_A_INT(product_attrs, trans_batch_b, "transBatchB", 0, 0, 1));
QB_OP_OF_FILES(fused_gemm, "FusedGemm", MS, 2, 3, 1, sizeof(product_attrs), gemm_table,
               upgrade_gemm, .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(fused_matmul, "FusedMatMul", MS, 2, 2, 1, sizeof(product_attrs), gemm_table,
               upgrade_matmul, .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(transpose_matmul, "TransposeMatMul", MS, 2, 2, 1, sizeof(product_attrs), gemm_table,
               upgrade_matmul, .types = QB_TYPES_FLOATS);

typedef struct fused_conv_attrs {
    qb_conv_attrs conv;
    activation_attrs act;
} fused_conv_attrs;
QB_ATTRS(conv_table, QB_A_CONV, QB_A_STRING(fused_conv_attrs, act.activation, "activation", ""),
         QB_A_OLD_FLOATS(fused_conv_attrs, act.params, "activation_params"));

static qb_status upgrade_conv(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const fused_conv_attrs *attrs = graph->nodes[node].attrs;
    const int32_t in[] = {qb_build_in(&b, 0), qb_build_in(&b, 1), qb_build_in(&b, 2)};
    const int32_t more = qb_build_in(&b, 3);
    (void)version;
    int32_t y = qb_build_node(&b, "Conv", in[2] < 0 ? 2 : 3, in);
    if (b.status == QB_OK) *(qb_conv_attrs *)graph->nodes[graph->n_nodes - 1].attrs = attrs->conv;
    if (more >= 0) y = QB_BUILD(&b, "Add", y, more);
    y = activated(&b, y, attrs->act.activation, attrs->act.params.v, attrs->act.params.n);
    qb_build_output(&b, 0, y);
    return qb_build_end(&b);
}

QB_OP_OF_FILES(fused_conv, "FusedConv", MS, 2, 4, 1, sizeof(fused_conv_attrs), conv_table,
               upgrade_conv, .types = QB_TYPES_FLOATS);

/* --- normalization -----------------------------------------------------------------------------
 */

/* x normalized along its last axes, with a gain, and but for the simplified one with a shift and
 * the mean taken off. */
static int32_t normalized(qb_build *b, bool simplified, int32_t x, int32_t gain, int32_t shift,
                          int64_t axis, float epsilon) {
    const int32_t in[] = {x, gain, shift};
    const int32_t y = qb_build_node(b, simplified ? "RMSNormalization" : "LayerNormalization",
                                    simplified || shift < 0 ? 2 : 3, in);
    qb_build_set_int(b, "axis", axis);
    qb_build_set_float(b, "epsilon", epsilon);
    return y;
}

QB_ATTRS(simplified_attrs, QB_A_INT(qb_norm_attrs, axis, "axis", -1, 0, 0),
         QB_A_FLOAT(qb_norm_attrs, epsilon, "epsilon", 1e-5f),
         QB_A_INT(qb_norm_attrs, stash_type, "stash_type", 1, 0, 0));

static qb_status upgrade_simplified(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const qb_norm_attrs *attrs = graph->nodes[node].attrs;
    (void)version;
    qb_build_output(&b, 0,
                    normalized(&b, true, qb_build_in(&b, 0), qb_build_in(&b, 1), -1, attrs->axis,
                               attrs->epsilon));
    return qb_build_end(&b);
}

QB_ATTRS(skip_attrs, QB_A_FLOAT(qb_norm_attrs, epsilon, "epsilon", 1e-12f));
QB_ATTRS(skip_simplified_attrs, QB_A_FLOAT(qb_norm_attrs, epsilon, "epsilon", 1e-6f));

/* Inputs: x, skip, gain, shift (not of the simplified one), bias. Output 3 is the sum. */
static qb_status upgrade_skip(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const bool simplified = strstr(graph->nodes[node].op->name, "Simplified") != NULL;
    const float epsilon = ((const qb_norm_attrs *)graph->nodes[node].attrs)->epsilon;
    const int32_t bias = qb_build_in(&b, simplified ? 3 : 4);
    int32_t sum = qb_build_in(&b, 0);
    (void)version;
    if (bias >= 0) sum = QB_BUILD(&b, "Add", sum, bias);
    sum = QB_BUILD(&b, "Add", sum, qb_build_in(&b, 1));
    qb_build_output(&b, 0,
                    normalized(&b, simplified, sum, qb_build_in(&b, 2),
                               simplified ? -1 : qb_build_in(&b, 3), -1, epsilon));
    qb_build_output(&b, 3, sum);
    return qb_build_end(&b);
}

enum {
    EMBED_IDS,
    EMBED_SEGMENTS,
    EMBED_WORDS,
    EMBED_PLACES,
    EMBED_SEGMENT_ROWS,
    EMBED_GAIN,
    EMBED_SHIFT,
    EMBED_MASK,
    EMBED_PLACE_IDS
};

QB_ATTRS(embed_attrs, QB_A_FLOAT(qb_norm_attrs, epsilon, "epsilon", 1e-12f),
         QB_A_INT(qb_norm_attrs, axis, "mask_index_type", 0, 0, 1));

/* Rows of words, places and segments, added up and normalized; how many ids the mask lets through.
 */
static qb_status upgrade_embed(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const float epsilon = ((const qb_norm_attrs *)graph->nodes[node].attrs)->epsilon;
    const int32_t ids = qb_build_in(&b, EMBED_IDS), places = qb_build_in(&b, EMBED_PLACES);
    const int32_t at = qb_build_in(&b, EMBED_PLACE_IDS), mask = qb_build_in(&b, EMBED_MASK);
    const int32_t segments = qb_build_in(&b, EMBED_SEGMENTS);
    (void)version;
    int32_t row =
        at >= 0
            ? QB_BUILD(&b, "Gather", places, at)
            : QB_BUILD(&b, "Slice", places, QB_BUILD_INTS(&b, 0),
                       QB_BUILD(&b, "Unsqueeze", qb_build_dim(&b, ids, 1), QB_BUILD_INTS(&b, 0)),
                       QB_BUILD_INTS(&b, 0));
    int32_t sum =
        QB_BUILD(&b, "Add", QB_BUILD(&b, "Gather", qb_build_in(&b, EMBED_WORDS), ids), row);
    if (segments >= 0) {
        row = QB_BUILD(&b, "Gather", qb_build_in(&b, EMBED_SEGMENT_ROWS), segments);
        sum = QB_BUILD(&b, "Add", sum, row);
    }
    qb_build_output(&b, 0,
                    normalized(&b, false, sum, qb_build_in(&b, EMBED_GAIN),
                               qb_build_in(&b, EMBED_SHIFT), -1, epsilon));
    qb_build_output(&b, 2, sum);
    if (qb_build_wants(&b, 1) && mask >= 0) {
        row = QB_BUILD(&b, "ReduceSum", mask, QB_BUILD_INTS(&b, 1));
        qb_build_set_int(&b, "keepdims", 0);
        qb_build_output(&b, 1, row);
    } else if (qb_build_wants(&b, 1)) { /* nothing is masked */
        const int32_t batch =
            QB_BUILD(&b, "Unsqueeze", qb_build_dim(&b, ids, 0), QB_BUILD_INTS(&b, 0));
        row = qb_build_cast(&b, qb_build_int(&b, 0), QB_DTYPE_S32);
        qb_build_output(&b, 1, QB_BUILD(&b, "Expand", row, batch));
    }
    return qb_build_end(&b);
}

QB_OP_OF_FILES(embed_layer_normalization, "EmbedLayerNormalization", MS, 1, 9, 3,
               sizeof(qb_norm_attrs), embed_attrs, upgrade_embed, .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(simplified_layer_normalization, "SimplifiedLayerNormalization", "", 2, 2, 2,
               sizeof(qb_norm_attrs), simplified_attrs, upgrade_simplified,
               .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(skip_layer_normalization, "SkipLayerNormalization", MS, 3, 5, 4,
               sizeof(qb_norm_attrs), skip_attrs, upgrade_skip, .types = QB_TYPES_FLOATS);
QB_OP_OF_FILES(skip_simplified, "SkipSimplifiedLayerNormalization", MS, 3, 4, 4,
               sizeof(qb_norm_attrs), skip_simplified_attrs, upgrade_skip,
               .types = QB_TYPES_FLOATS);
