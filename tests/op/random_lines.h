/* Random SCAN and ARG, and their answers: part of random_node.c. */
#ifndef QB_TEST_RANDOM_LINES_H
#define QB_TEST_RANDOM_LINES_H

#include "random_problem.h"

/* Shapes and types; the data come later. */
void random_lines_make(qb_rng *rng, random_case *c);
/* ARG: some numbers are equal, and some are none. */
void random_lines_finalize(qb_rng *rng, random_case *c);
/* Fills c->expected from c->data, by ONNX's definitions. */
void random_lines_reference(random_case *c);

#endif
