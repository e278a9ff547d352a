/* Recurrent layers with SSE2. */
#define QB_SIMD_TIER QB_SIMD_SSE2
#define PROJECTION qb_conv_f32_generic
#include "recurrent_simd.inc"

QB_SIMD_TACTIC(cpu_recurrent_sse2, "cpu.recurrent_f32.sse2", QB_KIND_RECURRENT, QB_EXACT)
