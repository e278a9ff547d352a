/* f32 depthwise convolution with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "depthwise_f32_simd.inc"

QB_SIMD_TACTIC(cpu_depthwise_f32_avx512, "cpu.depthwise_f32.avx512", QB_KIND_CONV, QB_EXACT)
