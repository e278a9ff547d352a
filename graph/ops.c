#include <string.h>

#include "graph/op.h"

#define QB_OP_ROW(symbol) extern const qb_op qb_op_##symbol;
#include "graph/ops.def"

static const qb_op *const all_ops[] = {
#define QB_OP_ROW(symbol) &qb_op_##symbol,
#include "graph/ops.def"
};

#define N_OPS ((int32_t)(sizeof all_ops / sizeof *all_ops))

const qb_op *qb_op_find(const char *name, const char *domain) {
    if (strcmp(domain, "ai.onnx") == 0) domain = "";
    int32_t low = 0, high = N_OPS;
    while (low < high) { /* the rows are sorted by name, then by domain */
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(all_ops[middle]->name, name);
        if (order == 0) order = strcmp(all_ops[middle]->domain, domain);
        if (order == 0) return all_ops[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const qb_op *const *qb_ops(int32_t *n) {
    *n = N_OPS;
    return all_ops;
}
