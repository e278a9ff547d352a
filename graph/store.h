/* Graphs as bytes, as they stand in memory: for engine files. Little-endian, no alignment. The same
 * graph gives the same bytes. */
#ifndef QB_GRAPH_STORE_H
#define QB_GRAPH_STORE_H

#include "base/strbuf.h"
#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends the graph; every node must be alive. keep[value] (NULL: all): store the data of this
 * constant; otherwise only that it is one (a hole). *hole_bytes is the size of the largest hole. */
qb_status qb_graph_store(qb_ctx *cx, const qb_graph *graph, const bool *keep, qb_strbuf *out,
                         size_t *hole_bytes);

/* The graph back from `size` bytes, all of which must be used. Holes point at `zeros` (64-byte
 * aligned, n_zeros bytes, outlives the graph) and read as zeros. Checks everything that a reader of
 * foreign bytes must: counts against what is left, ids, names, types, attributes' bounds, the
 * graph's invariants and that every stored shape is the one that inference finds. `name` is for
 * messages. Errors: QB_STATUS_FORMAT, QB_STATUS_UNSUPPORTED (an operator that is not known). */
qb_status qb_graph_restore(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                           const void *zeros, size_t n_zeros, qb_graph **out);

#ifdef __cplusplus
}
#endif
#endif
