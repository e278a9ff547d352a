/* The normalization of an image (a factor and a term for each of its channels) on the way from
 * planes of floats or halves, as a model is given it, to pixels of quantized values or halves, as
 * its first convolution reads it: one pass over the memory in place of two. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/elementwise.h"

static bool is_plain_float(const qb_desc *d) { return d->dtype == QB_DTYPE_F32 && d->q.n == 0; }

static bool is_image(const qb_desc *d) {
    return (d->dtype == QB_DTYPE_F16 || is_plain_float(d)) && d->layout == QB_LAYOUT_ROW;
}

static bool constants_fit(const qb_problem *p, const bool *constant) {
    const bool has_bias = qb_problem_has(p, QB_IN_BIAS);
    return constant[QB_IN_WEIGHT] && is_plain_float(&p->in[QB_IN_WEIGHT]) &&
           (!has_bias || (constant[QB_IN_BIAS] && is_plain_float(&p->in[QB_IN_BIAS])));
}

/* A copy of the same type moves bits; this one computes with values, and ends as convolutions do.
 */
static bool plan(const qb_problem *p, qb_cuda_elementwise *e) {
    const qb_desc *image = &p->in[QB_IN_DATA];
    if (!qb_cuda_copy_plan(image, NULL, &p->out, 0, e)) return false;
    e->divide = false;
    if (e->way == QB_CUDA_COPY_GATHER) e->way = QB_CUDA_COPY_TRANSPOSE; /* gathering moves bits */
    return qb_cuda_value_of(image, &e->in[0]) && qb_cuda_value_of(&p->out, &e->out) &&
           (e->way == QB_CUDA_COPY_TRANSPOSE || e->way == QB_CUDA_COPY_PLANES) &&
           e->walk.dim[e->walk.rank - 1] == p->group;
}

static bool cuda_image_supports(const qb_problem *p, const bool *constant) {
    qb_cuda_elementwise e;
    return qb_problem_is_scale(p) && !qb_problem_has(p, QB_IN_RESIDUAL) &&
           p->act.kind == QB_ACT_NONE && constants_fit(p, constant) &&
           is_image(&p->in[QB_IN_DATA]) && p->out.layout == QB_LAYOUT_NHWC && plan(p, &e);
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const size_t bytes = kernel->packed_bytes / 2;
    memset(packed, 0, kernel->packed_bytes);
    memcpy(packed, constants[QB_IN_WEIGHT], bytes);
    if (qb_problem_has(&kernel->problem, QB_IN_BIAS))
        memcpy((char *)packed + bytes, constants[QB_IN_BIAS], bytes);
    return QB_OK;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx,
                         qb_cuda_image_run(kernel->state, args->in[QB_IN_DATA], args->packed,
                                           args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_image_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                   const bool *constant, int threads, qb_kernel **out) {
    qb_cuda_elementwise e;
    (void)threads;
    if (!cuda_image_supports(problem, constant)) return qb_cuda_not_for(cx, tactic);
    plan(problem, &e);
    QB_TRY(qb_cuda_create(cx, tactic, problem, &e, sizeof e, out));
    (*out)->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    if (qb_problem_has(problem, QB_IN_BIAS)) (*out)->packed_inputs |= (uint64_t)1 << QB_IN_BIAS;
    (*out)->packed_bytes = 2 * (size_t)problem->group * sizeof(float);
    (*out)->pack = pack;
    (*out)->launch = launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_image, "conv_f32.image", QB_KIND_CONV, QB_EXACT);
