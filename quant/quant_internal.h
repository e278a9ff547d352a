/* What the steps of the quantizer share. */
#ifndef QB_QUANT_INTERNAL_H
#define QB_QUANT_INTERNAL_H

#include "graph/fusion.h"
#include "quant/quant.h"

/* Of activations and weights: the product of two is still a normal float, for biases. */
#define QB_LEAST_SCALE 0x1p-63

typedef struct qb_quant_state {
    qb_graph *graph; /* the copy at work */
    const qb_table *table;
    const qb_quant_options *options;
    qb_act_scheme activations;
    int32_t method; /* index in the table */
    qb_groups groups;
    /* By group. */
    qb_qrule *rule; /* what the group does with integers; FLOAT when it was asked to stay */
    /* By value of the graph as it was before constants were added. */
    int32_t n_values;
    bool *quantized;       /* activations that get parameters */
    int32_t *producer;     /* group that writes it, -1 */
    bool *asked_16;        /* 16 bits are asked for, in case that it is quantized */
    bool *in_16_bits;      /* it gets them: a float behind which Q/DQ nodes stand */
    qb_qparams *params_16; /* of these */
    bool *inside;          /* engines compute it within a step, in floats */
    bool *from_data;       /* computed from the model's inputs, and not from their shapes alone */
    bool *late; /* its size, or that of a value it is computed from, comes with the data */
} qb_quant_state;

typedef struct qb_quant_step {
    const char *name;
    qb_status (*run)(qb_ctx *cx, qb_quant_state *state);
} qb_quant_step;

/* An activation: float in the model, and neither a constant nor what becomes one as soon as the
 * inputs' shapes are known (calibration never sees those). */
bool qb_quant_is_activation(const qb_quant_state *state, int32_t value);
/* An activation that the model itself holds in 8 bits, with one scale. */
bool qb_quant_is_held(const qb_quant_state *state, int32_t value);
/* Is there no range to be had for a value: neither in the table nor from all that it was moved
 * from? */
bool qb_quant_lacks_range(const qb_quant_state *state, int32_t value);
/* Do 8-bit values end where a clamp to [low, high] does, so that it changes no code? */
bool qb_quantized_range_implies(qb_dtype dtype, float scale, int32_t zero, float low, float high);
/* Inputs of a group that are activations it computes on: all but weight and bias of a COMPUTE group
 * (the residual is one). */
bool qb_quant_is_data(const qb_quant_state *state, int32_t group, int32_t input);
/* Output number `i` of a group in *value (-1: not wanted); false after the last. */
bool qb_quant_output(const qb_quant_state *state, int32_t group, int32_t i, int32_t *value);

#endif
