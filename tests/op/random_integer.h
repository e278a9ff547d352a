/* Random MATMUL_INTEGER and DYNAMIC_QUANTIZE, and their answers: part of random_node.c. */
#ifndef QB_TEST_RANDOM_INTEGER_H
#define QB_TEST_RANDOM_INTEGER_H

#include "random_problem.h"

/* Shapes and types; the data come later. */
void random_integer_make(qb_rng *rng, random_case *c);
/* Data to be quantized get other ranges: on one side of 0, or nothing but 0. */
void random_integer_finalize(qb_rng *rng, random_case *c);
/* Fills c->expected from c->data, by ONNX's definitions; scale[0] and zero[0] are the other two
 * results of DYNAMIC_QUANTIZE. */
void random_integer_reference(random_case *c);

#endif
