#include "graph/passes_internal.h"

static qb_status run(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    return qb_graph_fold(cx, graph, n_changes);
}

const qb_pass qb_pass_fold_constants = {"fold-constants",
                                        "computes nodes whose inputs are all constants", run};
