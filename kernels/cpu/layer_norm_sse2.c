/* Layer normalization with SSE2. */
#define QB_SIMD_TIER QB_SIMD_SSE2
#include "layer_norm_simd.inc"
