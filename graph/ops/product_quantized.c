/* Matrix products of 8-bit integers with sums of 32 bits, which wrap: MatMulInteger and its like.
 * Quantized values less their zero points fit 16 bits and their products 32, so that only sums
 * wrap, in any order to the same bits. The right side is turned into panels of columns, whose sums
 * with a few rows stay in registers; two quantized values that follow each other along k lie
 * together. */
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

#include "base/processor.h"
#include "base/vector_loop.h"
#include "ops_internal.h"

enum { ROWS = 8, COLUMNS = 16 };

typedef int32_t lanes __attribute__((vector_size(COLUMNS * sizeof(int32_t))));
typedef uint32_t sums __attribute__((vector_size(COLUMNS * sizeof(uint32_t))));

typedef struct panels {
    int64_t m, k, n, pairs; /* of k, rounded up */
    int16_t *rows;          /* [m rounded up][pairs][2], the left side */
    int16_t *panels;        /* [n rounded up / COLUMNS][pairs][COLUMNS][2] */
    /* The sums of ROWS rows and a panel, a row's in out[row]. */
    void (*multiply)(const int16_t *rows, const int16_t *panel, int64_t pairs, sums *out);
} panels;

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

static bool is_quantized(const qb_eval_operand *x) {
    const qb_dtype dtype = x->tensor->desc.dtype;
    return (dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8) && !x->transposed;
}

static bool is_one(const qb_tensor *zero) {
    return !zero || qb_shape_count(&zero->desc.shape) == 1;
}

bool qb_quantized_product_takes(const qb_eval_operand *a, const qb_eval_operand *b,
                                qb_dtype dtype) {
    const qb_shape *right = &b->tensor->desc.shape;
    const bool by_column = b->zero && b->zero->desc.shape.rank == 1 && right->rank == 2 &&
                           b->zero->desc.shape.dim[0] == right->dim[1];
    return dtype == QB_DTYPE_S32 && is_quantized(a) && is_quantized(b) && is_one(a->zero) &&
           (is_one(b->zero) || by_column);
}

static int32_t quantized_at(const qb_tensor *x, int64_t i) {
    return x->desc.dtype == QB_DTYPE_U8 ? ((const uint8_t *)x->data)[i]
                                        : ((const int8_t *)x->data)[i];
}

/* The zero point of column c; one may stand for all. */
static int32_t zero_at(const qb_tensor *zero, int64_t c) {
    if (!zero) return 0;
    return quantized_at(zero, is_one(zero) ? 0 : c);
}

static void take_rows(const panels *w, const qb_eval_operand *a, int64_t at) {
    const int32_t zero = zero_at(a->zero, 0);
    for (int64_t r = 0; r < w->m; r++)
        for (int64_t i = 0; i < w->k; i++)
            w->rows[r * 2 * w->pairs + i] = (int16_t)(quantized_at(a->tensor, at++) - zero);
}

/* Two lines of a panel, `second` NULL: one, less the zero points of its columns. */
#define TAKE_PAIR(NAME, T)                                                                         \
    static void NAME(const void *first, const void *second, const int16_t *zero, int64_t columns,  \
                     int16_t *to) {                                                                \
        const T *a = first, *b = second;                                                           \
        for (int64_t c = 0; c < columns; c++) {                                                    \
            to[2 * c] = (int16_t)(a[c] - zero[c]);                                                 \
            to[2 * c + 1] = b ? (int16_t)(b[c] - zero[c]) : 0;                                     \
        }                                                                                          \
    }
TAKE_PAIR(take_pair_u8, uint8_t)
TAKE_PAIR(take_pair_s8, int8_t)

static void take_panels(const panels *w, const qb_eval_operand *b, int64_t at) {
    const bool is_unsigned = b->tensor->desc.dtype == QB_DTYPE_U8;
    void (*const take)(const void *, const void *, const int16_t *, int64_t, int16_t *) =
        is_unsigned ? take_pair_u8 : take_pair_s8;
    for (int64_t first = 0; first < w->n; first += COLUMNS) {
        const int64_t columns = w->n - first < COLUMNS ? w->n - first : COLUMNS;
        const char *from = (const char *)b->tensor->data + at + first;
        int16_t zero[COLUMNS], *to = w->panels + first * w->pairs * 2;
        for (int64_t c = 0; c < columns; c++) zero[c] = (int16_t)zero_at(b->zero, first + c);
        for (int64_t i = 0; i < w->k; i += 2, from += 2 * w->n, to += 2 * COLUMNS)
            take(from, i + 1 < w->k ? from + w->n : NULL, zero, columns, to);
    }
}

/* The first four rows; vectors by name, for they are to stay in registers. */
QB_LOOP(multiply_four, (const int16_t *row, const int16_t *panel, int64_t pairs, sums *out),
        (row, panel, pairs, out)) {
    const int16_t *row1 = row + 2 * pairs, *row2 = row1 + 2 * pairs, *row3 = row2 + 2 * pairs;
    sums sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
    for (int64_t i = 0; i < 2 * pairs; i += 2) {
        sums both;
        memcpy(&both, panel + i * COLUMNS, sizeof both);
        const sums a = (sums)((lanes)(both << 16) >> 16), b = (sums)((lanes)both >> 16);
        sum0 += (uint32_t)row[i] * a + (uint32_t)row[i + 1] * b;
        sum1 += (uint32_t)row1[i] * a + (uint32_t)row1[i + 1] * b;
        sum2 += (uint32_t)row2[i] * a + (uint32_t)row2[i + 1] * b;
        sum3 += (uint32_t)row3[i] * a + (uint32_t)row3[i + 1] * b;
    }
    out[0] = sum0, out[1] = sum1, out[2] = sum2, out[3] = sum3;
}

static void multiply_anywhere(const int16_t *rows, const int16_t *panel, int64_t pairs, sums *out) {
    for (int r = 0; r < ROWS; r += 4) multiply_four(rows + r * 2 * pairs, panel, pairs, out + r);
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Both products of a pair, and the sum, in one instruction. */
__attribute__((target("avx512f,avx512bw,avx512vnni"))) static void
multiply_vnni(const int16_t *rows, const int16_t *panel, int64_t pairs, sums *out) {
    __m512i sum[ROWS];
    for (int r = 0; r < ROWS; r++) sum[r] = _mm512_setzero_si512();
    for (int64_t i = 0; i < pairs; i++) {
        const __m512i b = _mm512_loadu_si512(panel + i * 2 * COLUMNS);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            int32_t pair;
            memcpy(&pair, rows + (r * pairs + i) * 2, sizeof pair);
            sum[r] = _mm512_dpwssd_epi32(sum[r], _mm512_set1_epi32(pair), b);
        }
    }
    for (int r = 0; r < ROWS; r++) memcpy(&out[r], &sum[r], sizeof sum[r]);
}
#endif

static void choose(panels *w) {
    w->multiply = multiply_anywhere;
#if defined(__x86_64__) && defined(__GNUC__)
    if (qb_processor_has(QB_TIER_AVX512_VNNI)) w->multiply = multiply_vnni;
#endif
}

static void multiply_all(const panels *w, int32_t *out) {
    sums sum[ROWS];
    for (int64_t c = 0; c < w->n; c += COLUMNS)
        for (int64_t r = 0; r < w->m; r += ROWS) {
            const size_t columns = (size_t)(w->n - c < COLUMNS ? w->n - c : COLUMNS);
            const bool few = w->m - r <= 4; /* more would be empty ones */
            (few ? multiply_four : w->multiply)(w->rows + r * 2 * w->pairs,
                                                w->panels + c * 2 * w->pairs, w->pairs, sum);
            for (int64_t i = 0; i < ROWS && r + i < w->m; i++)
                memcpy(out + (r + i) * w->n + c, &sum[i], columns * sizeof *out);
        }
}

qb_status qb_quantized_product(qb_ctx *cx, const qb_eval_operand *a, const qb_eval_operand *b,
                               const qb_shape *left, const qb_shape *right, const qb_shape *batch,
                               int32_t *out) {
    panels w = {.m = left->dim[left->rank - 2],
                .k = left->dim[left->rank - 1],
                .n = right->dim[right->rank - 1]};
    qb_shape lead_a = *left, lead_b = *right;
    qb_status status = QB_OK;
    int64_t taken = -1; /* where the panels are from */
    qb_walk walk;
    lead_a.rank -= 2, lead_b.rank -= 2;
    w.pairs = (w.k + 1) / 2;
    choose(&w);
    w.rows = qb_temp_take(cx, (size_t)(round_up(w.m, ROWS) * 2 * w.pairs), sizeof *w.rows);
    w.panels = qb_temp_take(cx, (size_t)(round_up(w.n, COLUMNS) * 2 * w.pairs), sizeof *w.panels);
    if (!w.rows || !w.panels) QB_GO(cx->code);
    const qb_shape *shapes[2] = {&lead_a, &lead_b};
    for (qb_walk_broadcast(&walk, batch, shapes, 2); walk.left > 0; qb_walk_next(&walk))
        for (int64_t i = 0; i < walk.run; i++) {
            const int64_t from = walk.at[1] + i * walk.step[1];
            take_rows(&w, a, (walk.at[0] + i * walk.step[0]) * w.m * w.k);
            if (from != taken) take_panels(&w, b, from * w.k * w.n);
            taken = from;
            multiply_all(&w, out + (walk.out + i) * w.m * w.n);
        }
out:
    qb_temp_give(w.panels);
    qb_temp_give(w.rows);
    return status;
}
