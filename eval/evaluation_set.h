/* The models that answer the same samples: each as a graph with the value to score exposed. */
#ifndef QB_EVAL_EVALUATION_SET_H
#define QB_EVAL_EVALUATION_SET_H

#include "eval/accuracy.h"

typedef struct qb_evaluation_set {
    int32_t n;
    qb_graph **graph;
    qb_stream_model *model; /* of those graphs */
    int32_t *logits;        /* the output to score */
} qb_evaluation_set;

/* `capacity`: how many models will be added. */
qb_status qb_evaluation_set_create(qb_ctx *cx, int32_t capacity, qb_evaluation_set *out);
void qb_evaluation_set_release(qb_evaluation_set *set); /* accepts zeroed */
/* Adds a copy of model->graph; what else `model` names lives as long as the set. Scored is the
 * value before a final Softmax or ArgMax (see qb_expose_logits), or with `as_it_is` the output. */
qb_status qb_evaluation_set_add(qb_ctx *cx, qb_evaluation_set *set, const qb_stream_model *model,
                                bool as_it_is);
#endif
