/* Attention with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "attention_simd.inc"
