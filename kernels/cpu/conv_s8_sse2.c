/* 8-bit convolution with SSE2, which every x86-64 has. */
#define QB_SIMD_TIER QB_SIMD_SSE2
#include "conv_s8_simd.inc"

QB_SIMD_TACTIC(cpu_conv_s8_sse2, "cpu.conv_s8.sse2", QB_KIND_CONV, QB_EXACT, .rounds = true)
