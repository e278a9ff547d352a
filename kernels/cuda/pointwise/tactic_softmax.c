/* Softmax along any axis, ROW or NHWC. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/softmax.h"

static bool lower(const qb_problem *p, qb_problem *finalized, qb_desc *in, qb_cuda_softmax *s) {
    *s = (qb_cuda_softmax){.n = 1, .outer = 1, .step = 1, .zero_nan = p->zero_nan};
    if (p->kind != QB_KIND_SOFTMAX || p->n_in != 1 || p->act.kind != QB_ACT_NONE) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    const qb_shape *shape = &in[0].shape;
    if (in[0].layout != finalized->out.layout || in[0].channel_total > 0 ||
        finalized->out.channel_total > 0 || p->axis < 0 || p->axis >= shape->rank)
        return false;
    if (!qb_cuda_value_of(&in[0], &s->in) || !qb_cuda_value_of(&finalized->out, &s->out))
        return false;
    int64_t count = qb_shape_count(shape);
    if (count < 0 || count > INT32_MAX) return false;
    qb_cuda_strides strides;
    if (!qb_cuda_strides_of(&in[0], &strides)) return false;
    s->n = (int32_t)shape->dim[p->axis];
    s->step = strides.stride[p->axis];
    s->outer = s->n > 0 ? count / s->n / s->step : 0;
    return true;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx,
                         qb_cuda_softmax_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED(cuda_softmax, "softmax", QB_KIND_SOFTMAX, QB_WITHIN_1_LSB, qb_cuda_softmax,
                       lower, launch, NULL);
