/* Which scales of channels can change without changing what a float graph computes.
 *
 * Each channel of each value has a variable: the factor that it could be multiplied by. A layer
 * (and a normalization's or a product's constant) can undo any factor of its input's channels and
 * give any factor to its output's; what is positively homogeneous hands factors through (Relu,
 * LeakyRelu, PRelu, pools, sums of equal factors); what moves elements moves factors with them; all
 * else pins its inputs' factors to 1. So branches that meet in a sum or a Concat agree by
 * construction.
 *
 * Where channels lie across several axes, as between the two Reshapes of a channel shuffle, a value
 * has no variables but the number of each element's channel, for the next move to sort out.
 *
 * Clip to [0, c] hands a factor through where no sample reaches c in that channel: with the factor,
 * c / factor is still not reached. */
#ifndef QB_QUANT_RECOVER_SCALES_H
#define QB_QUANT_RECOVER_SCALES_H

#include "graph/layer.h"

/* What a node can do about factors. */
typedef enum qb_scale_role {
    QB_SCALE_NONE,
    QB_SCALE_LAYER,  /* any factors in, any out, by weight and bias */
    QB_SCALE_NORM,   /* any out, by the constants from input 1 on */
    QB_SCALE_FACTOR, /* product with a constant: any in, any out, by the constant */
    QB_SCALE_TERM    /* sum with a constant: the same in and out; the constant goes with them */
} qb_scale_role;

typedef struct qb_scales {
    const qb_graph *graph; /* of known shapes */
    qb_uses uses;
    qb_arena *arena;
    int32_t *axis;   /* [values] of the channels; -1: the value has no variables */
    int32_t *origin; /* [values] without variables, of elements moved from this value; -1: none */
    float **moved;  /* [values] with an origin: of each element, its channel there and 1; 0: none */
    int32_t *first; /* [values] of its variables in `of` */
    int32_t *of;    /* variables of all values, one a channel */
    size_t n_of, cap_of;
    int32_t n; /* variables */
    size_t cap;
    int32_t *parent;     /* [n] union-find */
    bool *pinned;        /* [n] at roots: the factor is 1 */
    float *limit;        /* [n] at roots: Clip's upper bound; 0: none */
    qb_scale_role *role; /* [nodes] */
    int32_t *constant;   /* [nodes] FACTOR and TERM: input that is the constant */
} qb_scales;

qb_status qb_scales_find(qb_ctx *cx, const qb_graph *graph, qb_scales *out);
void qb_scales_release(qb_scales *scales); /* accepts zeroed */
/* The variable of a channel (its class' one). */
int32_t qb_scales_of(const qb_scales *scales, int32_t value, int64_t channel);
static inline int64_t qb_scales_channels(const qb_scales *s, int32_t value) {
    return s->graph->values[value].shape.dim[s->axis[value]];
}

#endif
