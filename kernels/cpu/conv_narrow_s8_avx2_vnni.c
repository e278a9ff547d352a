/* Convolutions of few outputs, 8-bit values, with AVX-VNNI. */
#define QB_SIMD_TIER QB_SIMD_AVX2_VNNI
#define NARROW_INTEGER 1
#include "conv_narrow_simd.inc"

NARROW_TACTIC(cpu_conv_narrow_s8_avx2_vnni, "cpu.conv_narrow_s8.avx2vnni")
