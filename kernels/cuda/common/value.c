/* Host side of value.h. */
#include "kernels/cuda/common/value.h"

#include <string.h>

bool qb_cuda_value_of(const qb_desc *d, qb_cuda_value *out) {
    bool is_float = d->dtype == QB_DTYPE_F32 || d->dtype == QB_DTYPE_F16;
    bool is_quantized = d->dtype == QB_DTYPE_U8 || d->dtype == QB_DTYPE_S8;
    *out = (qb_cuda_value){.dtype = (int32_t)d->dtype, .scale = 1.0f, .inverse = 1.0f};
    if (is_float) return d->q.n == 0;
    if (!is_quantized || d->q.n != 1) return false;
    out->zero = d->q.zero ? d->q.zero[0] : 0;
    out->scale = d->q.scale[0];
    out->inverse = 1.0f / out->scale;
    out->lowest = (float)((d->dtype == QB_DTYPE_U8 ? 0 : INT8_MIN) - out->zero);
    out->highest = (float)((d->dtype == QB_DTYPE_U8 ? UINT8_MAX : INT8_MAX) - out->zero);
    return true;
}

static bool same_params(const qb_desc *a, const qb_desc *b) {
    if (a->dtype != b->dtype || a->q.n != b->q.n) return false;
    for (int32_t i = 0; i < a->q.n; i++) {
        int32_t zero_a = a->q.zero ? a->q.zero[i] : 0, zero_b = b->q.zero ? b->q.zero[i] : 0;
        if (a->q.scale[i] != b->q.scale[i] || zero_a != zero_b) return false;
    }
    return a->q.n <= 1 || a->q.axis == b->q.axis;
}

bool qb_cuda_values_of(const qb_desc *from, const qb_desc *to, qb_cuda_value *in,
                       qb_cuda_value *out, int32_t *divide) {
    size_t size = qb_dtype_size(to->dtype);
    *divide = !same_params(from, to);
    if (*divide) return qb_cuda_value_of(from, in) && qb_cuda_value_of(to, out);
    qb_dtype dtype = size == 1 ? QB_DTYPE_U8 : size == 2 ? QB_DTYPE_U16 : QB_DTYPE_F32;
    *out = *in = (qb_cuda_value){
        .dtype = (int32_t)dtype, .scale = 1.0f, .inverse = 1.0f, .highest = UINT8_MAX};
    return size == 1 || size == 2 || size == 4;
}

bool qb_cuda_strides_of(const qb_desc *d, qb_cuda_strides *out) {
    int32_t rank = d->shape.rank;
    bool last = d->layout == QB_LAYOUT_NHWC, sliced = d->channel_total > 0;
    *out = (qb_cuda_strides){0};
    if (!last && d->layout != QB_LAYOUT_ROW) return false;
    if (!qb_shape_known(&d->shape) || (last && (rank < 3 || rank > 5))) return false;
    if (sliced && rank < 2) return false;
    int64_t channels = sliced ? d->channel_total : rank > 1 ? d->shape.dim[1] : 1;
    int64_t stride = last ? channels : 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        if (last && i == 1) continue;
        out->stride[i] = stride;
        stride *= i == 1 ? channels : d->shape.dim[i];
    }
    if (last) out->stride[1] = 1;
    if (sliced) out->first = d->channel_offset * out->stride[1];
    return true;
}

void qb_cuda_broadcast(const qb_desc *operand, const qb_shape *shape, qb_cuda_strides *strides) {
    qb_cuda_strides s = {.first = strides->first};
    int32_t lead = shape->rank - operand->shape.rank;
    for (int32_t d = 0; d < operand->shape.rank; d++)
        s.stride[lead + d] = operand->shape.dim[d] == 1 ? 0 : strides->stride[d];
    *strides = s;
}

int64_t qb_cuda_stored_channels(const qb_desc *out, const qb_desc *in, int32_t n) {
    const int64_t own = out->shape.dim[1];
    if (!out->padded || out->channel_total <= own || out->layout != QB_LAYOUT_NHWC) return own;
    for (int32_t i = 0; i < n; i++) {
        const bool repeated = qb_shape_count(&in[i].shape) == 1;
        if (!repeated &&
            (!qb_shape_equal(&in[i].shape, &out->shape) || in[i].layout != out->layout ||
             in[i].channel_offset != 0 || in[i].channel_total != out->channel_total))
            return own;
    }
    return out->channel_total;
}

uint64_t qb_cuda_in_place(const qb_problem *p, const qb_desc *in) {
    const qb_desc *out = &p->out;
    uint64_t inputs = 0;
    for (int32_t i = 0; i < p->n_in; i++)
        if (qb_dtype_size(in[i].dtype) == qb_dtype_size(out->dtype) &&
            qb_shape_equal(&in[i].shape, &out->shape) && in[i].layout == out->layout &&
            in[i].channel_total == out->channel_total &&
            in[i].channel_offset == out->channel_offset)
            inputs |= UINT64_C(1) << i;
    return inputs;
}

/* Dimensions of the result from the widest stride to the narrowest. */
static void sort_dims(const qb_cuda_strides *result, int32_t rank, int32_t *order) {
    for (int32_t i = 0; i < rank; i++) {
        int32_t at = i;
        for (; at > 0 && result->stride[order[at - 1]] < result->stride[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static bool is_wide(const qb_cuda_walk *w, int32_t n, int64_t width) {
    int32_t last = w->rank - 1;
    if (last < 0 || w->dim[last] % width || w->stride[0][last] != 1) return false;
    for (int32_t k = 0; k < n; k++) {
        if (w->stride[k][last] != 1 && w->stride[k][last] != 0) return false;
        if (w->stride[k][last] == 0) continue; /* one element for all */
        if (w->first[k] % width) return false;
        for (int32_t d = 0; d < last; d++)
            if (w->stride[k][d] % width) return false;
    }
    return true;
}

static void set_inverse(qb_cuda_walk *w, int32_t d) {
    uint32_t bits = 0;
    while (UINT64_C(1) << bits < w->dim[d]) bits++;
    w->shift[d] = 31 + bits;
    w->inverse[d] = (uint32_t)(((UINT64_C(1) << w->shift[d]) + w->dim[d] - 1) / w->dim[d]);
}

bool qb_cuda_walk_make(const qb_shape *shape, const qb_cuda_strides *operands, int32_t n,
                       qb_cuda_walk *out) {
    int32_t order[QB_MAX_RANK] = {0};
    int64_t count = qb_shape_count(shape);
    qb_cuda_walk w = {.count = (uint32_t)count};
    if (count < 0 || count > INT32_MAX) return false;
    sort_dims(&operands[0], shape->rank, order);
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t size = shape->dim[order[i]];
        if (size == 1) continue;
        bool merge = w.rank > 0;
        for (int32_t k = 0; merge && k < n; k++)
            merge = w.stride[k][w.rank - 1] == operands[k].stride[order[i]] * size;
        int32_t to = merge ? w.rank - 1 : w.rank++;
        w.dim[to] = (uint32_t)(merge ? w.dim[to] * size : size);
        for (int32_t k = 0; k < n; k++) w.stride[k][to] = operands[k].stride[order[i]];
    }
    for (int32_t d = 0; d < w.rank && count > 0; d++) set_inverse(&w, d);
    for (int32_t k = 0; k < n; k++) w.first[k] = operands[k].first;
    w.width = is_wide(&w, n, 16) ? 16 : is_wide(&w, n, 4) ? 4 : 1;
    *out = w;
    return true;
}

bool qb_cuda_is_smooth(qb_act_kind kind) {
    return kind == QB_ACT_SIGMOID || kind == QB_ACT_TANH || kind == QB_ACT_SILU ||
           kind == QB_ACT_GELU || kind == QB_ACT_GELU_TANH || kind == QB_ACT_ELU;
}

bool qb_cuda_epilogue_params_of(const qb_problem *p, qb_cuda_epilogue_params *out) {
    *out = (qb_cuda_epilogue_params){.act = (int32_t)p->act.kind,
                                     .act_first = p->act_first,
                                     .alpha = p->act.alpha,
                                     .beta = p->act.beta};
    bool has_residual = p->kind == QB_KIND_CONV || p->kind == QB_KIND_MATMUL;
    if (has_residual && qb_problem_has(p, QB_IN_RESIDUAL) &&
        !qb_cuda_value_of(&p->in[QB_IN_RESIDUAL], &out->residual))
        return false;
    if (p->rounding.dtype != QB_DTYPE_NONE) {
        const qb_rounding *r = &p->rounding;
        const qb_qparams q = {r->dtype, -1, 1, &r->scale, &r->zero};
        const qb_desc rounded = {.dtype = r->dtype, .shape = p->out.shape, .q = q};
        if (qb_cuda_is_smooth(p->act.kind) || !qb_cuda_value_of(&rounded, &out->rounding))
            return false;
    }
    return qb_cuda_value_of(&p->out, &out->out);
}

static bool set_strides(const qb_desc *d, int64_t strides[5], int64_t *first) {
    qb_cuda_strides s;
    if (!qb_cuda_strides_of(d, &s)) return false;
    int32_t lead = 5 - d->shape.rank;
    strides[0] = s.stride[0];
    strides[1] = s.stride[1];
    for (int32_t i = 0; i < 3; i++) strides[2 + i] = i < lead ? 0 : s.stride[2 + i - lead];
    *first = s.first;
    return true;
}

bool qb_cuda_window_of(const qb_problem *p, qb_cuda_window *out) {
    const qb_desc *x = &p->in[QB_IN_DATA], *y = &p->out;
    const qb_window *from = &p->window;
    qb_cuda_window w = {.group = (int32_t)(p->group > 0 ? p->group : 1),
                        .channels_last = y->layout == QB_LAYOUT_NHWC};
    if (x->shape.rank != from->n + 2 || y->shape.rank != x->shape.rank || from->n < 1 ||
        from->n > 3)
        return false;
    if (!set_strides(x, w.in_stride, &w.in_first) || !set_strides(y, w.out_stride, &w.out_first))
        return false;
    if (p->kind == QB_KIND_CONV && qb_problem_has(p, QB_IN_RESIDUAL) &&
        !set_strides(&p->in[QB_IN_RESIDUAL], w.res_stride, &w.res_first))
        return false;
    int64_t count_in = qb_shape_count(&x->shape), count_out = qb_shape_count(&y->shape);
    if (count_in < 0 || count_in > INT32_MAX || count_out <= 0 || count_out > INT32_MAX)
        return false;
    w.batch = (int32_t)x->shape.dim[0];
    w.in_c = (int32_t)x->shape.dim[1];
    w.out_c = (int32_t)y->shape.dim[1];
    for (int32_t d = 0; d < 3; d++) {
        int32_t s = d - (3 - from->n);
        w.in[d] = s < 0 ? 1 : (int32_t)x->shape.dim[2 + s];
        w.out[d] = s < 0 ? 1 : (int32_t)y->shape.dim[2 + s];
        w.kernel[d] = s < 0 ? 1 : (int32_t)from->kernel[s];
        w.stride[d] = s < 0 ? 1 : (int32_t)from->stride[s];
        w.dilation[d] = s < 0 ? 1 : (int32_t)from->dilation[s];
        w.pad[d] = s < 0 ? 0 : (int32_t)from->pad_begin[s];
        w.pad_end[d] = s < 0 ? 0 : (int32_t)from->pad_end[s];
    }
    *out = w;
    return true;
}
