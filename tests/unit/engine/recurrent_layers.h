/* Graphs of one recurrent layer with any attributes and outputs, and what they give. */
#ifndef QB_TEST_RECURRENT_LAYERS_H
#define QB_TEST_RECURRENT_LAYERS_H

#include "engine/engine.h"
#include "graph/graph.h"

enum { LAYER_INPUTS = 10, LAYER_HIDDEN = 37, LAYER_MOST = 7 * 21 * 2 * 256 };

/* A layer over x [steps, batch, LAYER_INPUTS] (or batch first), and what it is given. */
typedef struct layer {
    const char *op, *direction;
    int64_t steps, batch; /* -1: open */
    int64_t hidden;       /* 0: LAYER_HIDDEN */
    bool batch_first, bias, lengths, states, peepholes;
    const char *attr; /* set to 1; NULL */
    float clip;
    bool outputs[3];
    const char *activation; /* of all gates; NULL: the usual ones */
} layer;

typedef struct layer_graph {
    qb_ctx cx;
    qb_graph *graph;
} layer_graph;

typedef struct layer_answer {
    float out[3][LAYER_MOST];
    int32_t n_observed;
    char tactic[64];
} layer_answer;

/* Values of the seed around 0. */
void layer_fill(uint64_t seed, float *data, int64_t n, float spread);
void layer_make(layer_graph *f, const layer *l);
/* Runs on `x`, where items have lengths 0, 1, 2 ... as far as there are steps. `observe`: counts
 * the values that a run shows; the engine is observable. */
void layer_run(layer_graph *f, const qb_engine *engine, const layer *l, const float *x,
               bool observe, layer_answer *a);
/* A layer of each kind by number: one attribute after another in all combinations that matter. */
layer layer_numbered(int i);

#endif
