/* Convolutions of few outputs, f32, with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#define NARROW_INTEGER 0
#include "conv_narrow_simd.inc"

NARROW_TACTIC(cpu_conv_narrow_f32_avx2, "cpu.conv_narrow_f32.avx2")
