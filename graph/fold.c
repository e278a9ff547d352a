/* Constant folding with the operators' own reference evaluation. */
#include <string.h>

#include "graph_internal.h"

#define MAX_FOLD_INPUTS 256
#define MAX_FOLD_OUTPUTS 64

static bool plain_known(const qb_value *value) {
    return value->q.n == 0 && value->dtype != QB_DTYPE_NONE && qb_shape_known(&value->shape);
}

/* Upper bound of the multiplications that folding one node may take: the reference is slow, and no
 * honest model computes that much from constants alone. */
#define MAX_FOLD_WORK ((double)(1ull << 34))

/* Most operators touch each element once or so; those with a kernel, a weight or a window may look
 * at a whole input for each element of the output. */
static bool affordable(const qb_graph *graph, const qb_node *node) {
    static const char *const products[] = {"Attention", "MatMulInteger", "NonMaxSuppression",
                                           "QLinearMatMul"};
    bool window = node->op->qrule == QB_QRULE_COMPUTE || qb_attr_find(node->op, "kernel_shape") ||
                  qb_attr_find(node->op, "size") || qb_attr_find(node->op, "equation");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        window = window || strcmp(node->op->name, products[i]) == 0;
    if (!window) return true;
    double most = 1, out = 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        double count = (double)qb_shape_count(&graph->values[node->in[i]].shape);
        if (count > most) most = count;
    }
    for (int32_t i = 0; i < node->n_out; i++)
        out += (double)qb_shape_count(&graph->values[node->out[i]].shape);
    return most * out <= MAX_FOLD_WORK;
}

/* Can the node be evaluated now? *bytes is what its outputs take. */
static bool foldable(const qb_graph *graph, const qb_node *node, size_t *bytes) {
    if (!node->op->eval || node->n_in > MAX_FOLD_INPUTS || node->n_out > MAX_FOLD_OUTPUTS)
        return false;
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *value = &graph->values[node->in[i]];
        if (!value->data && !node->op->shape_only) return false;
        /* Shape of a quantized value is that of the float tensor it stands for. */
        if (!node->op->shape_only && !plain_known(value)) return false;
        if (!qb_shape_known(&value->shape)) return false;
    }
    *bytes = 0;
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0) return false; /* eval wants a place for each output */
        const qb_value *value = &graph->values[node->out[i]];
        if (!plain_known(value)) return false;
        qb_desc desc = {.dtype = value->dtype, .shape = value->shape};
        size_t more = qb_desc_bytes(&desc);
        if (more > QB_FOLD_LIMIT || *bytes > QB_FOLD_LIMIT - more) return false;
        *bytes += more;
    }
    return affordable(graph, node);
}

static qb_status evaluate(qb_ctx *cx, qb_graph *graph, int32_t index) {
    const qb_node *node = &graph->nodes[index];
    qb_tensor in[MAX_FOLD_INPUTS], out[MAX_FOLD_OUTPUTS];
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) {
            in[i] = (qb_tensor){0};
            continue;
        }
        const qb_value *value = &graph->values[node->in[i]];
        in[i] = qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)value->data);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        const qb_value *value = &graph->values[node->out[i]];
        out[i] = qb_tensor_of(value->dtype, value->shape, NULL);
        out[i].data = qb_arena_alloc(cx, graph->arena, 1, qb_desc_bytes(&out[i].desc));
        if (!out[i].data) return cx->code;
    }
    QB_TRY(node->op->eval(cx, node, in, out));
    for (int32_t i = 0; i < node->n_out; i++) {
        qb_value *value = &graph->values[node->out[i]];
        value->data = out[i].data;
        value->bytes = qb_desc_bytes(&out[i].desc);
    }
    qb_graph_kill_node(graph, index);
    return QB_OK;
}

static qb_status fold_all(qb_ctx *cx, qb_graph *graph, int32_t *n) {
    size_t taken = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (!graph->nodes[i].op) continue;
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(qb_infer_node(cx, graph, i));
        size_t bytes;
        if (!foldable(graph, &graph->nodes[i], &bytes) || bytes > QB_FOLD_LIMIT - taken) continue;
        qb_status status = evaluate(cx, graph, i);
        if (status == QB_OK) {
            taken += bytes;
            ++*n;
        } else if (status == QB_STATUS_UNSUPPORTED) {
            qb_ctx_clear(cx); /* the node stays; whoever runs it reports why it cannot */
        } else {
            char label[QB_LABEL_MAX];
            return qb_wrap(cx, "%s", qb_node_text(graph, i, label, sizeof label));
        }
    }
    return QB_OK;
}

qb_status qb_graph_fold(qb_ctx *cx, qb_graph *graph, int32_t *n) {
    qb_disguise disguise;
    int32_t folded = 0;
    QB_TRY(qb_disguise_begin(cx, graph, &disguise));
    qb_status status = fold_all(cx, graph, &folded);
    qb_disguise_end(graph, &disguise);
    if (status == QB_OK) *n = folded;
    return status;
}
