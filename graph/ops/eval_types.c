/* Element types of eval functions: halves by way of float, integers exactly. */
#include "ops_internal.h"

bool qb_eval_widens(const qb_node *node, const qb_tensor *in, bool doubles) {
    for (int32_t i = 0; i < node->n_in; i++) {
        qb_dtype dtype = qb_eval_has(node, in, i) ? in[i].desc.dtype : QB_DTYPE_NONE;
        if (qb_dtype_is_16bit_float(dtype) || (doubles && dtype == QB_DTYPE_F64)) return true;
    }
    return false;
}

static bool is_wide(const qb_tensor *tensor) {
    return qb_dtype_is_16bit_float(tensor->desc.dtype) || tensor->desc.dtype == QB_DTYPE_F64;
}

/* A float tensor in new memory with the values of `from` when there are any. */
static qb_status widen(qb_ctx *cx, const qb_tensor *from, bool copy, qb_tensor *to) {
    int64_t n = qb_shape_count(&from->desc.shape);
    *to = qb_tensor_of(QB_DTYPE_F32, from->desc.shape, qb_temp_take(cx, (size_t)n, sizeof(float)));
    if (!to->data) return cx->code;
    for (int64_t i = 0; copy && i < n; i++)
        ((float *)to->data)[i] = (float)qb_number_get(from->desc.dtype, from->data, i);
    return QB_OK;
}

qb_status qb_eval_widened(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                          qb_eval_fn eval) {
    qb_status status = QB_OK;
    int32_t n = node->n_in + node->n_out;
    QB_RELEASED(qb_temp_give_at) qb_tensor *wide = qb_temp_take(cx, (size_t)n, sizeof *wide);
    if (!wide) return cx->code;
    for (int32_t i = 0; i < n; i++) {
        bool input = i < node->n_in, given;
        const qb_tensor *from = input ? &in[i] : &out[i - node->n_in];
        given = input ? qb_eval_has(node, in, i) : node->out[i - node->n_in] >= 0;
        wide[i] = *from;
        if (given && is_wide(from)) QB_GO(widen(cx, from, input, &wide[i]));
    }
    QB_GO(eval(cx, node, wide, wide + node->n_in));
    for (int32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] < 0 || !is_wide(&out[i])) continue;
        const float *from = wide[node->n_in + i].data;
        int64_t count = qb_shape_count(&out[i].desc.shape);
        for (int64_t k = 0; k < count; k++)
            qb_number_put(out[i].desc.dtype, out[i].data, k, (double)from[k]);
    }
out:
    for (int32_t i = 0; i < n; i++) {
        const qb_tensor *from = i < node->n_in ? &in[i] : &out[i - node->n_in];
        if (wide[i].data != from->data) qb_temp_give(wide[i].data);
    }
    return status;
}

bool qb_dtype_is_integer(qb_dtype dtype) {
    return dtype != QB_DTYPE_NONE && dtype != QB_DTYPE_BOOL && !qb_dtype_is_float(dtype);
}

uint64_t qb_integer_get(qb_dtype dtype, const void *data, int64_t at) {
    switch (dtype) {
#define READ(NAME, T, U)                                                                           \
    case QB_DTYPE_##NAME: return (uint64_t)((const T *)data)[at];
        QB_INTEGER_TYPES(READ)
#undef READ
    case QB_DTYPE_BOOL: return ((const uint8_t *)data)[at] != 0;
    default: return 0;
    }
}

void qb_integer_put(qb_dtype dtype, void *data, int64_t at, uint64_t v) {
    switch (dtype) {
#define WRITE(NAME, T, U)                                                                          \
    case QB_DTYPE_##NAME: ((T *)data)[at] = (T)v; break;
        QB_INTEGER_TYPES(WRITE)
#undef WRITE
    case QB_DTYPE_BOOL: ((uint8_t *)data)[at] = v != 0; break;
    default: break;
    }
}

int qb_element_order(qb_dtype dtype, const void *data, int64_t i, int64_t j) {
    if (qb_dtype_is_float(dtype)) {
        double x = qb_number_get(dtype, data, i), y = qb_number_get(dtype, data, j);
        if (x != x || y != y) return (x != x) - (y != y);
        return (x > y) - (x < y);
    }
    uint64_t x = qb_integer_get(dtype, data, i), y = qb_integer_get(dtype, data, j);
    if (dtype == QB_DTYPE_U64) return (x > y) - (x < y);
    return ((int64_t)x > (int64_t)y) - ((int64_t)x < (int64_t)y);
}

qb_status qb_eval_index(qb_ctx *cx, const qb_tensor *tensor, int64_t at, int64_t size,
                        int64_t *out) {
    qb_dtype dtype = tensor->desc.dtype;
    if (dtype != QB_DTYPE_S64 && dtype != QB_DTYPE_S32)
        return qb_fail(cx, QB_STATUS_INVALID, "indices: expected type s64 or s32, got %s",
                       qb_dtype_text(dtype));
    int64_t k = (int64_t)qb_integer_get(dtype, tensor->data, at);
    if (k < -size || k >= size)
        return qb_fail(cx, QB_STATUS_INVALID, "index: expected %lld to %lld, got %lld",
                       (long long)-size, (long long)size - 1, (long long)k);
    *out = k < 0 ? k + size : k;
    return QB_OK;
}
