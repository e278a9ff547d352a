/* Convolutions of few outputs, 8-bit values, with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#define NARROW_INTEGER 1
#include "conv_narrow_simd.inc"

NARROW_TACTIC(cpu_conv_narrow_s8_avx512, "cpu.conv_narrow_s8.avx512")
