/* Random chains of elementwise functions. */
#ifndef QB_TEST_RANDOM_CHAIN_H
#define QB_TEST_RANDOM_CHAIN_H

#include "random_problem.h"

void random_chain_make(qb_rng *rng, random_case *c);
void random_chain_reference(random_case *c);

#endif
