/* Random FOURIER and FOLD problems, and their answers: part of random_node.c. */
#ifndef QB_TEST_RANDOM_FOURIER_H
#define QB_TEST_RANDOM_FOURIER_H

#include "random_problem.h"

/* Shapes and types; the data come later. */
void random_fourier_make(qb_rng *rng, random_case *c);
/* Fills c->expected from c->data, number by number as ONNX defines them. */
void random_fourier_reference(random_case *c);

void random_fold_make(qb_rng *rng, random_case *c);
void random_fold_reference(random_case *c);

#endif
