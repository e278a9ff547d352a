/* Cast of integers to dequantized values as a tactic: a COPY from integers without a scale. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/cast.h"

static bool is_integer(const qb_desc *d) {
    return d->q.n == 0 &&
           (d->dtype == QB_DTYPE_S64 || d->dtype == QB_DTYPE_S32 || d->dtype == QB_DTYPE_BOOL);
}

/* Element for element in the order of the memory. */
static bool lower(const qb_problem *p, qb_problem *finalized, qb_desc *in, qb_cuda_cast *c) {
    if (p->kind != QB_KIND_COPY || p->n_in != 1 || !is_integer(&p->in[0])) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    const qb_desc *out = &finalized->out;
    const int64_t count = qb_shape_count(&in->shape);
    if (!qb_shape_known(&in->shape) || count > INT32_MAX ||
        !qb_shape_equal(&in->shape, &out->shape) || in->layout != out->layout ||
        in->channel_total > 0 || out->channel_total > 0)
        return false;
    *c = (qb_cuda_cast){.from = (int32_t)in->dtype, .count = (uint32_t)count};
    return qb_cuda_value_of(out, &c->out);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_cast_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED(cuda_cast, "cast", QB_KIND_COPY, QB_EXACT, qb_cuda_cast, lower, launch,
                       NULL);
