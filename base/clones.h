/* Loops that are compiled for several instruction sets and chosen at load time. Vectorization never
 * reorders a sum of floats (no -ffast-math), so the bits are the same in all of them. */
#ifndef QB_BASE_CLONES_H
#define QB_BASE_CLONES_H

#include <stdint.h> /* what such loops are about */

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__OPTIMIZE__) &&    \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define QB_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define QB_CLONES
#endif

#endif
