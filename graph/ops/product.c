/* Matrix products in double and in integers with zero points, by the definition. */
#include "ops_internal.h"

/* The shape in which a zero point broadcasts to its matrix. */
static qb_shape zero_shape(const qb_tensor *zero, bool left) {
    qb_shape shape = zero->desc.shape;
    if (qb_shape_count(&shape) == 1) return (qb_shape){.rank = 0};
    if (left && shape.rank == 1) { /* one a row */
        shape.rank = 2;
        shape.dim[1] = 1;
    }
    return shape;
}

static void transpose(void *data, const void *from, int64_t rows, int64_t columns) {
    uint64_t *to = data;
    const uint64_t *source = from;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[c * rows + r] = source[r * columns + c];
}

/* The operand's elements as doubles or as 64-bit integers minus the zero point, in new memory (8
 * bytes each either way). */
static qb_status load(qb_ctx *cx, const qb_eval_operand *operand, bool left, void **out) {
    const qb_tensor *tensor = operand->tensor, *zero = operand->zero;
    const qb_shape *shape = &tensor->desc.shape;
    qb_dtype dtype = tensor->desc.dtype;
    int64_t n = qb_shape_count(shape);
    uint64_t *v = qb_temp_take(cx, (size_t)n, sizeof *v), *transposed = NULL;
    qb_status status = QB_OK;
    if (!v) return cx->code;
    for (int64_t i = 0; i < n; i++) {
        if (dtype == QB_DTYPE_F64)
            memcpy(&v[i], (const double *)tensor->data + i, sizeof *v);
        else
            v[i] = qb_integer_get(dtype, tensor->data, i);
    }
    if (zero) {
        qb_shape narrow = zero_shape(zero, left), both = {.rank = 0};
        QB_GO(qb_shape_broadcast(cx, shape, &narrow, &both));
        if (!qb_shape_equal(&both, shape))
            QB_GO(qb_fail(cx, QB_STATUS_INVALID, "zero point does not broadcast to its matrix"));
        const qb_shape *shapes[1] = {&narrow};
        qb_walk w;
        for (qb_walk_broadcast(&w, shape, shapes, 1); w.left > 0; qb_walk_next(&w))
            for (int64_t i = 0; i < w.run; i++)
                v[w.out + i] -=
                    qb_integer_get(zero->desc.dtype, zero->data, w.at[0] + i * w.step[0]);
    }
    if (operand->transposed) {
        QB_GO_NEW(cx, transposed = qb_temp_take(cx, (size_t)n, sizeof *transposed));
        transpose(transposed, v, shape->dim[0], shape->dim[1]);
    }
out:
    if (status != QB_OK || transposed) qb_temp_give(v);
    if (status == QB_OK) *out = transposed ? transposed : v;
    return status;
}

#define MULTIPLY(NAME, T)                                                                          \
    static void multiply_##NAME(const T *a, const T *b, T *sums, int64_t m, int64_t k,             \
                                int64_t n) {                                                       \
        for (int64_t r = 0; r < m; r++)                                                            \
            for (int64_t i = 0; i < k; i++) {                                                      \
                const T factor = a[r * k + i];                                                     \
                for (int64_t c = 0; c < n; c++) sums[r * n + c] += factor * b[i * n + c];          \
            }                                                                                      \
    }
MULTIPLY(double, double)
MULTIPLY(integer, uint64_t)

/* All matrices of the batch; `sums` is zero at first. */
static void multiply_all(qb_shape a, qb_shape b, const void *va, const void *vb, bool doubles,
                         const qb_shape *batch, void *sums) {
    int64_t m = a.dim[a.rank - 2], k = a.dim[a.rank - 1], n = b.dim[b.rank - 1];
    a.rank -= 2, b.rank -= 2;
    const qb_shape *shapes[2] = {&a, &b};
    qb_walk w;
    for (qb_walk_broadcast(&w, batch, shapes, 2); w.left > 0; qb_walk_next(&w))
        for (int64_t i = 0; i < w.run; i++) {
            int64_t at_a = (w.at[0] + i * w.step[0]) * m * k;
            int64_t at_b = (w.at[1] + i * w.step[1]) * k * n, to = (w.out + i) * m * n;
            if (doubles)
                multiply_double((const double *)va + at_a, (const double *)vb + at_b,
                                (double *)sums + to, m, k, n);
            else
                multiply_integer((const uint64_t *)va + at_a, (const uint64_t *)vb + at_b,
                                 (uint64_t *)sums + to, m, k, n);
        }
}

static qb_shape matrix_of(const qb_eval_operand *operand, bool left) {
    qb_shape shape = qb_shape_as_matrix(&operand->tensor->desc.shape, left);
    if (!operand->transposed) return shape;
    int64_t rows = shape.dim[0];
    shape.dim[0] = shape.dim[1];
    shape.dim[1] = rows;
    return shape;
}

qb_status qb_eval_product(qb_ctx *cx, const qb_node *node, const qb_eval_operand *a,
                          const qb_eval_operand *b, qb_dtype dtype, void *out) {
    bool doubles = dtype == QB_DTYPE_F64;
    qb_dtype types[2] = {a->tensor->desc.dtype, b->tensor->desc.dtype};
    for (int32_t i = 0; i < 2; i++)
        if (doubles ? types[i] != dtype : !qb_dtype_is_integer(types[i]))
            return qb_eval_refuse(cx, node, types[i]);
    qb_shape ma = matrix_of(a, true), mb = matrix_of(b, false), batch;
    qb_shape lead_a = ma, lead_b = mb;
    lead_a.rank -= 2, lead_b.rank -= 2;
    QB_TRY(qb_shape_broadcast(cx, &lead_a, &lead_b, &batch));
    if (qb_quantized_product_takes(a, b, dtype))
        return qb_quantized_product(cx, a, b, &ma, &mb, &batch, out);
    int64_t n = qb_shape_count(&batch) * ma.dim[ma.rank - 2] * mb.dim[mb.rank - 1];
    QB_RELEASED(qb_temp_give_at) void *va = NULL, *vb = NULL;
    QB_TRY(load(cx, a, true, &va));
    QB_TRY(load(cx, b, false, &vb));
    QB_RELEASED(qb_temp_give_at)
    uint64_t *sums = QB_NEW(cx, qb_temp_take(cx, (size_t)n, sizeof *sums));
    multiply_all(ma, mb, va, vb, doubles, &batch, sums);
    for (int64_t i = 0; i < n; i++) {
        if (doubles)
            memcpy((double *)out + i, &sums[i], sizeof *sums);
        else
            qb_integer_put(dtype, out, i, sums[i]);
    }
    return QB_OK;
}
