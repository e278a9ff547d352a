/* What the recoveries share. */
#ifndef QB_QUANT_RECOVER_INTERNAL_H
#define QB_QUANT_RECOVER_INTERNAL_H

#include "graph/layer.h"
#include "quant/recover/recover.h"
#include "quant/recover/samples.h"
#include "quant/recover/trials.h"

typedef struct qb_recover_state {
    const qb_recover_options *options;
    qb_graph *graph;           /* at work */
    qb_graph *reference;       /* float, of the same activations: before any weight was rounded */
    qb_table *table;           /* of its ranges */
    int32_t method;            /* in it */
    const qb_samples *samples; /* that may be fitted to */
    qb_trials *trials;
} qb_recover_state;

/* The state's graph quantized. */
qb_status qb_recover_quantize(qb_ctx *cx, const qb_recover_state *state, qb_graph **out);

/* Is the sum of errors, sample against sample, less by more than so many standard errors of that
 * difference? */
bool qb_recover_is_less(const double *now, const double *before, int64_t n, double errors);

/* A float graph and its quantized one. */
typedef struct qb_graph_pair {
    const qb_graph *reference, *quantized;
} qb_graph_pair;

/* Signal to quantization noise of every layer's output that both pairs have, on these samples, into
 * out->layer. */
qb_status qb_layer_gains(qb_ctx *cx, const qb_graph_pair *before, const qb_graph_pair *after,
                         const qb_samples *samples, qb_recovered *out);

#endif
