/* 8-bit convolution with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "conv_s8_simd.inc"

QB_SIMD_TACTIC(cpu_conv_s8_avx2, "cpu.conv_s8.avx2", QB_KIND_CONV, QB_EXACT, .rounds = true)
