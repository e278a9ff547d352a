/* bf16 convolution and matrix product with AVX512-BF16: vdpbf16ps multiplies pairs of neighbouring
 * channels and adds both products to a float. Bound by the multipliers, which do twice as many
 * products a cycle as in f32. Products of bf16 are exact in f32; sums are rounded to nearest, with
 * subnormal numbers as zero. */
#define QB_SIMD_TIER QB_SIMD_AVX512_BF16
#include "tile_internal.h"

#if QB_X86

#define BROADCAST(p) broadcast_pair(p)
#define STEP(sum, x, w) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(w))
#define UNITS(ROWS, VECTORS, N) QB_TILE_UNITS(ROWS, VECTORS, N, vf, vf_load, BROADCAST, STEP)

/* Two values at any address: one vpbroadcastd. */
QB_V vf broadcast_pair(const char *p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
}

QB_V void store_bf16(char *to, vf v) {
    _mm256_storeu_si256((__m256i *)(void *)to, (__m256i)_mm512_cvtneps_pbh(v));
}

#define LOAD_BF16(p) vf_load_bf16(p, V_ALL)
#define FAST(ROWS, VECTORS) QB_TILE_FAST_FLOATS(ROWS, VECTORS, 32, LOAD_BF16, store_bf16)

#define RUNS(ROWS, VECTORS) QB_TILE_RUNS(ROWS, VECTORS, UNITS, QB_TILE_FLUSH_FLOATS)
#define DEFINE(ROWS, VECTORS)                                                                      \
    QB_SIMD static bool sum_##ROWS##x##VECTORS(const qb_tile *t, void *sums)                       \
        QB_TILE_BODY(ROWS, VECTORS, vf, vf_load, RUNS, vf_add, FAST, vf_store)
QB_TILE_SHAPES(DEFINE)

static const qb_sum_fn sum[QB_TILE_VECTORS + 1][QB_TILE_ROWS + 1] = {
#define ROW(ROWS, VECTORS) [VECTORS][ROWS] = sum_##ROWS##x##VECTORS,
    QB_TILE_SHAPES(ROW)
#undef ROW
};

QB_SIMD static void tile(const qb_tile *t) {
    _Alignas(64) float sums[QB_SUMS];
    if (t->residual) qb_tile_prefetch(t);
    if (!sum[t->vectors][t->rows](t, sums)) qb_tile_epilogue(t, sums, false);
}

const qb_conv_arch qb_conv_bf16_avx512_bf16 = {
    .lanes = QB_LANES, .column_bytes = 4, .rows = QB_TILE_MOST, .tile = tile};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512_BF16) &&
           qb_conv_supports(p, constant, QB_DTYPE_BF16, false);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, &qb_conv_bf16_avx512_bf16, out);
}
#else
QB_CPU_ABSENT
#endif

QB_TACTIC(cpu_conv_bf16_avx512, "cpu.conv_bf16.avx512bf16", "cpu", QB_KIND_CONV, QB_WITHIN_1_LSB,
          supports, create);
