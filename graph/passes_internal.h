/* Declarations of the rows in passes.def. */
#ifndef QB_GRAPH_PASSES_INTERNAL_H
#define QB_GRAPH_PASSES_INTERNAL_H

#include "graph/passes.h"
#include "graph/rewrite_internal.h"

#define X(identifier) extern const qb_pass qb_pass_##identifier;
#include "graph/passes.def"

#endif
