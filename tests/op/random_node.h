/* Random problems of the kinds without a reference tactic, and their answers. */
#ifndef QB_TEST_RANDOM_NODE_H
#define QB_TEST_RANDOM_NODE_H

#include "random_problem.h"

bool random_is_node(qb_kind kind);
/* Shapes and types of c->problem.kind; the data come later. */
void random_node_make(qb_rng *rng, random_case *c);
/* Fills c->expected from c->data. */
void random_node_reference(random_case *c);

#endif
