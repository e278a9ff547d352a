/* Layer normalization with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "layer_norm_simd.inc"
