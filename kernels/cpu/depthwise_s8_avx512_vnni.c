/* 8-bit depthwise convolution with AVX-512 VNNI. */
#define QB_SIMD_TIER QB_SIMD_AVX512_VNNI
#include "depthwise_s8_simd.inc"

QB_SIMD_TACTIC(cpu_depthwise_s8_avx512_vnni, "cpu.depthwise_s8.avx512vnni", QB_KIND_CONV, QB_EXACT,
               .rounds = true)
