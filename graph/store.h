/* Graphs as bytes, as they stand in memory: for engine files. Little-endian, no alignment. The same
 * graph gives the same bytes. */
#ifndef QB_GRAPH_STORE_H
#define QB_GRAPH_STORE_H

#include "base/strbuf.h"
#include "graph/graph.h"

/* Where the data of a constant goes. */
typedef enum qb_store_where {
    QB_STORE_INSIDE,
    QB_STORE_HOLE, /* nowhere: type and shape alone are stored */
    QB_STORE_APART /* into a block of its own, to be mapped */
} qb_store_where;

/* Appends the graph; every node must be alive. where[value]: of its constants (NULL: all inside).
 * *hole_bytes is the size of the largest hole, *apart_bytes that of the block. */
qb_status qb_graph_store(qb_ctx *cx, const qb_graph *graph, const qb_store_where *where,
                         qb_strbuf *out, size_t *hole_bytes, size_t *apart_bytes);
/* Fills that block (apart_bytes, zeroed). */
void qb_graph_store_apart(const qb_graph *graph, const qb_store_where *where, char *block);

/* What a stored graph leaves out. Both are 64-byte aligned and outlive the graph. */
typedef struct qb_store_memory {
    const void *zeros; /* as long as the largest hole: what holes read as */
    size_t n_zeros;
    const void *apart; /* the block */
    size_t n_apart;
} qb_store_memory;

/* The graph back from `size` bytes, all of which must be used. Checks everything that a reader of
 * foreign bytes must: counts against what is left, ids, names, types, attributes' bounds, the
 * graph's invariants and that every stored shape is the one that inference finds. `name` is for
 * messages. Errors: QB_STATUS_FORMAT, QB_STATUS_UNSUPPORTED (an operator that is not known). */
qb_status qb_graph_restore(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                           const qb_store_memory *memory, qb_graph **out);
#endif
