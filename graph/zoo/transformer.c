/* Layers of transformers (Vaswani et al. 2017, "Attention is all you need"). */
#include <math.h>

#include "graph/zoo/zoo_internal.h"

static int64_t width_of(const qb_zoo *z, int32_t x) {
    const qb_shape *shape = &z->graph->values[x].shape;
    return shape->dim[shape->rank - 1];
}

int32_t qb_zoo_dense(qb_zoo *z, const char *name, int32_t x, int64_t out, double gain) {
    if (x < 0 || !name) return -1;
    int64_t in = width_of(z, x);
    qb_shape matrix = {.rank = 2, .dim = {in, out}}, vector = {.rank = 1, .dim = {out}};
    int32_t weight =
        qb_zoo_normal(z, qb_zoo_name(z, "%s.weight", name), matrix, gain / sqrt((double)in));
    int32_t bias = qb_zoo_normal(z, qb_zoo_name(z, "%s.bias", name), vector, 0.05);
    int32_t product = qb_zoo_binary(z, "MatMul", qb_zoo_name(z, "%s.matmul", name), x, weight);
    return qb_zoo_binary(z, "Add", name, product, bias);
}

int32_t qb_zoo_layer_norm(qb_zoo *z, const char *name, int32_t x, double epsilon) {
    if (x < 0 || !name) return -1;
    qb_shape vector = {.rank = 1, .dim = {width_of(z, x)}};
    int32_t bias = qb_zoo_normal(z, qb_zoo_name(z, "%s.bias", name), vector, 0.1), gamma = -1;
    float *gains = qb_alloc(z->cx, (size_t)vector.dim[0], sizeof *gains);
    for (int64_t i = 0; gains && i < vector.dim[0]; i++)
        gains[i] = (float)(0.7 + 0.6 * qb_rng_uniform(&z->rng));
    if (gains) gamma = qb_zoo_floats(z, qb_zoo_name(z, "%s.weight", name), vector, gains);
    qb_free(gains);
    int32_t in[3] = {x, gamma, bias};
    int32_t y = qb_zoo_node(z, "LayerNormalization", name, in, 3);
    qb_rewrite rw = {.cx = z->cx, .graph = z->graph};
    if (y < 0 || qb_node_set_float(&rw, z->graph->n_nodes - 1, "epsilon", (float)epsilon))
        return -1;
    return y;
}

/* [N, T, heads * depth] -> [N, heads, T, depth], or [N, heads, depth, T] for the keys. */
static int32_t split_heads(qb_zoo *z, const char *name, int32_t x, int64_t heads, bool keys) {
    static const int64_t perm[2][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}};
    if (x < 0 || !name) return -1;
    int64_t target[4] = {0, 0, heads, width_of(z, x) / heads};
    x = qb_zoo_reshape(z, qb_zoo_name(z, "%s.split", name), x, target, 4);
    return qb_zoo_transpose(z, qb_zoo_name(z, "%s.heads", name), x, perm[keys], 4);
}

int32_t qb_zoo_attention(qb_zoo *z, const char *name, int32_t x, int64_t heads, int32_t mask) {
    static const char *const parts[] = {"query", "key", "value"};
    static const int64_t back[4] = {0, 2, 1, 3};
    if (x < 0 || !name) return -1;
    int64_t width = width_of(z, x);
    int32_t part[3];
    for (int i = 0; i < 3; i++) {
        const char *full = qb_zoo_name(z, "%s.%s", name, parts[i]);
        /* Queries and keys are larger, so that attention is not the plain mean. */
        part[i] =
            split_heads(z, full, qb_zoo_dense(z, full, x, width, i < 2 ? 1.3 : 1), heads, i == 1);
    }
    int32_t scores =
        qb_zoo_binary(z, "MatMul", qb_zoo_name(z, "%s.scores", name), part[0], part[1]);
    float scale = (float)(1 / sqrt((double)(width / heads)));
    int32_t factor =
        qb_zoo_floats(z, qb_zoo_name(z, "%s.factor", name), (qb_shape){.rank = 0}, &scale);
    scores = qb_zoo_binary(z, "Mul", qb_zoo_name(z, "%s.scaled", name), scores, factor);
    if (mask >= 0)
        scores = qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.masked", name), scores, mask);
    scores = qb_zoo_node(z, "Softmax", qb_zoo_name(z, "%s.weights", name), &scores, 1);
    int32_t y = qb_zoo_binary(z, "MatMul", qb_zoo_name(z, "%s.mixed", name), scores, part[2]);
    y = qb_zoo_transpose(z, qb_zoo_name(z, "%s.tokens", name), y, back, 4);
    y = qb_zoo_reshape(z, qb_zoo_name(z, "%s.joined", name), y, (const int64_t[3]){0, 0, width}, 3);
    return qb_zoo_dense(z, qb_zoo_name(z, "%s.output", name), y, width, 1);
}

int32_t qb_zoo_mlp(qb_zoo *z, const char *first, const char *second, int32_t x, int64_t hidden) {
    if (x < 0 || !first) return -1;
    int64_t width = width_of(z, x);
    int32_t y = qb_zoo_dense(z, first, x, hidden, 1);
    y = qb_zoo_node(z, "Gelu", qb_zoo_name(z, "%s.gelu", first), &y, 1);
    return qb_zoo_dense(z, second, y, width, 1);
}
