/* Instruction sets of the processor, in tiers: what kernels may use.
 *
 * The environment variable QB_CPU names the highest tier to use ("avx2"), for tests and for
 * measuring what another processor would do; the processor's own tier is the highest in any case.
 * Empty is as not set.
 */
#ifndef QB_BASE_PROCESSOR_H
#define QB_BASE_PROCESSOR_H

#include "ctx.h"

/* X(NAME, text, features): by what the processor reports */
#define QB_TIER_LIST(X)                                                                            \
    X(SCALAR, "scalar", "")                                                                        \
    X(AVX2, "avx2", "avx2 fma")                                                                    \
    X(AVX2_VNNI, "avx2-vnni", "avxvnni")                                                           \
    X(AVX512, "avx512", "avx512f avx512bw avx512dq avx512vl")                                      \
    X(AVX512_VNNI, "avx512-vnni", "avx512vnni")                                                    \
    X(AVX512_BF16, "avx512-bf16", "avx512bf16")

typedef enum qb_tier {
#define X(name, text, features) QB_TIER_##name,
    QB_TIER_LIST(X)
#undef X
        QB_TIER_COUNT
} qb_tier;

/* May kernels of this tier run: does the processor have it, and QB_CPU allow it? Each tier builds
 * on those before it, but AVX512 does without AVX2_VNNI. Thread safe. */
bool qb_processor_has(qb_tier tier);
/* The highest one. */
qb_tier qb_processor_tier(void);
/* The highest one that QB_CPU allows, whatever the processor has; QB_TIER_COUNT where it says
 * nothing. */
qb_tier qb_processor_limit(void);
/* Width of the vectors that loops use (base/vector_loop.h): 64, 32 or 16 bytes. What QB_CPU says at
 * the first call holds. */
int qb_processor_vector_bytes(void);
/* Beside the tiers, where AVX512 may run: byte permutations of 128 bytes (AVX512-VBMI). */
bool qb_processor_has_vbmi(void);
const char *qb_tier_text(qb_tier tier);
const char *qb_tier_features(qb_tier tier); /* "avx512f avx512bw ..." */

/* QB_STATUS_INVALID when QB_CPU says something that is no tier. */
qb_status qb_processor_check(qb_ctx *cx);
#endif
