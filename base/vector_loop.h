/* Loops that are compiled for each width of vectors; QB_CPU decides which of them runs.
 *
 *     QB_LOOP(add, (const float *x, int64_t n, float *sum), (x, n, sum)) { ... }
 *
 * is a static function `add` without a result. Vectorization never reorders a sum of floats (no
 * -ffast-math, no contraction), so the bits are the same in all of them. */
#ifndef QB_BASE_VECTOR_LOOP_H
#define QB_BASE_VECTOR_LOOP_H

#include "processor.h"

#define QB_LOOP_BODY(NAME, PARAMETERS)                                                             \
    static inline __attribute__((always_inline)) void NAME##_of_any_width PARAMETERS

#if defined(__x86_64__) && defined(__GNUC__)
#define QB_LOOP(NAME, PARAMETERS, ARGUMENTS)                                                       \
    QB_LOOP_BODY(NAME, PARAMETERS);                                                                \
    __attribute__((                                                                                \
        target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))) static void NAME##_64 PARAMETERS { \
        NAME##_of_any_width ARGUMENTS;                                                             \
    }                                                                                              \
    __attribute__((target("avx2,fma"))) static void NAME##_32 PARAMETERS {                         \
        NAME##_of_any_width ARGUMENTS;                                                             \
    }                                                                                              \
    static void NAME PARAMETERS {                                                                  \
        switch (qb_processor_vector_bytes()) {                                                     \
        case 64: NAME##_64 ARGUMENTS; return;                                                      \
        case 32: NAME##_32 ARGUMENTS; return;                                                      \
        default: NAME##_of_any_width ARGUMENTS;                                                    \
        }                                                                                          \
    }                                                                                              \
    QB_LOOP_BODY(NAME, PARAMETERS)
#else
#define QB_LOOP(NAME, PARAMETERS, ARGUMENTS) static void NAME PARAMETERS
#endif

#endif
