/* Attention with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "attention_simd.inc"

QB_SIMD_TACTIC(cpu_attention_avx2, "cpu.attention_f32.avx2", QB_KIND_ATTENTION, QB_WITHIN_1_LSB)
