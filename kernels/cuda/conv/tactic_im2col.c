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
#define MOST (INT64_C(1) << 28) /* bytes of rows at a time */

typedef struct im2col_state {
    qb_kernel *conv;
    qb_cuda_im2col im2col;
    int64_t parts; /* of the batch, one after the other */
    size_t bytes;  /* of all rows of a part, in front of the inner workspace */
} im2col_state;

typedef struct lowered {
    qb_problem problem;
    qb_desc in[4];
    qb_cuda_im2col im2col;
    int64_t parts;
} lowered;

/* Images and lines of pixels as volumes: axes in front that are missing have size 1. */
static qb_window as_volume(const qb_window *w) {
    qb_window v = {.n = 3, .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    for (int32_t d = 0; d < w->n; d++) {
        const int32_t at = 3 - w->n + d;
        v.kernel[at] = w->kernel[d];
        v.stride[at] = w->stride[d];
        v.dilation[at] = w->dilation[d];
        v.pad_begin[at] = w->pad_begin[d];
    }
    return v;
}

static void sizes_of(const qb_shape *s, int64_t size[3]) {
    for (int32_t d = 0; d < 3; d++) size[d] = s->rank - 3 + d < 2 ? 1 : s->dim[s->rank - 3 + d];
}

/* The fewest parts of equally many images whose rows, of an image `bytes`, are at most MOST; 0:
 * those of one image are more. */
static int64_t parts_of(int64_t images, int64_t bytes) {
    for (int64_t parts = 1; bytes <= MOST && parts <= images; parts++)
        if (images % parts == 0 && images / parts <= MOST / bytes) return parts;
    return 0;
}

/* Tiles of Tensor Cores take pixels of whole pieces as they lie, and windows of eight channels and
 * more; where windows lie side by side, nothing is read twice. */
static bool is_for_rows(const qb_problem *p, const qb_window *w) {
    const qb_desc *x = &p->in[QB_IN_DATA];
    const int64_t channels = x->shape.dim[1];
    const bool f32 = x->dtype == QB_DTYPE_F32;
    bool side_by_side = true, single = true;
    for (int32_t d = 0; d < 3; d++) {
        single &= w->kernel[d] == 1;
        side_by_side &= w->dilation[d] == 1 && w->kernel[d] == w->stride[d] && w->pad_begin[d] == 0;
    }
    if (single && !f32) return channels * (int64_t)qb_dtype_size(x->dtype) % PIECE != 0;
    return side_by_side ? !(f32 && single) : f32 || channels % 8 != 0;
}

/* Bytes of one of `parts` parts of a batch. */
static size_t bytes_of_part(const qb_desc *d, int64_t parts) {
    const int64_t channels = d->channel_total > 0 ? d->channel_total : d->shape.dim[1];
    return (size_t)(qb_shape_count(&d->shape) / d->shape.dim[1] * channels / parts) *
           qb_dtype_size(d->dtype);
}

/* Do parts of the result, and of a residual, begin on boundaries? */
static bool are_aligned(const qb_problem *p, int64_t parts) {
    return parts == 1 || (bytes_of_part(&p->out, parts) % PIECE == 0 &&
                          (!qb_problem_has(p, QB_IN_RESIDUAL) ||
                           bytes_of_part(&p->in[QB_IN_RESIDUAL], parts) % PIECE == 0));
}

static bool lower(const qb_problem *p, const bool *constant, lowered *to) {
    const qb_desc *in = &p->in[QB_IN_DATA];
    if (p->kind != QB_KIND_CONV || p->group != 1 || p->n_in > 4 || !constant[QB_IN_WEIGHT] ||
        in->channel_total != 0 || !qb_cuda_is_channels_last(in) ||
        !qb_cuda_is_channels_last(&p->out) || p->window.n < 1 || p->window.n > 3 ||
        in->shape.rank != p->window.n + 2)
        return false;
    const qb_window window = as_volume(&p->window), *w = &window;
    const int64_t size = (int64_t)qb_dtype_size(in->dtype), c = in->shape.dim[1];
    const bool together = w->dilation[2] == 1; /* taps of a row lie side by side */
    int64_t x[3], y[3];
    qb_cuda_value data;
    if (!qb_cuda_is_countable(in) || !qb_shape_known(&p->out.shape) ||
        (size != 1 && size != 2 && size != 4) || !qb_cuda_value_of(in, &data) || !is_for_rows(p, w))
        return false;
    sizes_of(&in->shape, x);
    sizes_of(&p->out.shape, y);
    const int64_t elements = w->kernel[0] * w->kernel[1] * w->kernel[2] * c;
    const int64_t pieces = (elements * size + PIECE - 1) / PIECE;
    if (y[0] * y[1] * y[2] > MOST / PIECE / pieces) return false;
    const int64_t parts = parts_of(in->shape.dim[0], y[0] * y[1] * y[2] * pieces * PIECE);
    if (parts == 0 || !are_aligned(p, parts)) return false;
    *to = (lowered){.problem = *p, .parts = parts};
    to->im2col = (qb_cuda_im2col){.batch = (int32_t)(in->shape.dim[0] / parts),
                                  .line = (int32_t)(together ? w->kernel[2] * c : c),
                                  .size = (int32_t)size,
                                  .pieces = (int32_t)pieces,
                                  .fill = (uint32_t)(data.zero & 0xff) * 0x01010101u};
    for (int32_t d = 0; d < 3; d++) {
        const int64_t unit = d == 2 ? c : 1;
        to->im2col.in[d] = (int32_t)(x[d] * unit);
        to->im2col.lines[d] = (int32_t)(d == 2 && together ? 1 : w->kernel[d]);
        to->im2col.out[d] = (int32_t)y[d];
        to->im2col.stride[d] = (int32_t)(w->stride[d] * unit);
        to->im2col.dilation[d] = (int32_t)(w->dilation[d] * unit);
        to->im2col.pad[d] = (int32_t)(w->pad_begin[d] * unit);
    }
    memcpy(to->in, p->in, (size_t)p->n_in * sizeof *to->in);
    to->problem.in = to->in;
    to->problem.window =
        (qb_window){.n = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    const int64_t k = pieces * PIECE / size, m = p->out.shape.dim[1];
    const qb_shape image = {.rank = 4, .dim = {to->im2col.batch, m, y[0] * y[1], y[2]}};
    to->in[QB_IN_DATA].layout = QB_LAYOUT_NHWC;
    to->in[QB_IN_DATA].shape = image;
    to->in[QB_IN_DATA].shape.dim[1] = k;
    to->in[QB_IN_WEIGHT].shape = (qb_shape){.rank = 4, .dim = {m, k, 1, 1}};
    to->problem.out.shape = image;
    if (qb_problem_has(p, QB_IN_RESIDUAL)) to->in[QB_IN_RESIDUAL].shape = to->problem.out.shape;
    return true;
}

/* [M, C, taps] to [M, taps, C] and zeros: the order of a row. */
static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const im2col_state *s = kernel->state;
    const qb_desc *weight = &kernel->problem.in[QB_IN_WEIGHT];
    const int64_t *dim = weight->shape.dim;
    size_t size = qb_dtype_size(weight->dtype);
    const int64_t taps = qb_shape_span(&weight->shape, 2, weight->shape.rank);
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
    const qb_problem *p = &kernel->problem;
    const bool adds = qb_problem_has(p, QB_IN_RESIDUAL);
    const size_t step = bytes_of_part(&p->in[QB_IN_DATA], s->parts);
    const size_t out_step = bytes_of_part(&p->out, s->parts);
    const size_t residual_step = adds ? bytes_of_part(&p->in[QB_IN_RESIDUAL], s->parts) : 0;
    for (int64_t part = 0; part < s->parts; part++) {
        const char *data = (const char *)args->in[QB_IN_DATA] + (size_t)part * step;
        const void *in[4] = {0};
        QB_TRY(qb_cuda_check(cx,
                             qb_cuda_im2col_run(&s->im2col, data, args->workspace, args->stream),
                             kernel->tactic->name));
        for (int32_t i = 0; i < p->n_in; i++) in[i] = args->in[i];
        in[QB_IN_DATA] = args->workspace;
        if (adds)
            in[QB_IN_RESIDUAL] =
                (const char *)args->in[QB_IN_RESIDUAL] + (size_t)part * residual_step;
        qb_launch rest = *args;
        rest.in = in;
        rest.out = (char *)args->out + (size_t)part * out_step;
        rest.workspace = (char *)args->workspace + s->bytes;
        QB_TRY(s->conv->launch(cx, s->conv, &rest));
    }
    return QB_OK;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_tactic *conv,
                        const qb_problem *problem, const bool *constant, int threads,
                        qb_kernel **out) {
    lowered inner;
    if (!lower(problem, constant, &inner)) return qb_cuda_not_for(cx, tactic);
    int64_t end = 0;
    im2col_state s = {.im2col = inner.im2col, .parts = inner.parts};
    qb_cuda_reserve(&end, (int64_t)qb_desc_bytes(&inner.in[QB_IN_DATA]) + QB_BUFFER_SLACK);
    s.bytes = (size_t)end;
    QB_TRY(qb_cuda_create_around(cx, tactic, problem, conv, &inner.problem, constant, threads, &s,
                                 sizeof s, out));
    qb_kernel *kernel = *out;
    qb_cuda_set_channels_last(kernel);
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
