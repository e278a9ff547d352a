/* Linting Q/DQ models for a runtime: rules in rules.def, what they look at in check_internal.h. */
#ifndef QB_QUANT_CHECK_H
#define QB_QUANT_CHECK_H

#include "quant/target.h"

typedef struct qb_finding {
    const char *rule; /* "zero-point" */
    char *node;       /* "Conv 'conv1'", the operator and the node's (or its output's) name */
    char *what;       /* what was found there */
    const char *mend; /* what to do about it */
} qb_finding;

typedef struct qb_findings {
    int32_t n;
    qb_finding *item; /* in the order of rules.def, then of the nodes */
    size_t capacity;
} qb_findings;

/* Checks a graph as it stands in its file (qb_onnx_load_as_written) against the target's rules.
 * Breaking them is no error: it is what `out` lists. */
qb_status qb_check(qb_ctx *cx, const qb_graph *graph, const qb_target *target, qb_findings *out);
void qb_findings_release(qb_findings *findings); /* accepts a zeroed one */
#endif
