/* 8-bit depthwise convolution with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "depthwise_s8_simd.inc"

QB_SIMD_TACTIC(cpu_depthwise_s8_avx2, "cpu.depthwise_s8.avx2", QB_KIND_CONV, QB_EXACT,
               .rounds = true)
