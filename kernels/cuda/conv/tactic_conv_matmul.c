/* 1x1 convolutions of f32 as matrix products of cuBLASLt: pixels are rows, channels last. Those of
 * other windows come by way of im2col. */
#include "kernels/cuda/common/tactic_common.h"

typedef struct lowered {
    qb_problem problem;
    qb_desc in[4];
} lowered;

typedef struct product_state {
    qb_kernel *matmul;
} product_state;

static bool is_single(const qb_window *w) {
    for (int32_t d = 0; d < w->n; d++)
        if (w->kernel[d] != 1 || w->stride[d] != 1 || w->pad_begin[d] != 0 || w->pad_end[d] != 0)
            return false;
    return true;
}

/* [N, C, ...] as [pixels, C]; false: it does not lie so. */
static bool as_rows(qb_desc *d) {
    const qb_shape *shape = &d->shape;
    if ((d->layout != QB_LAYOUT_NHWC && d->layout != QB_LAYOUT_ANY) || d->channel_total != 0 ||
        shape->rank < 3 || !qb_cuda_is_countable(d) || shape->dim[1] == 0)
        return false;
    const int64_t channels = shape->dim[1];
    d->shape = (qb_shape){.rank = 2, .dim = {qb_shape_count(shape) / channels, channels}};
    d->layout = QB_LAYOUT_ROW;
    return true;
}

static bool lower(const qb_problem *p, const bool *constant, lowered *to) {
    if (p->kind != QB_KIND_CONV || p->group != 1 || p->n_in < 2 || p->n_in > 4 ||
        !constant[QB_IN_WEIGHT] || !is_single(&p->window))
        return false;
    *to = (lowered){.problem = *p};
    for (int32_t i = 0; i < p->n_in; i++) to->in[i] = p->in[i];
    to->problem.kind = QB_KIND_MATMUL;
    to->problem.in = to->in;
    to->problem.scale = 1;
    to->problem.transpose_b = true;
    qb_desc *weight = &to->in[QB_IN_WEIGHT];
    if (weight->layout != QB_LAYOUT_ROW && weight->layout != QB_LAYOUT_ANY) return false;
    weight->shape = (qb_shape){.rank = 2, .dim = {weight->shape.dim[0], weight->shape.dim[1]}};
    return as_rows(&to->in[QB_IN_DATA]) && as_rows(&to->problem.out) &&
           (!qb_problem_has(p, QB_IN_RESIDUAL) || as_rows(&to->in[QB_IN_RESIDUAL]));
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const product_state *s = kernel->state;
    return s->matmul->pack(cx, s->matmul, constants, packed);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const product_state *s = kernel->state;
    return s->matmul->launch(cx, s->matmul, args);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_tactic *matmul,
                        const qb_problem *problem, const bool *constant, int threads,
                        qb_kernel **out) {
    lowered p;
    product_state s;
    if (!lower(problem, constant, &p)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_create_around(cx, tactic, problem, matmul, &p.problem, constant, threads, &s,
                                 sizeof s, out));
    qb_kernel *kernel = *out;
    qb_cuda_set_channels_last(kernel);
    kernel->pack = pack;
    kernel->launch = launch;
    return QB_OK;
}

QB_CUDA_TACTIC_AROUND(cuda_conv_tf32_cublaslt, "conv_tf32.cublaslt", QB_KIND_CONV, QB_EXACT,
                      qb_tactic_cuda_matmul_tf32_cublaslt);
QB_CUDA_TACTIC_AROUND(cuda_conv_f32_cublaslt, "conv_f32.cublaslt", QB_KIND_CONV, QB_EXACT,
                      qb_tactic_cuda_matmul_f32_cublaslt);
