/* Convolutions whose windows are copied apart first: those of few channels or of an odd number,
 * which no tile of a Tensor Core takes as they lie, those whose windows lie side by side (the
 * patches of a vision transformer), and those of f32, which no tile takes. Each window becomes a
 * row in the workspace, and a 1x1 convolution does the rest. What lies around the image is there as
 * the zero point, so that it folds into the bias as it does in that one. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/common/value.h"
#include "kernels/cuda/conv/im2col.h"
#include "kernels/cuda/conv/im2col_tiles.h"

#define PIECE 16                /* bytes */
#define MOST (INT64_C(1) << 28) /* bytes of all rows */

typedef struct im2col_state {
    qb_kernel *conv;
    qb_cuda_im2col im2col;
    size_t bytes; /* of all rows, in front of the inner workspace */
} im2col_state;

typedef struct lowered {
    qb_problem problem;
    qb_desc in[4];
    qb_cuda_im2col im2col;
} lowered;

static bool is_channels_last(const qb_desc *d) {
    return d->layout == QB_LAYOUT_NHWC || d->layout == QB_LAYOUT_ANY;
}

/* A line of pixels is an image of one row. */
static qb_shape as_image(const qb_shape *s) {
    if (s->rank != 3) return *s;
    return (qb_shape){.rank = 4, .dim = {s->dim[0], s->dim[1], 1, s->dim[2]}};
}

static qb_window as_plane(const qb_window *w) {
    if (w->n != 1) return *w;
    return (qb_window){.n = 2,
                       .kernel = {1, w->kernel[0]},
                       .stride = {1, w->stride[0]},
                       .dilation = {1, w->dilation[0]},
                       .pad_begin = {0, w->pad_begin[0]},
                       .pad_end = {0, w->pad_end[0]}};
}

/* Tiles of Tensor Cores take pixels of whole pieces as they lie, and windows of eight channels and
 * more; where windows lie side by side, nothing is read twice. */
static bool is_for_rows(const qb_problem *p, const qb_window *w) {
    const qb_desc *x = &p->in[QB_IN_DATA];
    if (p->kind != QB_KIND_CONV || p->group != 1 || w->n != 2 || x->channel_total != 0 ||
        !is_channels_last(x) || !is_channels_last(&p->out) || x->shape.rank != p->window.n + 2)
        return false;
    const int64_t channels = x->shape.dim[1];
    const bool f32 = x->dtype == QB_DTYPE_F32, single = w->kernel[0] * w->kernel[1] == 1;
    if (single && !f32) return channels * (int64_t)qb_dtype_size(x->dtype) % PIECE != 0;
    bool side_by_side = true;
    for (int32_t d = 0; d < 2; d++) {
        if (w->dilation[d] != 1) return false;
        side_by_side &= w->kernel[d] == w->stride[d] && w->pad_begin[d] == 0;
    }
    return side_by_side ? !(f32 && single) : f32 || channels % 8 != 0;
}

static bool lower(const qb_problem *p, const bool *constant, lowered *to) {
    const qb_window window = as_plane(&p->window), *w = &window;
    if (!is_for_rows(p, w) || !constant[QB_IN_WEIGHT] || p->n_in > 4) return false;
    const qb_shape image = as_image(&p->in[QB_IN_DATA].shape), result = as_image(&p->out.shape);
    const int64_t *x = image.dim, *y = result.dim;
    const int64_t size = (int64_t)qb_dtype_size(p->in[QB_IN_DATA].dtype);
    qb_cuda_value data;
    if (!qb_shape_known(&image) || (size != 1 && size != 2 && size != 4) ||
        !qb_cuda_value_of(&p->in[QB_IN_DATA], &data) || qb_shape_count(&image) > INT32_MAX)
        return false;
    const int64_t elements = w->kernel[0] * w->kernel[1] * x[1];
    const int64_t pieces = (elements * size + PIECE - 1) / PIECE;
    if (x[0] * y[2] * y[3] * pieces > MOST / PIECE) return false;
    *to = (lowered){.problem = *p};
    to->im2col = (qb_cuda_im2col){.batch = (int32_t)x[0],
                                  .in_h = (int32_t)x[2],
                                  .row = (int32_t)(x[3] * x[1]),
                                  .lines = (int32_t)w->kernel[0],
                                  .line = (int32_t)(w->kernel[1] * x[1]),
                                  .out_h = (int32_t)y[2],
                                  .out_w = (int32_t)y[3],
                                  .stride_h = (int32_t)w->stride[0],
                                  .step = (int32_t)(w->stride[1] * x[1]),
                                  .pad_h = (int32_t)w->pad_begin[0],
                                  .pad = (int32_t)(w->pad_begin[1] * x[1]),
                                  .size = (int32_t)size,
                                  .pieces = (int32_t)pieces,
                                  .fill = (uint32_t)(data.zero & 0xff) * 0x01010101u};
    memcpy(to->in, p->in, (size_t)p->n_in * sizeof *to->in);
    to->problem.in = to->in;
    to->problem.window =
        (qb_window){.n = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    const int64_t k = pieces * PIECE / size;
    to->in[QB_IN_DATA].layout = QB_LAYOUT_NHWC;
    to->in[QB_IN_DATA].shape = (qb_shape){.rank = 4, .dim = {x[0], k, y[2], y[3]}};
    to->in[QB_IN_WEIGHT].shape = (qb_shape){.rank = 4, .dim = {y[1], k, 1, 1}};
    to->problem.out.shape = result;
    if (qb_problem_has(p, QB_IN_RESIDUAL))
        to->in[QB_IN_RESIDUAL].shape = as_image(&p->in[QB_IN_RESIDUAL].shape);
    return true;
}

/* [M, C, kh, kw] to [M, kh, kw, C] and zeros: the order of a row. */
static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const im2col_state *s = kernel->state;
    const qb_desc *weight = &kernel->problem.in[QB_IN_WEIGHT];
    const int64_t *dim = weight->shape.dim;
    size_t size = qb_dtype_size(weight->dtype);
    const int64_t taps = dim[2] * (weight->shape.rank > 3 ? dim[3] : 1);
    const int64_t k = s->conv->problem.in[QB_IN_WEIGHT].shape.dim[1];
    char *rows = qb_alloc(cx, (size_t)(dim[0] * k) + 1, size); /* zeros */
    if (!rows) return QB_STATUS_NOMEM;
    for (int64_t m = 0; m < dim[0]; m++)
        for (int64_t c = 0; c < dim[1]; c++)
            for (int64_t t = 0; t < taps; t++)
                memcpy(rows + (size_t)(m * k + t * dim[1] + c) * size,
                       (const char *)constants[QB_IN_WEIGHT] +
                           (size_t)((m * dim[1] + c) * taps + t) * size,
                       size);
    const void *in[4] = {0};
    for (int32_t i = 0; i < kernel->problem.n_in; i++) in[i] = constants[i];
    in[QB_IN_WEIGHT] = rows;
    qb_status status = s->conv->pack(cx, s->conv, in, packed);
    qb_free(rows);
    return status;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const im2col_state *s = kernel->state;
    const void *in[4] = {0};
    QB_TRY(qb_cuda_check(
        cx, qb_cuda_im2col_run(&s->im2col, args->in[QB_IN_DATA], args->workspace, args->stream),
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
    lowered inner;
    if (!lower(problem, constant, &inner)) return qb_cuda_not_for(cx, tactic);
    int64_t end = 0;
    im2col_state s = {.im2col = inner.im2col};
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

#define WINDOW_ROWS(TYPE, TILE, SUFFIX, EXACTNESS)                                                 \
    QB_CUDA_TACTIC_AROUND(cuda_conv_##TYPE##_im2col_##TILE##SUFFIX,                                \
                          "conv_" #TYPE ".im2col_" #TILE #SUFFIX, QB_KIND_CONV, EXACTNESS,         \
                          qb_tactic_cuda_conv_##TYPE##_##TILE##SUFFIX);
QB_CUDA_IM2COL_CONVS(WINDOW_ROWS)
