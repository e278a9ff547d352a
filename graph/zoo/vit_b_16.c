/* Dosovitskiy et al. 2020, "An image is worth 16x16 words": ViT-B/16. */
#include <math.h>

#include "graph/zoo/zoo_internal.h"

enum { PATCH = 16, WIDTH = 768, LAYERS = 12, HEADS = 12 };

/* Patches as tokens [N, (side / 16)^2, 768]. */
static int32_t patches(qb_zoo *z, int32_t image) {
    qb_shape shape = {.rank = 4, .dim = {WIDTH, 3, PATCH, PATCH}},
             vector = {.rank = 1, .dim = {WIDTH}};
    double deviation = 1 / sqrt(3.0 * PATCH * PATCH);
    int32_t in[3] = {image, qb_zoo_normal(z, "conv_proj.weight", shape, 3 * deviation),
                     qb_zoo_normal(z, "conv_proj.bias", vector, 0.1)};
    int32_t x = qb_zoo_conv_node(z, "conv_proj", in, 3, (qb_zoo_conv){WIDTH, PATCH, PATCH, 0, 1});
    x = qb_zoo_reshape(z, "patches", x, (const int64_t[3]){0, WIDTH, -1}, 3);
    return qb_zoo_transpose(z, "tokens", x, (const int64_t[3]){0, 2, 1}, 3);
}

/* The class token, one for each image of the batch, in front of the patches. */
static int32_t with_class_token(qb_zoo *z, int32_t x) {
    qb_shape one = {.rank = 3, .dim = {1, 1, WIDTH}};
    int32_t token = qb_zoo_normal(z, "class_token.weight", one, 1);
    int32_t shape = qb_zoo_node(z, "Shape", "tokens.shape", &x, 1);
    int32_t batch = qb_zoo_binary(z, "Gather", "tokens.batch", shape,
                                  qb_zoo_ints(z, "tokens.batch.index", (const int64_t[1]){0}, 1));
    int32_t target[2] = {batch,
                         qb_zoo_ints(z, "class_token.rest", (const int64_t[2]){1, WIDTH}, 2)};
    int32_t wanted = qb_zoo_concat(z, "class_token.shape", target, 2, 0);
    int32_t expanded = qb_zoo_binary(z, "Expand", "class_token", token, wanted);
    return qb_zoo_concat(z, "sequence", (const int32_t[2]){expanded, x}, 2, 1);
}

static int32_t encoder_layer(qb_zoo *z, const char *name, int32_t x) {
    if (!name) return -1;
    int32_t y = qb_zoo_layer_norm(z, qb_zoo_name(z, "%s.ln_1", name), x, 1e-6);
    y = qb_zoo_attention(z, qb_zoo_name(z, "%s.self_attention", name), y, HEADS, -1);
    x = qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add_1", name), y, x);
    y = qb_zoo_layer_norm(z, qb_zoo_name(z, "%s.ln_2", name), x, 1e-6);
    y = qb_zoo_mlp(z, qb_zoo_name(z, "%s.mlp.0", name), qb_zoo_name(z, "%s.mlp.3", name), y,
                   4 * WIDTH);
    return qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add_2", name), x, y);
}

static int32_t build(qb_zoo *z, int32_t image) {
    int64_t cells = z->side / PATCH;
    qb_shape shape = {.rank = 3, .dim = {1, cells * cells + 1, WIDTH}};
    int32_t x = with_class_token(z, patches(z, image));
    int32_t position = qb_zoo_normal(z, "encoder.pos_embedding.weight", shape, 0.5);
    x = qb_zoo_binary(z, "Add", "encoder.input", x, position);
    for (int i = 0; i < LAYERS; i++)
        x = encoder_layer(z, qb_zoo_name(z, "encoder.layers.%d", i), x);
    x = qb_zoo_layer_norm(z, "encoder.ln", x, 1e-6);
    return qb_zoo_dense(z, "heads.head", qb_zoo_select(z, "class", x, 1, 0), 1000, 2.5);
}

const qb_zoo_model qb_zoo_vit_b_16 = {
    .name = "vit_b_16",
    .summary = "Vision transformer ViT-B/16, 17.6 GMACs",
    .channels = 3,
    .side = 224,
    .build = build,
    .plain = true,
};
