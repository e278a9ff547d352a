/* 8-bit depthwise convolution with AVX-VNNI. */
#define QB_SIMD_TIER QB_SIMD_AVX2_VNNI
#include "depthwise_s8_simd.inc"

QB_SIMD_TACTIC(cpu_depthwise_s8_avx2_vnni, "cpu.depthwise_s8.avx2vnni", QB_KIND_CONV, QB_EXACT,
               .rounds = true)
