/* Scaling and shifting of channels with AVX-512. */
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "scale_shift_simd.inc"

QB_SIMD_TACTIC(cpu_scale_shift_avx512, "cpu.scale_shift.avx512", QB_KIND_CONV, QB_EXACT)
