/* Runs of values from one type to another with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "convert_simd.inc"
