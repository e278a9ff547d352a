/* Random problems for tactics, with their data, and the reference's answer where one is tried. */
#ifndef QB_TEST_RANDOM_PROBLEM_H
#define QB_TEST_RANDOM_PROBLEM_H

#include "base/rng.h"
#include "kernels/chain.h"
#include "kernels/tactic.h"

#define CASE_INPUTS QB_RECURRENT_INPUTS /* most inputs of a random problem */

typedef struct random_case {
    qb_problem problem; /* row-major, no slices; points at `in` */
    qb_desc in[CASE_INPUTS];
    bool constant[CASE_INPUTS];
    void *data[CASE_INPUTS];      /* row-major */
    qb_chain chain;               /* of a CHAIN: `problem` points at it */
    void *expected;               /* the reference's output, row-major; NULL: not asked for */
    float scale[CASE_INPUTS + 1]; /* storage of the quantization parameters */
    int32_t zero[CASE_INPUTS + 1];
    float *weight_scale;
    int32_t *weight_zero; /* NULL: none */
    qb_dtype half;        /* of random_case_halve; NONE */
    bool wide;            /* of random_case_make_device */
} random_case;

/* A problem of the kind that the reference runs, data included. Integer data and weights with
 * probability 1/2. Every draw comes from `rng`. */
void random_case_make(qb_ctx *cx, qb_rng *rng, qb_kind kind, random_case *out);
/* The same for tactics of a device: half of them are halved to F16, and four in ten convolutions
 * and products are wide, so that the tiles of matrix units take them: channels in sixteens up to
 * 256, one group, or the windows side by side of a vision transformer's patches. */
void random_case_make_device(qb_ctx *cx, qb_rng *rng, qb_kind kind, random_case *out);
/* The reference's answer, once: most problems fit no tactic and need none. */
void random_case_answer(qb_ctx *cx, random_case *c);
/* Rounds all floats that are no constants to numbers of F16 or BF16, before the answer. In BF16
 * weights are rounded, too, as all kernels do; the factor of a product becomes 1. */
void random_case_halve(random_case *c, qb_dtype type);
void random_case_release(random_case *c);

/* Uniform integer in [low, high]. */
int64_t random_between(qb_rng *rng, int64_t low, int64_t high);
bool random_chance(qb_rng *rng, int percent);

#endif
