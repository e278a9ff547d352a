/* Scaling and shifting of channels with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#include "scale_shift_simd.inc"

QB_SIMD_TACTIC(cpu_scale_shift_avx2, "cpu.scale_shift.avx2", QB_KIND_CONV, QB_EXACT)
