/* Runs of values from one type to another with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "convert_simd.inc"
