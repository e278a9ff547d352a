/* Products of pairs of int16 with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "conv_s16_simd.inc"
