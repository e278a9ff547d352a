/* Recurrent layers with AVX-512. With one item of the batch a step reads all of R once: bound by
 * the second level cache; with several it is bound by the multipliers. */
#include "recurrent_internal.h"

#if QB_X86
#define QB_SIMD_TIER QB_SIMD_AVX512
#include "epilogue_internal.h"

#define V __m512
#define LANES QB_REC_LANES
#define ATTR QB_AVX512 static inline
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define SET(v) _mm512_set1_ps(v)
#define LEAST(a, b) _mm512_min_ps(a, b)
#define MOST(a, b) _mm512_max_ps(a, b)
#define APPLY(act, x) qb_act_vector(&(act), x)

/* Few rows walk two chains at a time, or the latency of additions would bound them; more rows walk
 * one, as there are not enough registers. */
#define BOTH(ROWS, VECTORS) ((ROWS) * (VECTORS) <= 12)

#define EACH(ROWS, VECTORS, statement)                                                             \
    QB_UNROLL for (int r = 0; r < (ROWS); r++) QB_UNROLL for (int v = 0; v < (VECTORS); v++)       \
        statement;

/* clang-format off */
#define MULTIPLY(ROWS, VECTORS, SUM, K)                                                            \
    {                                                                                              \
        const float *w = p->panel + (K) * (VECTORS) * LANES;                                       \
        __m512 column[VECTORS];                                                                    \
        QB_UNROLL for (int v = 0; v < (VECTORS); v++) column[v] = _mm512_loadu_ps(w + v * LANES);  \
        QB_UNROLL for (int r = 0; r < (ROWS); r++) {                                               \
            const __m512 x = _mm512_set1_ps(p->left[r][K]);                                        \
            QB_UNROLL for (int v = 0; v < (VECTORS); v++)                                          \
                SUM[r][v] = _mm512_fmadd_ps(x, column[v], SUM[r][v]);                              \
        }                                                                                          \
    }

#define DEFINE(ROWS, VECTORS)                                                                      \
    QB_AVX512 static void product_##ROWS##x##VECTORS(const qb_rec_product *p) {                    \
        const int64_t chain = qb_rec_chain(p->k), pairs = qb_rec_pairs(p->k);                      \
        __m512 a[ROWS][VECTORS], b[ROWS][VECTORS], total[ROWS][VECTORS];                           \
        EACH(ROWS, VECTORS, total[r][v] = _mm512_setzero_ps())                                     \
        for (int64_t pair = 0; pair < pairs; pair++) {                                             \
            const int64_t first = 2 * pair * chain, middle = qb_min64(first + chain, p->k);        \
            const int64_t end = qb_min64(middle + chain, p->k), shift = middle - first;            \
            EACH(ROWS, VECTORS, a[r][v] = b[r][v] = _mm512_setzero_ps())                           \
            if (BOTH(ROWS, VECTORS)) {                                                             \
                int64_t k = first;                                                                 \
                for (; k + shift < end; k++) {                                                     \
                    MULTIPLY(ROWS, VECTORS, a, k)                                                  \
                    MULTIPLY(ROWS, VECTORS, b, k + shift)                                          \
                }                                                                                  \
                for (; k < middle; k++) MULTIPLY(ROWS, VECTORS, a, k)                              \
                EACH(ROWS, VECTORS, total[r][v] = _mm512_add_ps(total[r][v], a[r][v]))             \
            } else {                                                                               \
                for (int64_t k = first; k < middle; k++) MULTIPLY(ROWS, VECTORS, a, k)             \
                EACH(ROWS, VECTORS, total[r][v] = _mm512_add_ps(total[r][v], a[r][v]))             \
                for (int64_t k = middle; k < end; k++) MULTIPLY(ROWS, VECTORS, b, k)               \
            }                                                                                      \
            EACH(ROWS, VECTORS, total[r][v] = _mm512_add_ps(total[r][v], b[r][v]))                 \
        }                                                                                          \
        EACH(ROWS, VECTORS,                                                                        \
             _mm512_storeu_ps(p->sums + (r * (VECTORS) + v) * LANES, total[r][v]))                 \
    }

#define SHAPES(X)                                                                                  \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2)                                                \
    X(1, 3) X(2, 3) X(3, 3) X(4, 3) X(5, 3) X(6, 3)                                                \
    X(1, 4) X(2, 4) X(3, 4) X(4, 4) X(5, 4) X(6, 4)
SHAPES(DEFINE)

static void (*const products[QB_REC_VECTORS + 1][QB_REC_ROWS + 1])(const qb_rec_product *p) = {
#define ROW(ROWS, VECTORS) [VECTORS][ROWS] = product_##ROWS##x##VECTORS,
    SHAPES(ROW)
};
/* clang-format on */

static void product(const qb_rec_product *p) { products[p->vectors][p->rows](p); }

#include "recurrent_cells.inc"
REC_ARCH(qb_rec_avx512, qb_conv_f32_avx512)

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512) && qb_rec_supports(p, constant);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_rec_create(cx, tactic, p, constant, threads, &qb_rec_avx512, out);
}
#else
QB_CPU_ABSENT
#endif

const qb_tactic qb_tactic_cpu_recurrent_avx512 = {.name = "cpu.recurrent_f32.avx512",
                                                  .backend = "cpu",
                                                  .kind = QB_KIND_RECURRENT,
                                                  .exactness = QB_EXACT,
                                                  .supports = supports,
                                                  .create = create};
