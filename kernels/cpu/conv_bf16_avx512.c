/* bf16 convolution and matrix product with AVX512-BF16: vdpbf16ps multiplies pairs of neighbouring
 * channels and adds both products to a float. Bound by the multipliers, which do twice as many
 * products a cycle as in f32. Products of bf16 are exact in f32; sums are rounded to nearest, with
 * subnormal numbers as zero. */
#include "tile_avx512.h"

#if QB_X86

#define LOAD(p) _mm512_loadu_ps(p)
#define BROADCAST(p) broadcast_pair(p)
#define STEP(sum, x, w) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(w))
#define STORE(p, v) _mm512_store_ps(p, v)

/* Two values at any address: one vpbroadcastd. */
QB_AVX512_BF16 QB_FORCE_INLINE __m512 broadcast_pair(const char *p) {
    int32_t pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return _mm512_castsi512_ps(_mm512_set1_epi32(pair));
}

QB_AVX512_BF16 QB_FORCE_INLINE void store_half(char *to, __m512 v) {
    _mm256_storeu_si256((__m256i *)(void *)to, (__m256i)_mm512_cvtneps_pbh(v));
}

#define LOAD_HALF(p) qb_load_bf16(p, 0xffff)
#define FAST(ROWS, VECTORS) QB_TILE_FAST_FLOATS(ROWS, VECTORS, 32, LOAD_HALF, store_half)

#define DEFINE(ROWS, VECTORS)                                                                      \
    QB_AVX512_BF16 static bool sum_##ROWS##x##VECTORS(const qb_tile *t, void *sums)                \
        QB_TILE_BODY(ROWS, VECTORS, __m512, LOAD, BROADCAST, STEP, _mm512_add_ps,                  \
                     QB_TILE_FLUSH_FLOATS, FAST, STORE)
QB_TILE_SHAPES(DEFINE)

static const qb_sum_fn sum[QB_TILE_VECTORS + 1][QB_TILE_ROWS + 1] = {
#define ROW(ROWS, VECTORS) [VECTORS][ROWS] = sum_##ROWS##x##VECTORS,
    QB_TILE_SHAPES(ROW)
#undef ROW
};

QB_AVX512 static void tile(const qb_tile *t) {
    _Alignas(64) float sums[QB_SUMS];
    if (t->residual) qb_tile_prefetch(t);
    if (!sum[t->vectors][t->rows](t, sums)) qb_tile_finish_avx512(t, sums, false);
}

const qb_conv_arch qb_conv_bf16_avx512 = {
    .lanes = QB_LANES, .column_bytes = 4, .rows = {0, 24, 14, 9}, .tile = tile};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512_BF16) && qb_conv_supports(p, constant, QB_DTYPE_BF16);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, &qb_conv_bf16_avx512, out);
}
#else
QB_CPU_ABSENT
#endif

const qb_tactic qb_tactic_cpu_conv_bf16_avx512 = {.name = "cpu.conv_bf16.avx512bf16",
                                                  .backend = "cpu",
                                                  .kind = QB_KIND_CONV,
                                                  .exactness = QB_WITHIN_1_LSB,
                                                  .supports = supports,
                                                  .create = create};
