/* A float graph and its quantized one, side by side, a fused group at a time, with all samples'
 * values in memory: each group runs once, so that a network is gone through in the time of two runs
 * a sample, however many layers look at what reaches them. */
#ifndef QB_QUANT_RECOVER_REPLAY_H
#define QB_QUANT_RECOVER_REPLAY_H

#include "graph/fusion.h"
#include "graph/layer.h"
#include "quant/recover/samples.h"

typedef struct qb_replay qb_replay;

/* A layer that is about to run, or has run, with integers. */
typedef struct qb_replay_layer {
    qb_replay *replay;
    const qb_group *group; /* of `quantized` */
    qb_graph *quantized; /* of known shapes; its constants may be replaced before the layer runs */
    const qb_graph *reference;
    int32_t input, output;                     /* values of `quantized` */
    int32_t reference_input, reference_output; /* the same of `reference` */
    int32_t n_samples;
    int32_t runs; /* so far */
} qb_replay_layer;

typedef struct qb_replay_options {
    const qb_graph *reference, *quantized;
    const qb_samples *samples;
    size_t bytes; /* for values: as many samples take part as fit, at least one */
    /* Before each layer runs, and after it has: *again makes it run once more. May be NULL. */
    qb_status (*before)(qb_ctx *cx, void *user, qb_replay_layer *layer);
    qb_status (*after)(qb_ctx *cx, void *user, qb_replay_layer *layer, bool *again);
    void *user;
} qb_replay_options;

/* Operators that no engine runs alone, values whose sizes depend on data, and what depends on
 * either, are passed over. */
qb_status qb_replay_run(qb_ctx *cx, const qb_replay_options *options);

/* A sample's value, as floats: of the quantized graph what the integers stand for. `scratch` has
 * room for the value; the result may lie elsewhere. */
const float *qb_replay_floats(const qb_replay_layer *layer, bool quantized, int32_t value,
                              int32_t sample, float *scratch);

#endif
