/* Recurrent layers with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#define PROJECTION qb_conv_f32_avx512
#include "recurrent_simd.inc"

QB_SIMD_TACTIC(cpu_recurrent_avx512, "cpu.recurrent_f32.avx512", QB_KIND_RECURRENT, QB_EXACT)
