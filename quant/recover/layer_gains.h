/* What each layer's result is worth in a quantized network, before a recovery and after it. */
#ifndef QB_QUANT_RECOVER_LAYER_GAINS_H
#define QB_QUANT_RECOVER_LAYER_GAINS_H

#include "quant/recover/recover_internal.h"

/* A float graph and its quantized one. */
typedef struct qb_graph_pair {
    const qb_graph *reference, *quantized;
} qb_graph_pair;

/* Signal to quantization noise of every layer's output that both pairs have, on these samples, into
 * out->layer. */
qb_status qb_layer_gains(qb_ctx *cx, const qb_graph_pair *before, const qb_graph_pair *after,
                         const qb_samples *samples, qb_recovered *out);

#endif
