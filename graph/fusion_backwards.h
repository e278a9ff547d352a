/* Shared by fusions that begin at a group and take in the groups that make its inputs. */
#ifndef QB_GRAPH_FUSION_BACKWARDS_H
#define QB_GRAPH_FUSION_BACKWARDS_H

#include "graph/fusion.h"
#include "graph/rewrite_internal.h"

typedef struct qb_fusing {
    qb_ctx *cx;
    const qb_graph *graph;
    qb_groups *groups;
    qb_chain_filter accept;
    const void *user;
    bool tables; /* see qb_fuse_chains */
    /* by qb_fuse_backwards */
    qb_uses uses;
    int32_t *maker;   /* [n_values] group whose result it is; -1 */
    int32_t *readers; /* [n_values] uses as a node's input, less those that `fuse` took away */
} qb_fusing;

/* Calls `fuse` for each group, the last one first. Groups that it leaves without nodes go. */
qb_status qb_fuse_backwards(qb_fusing *f, qb_status (*fuse)(qb_fusing *f, int32_t group));

#endif
