/* Operators of onnxruntime on integers that its quantizers and optimizers write beside those of
 * qlinear.c: with scales that the data have, and weights of few bits in blocks. */
#include "contrib_internal.h"

#define MS "com.microsoft"

/* --- dynamic quantization ----------------------------------------------------------------------
 */

int32_t qb_build_scaled_product(qb_build *b, const int32_t in[7]) {
    const qb_shape unknown = {.rank = -1};
    int32_t n = 7;
    if (b->status != QB_OK) return -1;
    while (in[n - 1] < 0) n--;
    const int32_t out = qb_graph_add_value(b->cx, b->graph, "product", QB_DTYPE_NONE, &unknown);
    const qb_op *op = qb_op_find("MatMulIntegerToFloat", MS);
    if (out < 0 || qb_graph_add_node(b->cx, b->graph, op, "", in, n, &out, 1) < 0)
        b->status = b->cx->code;
    return out;
}

/* Inputs: a, b, the scale and zero point of b, a bias. */
static qb_status upgrade_dynamic(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const qb_shape unknown = {.rank = -1};
    const int32_t a = qb_build_in(&b, 0);
    int32_t made[3];
    (void)version;
    for (int i = 0; i < 3; i++)
        QB_TRY((made[i] = qb_graph_add_value(cx, graph, "quantized", QB_DTYPE_NONE, &unknown)) < 0
                   ? cx->code
                   : QB_OK);
    if (qb_graph_add_node(cx, graph, qb_op_find("DynamicQuantizeLinear", ""), "", &a, 1, made, 3) <
        0)
        return cx->code;
    const int32_t in[] = {made[0], qb_build_in(&b, 1), made[1],           qb_build_in(&b, 2),
                          made[2], qb_build_in(&b, 3), qb_build_in(&b, 4)};
    qb_build_output(&b, 0, qb_build_scaled_product(&b, in));
    return qb_build_end(&b);
}

QB_OP_OF_FILES(dynamic_quantize_matmul, "DynamicQuantizeMatMul", MS, 3, 5, 1, 0, NULL,
               upgrade_dynamic, .types = QB_TYPES_QUANTIZED, .traits = QB_TRAIT_INTEGERS);

/* --- weights in blocks -------------------------------------------------------------------------
 */

typedef struct blocks_attrs {
    int64_t k, n, bits, block, accuracy, packing;
} blocks_attrs;
QB_ATTRS(blocks_table, QB_A_NEED_INT(blocks_attrs, k, "K", 1, QB_ATTR_BIG),
         QB_A_NEED_INT(blocks_attrs, n, "N", 1, QB_ATTR_BIG),
         QB_A_INT(blocks_attrs, accuracy, "accuracy_level", 0, 0, 4),
         QB_A_INT(blocks_attrs, bits, "bits", 4, 2, 8),
         QB_A_NEED_INT(blocks_attrs, block, "block_size", 16, QB_ATTR_BIG),
         QB_A_INT(blocks_attrs, packing, "weight_prepacked", 0, 0, 0));

/* Number i of those that lie together in bytes, the first one in the low bits. */
static uint8_t packed_at(const uint8_t *data, int64_t i, int64_t bits) {
    const int64_t in_byte = 8 / bits;
    return (uint8_t)(data[i / in_byte] >> (i % in_byte * bits) & ((1 << bits) - 1));
}

/* A constant of bytes with as many elements as that. */
static const uint8_t *bytes_of(qb_build *b, int32_t value, int64_t n, const char *what) {
    const qb_value *v = value < 0 ? NULL : &b->graph->values[value];
    if (v && v->data && v->dtype == QB_DTYPE_U8 && qb_shape_count(&v->shape) == n) return v->data;
    qb_build_refuse(b, what);
    return NULL;
}

/* [K, N] quantized values from [N, blocks, bytes of a block]. */
static int32_t unpack_weight(qb_build *b, const blocks_attrs *a, int64_t blocks) {
    const qb_shape shape = qb_shape_of(2, a->k, a->n);
    const int64_t per_block = a->block * a->bits / 8;
    const uint8_t *from =
        bytes_of(b, qb_build_in(b, 1), a->n * blocks * per_block, "a weight of another form");
    int32_t id = -1;
    uint8_t *to = from ? qb_build_constant(b, QB_DTYPE_U8, &shape, &id) : NULL;
    for (int64_t i = 0; to && i < a->k; i++)
        for (int64_t j = 0; j < a->n; j++)
            to[i * a->n + j] =
                packed_at(from + (j * blocks + i / a->block) * per_block, i % a->block, a->bits);
    return id;
}

/* [blocks, N] zero points: each row of [N] bytes begins anew; or all in the middle. */
static int32_t unpack_zeros(qb_build *b, const blocks_attrs *a, int64_t blocks) {
    const qb_shape shape = qb_shape_of(2, blocks, a->n);
    const int64_t row = (blocks * a->bits + 7) / 8;
    const int32_t given = qb_build_in(b, 3);
    const uint8_t *from =
        given < 0 ? NULL : bytes_of(b, given, a->n * row, "zero points of another form");
    int32_t id = -1;
    uint8_t *to = qb_build_constant(b, QB_DTYPE_U8, &shape, &id);
    for (int64_t i = 0; to && i < blocks; i++)
        for (int64_t j = 0; j < a->n; j++)
            to[i * a->n + j] =
                from ? packed_at(from + j * row, i, a->bits) : (uint8_t)(1 << (a->bits - 1));
    return id;
}

/* Inputs: a, weight, scales, zero points, places of groups, bias. */
static qb_status upgrade_blocks(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t version) {
    qb_build b = {cx, graph, node, QB_OK};
    const blocks_attrs *a = graph->nodes[node].attrs;
    const int64_t blocks = (a->k + a->block - 1) / a->block;
    const int32_t bias = qb_build_in(&b, 5);
    (void)version;
    if (qb_build_in(&b, 4) >= 0) qb_build_refuse(&b, "input g_idx");
    if (a->bits != 2 && a->bits != 4 && a->bits != 8)
        qb_build_refuse(&b, "attribute bits: expected 2, 4 or 8");
    const int32_t q = unpack_weight(&b, a, blocks), zeros = unpack_zeros(&b, a, blocks);
    int32_t scales = qb_build_reshape(&b, qb_build_in(&b, 2), 2, (int64_t[]){a->n, blocks});
    scales = qb_build_transpose(&b, scales, 2, (int64_t[]){1, 0});
    const int32_t weight = QB_BUILD(&b, "DequantizeLinear", q, scales, zeros);
    qb_build_set_int(&b, "axis", 0);
    qb_build_set_int(&b, "block_size", a->block);
    int32_t y = QB_BUILD(&b, "MatMul", qb_build_in(&b, 0), weight);
    if (bias >= 0) y = QB_BUILD(&b, "Add", y, bias);
    qb_build_output(&b, 0, y);
    return qb_build_end(&b);
}

QB_OP_OF_FILES(matmul_nbits, "MatMulNBits", MS, 3, 6, 1, sizeof(blocks_attrs), blocks_table,
               upgrade_blocks, .types = QB_TYPES_FLOATS);
