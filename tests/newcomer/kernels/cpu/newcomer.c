/* Activations of seven numbers. */
#include "kernels/tactic.h"

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *in = &p->in[0];
    const bool row = (in->layout == QB_LAYOUT_ROW || in->layout == QB_LAYOUT_ANY) &&
                     (p->out.layout == QB_LAYOUT_ROW || p->out.layout == QB_LAYOUT_ANY) &&
                     in->channel_total == 0 && p->out.channel_total == 0;
    return row && in->dtype == QB_DTYPE_F32 && p->out.dtype == QB_DTYPE_F32 && in->q.n == 0 &&
           p->out.q.n == 0 && qb_shape_count(&in->shape) == 7;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const float *x = args->in[0];
    float *y = args->out;
    for (int i = 0; i < 7; i++) y[i] = qb_act_apply(kernel->problem.act, x[i]);
    return QB_OK;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, out));
    (*out)->in[0].layout = (*out)->problem.out.layout = QB_LAYOUT_ROW;
    (*out)->launch = launch;
    return QB_OK;
}

QB_TACTIC(newcomer, "cpu.unary_f32.newcomer", "cpu", QB_KIND_UNARY, QB_EXACT, supports, create);
