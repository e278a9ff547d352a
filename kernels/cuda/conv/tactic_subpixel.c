/* Transposed convolutions by a convolution, see kernels/subpixel.h, and a copy of its pixels from
 * the workspace. With stride 1 there is nothing to copy. */
#include "kernels/subpixel.h"

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/im2col_tiles.h"
#include "kernels/cuda/conv/subpixel.h"

#define MOST (INT64_C(1) << 28) /* elements that the convolution makes */

typedef struct subpixel_state {
    qb_kernel *conv;
    qb_subpixel of;
    qb_cuda_subpixel copy;
    size_t bytes; /* of the convolution's result, in front of its workspace; 0: no copy */
} subpixel_state;

typedef struct lowered {
    qb_problem problem;
    qb_desc in[3];
    qb_subpixel of;
} lowered;

static bool lower(const qb_problem *p, const bool *constant, lowered *to) {
    const qb_desc *x = &p->in[QB_IN_DATA], *y = &p->out;
    const size_t size = qb_dtype_size(y->dtype);
    if (p->kind != QB_KIND_CONV_TRANSPOSE || !constant[QB_IN_WEIGHT] ||
        qb_problem_has(p, QB_IN_RESIDUAL) || !qb_cuda_is_channels_last(x) ||
        !qb_cuda_is_channels_last(y) || x->shape.rank != p->window.n + 2 ||
        !qb_cuda_is_countable(x) || !qb_cuda_is_countable(y) ||
        (size != 1 && size != 2 && size != 4) || !qb_subpixel_of(p, &to->of))
        return false;
    qb_subpixel_conv(p, &to->of, &to->problem, to->in);
    if (to->of.phases == 1) to->problem.out = *y;
    return qb_shape_count(&to->problem.out.shape) <= MOST;
}

static qb_cuda_subpixel copy_of(const qb_problem *p, const qb_subpixel *s) {
    const qb_desc *y = &p->out;
    qb_cuda_subpixel copy = {
        .batch = (int32_t)y->shape.dim[0],
        .group = (int32_t)s->group,
        .per_group = (int32_t)s->per_group,
        .out_total = (int32_t)(y->channel_total > 0 ? y->channel_total : y->shape.dim[1]),
        .out_offset = (int32_t)y->channel_offset,
        .size = (int32_t)qb_dtype_size(y->dtype)};
    for (int32_t d = 0; d < 3; d++) {
        copy.made[d] = (int32_t)s->made[d];
        copy.out[d] = (int32_t)s->out[d];
        copy.stride[d] = (int32_t)s->stride[d];
        copy.cut[d] = (int32_t)(s->pad[d] - s->first[d] * s->stride[d]);
    }
    return copy;
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const subpixel_state *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    const size_t bytes = qb_desc_bytes(&s->conv->problem.in[QB_IN_WEIGHT]);
    const void *all[3] = {0};
    QB_FREED char *weight = QB_NEW(cx, qb_alloc(cx, bytes + 1, 1)); /* zeros */
    QB_FREED char *bias = QB_NEW(cx, qb_alloc(cx, (size_t)qb_subpixel_channels(&s->of), 4));
    qb_subpixel_weight(p, &s->of, constants[QB_IN_WEIGHT], weight);
    all[QB_IN_WEIGHT] = weight;
    if (qb_problem_has(p, QB_IN_BIAS)) {
        qb_subpixel_bias(&s->of, constants[QB_IN_BIAS], bias);
        all[QB_IN_BIAS] = bias;
    }
    return s->conv->pack(cx, s->conv, all, packed);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const subpixel_state *s = kernel->state;
    qb_launch conv = *args;
    if (s->bytes == 0) return s->conv->launch(cx, s->conv, args);
    conv.out = args->workspace;
    conv.workspace = (char *)args->workspace + s->bytes;
    QB_TRY(s->conv->launch(cx, s->conv, &conv));
    return qb_cuda_check(cx,
                         qb_cuda_subpixel_run(&s->copy, args->workspace, args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_tactic *conv,
                        const qb_problem *problem, const bool *constant, int threads,
                        qb_kernel **out) {
    lowered inner;
    if (!lower(problem, constant, &inner)) return qb_cuda_not_for(cx, tactic);
    int64_t end = 0;
    subpixel_state s = {.of = inner.of, .copy = copy_of(problem, &inner.of)};
    if (inner.of.phases > 1)
        qb_cuda_reserve(&end, (int64_t)qb_desc_bytes(&inner.problem.out) + QB_BUFFER_SLACK);
    s.bytes = (size_t)end;
    QB_TRY(qb_cuda_create_around(cx, tactic, problem, conv, &inner.problem, constant, threads, &s,
                                 sizeof s, out));
    qb_kernel *kernel = *out;
    qb_cuda_set_channels_last(kernel);
    for (int32_t d = 0; d < 3 && kernel->packing_id; d++)
        kernel->packing_id = qb_packing_add(kernel->packing_id, (uint64_t)inner.of.stride[d]);
    kernel->workspace_bytes += s.bytes;
    kernel->pack = pack;
    kernel->launch = launch;
    return QB_OK;
}

#define SUBPIXEL(TYPE, TILE, SUFFIX, EXACTNESS)                                                    \
    QB_CUDA_TACTIC_AROUND(cuda_conv_transpose_##TYPE##_##TILE##SUFFIX,                             \
                          "conv_transpose_" #TYPE "." #TILE #SUFFIX, QB_KIND_CONV_TRANSPOSE,       \
                          EXACTNESS, qb_tactic_cuda_conv_##TYPE##_##TILE##SUFFIX);
#define SUBPIXEL_IM2COL(TYPE, TILE, SUFFIX, EXACTNESS)                                             \
    SUBPIXEL(TYPE, im2col_##TILE, SUFFIX, EXACTNESS)
QB_CUDA_IM2COL_CONVS(SUBPIXEL)
QB_CUDA_IM2COL_CONVS(SUBPIXEL_IM2COL)
