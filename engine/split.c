/* Running a batch in parts: when the activations of a whole batch do not fit in the caches, each
 * layer reads and writes main memory. A few items at a time through all layers stay in the caches.
 * That is the same computation when nothing mixes the items; which operators cannot is listed here.
 */
#include <string.h>
#include <unistd.h>

#include "engine_internal.h"

/* Operators whose outputs' items depend on the same items of their inputs alone, whenever their
 * first dimension scales with the batch and the others do not. */
static bool is_itemwise(const char *op) {
    static const char *const names[] = {"Abs",
                                        "Add",
                                        "AveragePool",
                                        "BatchNormalization",
                                        "Cast",
                                        "Ceil",
                                        "Clip",
                                        "Conv",
                                        "ConvTranspose",
                                        "DequantizeLinear",
                                        "Div",
                                        "Dropout",
                                        "Elu",
                                        "Erf",
                                        "Exp",
                                        "Flatten",
                                        "Floor",
                                        "Gelu",
                                        "GlobalAveragePool",
                                        "GlobalMaxPool",
                                        "HardSigmoid",
                                        "HardSwish",
                                        "Identity",
                                        "InstanceNormalization",
                                        "LRN",
                                        "LeakyRelu",
                                        "Log",
                                        "Max",
                                        "MaxPool",
                                        "Min",
                                        "Mul",
                                        "Neg",
                                        "PRelu",
                                        "Pad",
                                        "Pow",
                                        "QuantizeLinear",
                                        "Reciprocal",
                                        "Relu",
                                        "Reshape",
                                        "Resize",
                                        "Sigmoid",
                                        "Sqrt",
                                        "Squeeze",
                                        "Sub",
                                        "Tanh",
                                        "Unsqueeze"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0) return true;
    return false;
}

/* Operators that are so when the given attribute is not the first dimension. */
static bool has_axis(const char *op) {
    static const char *const names[] = {"Softmax", "LogSoftmax", "Concat", "Split"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op, names[i]) == 0) return true;
    return false;
}

static bool is_constant(const qb_graph *graph, const qb_node *node, int32_t input) {
    return input >= node->n_in || node->in[input] < 0 || graph->values[node->in[input]].data;
}

static const void *attribute(const qb_node *node, const char *name) {
    for (const qb_attr_desc *a = node->op->attrs; a && a->name; a++)
        if (strcmp(a->name, name) == 0) return (const char *)node->attrs + a->offset;
    return NULL;
}

static bool keeps_items_apart(const qb_graph *graph, const qb_node *node) {
    const char *op = node->op->name;
    const int64_t *training = attribute(node, "training_mode");
    if (*node->op->domain) return false;
    if (training && *training) return false; /* statistics of the whole batch */
    if (is_itemwise(op)) return true;
    if (has_axis(op)) {
        const int64_t *axis = attribute(node, "axis");
        int32_t rank = graph->values[node->in[0]].shape.rank;
        return axis && (*axis < 0 ? *axis + rank : *axis) != 0;
    }
    if (strcmp(op, "Transpose") == 0) {
        const qb_ints *perm = attribute(node, "perm");
        return perm && perm->n > 0 && perm->v[0] == 0;
    }
    if (strcmp(op, "Gemm") == 0) {
        const int64_t *transposed = attribute(node, "transA");
        return transposed && !*transposed && is_constant(graph, node, 1) &&
               is_constant(graph, node, 2);
    }
    if (strcmp(op, "MatMul") == 0)
        return is_constant(graph, node, 1) && graph->values[node->in[0]].shape.rank >= 2;
    return false;
}

static bool scales(const qb_shape *whole, const qb_shape *one, int64_t batch) {
    if (whole->rank != one->rank || whole->rank < 1) return false;
    for (int32_t d = 1; d < whole->rank; d++)
        if (whole->dim[d] != one->dim[d]) return false;
    return whole->dim[0] == batch && one->dim[0] == 1;
}

bool qb_is_separable(const qb_graph *whole, const qb_graph *one, int64_t batch) {
    if (whole->n_nodes != one->n_nodes || whole->n_values != one->n_values) return false;
    for (int32_t i = 0; i < whole->n_inputs; i++)
        if (!scales(&whole->values[whole->inputs[i]].shape, &one->values[one->inputs[i]].shape,
                    batch))
            return false;
    for (int32_t n = 0; n < whole->n_nodes; n++) {
        const qb_node *node = &whole->nodes[n], *other = &one->nodes[n];
        if (node->op != other->op || node->n_out != other->n_out ||
            !keeps_items_apart(whole, node) || !keeps_items_apart(one, other))
            return false;
        for (int32_t i = 0; i < node->n_out; i++) {
            if (node->out[i] < 0) continue;
            if (!scales(&whole->values[node->out[i]].shape, &one->values[other->out[i]].shape,
                        batch))
                return false;
        }
    }
    for (int32_t i = 0; i < whole->n_outputs; i++) /* an output may be a constant */
        if (!scales(&whole->values[whole->outputs[i]].shape, &one->values[one->outputs[i]].shape,
                    batch))
            return false;
    return true;
}

/* Half of the last level cache: the rest is for weights, and for others. What the system reports
 * may be the sum over all groups of cores, so it only ever lowers the usual size. */
#define USUAL_BUDGET ((size_t)16 << 20)
#define SMALLEST_BUDGET ((size_t)4 << 20)

size_t qb_cache_budget(void) {
    long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t half = bytes > 0 ? (size_t)bytes / 2 : USUAL_BUDGET;
    if (half > USUAL_BUDGET) return USUAL_BUDGET;
    return half < SMALLEST_BUDGET ? SMALLEST_BUDGET : half;
}

int64_t qb_items_at_once(int64_t batch, size_t bytes_of_one, size_t budget) {
    for (int64_t items = batch; items > 1; items--)
        if (batch % items == 0 && (size_t)items <= budget / (bytes_of_one ? bytes_of_one : 1))
            return items;
    return 1;
}
