/* Rows of binary functions with SSE2, which every x86-64 has. */
#define QB_SIMD_TIER QB_SIMD_SSE2
#include "binary_simd.inc"
