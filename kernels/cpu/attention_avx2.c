/* Attention with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "attention_simd.inc"
