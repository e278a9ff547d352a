/* Random recurrent problems, and their answers: part of random_node.c. */
#ifndef QB_TEST_RANDOM_RECURRENT_H
#define QB_TEST_RANDOM_RECURRENT_H

#include "random_problem.h"

/* Shapes, types and attributes; the data come later. */
void random_recurrent_make(qb_rng *rng, random_case *c);
/* Weights become small enough for states to forget, lengths become lengths. */
void random_recurrent_finalize(qb_rng *rng, random_case *c);
/* Fills c->expected from c->data: ONNX's formulas, one item after another, in double. */
void random_recurrent_reference(random_case *c);

#endif
