/* Seeded random numbers, the same on every machine (SplitMix64 for seeding, xoshiro256** for use;
 * Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2018). */
#ifndef QB_BASE_RNG_H
#define QB_BASE_RNG_H

#include <stdint.h>

typedef struct qb_rng {
    uint64_t s[4];
} qb_rng;

void qb_rng_seed(qb_rng *rng, uint64_t seed);
uint64_t qb_rng_u64(qb_rng *rng);
/* Uniform in [0, 1), 53 bits. */
double qb_rng_uniform(qb_rng *rng);
/* Uniform integer in [0, n), without modulo bias. n > 0. */
uint64_t qb_rng_below(qb_rng *rng, uint64_t n);
/* Standard normal (Box-Muller on two uniforms, no state kept between calls). Takes log and cos from
 * the C library, so the last bit may differ between machines. */
double qb_rng_normal(qb_rng *rng);
/* n numbers for timing, always the same: 4096 normal ones over and over. Zeros would be faster, for
 * a processor takes less power where most bits stay 0. */
void qb_rng_timing_noise(float *to, int64_t n);
#endif
