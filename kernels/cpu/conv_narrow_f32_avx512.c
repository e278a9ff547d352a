/* Convolutions of few outputs, f32, with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#define NARROW_INTEGER 0
#include "conv_narrow_simd.inc"

NARROW_TACTIC(cpu_conv_narrow_f32_avx512, "cpu.conv_narrow_f32.avx512")
