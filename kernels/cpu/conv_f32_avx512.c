/* f32 convolution and matrix product with AVX-512. Bound by the multipliers: one 16-wide fused
 * multiply-add a cycle on this kind of machine. */
#include "tile_avx512.h"

#if QB_X86

#define LOAD(p) _mm512_loadu_ps(p)
#define BROADCAST(p) _mm512_set1_ps(*(const float *)(const void *)(p))
#define STEP(sum, x, w) _mm512_fmadd_ps(x, w, sum)
#define STORE(p, v) _mm512_store_ps(p, v)

#define FAST(ROWS, VECTORS) QB_TILE_FAST_FLOATS(ROWS, VECTORS, 64, LOAD, _mm512_storeu_ps)

#define DEFINE(ROWS, VECTORS)                                                                      \
    QB_AVX512 static bool sum_##ROWS##x##VECTORS(const qb_tile *t, void *sums)                     \
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

const qb_conv_arch qb_conv_f32_avx512 = {
    .lanes = QB_LANES, .column_bytes = 4, .rows = {0, 24, 14, 9}, .tile = tile};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512) && qb_conv_supports(p, constant, QB_DTYPE_F32);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, &qb_conv_f32_avx512, out);
}
#else
QB_CPU_ABSENT
#endif

const qb_tactic qb_tactic_cpu_conv_f32_avx512 = {.name = "cpu.conv_f32.avx512",
                                                 .backend = "cpu",
                                                 .kind = QB_KIND_CONV,
                                                 .exactness = QB_EXACT,
                                                 .supports = supports,
                                                 .create = create};
