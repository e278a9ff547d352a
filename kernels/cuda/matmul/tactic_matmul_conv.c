/* Matrix products with a constant second operand as 1x1 convolutions: rows are pixels, columns
 * output channels. Takes what the convolution takes: u8 or s8 data and s8 weights, or f16. Rows
 * that are no multiple of 16 bytes become so in the workspace (im2col). */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/im2col_tiles.h"
#include "kernels/cuda/conv/tile_tactics.h"

#define MAX_SIDE 32768 /* of a convolution's image */

typedef struct lowered {
    qb_problem problem;
    qb_desc in[4];
} lowered;

typedef struct matmul_state {
    qb_kernel *conv;
} matmul_state;

/* [lead, rows, channels] as an image [lead, channels, rows, 1], channels last. */
static qb_desc as_image(const qb_desc *d, int64_t rows, int64_t lead) {
    qb_desc image = *d;
    image.shape = (qb_shape){.rank = 4, .dim = {lead, d->shape.dim[d->shape.rank - 1], rows, 1}};
    image.layout = QB_LAYOUT_NHWC;
    return image;
}

/* The largest divisor of n that is at most `most`. */
static int64_t divisor(int64_t n, int64_t most) {
    int64_t d = n < most ? n : most;
    while (d > 1 && n % d != 0) d--;
    return d < 1 ? 1 : d;
}

static bool is_row(const qb_desc *d) {
    return (d->layout == QB_LAYOUT_ROW || d->layout == QB_LAYOUT_ANY) && d->channel_total == 0;
}

static bool lower(const qb_problem *p, const bool *constant, lowered *to) {
    if (p->kind != QB_KIND_MATMUL || p->n_in < 2 || p->n_in > 4 || !constant[QB_IN_WEIGHT])
        return false;
    const qb_desc *a = &p->in[QB_IN_DATA], *b = &p->in[QB_IN_WEIGHT];
    if (p->transpose_a || p->scale != 1.0f || a->shape.rank < 2 || b->shape.rank != 2 ||
        p->out.shape.rank != a->shape.rank || !is_row(a) || !is_row(&p->out))
        return false;
    int64_t n = b->shape.dim[p->transpose_b ? 0 : 1], k = b->shape.dim[p->transpose_b ? 1 : 0];
    int64_t rows = 1, lead = 1;
    for (int32_t d = a->shape.rank - 2; d >= 0; d--) { /* as many rows in an image as it may have */
        const int64_t size = a->shape.dim[d];
        const int64_t inner = lead == 1 ? divisor(size, (MAX_SIDE - 1) / rows) : 1;
        rows *= inner;
        lead *= size / inner;
    }
    *to = (lowered){.problem = *p};
    to->problem.kind = QB_KIND_CONV;
    to->problem.in = to->in;
    to->problem.group = 1;
    to->problem.window =
        (qb_window){.n = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    for (int32_t i = 0; i < p->n_in; i++) to->in[i] = p->in[i];
    to->in[QB_IN_DATA] = as_image(a, rows, lead);
    to->problem.out = as_image(&p->out, rows, lead);
    to->in[QB_IN_WEIGHT].shape = (qb_shape){.rank = 4, .dim = {n, k, 1, 1}};
    if (b->q.n > 1) to->in[QB_IN_WEIGHT].q.axis = 0;
    if (!qb_problem_has(p, QB_IN_RESIDUAL)) return true;
    to->in[QB_IN_RESIDUAL] = as_image(&p->in[QB_IN_RESIDUAL], rows, lead);
    return is_row(&p->in[QB_IN_RESIDUAL]);
}

/* The convolution's weight is [n][k]. */
static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const matmul_state *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    if (p->transpose_b) return s->conv->pack(cx, s->conv, constants, packed);
    const qb_desc *b = &p->in[QB_IN_WEIGHT];
    size_t size = qb_dtype_size(b->dtype);
    int64_t k = b->shape.dim[0], n = b->shape.dim[1];
    const char *from = constants[QB_IN_WEIGHT];
    char *transposed = qb_alloc(cx, (size_t)(k * n) + 1, size);
    if (!transposed) return QB_STATUS_NOMEM;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++)
            for (size_t byte = 0; byte < size; byte++)
                transposed[(size_t)(j * k + i) * size + byte] =
                    from[(size_t)(i * n + j) * size + byte];
    const void *in[4] = {0};
    for (int32_t i = 0; i < p->n_in; i++) in[i] = constants[i];
    in[QB_IN_WEIGHT] = transposed;
    qb_status status = s->conv->pack(cx, s->conv, in, packed);
    qb_free(transposed);
    return status;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const matmul_state *s = kernel->state;
    return s->conv->launch(cx, s->conv, args);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_tactic *conv,
                        const qb_problem *problem, const bool *constant, int threads,
                        qb_kernel **out) {
    lowered c;
    matmul_state s;
    if (!lower(problem, constant, &c)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_create_around(cx, tactic, problem, conv, &c.problem, constant, threads, &s,
                                 sizeof s, out));
    qb_kernel *kernel = *out;
    for (int32_t i = 0; i < problem->n_in; i++) kernel->in[i].layout = QB_LAYOUT_ROW;
    kernel->problem.out.layout = QB_LAYOUT_ROW;
    kernel->packing_id = qb_packing_add(kernel->packing_id, problem->transpose_b);
    kernel->pack = pack;
    kernel->launch = launch;
    return QB_OK;
}

#define TILE_TACTIC(SUFFIX, SMOOTH, SPLITK, EXACTNESS, TYPE, TILE)                                 \
    QB_CUDA_TACTIC_AROUND(cuda_matmul_##TYPE##_##TILE##SUFFIX, "matmul_" #TYPE "." #TILE #SUFFIX,  \
                          QB_KIND_MATMUL, EXACTNESS, qb_tactic_cuda_conv_##TYPE##_##TILE##SUFFIX);
#define QB_CUDA_TILE(ARCHITECTURE, KERNEL, TYPE, M, N, K, GROUPS, SCHEDULE, EPILOGUES, CONV,       \
                     MATMUL)                                                                       \
    QB_TILE_##MATMUL(TILE_TACTIC, TYPE, KERNEL##_##M##x##N##x##K)
#include "kernels/cuda/conv/tiles.def"

#define ROWS_TACTIC(TYPE, TILE, SUFFIX, EXACTNESS)                                                 \
    QB_CUDA_TACTIC_AROUND(cuda_matmul_##TYPE##_im2col_##TILE##SUFFIX,                              \
                          "matmul_" #TYPE ".im2col_" #TILE #SUFFIX, QB_KIND_MATMUL, EXACTNESS,     \
                          qb_tactic_cuda_conv_##TYPE##_im2col_##TILE##SUFFIX);
QB_CUDA_IM2COL_MATMULS(ROWS_TACTIC)
