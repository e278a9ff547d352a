/* Recovery: a float graph with the same function, or one that is close, from which quantization
 * takes less. One row in quant/recover.def and one file in quant/recover/ each; they run in that
 * order. What they change are weights, biases and ranges, so that every engine and every Q/DQ file
 * made of the result has it. */
#ifndef QB_QUANT_RECOVER_RECOVER_H
#define QB_QUANT_RECOVER_RECOVER_H

#include "calib/calib.h"
#include "quant/quant.h"

struct qb_recover_state;

/* What a recovery changes; they run in this order. */
typedef enum qb_recover_phase {
    QB_RECOVER_VALUES, /* activations are others: ranges are calibrated anew */
    QB_RECOVER_LAYERS, /* weights and biases */
    QB_RECOVER_OUTPUT  /* what looks at the output, with all of that in place */
} qb_recover_phase;

typedef struct qb_recovery {
    const char *name;    /* "equalize" */
    const char *summary; /* one line for the help */
    bool optional;       /* only where it is asked for by name */
    qb_recover_phase phase;
    /* Changes state->graph (and state->table) in place; *changed is the number of layers. */
    qb_status (*run)(qb_ctx *cx, struct qb_recover_state *state, int32_t *changed);
} qb_recovery;

/* What a network's output is worth quantized, against a float graph, on samples held back. */
typedef struct qb_graph_score {
    double sqnr_db, agreement; /* percent; NaN: the output has no classes */
    int64_t samples;
    double *err_square; /* [samples]; the receiver frees it */
} qb_graph_score;
typedef qb_status (*qb_score_graph_fn)(qb_ctx *cx, const qb_graph *reference,
                                       const qb_graph *quantized, const qb_calib_options *options,
                                       qb_graph_score *out);

#define QB_RECOVER_SAMPLES 128                /* most whose values are kept in memory */
#define QB_RECOVER_MEMORY ((size_t)640 << 20) /* for these values */

typedef struct qb_recover_options {
    const qb_calib_options *calibration; /* methods included; every fifth sample is held back */
    const char *method;                  /* of the ranges: "auto"; NULL: the first */
    const qb_quant_options *quant;
    const char *list; /* comma separated names: these, as asked. NULL: all that help on the samples
                         that are held back */
    qb_score_graph_fn score;
    const char
        *progress; /* file to keep what each step led to; NULL: none. The caller removes it */
    bool resume;   /* go on from it where there is one */
} qb_recover_options;

/* One layer's output, of the whole network quantized: signal to quantization noise on the samples
 * that are held back. */
typedef struct qb_recover_layer_gain {
    char *name;
    double before_db, after_db;
} qb_recover_layer_gain;

typedef struct qb_recover_step {
    const qb_recovery *recovery;
    int32_t changed; /* layers */
    bool kept;
    double sqnr_db, agreement; /* of the output, with it; NaN: not measured */
    double seconds;
} qb_recover_step;

#define QB_RECOVER_STEPS 16
typedef struct qb_recovered {
    qb_graph
        *graph; /* float: quantized by `table` and the same options it gives what was measured */
    qb_graph *unrounded;       /* the same function, with the weights and biases that layers of it
                                  have best that stay float */
    qb_table *table;           /* one method */
    int64_t fitted, held_back; /* samples */
    double sqnr_db, agreement; /* before; NaN: too few samples to hold some back */
    double sqnr_after_db, agreement_after;
    int32_t n_steps;
    qb_recover_step step[QB_RECOVER_STEPS];
    int32_t n_layers;
    qb_recover_layer_gain *layer;
} qb_recovered;

/* `graph`: optimized, float. Deterministic: the same bytes for any number of threads. */
qb_status qb_recover(qb_ctx *cx, const qb_graph *graph, const qb_recover_options *options,
                     qb_recovered *out);
void qb_recovered_release(qb_recovered *recovered); /* accepts zeroed */
/* Checks a list of names; QB_STATUS_USAGE lists the known ones. */
qb_status qb_recover_check(qb_ctx *cx, const char *list);
#endif
