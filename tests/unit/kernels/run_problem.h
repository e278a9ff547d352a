/* Runs a problem through the tactic of a name, with guard bytes behind the output. */
#ifndef QB_RUN_PROBLEM_H
#define QB_RUN_PROBLEM_H

#include "qb_test.h"

#include "base/rng.h"
#include "kernels/tactic.h"

#define GUARD 64
#define GUARD_BYTE 0xA5

/* Bytes of the output; the caller frees them. Fails the test on any error and when bytes behind the
 * buffer changed. */
void *run_problem(const char *tactic, const qb_problem *problem, const void *const *in,
                  int threads);

/* A row-major desc: float, or with one scale and zero point (which must outlive it). */
qb_desc float_desc(qb_shape shape);
qb_desc quantized_desc(qb_dtype dtype, qb_shape shape, const float *scale, const int32_t *zero);
/* Random numbers of a type: quantized values over the whole range, floats in [-1, 1). */
void *random_data(qb_rng *rng, qb_dtype dtype, int64_t n);

#endif
