/* Padding as a tactic, ROW or NHWC. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/pad.h"

#define WIDTH 8

/* One more loop inside the others: part of the last one where neither has padding and they lie
 * together on both sides. */
static void add_loop(qb_cuda_pad *r, int64_t from_dim, int64_t to_dim, int64_t begin, int64_t from,
                     int64_t to) {
    const int32_t last = r->rank - 1;
    if (from_dim == 1 && to_dim == 1) return;
    const bool whole = begin == 0 && from_dim == to_dim;
    const bool joins = whole && last >= 0 && r->begin[last] == 0 &&
                       r->from_dim[last] == (int64_t)r->to_dim[last] &&
                       r->from[last] == from * from_dim && r->to[last] == to * to_dim;
    const int32_t at = joins ? last : r->rank++;
    r->from_dim[at] = (int32_t)(joins ? r->from_dim[at] * from_dim : from_dim);
    r->to_dim[at] = (uint32_t)(joins ? r->to_dim[at] * to_dim : to_dim);
    r->begin[at] = (int32_t)begin;
    r->from[at] = from;
    r->to[at] = to;
}

static bool is_wide(const qb_cuda_pad *r) {
    const int32_t last = r->rank - 1;
    int64_t all = r->from_first | r->to_first;
    if (last < 0 || r->begin[last] != 0 || r->from_dim[last] != (int64_t)r->to_dim[last] ||
        r->from[last] != 1 || r->to[last] != 1)
        return false;
    for (int32_t d = 0; d < last; d++) all |= r->from[d] | r->to[d];
    return (all | r->from_dim[last]) % WIDTH == 0;
}

static bool lower(const qb_problem *p, qb_problem *finalized, qb_desc *in, qb_cuda_pad *r) {
    qb_cuda_strides from, to;
    int32_t order[QB_MAX_RANK] = {0};
    *r = (qb_cuda_pad){.mode = (int32_t)p->padding.mode, .value = p->padding.value};
    if (p->kind != QB_KIND_PAD || p->n_in != 1) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    const qb_shape *x = &in->shape, *y = &finalized->out.shape;
    if (!qb_cuda_is_countable(in) || !qb_cuda_is_countable(&finalized->out) ||
        (qb_shape_count(x) == 0 && p->padding.mode != QB_PAD_CONSTANT) ||
        !qb_cuda_value_of(in, &r->in) || !qb_cuda_value_of(&finalized->out, &r->out) ||
        !qb_cuda_strides_of(in, &from) || !qb_cuda_strides_of(&finalized->out, &to))
        return false;
    r->from_first = from.first;
    r->to_first = to.first;
    r->count = (uint32_t)qb_shape_count(y);
    for (int32_t d = 0; d < y->rank; d++) { /* from the widest stride of the result */
        int32_t at = d;
        if (p->padding.begin[d] > INT32_MAX || p->padding.begin[d] < -INT32_MAX) return false;
        for (; at > 0 && to.stride[order[at - 1]] < to.stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    for (int32_t i = 0; i < y->rank; i++) {
        const int32_t d = order[i];
        add_loop(r, x->dim[d], y->dim[d], p->padding.begin[d], from.stride[d], to.stride[d]);
    }
    r->width = is_wide(r) ? WIDTH : 1;
    return true;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_pad_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED(cuda_pad, "pad", QB_KIND_PAD, QB_EXACT, qb_cuda_pad, lower, launch, NULL);
