/* Convolutions of few outputs, 8-bit values, with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#define NARROW_INTEGER 1
#include "conv_narrow_simd.inc"

NARROW_TACTIC(cpu_conv_narrow_s8_avx2, "cpu.conv_narrow_s8.avx2")
