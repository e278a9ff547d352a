/* 8-bit convolution with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "conv_s8_simd.inc"

QB_SIMD_TACTIC(cpu_conv_s8_avx512, "cpu.conv_s8.avx512", QB_KIND_CONV, QB_EXACT, .rounds = true)
