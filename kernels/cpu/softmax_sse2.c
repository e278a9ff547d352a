/* Softmax with SSE2. */
#define QB_SIMD_TIER QB_SIMD_SSE2
#include "softmax_simd.inc"
