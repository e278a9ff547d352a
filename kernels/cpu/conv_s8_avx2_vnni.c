/* 8-bit convolution with AVX-VNNI. */
#define QB_SIMD_TIER QB_SIMD_AVX2_VNNI
#include "conv_s8_simd.inc"

QB_SIMD_TACTIC(cpu_conv_s8_avx2_vnni, "cpu.conv_s8.avx2vnni", QB_KIND_CONV, QB_EXACT,
               .rounds = true)
