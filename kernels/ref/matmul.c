/* Matrix product with numpy's rules for the leading dimensions; sums run over k in order. */
#include "ref_internal.h"

typedef struct matmul {
    const qb_problem *p;
    int64_t m, n, k;
    int64_t a_row, a_step; /* strides of a along m and k */
    int64_t b_row, b_step; /* strides of b along k and n */
} matmul;

#define DEFINE_ROW(NAME, T, SUM, B, VALUE)                                                         \
    QB_LOOP(NAME,                                                                                  \
            (const matmul *w, const ref_integer *integer, const T *a, const void *b, int64_t b_at, \
             int64_t n0, int64_t n, SUM *sums),                                                    \
            (w, integer, a, b, b_at, n0, n, sums)) {                                               \
        int32_t zero = integer ? integer->data_zero : 0;                                           \
        qb_dtype type = w->p->in[QB_IN_WEIGHT].dtype;                                              \
        (void)zero, (void)type;                                                                    \
        for (int64_t i = 0; i < n; i++) sums[i] = 0;                                               \
        if (w->b_step == 1) {                                                                      \
            for (int64_t k = 0; k < w->k; k++) {                                                   \
                SUM value = (SUM)VALUE(a[k * w->a_step]);                                          \
                int64_t at = b_at + k * w->b_row + n0;                                             \
                for (int64_t i = 0; i < n; i++) sums[i] += value * (SUM)B(i, at + i);              \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        /* b is transposed: its rows lie along k. Eight sums at once hide the latency of adding.   \
         */                                                                                        \
        for (int64_t i0 = 0; i0 < n; i0 += 8) {                                                    \
            SUM part[8] = {0};                                                                     \
            int64_t count = n - i0 < 8 ? n - i0 : 8;                                               \
            for (int64_t k = 0; k < w->k; k++) {                                                   \
                SUM value = (SUM)VALUE(a[k * w->a_step]);                                          \
                int64_t at = b_at + k * w->b_row + (n0 + i0) * w->b_step;                          \
                for (int64_t i = 0; i < count; i++)                                                \
                    part[i] += value * (SUM)B(i0 + i, at + i * w->b_step);                         \
            }                                                                                      \
            for (int64_t i = 0; i < count; i++) sums[i0 + i] = part[i];                            \
        }                                                                                          \
    }

#define FLOAT_VALUE(v) (v)
#define FLOAT_B(i, at) (((const float *)b)[at])
#define CODE_VALUE(v) ((int32_t)(v)-zero)
#define CODE_B(i, at) (qb_ref_quantized(type, b, at) - qb_ref_weight_zero(integer, n0 + (i)))
DEFINE_ROW(row_f32, float, double, FLOAT_B, FLOAT_VALUE)
DEFINE_ROW(row_u8, uint8_t, uint32_t, CODE_B, CODE_VALUE)
DEFINE_ROW(row_s8, int8_t, uint32_t, CODE_B, CODE_VALUE)

static void one_chunk(const matmul *w, const ref_integer *integer, const void *const *in,
                      int64_t a_at, int64_t b_at, int64_t n0, int64_t n, float *f32) {
    const qb_problem *p = w->p;
    if (!integer) {
        double sums[QB_REF_CHUNK];
        const float *bias = qb_problem_has(p, QB_IN_BIAS) ? in[QB_IN_BIAS] : NULL;
        row_f32(w, NULL, (const float *)in[QB_IN_DATA] + a_at, in[QB_IN_WEIGHT], b_at, n0, n, sums);
        for (int64_t i = 0; i < n; i++)
            f32[i] = (float)(sums[i] * (double)p->scale + (bias ? (double)bias[n0 + i] : 0.0));
        return;
    }
    uint32_t sums[QB_REF_CHUNK];
    if (p->in[QB_IN_DATA].dtype == QB_DTYPE_U8)
        row_u8(w, integer, (const uint8_t *)in[QB_IN_DATA] + a_at, in[QB_IN_WEIGHT], b_at, n0, n,
               sums);
    else
        row_s8(w, integer, (const int8_t *)in[QB_IN_DATA] + a_at, in[QB_IN_WEIGHT], b_at, n0, n,
               sums);
    qb_ref_rescale(p, integer, in, n0, 1, n, sums, f32);
}

/* First element of an operand's matrix for leading index `batch` of the output. */
static int64_t matrix_at(const qb_shape *operand, const qb_shape *out, int64_t batch) {
    int64_t at = 0;
    int64_t stride = operand->dim[operand->rank - 1] * operand->dim[operand->rank - 2];
    for (int32_t o = out->rank - 3, d = operand->rank - 3; d >= 0; o--, d--) {
        int64_t index = batch % out->dim[o];
        batch /= out->dim[o];
        if (operand->dim[d] != 1) at += index * stride;
        stride *= operand->dim[d];
    }
    return at;
}

static void one_row(const matmul *w, const ref_integer *integer, const void *const *in, void *out,
                    int64_t row) {
    const qb_problem *p = w->p;
    int64_t batch = row / w->m, i = row % w->m;
    int64_t a_at = matrix_at(&p->in[QB_IN_DATA].shape, &p->out.shape, batch) + i * w->a_row;
    int64_t b_at = matrix_at(&p->in[QB_IN_WEIGHT].shape, &p->out.shape, batch);
    const void *residual = qb_problem_has(p, QB_IN_RESIDUAL) ? in[QB_IN_RESIDUAL] : NULL;
    float f32[QB_REF_CHUNK];
    for (int64_t n0 = 0; n0 < w->n; n0 += QB_REF_CHUNK) {
        int64_t n = w->n - n0 < QB_REF_CHUNK ? w->n - n0 : QB_REF_CHUNK;
        one_chunk(w, integer, in, a_at, b_at, n0, n, f32);
        qb_ref_epilogue(p, residual, row * w->n + n0, out, row * w->n + n0, n, f32);
    }
}

void qb_ref_matmul(const qb_problem *p, const void *const *in, void *out, int threads) {
    const qb_shape *a = &p->in[QB_IN_DATA].shape, *b = &p->in[QB_IN_WEIGHT].shape;
    int64_t a_last = a->dim[a->rank - 1], b_last = b->dim[b->rank - 1];
    matmul w = {.p = p,
                .m = p->out.shape.dim[p->out.shape.rank - 2],
                .n = p->out.shape.dim[p->out.shape.rank - 1],
                .k = p->transpose_a ? a->dim[a->rank - 2] : a_last,
                .a_row = p->transpose_a ? 1 : a_last,
                .a_step = p->transpose_a ? a_last : 1,
                .b_row = p->transpose_b ? 1 : b_last,
                .b_step = p->transpose_b ? b_last : 1};
    bool is_integer = qb_ref_is_integer(p);
    ref_integer integer = {0};
    if (is_integer) integer = qb_ref_integer(p);
    int64_t rows = qb_shape_count(&p->out.shape);
    rows = w.n > 0 ? rows / w.n : 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t row = 0; row < rows; row++)
        one_row(&w, is_integer ? &integer : NULL, in, out, row);
}
