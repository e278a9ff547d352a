/* A layer's weights in float and as they are quantized, and the way back into both graphs. */
#ifndef QB_QUANT_RECOVER_WEIGHTS_H
#define QB_QUANT_RECOVER_WEIGHTS_H

#include "quant/recover/patches.h"
#include "quant/recover/recover_internal.h"
#include "quant/recover/replay.h"

typedef struct qb_layer_weights {
    qb_layer layer;         /* of the replay's quantized graph; `weight` is NULL */
    const float *reference; /* weights, in the order of the tensor */
    float *dequantized;     /* what the quantized ones stand for; the same order */
    int8_t *q;
    float *scale;   /* [outputs] */
    float *bias;    /* [outputs] of the state's graph */
    bool can_shift; /* there is a bias or room for one, in every graph */
    bool has_patches;
    qb_patches patches;
    qb_uses uses; /* of the quantized graph */
} qb_layer_weights;

/* *known is false for layers that are no qb_layer in one of the graphs. */
qb_status qb_layer_weights_of(qb_ctx *cx, const qb_recover_state *state,
                              const qb_replay_layer *layer, qb_layer_weights *out, bool *known);
void qb_layer_weights_release(qb_layer_weights *weights);
/* The bias [outputs] of the state's graph and of the replayed layer. */
qb_status qb_layer_weights_set_bias(qb_ctx *cx, qb_recover_state *state,
                                    const qb_replay_layer *layer, const qb_layer_weights *weights,
                                    const float *bias);
/* Its quantized weights: the state's graph gets what they stand for. */
qb_status qb_layer_weights_set(qb_ctx *cx, qb_recover_state *state, const qb_replay_layer *layer,
                               const qb_layer_weights *weights, const int8_t *q);

/* Goes through the state's graph, quantized, beside its reference: `hooks` as for a replay. */
qb_status qb_recover_replay(qb_ctx *cx, const qb_recover_state *state, qb_replay_options hooks);

#endif
