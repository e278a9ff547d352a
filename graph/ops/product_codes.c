/* Matrix products of 8-bit integers with sums of 32 bits, which wrap: MatMulInteger and its like.
 * Codes less their zero points fit 16 bits and their products 32, so that only sums wrap, in any
 * order to the same bits. The right side is turned into panels of columns, whose sums with a few
 * rows stay in registers. */
#include <string.h>

#include "base/clones.h"
#include "ops_internal.h"

enum { ROWS = 4, COLUMNS = 16 };

typedef struct codes {
    int64_t m, k, n;
    int32_t *rows;   /* [m rounded up][k], the left side */
    int16_t *panels; /* [n rounded up / COLUMNS][k][COLUMNS] */
} codes;

static int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

static bool is_code(const qb_eval_operand *x) {
    const qb_dtype dtype = x->tensor->desc.dtype;
    return (dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8) && !x->transposed;
}

static bool is_one(const qb_tensor *zero) {
    return !zero || qb_shape_count(&zero->desc.shape) == 1;
}

bool qb_codes_product_takes(const qb_eval_operand *a, const qb_eval_operand *b, qb_dtype dtype) {
    const qb_shape *right = &b->tensor->desc.shape;
    const bool by_column = b->zero && b->zero->desc.shape.rank == 1 && right->rank == 2 &&
                           b->zero->desc.shape.dim[0] == right->dim[1];
    return dtype == QB_DTYPE_S32 && is_code(a) && is_code(b) && is_one(a->zero) &&
           (is_one(b->zero) || by_column);
}

static int32_t code_at(const qb_tensor *x, int64_t i) {
    return x->desc.dtype == QB_DTYPE_U8 ? ((const uint8_t *)x->data)[i]
                                        : ((const int8_t *)x->data)[i];
}

/* The zero point of column c; one may stand for all. */
static int32_t zero_at(const qb_tensor *zero, int64_t c) {
    if (!zero) return 0;
    return code_at(zero, is_one(zero) ? 0 : c);
}

static void take_rows(const codes *w, const qb_eval_operand *a, int64_t at) {
    const int32_t zero = zero_at(a->zero, 0);
    for (int64_t i = 0; i < w->m * w->k; i++) w->rows[i] = code_at(a->tensor, at + i) - zero;
}

static void take_panels(const codes *w, const qb_eval_operand *b, int64_t at) {
    for (int64_t first = 0; first < w->n; first += COLUMNS)
        for (int64_t i = 0; i < w->k; i++) {
            int16_t *to = w->panels + first * w->k + i * COLUMNS;
            for (int64_t c = first; c < w->n && c < first + COLUMNS; c++)
                to[c - first] =
                    (int16_t)(code_at(b->tensor, at + i * w->n + c) - zero_at(b->zero, c));
        }
}

typedef int16_t narrow __attribute__((vector_size(COLUMNS * sizeof(int16_t))));
typedef int32_t wide __attribute__((vector_size(COLUMNS * sizeof(int32_t))));
typedef uint32_t sums __attribute__((vector_size(COLUMNS * sizeof(uint32_t))));

/* Vectors by name: they are to stay in registers. */
QB_CLONES static void multiply(const int32_t *row, const int16_t *panel, int64_t k, sums *out) {
    sums sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
    for (int64_t i = 0; i < k; i++) {
        narrow b16;
        memcpy(&b16, panel + i * COLUMNS, sizeof b16);
        const sums b = (sums) __builtin_convertvector(b16, wide);
        sum0 += (uint32_t)row[i] * b;
        sum1 += (uint32_t)row[k + i] * b;
        sum2 += (uint32_t)row[2 * k + i] * b;
        sum3 += (uint32_t)row[3 * k + i] * b;
    }
    out[0] = sum0, out[1] = sum1, out[2] = sum2, out[3] = sum3;
}

static void multiply_all(const codes *w, int32_t *out) {
    sums sum[ROWS];
    for (int64_t c = 0; c < w->n; c += COLUMNS)
        for (int64_t r = 0; r < w->m; r += ROWS) {
            const size_t columns = (size_t)(w->n - c < COLUMNS ? w->n - c : COLUMNS);
            multiply(w->rows + r * w->k, w->panels + c * w->k, w->k, sum);
            for (int64_t i = 0; i < ROWS && r + i < w->m; i++)
                memcpy(out + (r + i) * w->n + c, &sum[i], columns * sizeof *out);
        }
}

qb_status qb_codes_product(qb_ctx *cx, const qb_eval_operand *a, const qb_eval_operand *b,
                           const qb_shape *left, const qb_shape *right, const qb_shape *batch,
                           int32_t *out) {
    codes w = {left->dim[left->rank - 2], left->dim[left->rank - 1], right->dim[right->rank - 1],
               NULL, NULL};
    qb_shape lead_a = *left, lead_b = *right;
    qb_status status = QB_OK;
    int64_t taken = -1; /* where the panels are from */
    qb_walk walk;
    lead_a.rank -= 2, lead_b.rank -= 2;
    w.rows = qb_temp_take(cx, (size_t)(round_up(w.m, ROWS) * w.k), sizeof *w.rows);
    w.panels = qb_temp_take(cx, (size_t)(round_up(w.n, COLUMNS) * w.k), sizeof *w.panels);
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
