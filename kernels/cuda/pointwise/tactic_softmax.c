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

static bool cuda_softmax_supports(const qb_problem *problem, const bool *constant) {
    qb_problem finalized;
    qb_desc in[1];
    qb_cuda_softmax s;
    (void)constant;
    return lower(problem, &finalized, in, &s);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx,
                         qb_cuda_softmax_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_softmax_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                     const bool *constant, int threads, qb_kernel **out) {
    qb_problem finalized;
    qb_desc in[1];
    qb_cuda_softmax s;
    (void)constant, (void)threads;
    if (!lower(problem, &finalized, in, &s))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this problem", tactic->name);
    QB_TRY(qb_cuda_create(cx, tactic, &finalized, &s, sizeof s, out));
    (*out)->launch = launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_softmax, "softmax", QB_KIND_SOFTMAX, QB_WITHIN_1_LSB);
