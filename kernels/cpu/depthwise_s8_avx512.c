/* 8-bit depthwise convolution with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "depthwise_s8_simd.inc"

QB_SIMD_TACTIC(cpu_depthwise_s8_avx512, "cpu.depthwise_s8.avx512", QB_KIND_CONV, QB_EXACT,
               .rounds = true)
