/* Devlin et al. 2018, "BERT": the base model with its pooler. Inputs are the token numbers, the
 * mask (1: a token, 0: padding) and the segment numbers, all int64 [N, length], length at most 512.
 */
#include "graph/zoo/zoo_internal.h"

enum { WORDS = 30522, POSITIONS = 512, SEGMENTS = 2, WIDTH = 768, LAYERS = 12, HEADS = 12 };

static int32_t embedding(qb_zoo *z, const char *name, int64_t rows, int32_t ids) {
    qb_shape shape = {.rank = 2, .dim = {rows, WIDTH}};
    int32_t table = qb_zoo_normal(z, qb_zoo_name(z, "%s.weight", name), shape, 1);
    return qb_zoo_binary(z, "Gather", name, table, ids);
}

/* The first rows of a table of positions, as many as there are tokens. */
static int32_t positions(qb_zoo *z, const char *name, int32_t ids) {
    qb_shape shape = {.rank = 2, .dim = {POSITIONS, WIDTH}};
    int32_t table = qb_zoo_normal(z, qb_zoo_name(z, "%s.weight", name), shape, 1);
    int32_t sizes = qb_zoo_node(z, "Shape", qb_zoo_name(z, "%s.sizes", name), &ids, 1);
    int32_t length =
        qb_zoo_binary(z, "Gather", qb_zoo_name(z, "%s.length", name), sizes,
                      qb_zoo_ints(z, qb_zoo_name(z, "%s.axis", name), (int64_t[]){1}, 1));
    int32_t zero = qb_zoo_ints(z, qb_zoo_name(z, "%s.first", name), (int64_t[]){0}, 1);
    return qb_zoo_node(z, "Slice", name, (int32_t[]){table, zero, length}, 3);
}

static int32_t embeddings(qb_zoo *z, int32_t ids, int32_t segments) {
    if (z->length > POSITIONS) {
        qb_fail(z->cx, QB_STATUS_INVALID, "length: expected at most %d, got %lld", POSITIONS,
                (long long)z->length);
        return -1;
    }
    int32_t x = embedding(z, "embeddings.word_embeddings", WORDS, ids);
    x = qb_zoo_binary(z, "Add", "embeddings.add_1", x,
                      positions(z, "embeddings.position_embeddings", ids));
    x = qb_zoo_binary(z, "Add", "embeddings.add_2", x,
                      embedding(z, "embeddings.token_type_embeddings", SEGMENTS, segments));
    return qb_zoo_layer_norm(z, "embeddings.LayerNorm", x, 1e-12);
}

/* (1 - mask) * -10000 as [N, 1, 1, length]. */
static int32_t mask_scores(qb_zoo *z, int32_t mask) {
    static const float one = 1, low = -10000;
    const qb_shape scalar = {.rank = 0};
    int32_t axes = qb_zoo_ints(z, "mask.axes", (const int64_t[2]){1, 2}, 2);
    int32_t x = qb_zoo_binary(z, "Unsqueeze", "mask.wide", mask, axes);
    x = qb_zoo_with_int(z, qb_zoo_node(z, "Cast", "mask.real", &x, 1), "to", 1);
    x = qb_zoo_binary(z, "Sub", "mask.inverted", qb_zoo_floats(z, "mask.one", scalar, &one), x);
    return qb_zoo_binary(z, "Mul", "mask.scores", x, qb_zoo_floats(z, "mask.low", scalar, &low));
}

static int32_t encoder_layer(qb_zoo *z, const char *name, int32_t x, int32_t mask) {
    if (!name) return -1;
    int32_t y = qb_zoo_attention(z, qb_zoo_name(z, "%s.attention", name), x, HEADS, mask);
    y = qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add_1", name), y, x);
    x = qb_zoo_layer_norm(z, qb_zoo_name(z, "%s.attention.output.LayerNorm", name), y, 1e-12);
    y = qb_zoo_mlp(z, qb_zoo_name(z, "%s.intermediate.dense", name),
                   qb_zoo_name(z, "%s.output.dense", name), x, 4 * WIDTH);
    y = qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add_2", name), y, x);
    return qb_zoo_layer_norm(z, qb_zoo_name(z, "%s.output.LayerNorm", name), y, 1e-12);
}

static int32_t build(qb_zoo *z, int32_t ids) {
    qb_shape shape = z->graph->values[ids].shape;
    int32_t attention_mask = qb_zoo_input(z, "attention_mask", QB_DTYPE_S64, &shape);
    int32_t segments = qb_zoo_input(z, "token_type_ids", QB_DTYPE_S64, &shape);
    int32_t x = embeddings(z, ids, segments), mask = mask_scores(z, attention_mask);
    if (mask < 0) return -1;
    for (int i = 0; i < LAYERS; i++)
        x = encoder_layer(z, qb_zoo_name(z, "encoder.layer.%d", i), x, mask);
    x = qb_zoo_dense(z, "pooler.dense", qb_zoo_select(z, "first", x, 1, 0), WIDTH, 1);
    return qb_zoo_node(z, "Tanh", "pooler", &x, 1);
}

const qb_zoo_model qb_zoo_bert_base = {
    .name = "bert_base",
    .summary = "BERT base with pooler, up to 512 tokens, 11 GMACs with 128",
    .channels = 0,
    .side = 128,
    .build = build,
    .output = "pooled",
    .plain = true,
};
