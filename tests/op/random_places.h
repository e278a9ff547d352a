/* Random GATHER, SCATTER and GRID_SAMPLE, and their answers: part of random_node.c. */
#ifndef QB_TEST_RANDOM_PLACES_H
#define QB_TEST_RANDOM_PLACES_H

#include "random_problem.h"

/* Shapes and types; the data come later. Indices are -4 to 3. */
void random_places_make(qb_rng *rng, random_case *c);
void random_grid_make(qb_rng *rng, random_case *c);
/* Fills c->expected from c->data, by ONNX's definitions. */
void random_places_reference(random_case *c);
void random_grid_reference(random_case *c);

#endif
