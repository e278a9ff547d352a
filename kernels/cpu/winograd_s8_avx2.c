/* 8-bit convolution by Winograd's algorithm with AVX2. */
#define QB_SIMD_TIER QB_SIMD_AVX2
#define QB_WINOGRAD_INTEGER 1
#include "winograd_simd.inc"

QB_SIMD_TACTIC(cpu_winograd_s8_avx2, "cpu.winograd_s8.avx2", QB_KIND_CONV, QB_EXACT, .rounds = true)
