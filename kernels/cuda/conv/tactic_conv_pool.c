/* A convolution of quantized values and the max pool behind it as one kernel: the first layer of a
 * network. */
#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/conv.h"

#define ROWS_MAX 8       /* of a block */
#define BLOCKS_AT_ONCE 2 /* of a multiprocessor */
#define ROWS_TO_START 4  /* what a block's start takes, in rows of the convolution */
#define PIXELS (QB_CUDA_STEM_ENTRIES - 4)

static const qb_cuda_need need = {.wgmma = true, .shared_bytes = QB_CUDA_STEM_POOL_SHARED_MOST};

/* Every window has a pixel, and two of them share one row (column) at most. */
static bool window_fits(int32_t kernel, int32_t stride, int32_t pad, int32_t in, int32_t out) {
    return (kernel == stride || kernel == stride + 1) && kernel <= PIXELS && pad >= 0 &&
           pad < kernel && (int64_t)(out - 1) * stride - pad < in;
}

static bool lower(const qb_problem *p, const bool *constant, qb_cuda_stem_pool *pool) {
    qb_problem conv, unused;
    qb_desc between;
    const qb_window *w = &p->after;
    const qb_shape *out = &p->out.shape;
    if (p->kind != QB_KIND_CONV_POOL || qb_problem_has(p, QB_IN_RESIDUAL) || w->n != 2 ||
        p->window.n != 2 || out->rank != 4)
        return false;
    qb_problem_parts(p, &between, &conv, &unused);
    between.channel_offset = p->out.channel_offset; /* it ends where the pool's result does */
    between.channel_total = p->out.channel_total;
    between.padded = p->out.padded;
    conv.out = between;
    *pool = (qb_cuda_stem_pool){.kernel_h = (int32_t)w->kernel[0],
                                .kernel_w = (int32_t)w->kernel[1],
                                .stride_h = (int32_t)w->stride[0],
                                .stride_w = (int32_t)w->stride[1],
                                .pad_h = (int32_t)w->pad_begin[0],
                                .pad_w = (int32_t)w->pad_begin[1],
                                .out_h = (int32_t)out->dim[2],
                                .out_w = (int32_t)out->dim[3]};
    const qb_cuda_conv *c = &pool->conv;
    if (w->dilation[0] != 1 || w->dilation[1] != 1 ||
        !qb_cuda_conv_of(&conv, constant, QB_CUDA_PACKING_STEM, 1, 64, &pool->conv) ||
        !window_fits(pool->kernel_h, pool->stride_h, pool->pad_h, c->out_h, pool->out_h) ||
        !window_fits(pool->kernel_w, pool->stride_w, pool->pad_w, c->out_w, pool->out_w))
        return false;
    pool->columns = (PIXELS - pool->kernel_w) / pool->stride_w + 1;
    const bool plain = c->epilogue == QB_EPILOGUE_PLAIN || c->epilogue == QB_EPILOGUE_SATURATE;
    return plain && qb_cuda_stem_fits(c) && QB_CUDA_STEM_POOL_SHARED(pool, 1) <= need.shared_bytes;
}

/* Few rows make many blocks, which compute rows between them twice; many leave multiprocessors idle
 * at the end. */
static int32_t choose_rows(const qb_cuda_stem_pool *p, int32_t multiprocessors) {
    const qb_cuda_conv *c = &p->conv;
    const int64_t at_once = (int64_t)BLOCKS_AT_ONCE * multiprocessors;
    const int64_t across =
        (int64_t)c->batch * (c->n_pad / 64) * ((p->out_w + p->columns - 1) / p->columns);
    int64_t least = INT64_MAX;
    int32_t best = 1;
    for (int32_t rows = 1; rows <= ROWS_MAX; rows++) {
        if (QB_CUDA_STEM_POOL_SHARED(p, rows) > need.shared_bytes) break;
        const int64_t blocks = across * ((p->out_h + rows - 1) / rows);
        const int64_t rounds = (blocks + at_once - 1) / at_once;
        const int64_t cost = rounds * ((rows - 1) * p->stride_h + p->kernel_h + ROWS_TO_START);
        if (cost >= least) continue;
        least = cost;
        best = rows;
    }
    return best;
}

static bool cuda_conv_pool_supports(const qb_problem *problem, const bool *constant) {
    qb_cuda_stem_pool pool;
    return lower(problem, constant, &pool);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
#ifdef QB_HAVE_WGMMA
    const qb_cuda_stem_pool *pool = kernel->state;
    const qb_cuda_conv_io io = {
        .in = args->in[QB_IN_DATA], .out = args->out, .packed = args->packed};
    int code = qb_cuda_conv_stem_pool_wgmma(pool, NULL, NULL);
    if (code == 0) code = qb_cuda_conv_stem_pool_wgmma(pool, &io, args->stream);
    return qb_cuda_check(cx, code, kernel->tactic->name);
#else
    (void)args;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: built without it", kernel->tactic->name);
#endif
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const qb_cuda_stem_pool *pool = kernel->state;
    qb_problem conv, unused;
    qb_desc between;
    qb_problem_parts(&kernel->problem, &between, &conv, &unused);
    qb_cuda_conv_pack(&conv, &pool->conv, QB_CUDA_PACKING_STEM, constants, packed);
    return QB_OK;
}

static qb_status cuda_conv_pool_create(qb_ctx *cx, const qb_tactic *tactic,
                                       const qb_problem *problem, const bool *constant, int threads,
                                       qb_kernel **out) {
    qb_cuda_stem_pool pool;
    qb_cuda_device device;
    (void)threads;
    if (!lower(problem, constant, &pool)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_current(cx, &device));
    QB_TRY(qb_cuda_need_check(cx, tactic->name, &need, &device));
    pool.rows = choose_rows(&pool, device.multiprocessors);
    qb_problem finalized;
    qb_desc in[QB_MAX_INPUTS];
    qb_cuda_choose_layouts(problem, &finalized, in);
    QB_TRY(qb_cuda_create(cx, tactic, &finalized, &pool, sizeof pool, out));
    qb_kernel *kernel = *out;
    kernel->packed_bytes = (size_t)pool.conv.packed_bytes;
    kernel->packing_id = qb_cuda_conv_packing_id(&pool.conv);
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    if (qb_problem_has(problem, QB_IN_BIAS)) kernel->packed_inputs |= (uint64_t)1 << QB_IN_BIAS;
    kernel->pack = pack;
    kernel->launch = launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_conv_pool, "conv_pool_s8.stem_wgmma_nhwc", QB_KIND_CONV_POOL, QB_EXACT);
