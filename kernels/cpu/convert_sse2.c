/* Runs of values from one type to another with SSE2, which every x86-64 has. */
#define QB_SIMD_TIER QB_SIMD_SSE2
#include "convert_simd.inc"
