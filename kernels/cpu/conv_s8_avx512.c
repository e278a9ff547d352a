/* 8-bit convolution and matrix product with AVX-512 VNNI: vpdpbusd adds four products of an
 * unsigned and a signed byte to an int32 without saturating. Bound by the multipliers. */
#include "tile_avx512.h"

#if QB_X86

#define LOAD(p) _mm512_loadu_si512(p)
#define BROADCAST(p) broadcast_unit(p)
#define BROADCAST_S8(p) _mm512_xor_si512(BROADCAST(p), _mm512_set1_epi32((int)0x80808080u))
#define STEP(sum, x, w) _mm512_dpbusd_epi32(sum, x, w)
#define STORE(p, v) _mm512_store_si512(p, v)
#define FLUSH(ROWS, VECTORS) (void)flushed; /* integer sums are exact */

/* Four codes at any address: one vpbroadcastd. */
QB_AVX512_VNNI QB_FORCE_INLINE __m512i broadcast_unit(const char *p) {
    int32_t unit;
    __builtin_memcpy(&unit, p, sizeof unit);
    return _mm512_set1_epi32(unit);
}

QB_AVX512_VNNI QB_FORCE_INLINE __m512 residual_of(const qb_finish *f, const char *from) {
    return qb_codes_avx512(_mm_loadu_si128((const __m128i *)(const void *)from), false,
                           _mm512_set1_epi32(f->residual_zero), _mm512_set1_ps(f->residual_scale));
}

/* Codes of one vector of sums, without bounds and zero point. */
QB_AVX512_VNNI QB_FORCE_INLINE __m512i code_of(const qb_tile *t, __m512i sum, __m512 multiplier,
                                               int row, int v) {
    __m512 real = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), multiplier);
    if (t->residual) {
        const char *from = t->residual + t->pixel[row] * t->residual_stride + v * 16;
        real = _mm512_add_ps(real, residual_of(t->finish, from));
    }
    return _mm512_cvtps_epi32(_mm512_mul_ps(real, _mm512_set1_ps(t->finish->inverse)));
}

/* Stores 16 columns of four rows, or fewer where rows repeat. */
QB_AVX512_VNNI QB_FORCE_INLINE void store_quad(const qb_tile *t, __m512i packed, const int row[4],
                                               int column) {
    __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i rows = _mm512_permutexvar_epi32(order, packed);
    QB_UNROLL for (int i = 0; i < 4; i++) {
        if (i > 0 && row[i] == row[i - 1]) continue;
        char *to = t->out + t->pixel[row[i]] * t->out_stride + column;
        __m128i part = i == 0   ? _mm512_castsi512_si128(rows)
                       : i == 1 ? _mm512_extracti32x4_epi32(rows, 1)
                       : i == 2 ? _mm512_extracti32x4_epi32(rows, 2)
                                : _mm512_extracti32x4_epi32(rows, 3);
        _mm_storeu_si128((__m128i *)(void *)to, part);
    }
}

/* Stores 32 columns of two rows. */
QB_AVX512_VNNI QB_FORCE_INLINE void store_pair(const qb_tile *t, __m512i packed, int row,
                                               int next) {
    __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i rows = _mm512_permutexvar_epi32(order, packed);
    char *to = t->out + t->pixel[row] * t->out_stride;
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_castsi512_si256(rows));
    if (next == row) return;
    to = t->out + t->pixel[next] * t->out_stride;
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_extracti64x4_epi64(rows, 1));
}

/* 8 bits out, bounds as the activation, perhaps a u8 residual: two vectors go out as pairs of rows,
 * a single or third one as rows of four. */
/* clang-format off */
#define FAST(ROWS, VECTORS)                                                                        \
    if (t->fast) {                                                                                 \
        const qb_pack_avx512 pack = qb_pack_of(t->finish);                                         \
        __m512 multiplier[VECTORS];                                                                \
        QB_UNROLL for (int v = 0; v < (VECTORS); v++)                                              \
            multiplier[v] = _mm512_loadu_ps(t->multiplier + v * QB_LANES);                         \
        QB_UNROLL for (int r = 0; r < (ROWS); r++)                                                 \
            QB_UNROLL for (int v = 0; v < (VECTORS); v++)                                          \
                sum[r][v] = code_of(t, sum[r][v], multiplier[v], r, v);                            \
        if ((VECTORS) >= 2)                                                                        \
            QB_UNROLL for (int r = 0; r < (ROWS); r += 2) {                                        \
                const int n = r + 1 < (ROWS) ? r + 1 : r;                                          \
                store_pair(t, qb_pack_codes(&pack, sum[r][0], sum[r][(VECTORS) > 1], sum[n][0],    \
                                            sum[n][(VECTORS) > 1]), r, n);                         \
            }                                                                                      \
        if ((VECTORS) != 2)                                                                        \
            QB_UNROLL for (int r = 0; r < (ROWS); r += 4) {                                        \
                const int row[4] = {r, r + 1 < (ROWS) ? r + 1 : (ROWS) - 1,                        \
                                    r + 2 < (ROWS) ? r + 2 : (ROWS) - 1,                           \
                                    r + 3 < (ROWS) ? r + 3 : (ROWS) - 1};                          \
                const int v = (VECTORS) - 1;                                                       \
                store_quad(t, qb_pack_codes(&pack, sum[row[0]][v], sum[row[1]][v],                 \
                                            sum[row[2]][v], sum[row[3]][v]), row, v * QB_LANES);   \
            }                                                                                      \
        return true;                                                                               \
    }
/* clang-format on */

#define DEFINE(ROWS, VECTORS)                                                                      \
    QB_AVX512_VNNI static bool sum_##ROWS##x##VECTORS(const qb_tile *t, void *sums) QB_TILE_BODY(  \
        ROWS, VECTORS, __m512i, LOAD, BROADCAST, STEP, _mm512_add_epi32, FLUSH, FAST, STORE)
QB_TILE_SHAPES(DEFINE)
#define DEFINE_S8(ROWS, VECTORS)                                                                   \
    QB_AVX512_VNNI static bool sum_s8_##ROWS##x##VECTORS(const qb_tile *t, void *sums)             \
        QB_TILE_BODY(ROWS, VECTORS, __m512i, LOAD, BROADCAST_S8, STEP, _mm512_add_epi32, FLUSH,    \
                     FAST, STORE)
QB_TILE_SHAPES(DEFINE_S8)

static const qb_sum_fn sum[2][QB_TILE_VECTORS + 1][QB_TILE_ROWS + 1] = {{
#define ROW(ROWS, VECTORS) [VECTORS][ROWS] = sum_##ROWS##x##VECTORS,
                                                                            QB_TILE_SHAPES(ROW)
#undef ROW
                                                                        },
                                                                        {
#define ROW(ROWS, VECTORS) [VECTORS][ROWS] = sum_s8_##ROWS##x##VECTORS,
                                                                            QB_TILE_SHAPES(ROW)
#undef ROW
                                                                        }};

QB_AVX512_VNNI static void tile(const qb_tile *t) {
    _Alignas(64) int32_t sums[QB_SUMS];
    if (t->residual) qb_tile_prefetch(t);
    if (!sum[0][t->vectors][t->rows](t, sums)) qb_tile_finish_avx512(t, sums, true);
}

QB_AVX512_VNNI static void tile_s8(const qb_tile *t) {
    _Alignas(64) int32_t sums[QB_SUMS];
    if (t->residual) qb_tile_prefetch(t);
    if (!sum[1][t->vectors][t->rows](t, sums)) qb_tile_finish_avx512(t, sums, true);
}

const qb_conv_arch qb_conv_s8_avx512 = {.integer = true,
                                        .flips = true,
                                        .lanes = QB_LANES,
                                        .column_bytes = 4,
                                        .rows = {0, 24, 14, 9},
                                        .tile = tile,
                                        .tile_s8 = tile_s8};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512_VNNI) && qb_conv_supports(p, constant, QB_DTYPE_S8);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, &qb_conv_s8_avx512, out);
}
#else
QB_CPU_ABSENT
#endif

const qb_tactic qb_tactic_cpu_conv_s8_avx512 = {.name = "cpu.conv_s8.avx512vnni",
                                                .backend = "cpu",
                                                .kind = QB_KIND_CONV,
                                                .exactness = QB_EXACT,
                                                .supports = supports,
                                                .create = create};
