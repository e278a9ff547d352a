/* Running a batch in parts: when the activations of a whole batch do not fit in the caches, each
 * layer reads and writes main memory. A few items at a time through all layers stay in the caches.
 * That is the same computation when nothing mixes the items. */
#include <unistd.h>

#include "engine/tune/tune_internal.h"

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
            !qb_node_is_itemwise(whole, node) || !qb_node_is_itemwise(one, other))
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
    const size_t budget = bytes > 0 ? (size_t)bytes / 2 : USUAL_BUDGET;
    if (budget > USUAL_BUDGET) return USUAL_BUDGET;
    return budget < SMALLEST_BUDGET ? SMALLEST_BUDGET : budget;
}

int64_t qb_items_at_once(int64_t batch, size_t bytes_of_one, size_t budget) {
    const size_t most = budget / (bytes_of_one ? bytes_of_one : 1);
    int64_t parts = 1; /* divisors in pairs: the large ones first */
    for (; parts <= batch / parts; parts++)
        if (batch % parts == 0 && (size_t)(batch / parts) <= most) return batch / parts;
    for (int64_t items = parts - 1; items > 1; items--)
        if (batch % items == 0 && (size_t)items <= most) return items;
    return 1;
}
