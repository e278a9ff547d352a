/* Random attention problems, and their answers: part of random_node.c. */
#ifndef QB_TEST_RANDOM_ATTENTION_H
#define QB_TEST_RANDOM_ATTENTION_H

#include "random_problem.h"

/* Shapes and types; the data come later. */
void random_attention_make(qb_rng *rng, random_case *c);
/* Some of the mask becomes minus infinity, at times for all keys of a query. */
void random_attention_mask(qb_rng *rng, random_case *c);
/* Fills c->expected from c->data. */
void random_attention_reference(random_case *c);

#endif
