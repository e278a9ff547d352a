#include "graph/passes_internal.h"

const qb_pass qb_pass_fold_constants = {
    "fold-constants", "computes nodes whose inputs are all constants", .run = qb_graph_fold};
