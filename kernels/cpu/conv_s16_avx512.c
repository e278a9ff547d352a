/* Products of pairs of int16 with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "conv_s16_simd.inc"
