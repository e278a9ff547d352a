/* Recurrent layers with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#define PROJECTION qb_conv_f32_avx2
#include "recurrent_simd.inc"

QB_SIMD_TACTIC(cpu_recurrent_avx2, "cpu.recurrent_f32.avx2", QB_KIND_RECURRENT, QB_EXACT)
