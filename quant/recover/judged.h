/* What quantization is judged by: the values of a network that its users look at, each part of them
 * by its share of its own signal. */
#ifndef QB_QUANT_RECOVER_JUDGED_H
#define QB_QUANT_RECOVER_JUDGED_H

#include "graph/graph.h"

#define QB_JUDGED_MOST 32 /* values; further outputs do not count */
#define QB_JUDGED_PARTS 8 /* of one value */

/* One of the values. A detector's output often holds boxes in pixels beside scores up to 1: what a
 * Concat joined counts apart, so that neither drowns the other. */
typedef struct qb_judged_value {
    const char *name; /* the graph's */
    int32_t axis, n_parts;
    int64_t end[QB_JUDGED_PARTS]; /* along the axis, of each part; the last: all the rest */
} qb_judged_value;

typedef struct qb_judged {
    qb_judged_value value[QB_JUDGED_MOST];
    int32_t n;
    int32_t n_parts; /* of all values */
} qb_judged;

/* The value itself, or the input of the first of the operators that end it by making classes of
 * scores, as ArgMax behind Softmax does, seen through views and casts. */
int32_t qb_before_classes(const qb_graph *graph, const qb_uses *uses, int32_t value);

/* The float outputs of the graph, before a final Softmax or ArgMax; where sizes come with the data
 * (NonMaxSuppression at the end), what the nodes of such sizes read instead: how many boxes there
 * are, and in which order, says nothing of their errors. The graph outlives the names. */
qb_status qb_judged_find(qb_ctx *cx, const qb_graph *graph, qb_judged *out);
/* A copy of the same network, quantized or not, whose outputs are these values, in this order. */
qb_status qb_judged_expose(qb_ctx *cx, const qb_judged *judged, const qb_graph *graph,
                           qb_graph **out);
/* Squared errors and signal of each part of one value: error[n_parts], signal[n_parts]. */
void qb_judged_compare(const qb_judged_value *value, const qb_shape *shape, const float *wanted,
                       const float *got, double *error, double *signal);
/* error[samples]: the sum of each sample's errors, every part by its share of all samples' signal;
 * part[n_parts][samples] (NULL: not wanted): these shares. `errors` and `signals`:
 * [samples][n_parts]. */
void qb_judged_sum(const qb_judged *judged, int64_t samples, const double *errors,
                   const double *signals, double *error, double *part);

#endif
