/* Convolutions whose windows lie side by side (the patches of a vision transformer): each patch
 * becomes a row in the workspace, and a 1x1 convolution of Tensor Cores does the rest. Nothing is
 * padded, so that a zero point of the data folds into the bias as it does there. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/patches.h"

#define PIECE 16 /* bytes */

extern const qb_tactic qb_tactic_cuda_conv_s8_wgmma_128x128x128;
extern const qb_tactic qb_tactic_cuda_conv_s8_mma_128x128x64;
extern const qb_tactic qb_tactic_cuda_conv_f16_wgmma_128x128x128;
extern const qb_tactic qb_tactic_cuda_conv_f16_mma_128x128x64;

typedef struct patches_state {
    qb_kernel *conv;
    qb_cuda_patches patches;
    size_t bytes; /* of all patches, in front of the inner workspace */
} patches_state;

typedef struct inner_problem {
    qb_problem problem;
    qb_desc in[4];
    qb_cuda_patches patches;
} inner_problem;

static bool is_channels_last(const qb_desc *d) {
    return d->layout == QB_LAYOUT_NHWC || d->layout == QB_LAYOUT_ANY;
}

static bool is_side_by_side(const qb_problem *p) {
    const qb_window *w = &p->window;
    if (p->kind != QB_KIND_CONV || p->group != 1 || w->n != 2 || w->kernel[0] * w->kernel[1] == 1)
        return false;
    for (int32_t d = 0; d < 2; d++)
        if (w->kernel[d] != w->stride[d] || w->dilation[d] != 1 || w->pad_begin[d] != 0)
            return false;
    return p->in[QB_IN_DATA].channel_total == 0 && is_channels_last(&p->in[QB_IN_DATA]) &&
           is_channels_last(&p->out) && p->in[QB_IN_DATA].shape.rank == 4;
}

static bool lower(const qb_problem *p, const bool *constant, inner_problem *to) {
    if (!is_side_by_side(p) || !constant[QB_IN_WEIGHT] || p->n_in > 4) return false;
    const int64_t *x = p->in[QB_IN_DATA].shape.dim, *y = p->out.shape.dim;
    int64_t size = (int64_t)qb_dtype_size(p->in[QB_IN_DATA].dtype);
    int64_t line = p->window.kernel[1] * x[1] * size, row = x[3] * x[1] * size;
    if (!qb_shape_known(&p->in[QB_IN_DATA].shape) || line % PIECE || row % PIECE ||
        y[2] * p->window.kernel[0] > x[2] || y[3] * p->window.kernel[1] > x[3] ||
        qb_shape_count(&p->in[QB_IN_DATA].shape) > INT32_MAX)
        return false;
    *to = (inner_problem){.problem = *p};
    to->patches = (qb_cuda_patches){.batch = (int32_t)x[0],
                                    .out_h = (int32_t)y[2],
                                    .out_w = (int32_t)y[3],
                                    .lines = (int32_t)p->window.kernel[0],
                                    .line = (int32_t)(line / PIECE),
                                    .row_pieces = row / PIECE,
                                    .image_pieces = x[2] * row / PIECE};
    memcpy(to->in, p->in, (size_t)p->n_in * sizeof *to->in);
    to->problem.in = to->in;
    to->problem.window =
        (qb_window){.n = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    int64_t k = x[1] * p->window.kernel[0] * p->window.kernel[1];
    to->in[QB_IN_DATA].layout = QB_LAYOUT_NHWC;
    to->in[QB_IN_DATA].shape = (qb_shape){.rank = 4, .dim = {x[0], k, y[2], y[3]}};
    to->in[QB_IN_WEIGHT].shape = (qb_shape){.rank = 4, .dim = {y[1], k, 1, 1}};
    return true;
}

static bool supports(const qb_tactic *conv, const qb_problem *problem, const bool *constant) {
    inner_problem inner;
    return lower(problem, constant, &inner) && conv->supports(&inner.problem, constant);
}

/* [M, C, kh, kw] to [M, kh, kw, C]: the order of a patch. */
static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const patches_state *s = kernel->state;
    const qb_desc *weight = &kernel->problem.in[QB_IN_WEIGHT];
    const int64_t *dim = weight->shape.dim;
    size_t size = qb_dtype_size(weight->dtype);
    int64_t taps = dim[2] * dim[3];
    char *transposed = qb_alloc(cx, (size_t)qb_shape_count(&weight->shape) + 1, size);
    if (!transposed) return QB_STATUS_NOMEM;
    for (int64_t m = 0; m < dim[0]; m++)
        for (int64_t c = 0; c < dim[1]; c++)
            for (int64_t t = 0; t < taps; t++)
                memcpy(transposed + (size_t)((m * taps + t) * dim[1] + c) * size,
                       (const char *)constants[QB_IN_WEIGHT] +
                           (size_t)((m * dim[1] + c) * taps + t) * size,
                       size);
    const void *in[4] = {0};
    for (int32_t i = 0; i < kernel->problem.n_in; i++) in[i] = constants[i];
    in[QB_IN_WEIGHT] = transposed;
    qb_status status = s->conv->pack(cx, s->conv, in, packed);
    qb_free(transposed);
    return status;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const patches_state *s = kernel->state;
    const void *in[4] = {0};
    QB_TRY(qb_cuda_check(
        cx, qb_cuda_patches_run(&s->patches, args->in[QB_IN_DATA], args->workspace, args->stream),
        kernel->tactic->name));
    for (int32_t i = 0; i < kernel->problem.n_in; i++) in[i] = args->in[i];
    in[QB_IN_DATA] = args->workspace;
    qb_launch rest = *args;
    rest.in = in;
    rest.workspace = (char *)args->workspace + s->bytes;
    return s->conv->launch(cx, s->conv, &rest);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_tactic *conv,
                        const qb_problem *problem, const bool *constant, int threads,
                        qb_kernel **out) {
    inner_problem inner;
    if (!lower(problem, constant, &inner)) return qb_cuda_not_for(cx, tactic);
    int64_t end = 0;
    patches_state s = {.patches = inner.patches};
    qb_cuda_reserve(&end, (int64_t)qb_desc_bytes(&inner.in[QB_IN_DATA]) + QB_BUFFER_SLACK);
    s.bytes = (size_t)end;
    QB_TRY(qb_cuda_create_around(cx, tactic, problem, conv, &inner.problem, constant, threads, &s,
                                 sizeof s, out));
    qb_kernel *kernel = *out;
    for (int32_t i = 0; i < problem->n_in; i++)
        kernel->in[i].layout =
            i == QB_IN_DATA || i == QB_IN_RESIDUAL ? QB_LAYOUT_NHWC : QB_LAYOUT_ROW;
    kernel->problem.out.layout = QB_LAYOUT_NHWC;
    kernel->workspace_bytes += s.bytes;
    kernel->pack = pack;
    kernel->launch = launch;
    return QB_OK;
}

#define PATCHES(SYMBOL, NAME, CONV)                                                                \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        return supports(&CONV, problem, constant);                                                 \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        return create(cx, tactic, &CONV, problem, constant, threads, out);                         \
    }                                                                                              \
    QB_CUDA_TACTIC(SYMBOL, NAME, QB_KIND_CONV, QB_EXACT)

PATCHES(cuda_conv_s8_patches_wgmma, "conv_s8.patches_wgmma_128x128x128",
        qb_tactic_cuda_conv_s8_wgmma_128x128x128);
PATCHES(cuda_conv_s8_patches_mma, "conv_s8.patches_mma_128x128x64",
        qb_tactic_cuda_conv_s8_mma_128x128x64);
PATCHES(cuda_conv_f16_patches_wgmma, "conv_f16.patches_wgmma_128x128x128",
        qb_tactic_cuda_conv_f16_wgmma_128x128x128);
PATCHES(cuda_conv_f16_patches_mma, "conv_f16.patches_mma_128x128x64",
        qb_tactic_cuda_conv_f16_mma_128x128x64);
