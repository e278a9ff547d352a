/* 8-bit depthwise convolution with SSE2, which every x86-64 has. */
#define QB_SIMD_TIER QB_SIMD_SSE2
#include "depthwise_s8_simd.inc"

QB_SIMD_TACTIC(cpu_depthwise_s8_sse2, "cpu.depthwise_s8.sse2", QB_KIND_CONV, QB_EXACT,
               .rounds = true)
