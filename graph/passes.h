/* The graph optimizer: passes that keep the graph expressible in ONNX. One row in passes.def and
 * one file in passes/ each. */
#ifndef QB_GRAPH_PASSES_H
#define QB_GRAPH_PASSES_H

#include "graph/graph.h"

struct qb_rewrite;
typedef struct qb_pass {
    const char *name;    /* as in --disable-pass NAME */
    const char *summary; /* one line for the help */
    /* One of both: what is done at each node (see qb_rewrite_each), or to the graph. That sets
     * *n_changes to the number of rewrites done. The graph is inferred and sorted before and must
     * be sorted after; the driver sweeps, re-infers and (in test builds) verifies. */
    qb_status (*match)(struct qb_rewrite *rw, int32_t node);
    qb_status (*run)(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);
} qb_pass;

extern const qb_pass *const qb_passes[]; /* ends with NULL */

typedef struct qb_optimize_options {
    const char *const *disabled; /* NULL-terminated pass names; NULL: none disabled */
} qb_optimize_options;

typedef struct qb_optimize_report {
    int32_t n_changes[32]; /* by pass, in the order of qb_passes */
    int32_t nodes_before, nodes_after;
} qb_optimize_report;

/* Runs all passes in order until nothing changes (at most 16 rounds). `report` may be NULL. */
qb_status qb_optimize(qb_ctx *cx, qb_graph *graph, const qb_optimize_options *options,
                      qb_optimize_report *report);
#endif
