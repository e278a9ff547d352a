/* f32 depthwise convolution with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "depthwise_f32_simd.inc"

QB_SIMD_TACTIC(cpu_depthwise_f32_avx2, "cpu.depthwise_f32.avx2", QB_KIND_CONV, QB_EXACT)
