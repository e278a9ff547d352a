/* Attention with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "attention_simd.inc"

QB_SIMD_TACTIC(cpu_attention_avx512, "cpu.attention_f32.avx512", QB_KIND_ATTENTION, QB_WITHIN_1_LSB)
