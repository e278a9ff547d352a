#include "rng.h"

#include <math.h>

static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t rotate_left(uint64_t x, int k) { return x << k | x >> (64 - k); }

void qb_rng_seed(qb_rng *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++) rng->s[i] = splitmix64(&seed);
}

uint64_t qb_rng_u64(qb_rng *rng) {
    uint64_t *s = rng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double qb_rng_uniform(qb_rng *rng) { return (double)(qb_rng_u64(rng) >> 11) * 0x1p-53; }

uint64_t qb_rng_below(qb_rng *rng, uint64_t n) {
    uint64_t reject = -n % n; /* 2^64 mod n: the values that would be counted once too often */
    uint64_t x;
    do {
        x = qb_rng_u64(rng);
    } while (x < reject);
    return x % n;
}

double qb_rng_normal(qb_rng *rng) {
    double radius = sqrt(-2.0 * log(1.0 - qb_rng_uniform(rng))); /* 1 - u is never zero */
    return radius * cos(6.283185307179586 * qb_rng_uniform(rng));
}

void qb_rng_timing_noise(float *to, int64_t n) {
    enum { NOISE = 4096 };
    qb_rng rng;
    qb_rng_seed(&rng, 1);
    for (int64_t i = 0; i < n; i++) to[i] = i < NOISE ? (float)qb_rng_normal(&rng) : to[i - NOISE];
}
