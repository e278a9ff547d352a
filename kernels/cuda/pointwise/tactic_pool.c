/* Pooling, and the places of the maxima: any window over one to three dimensions, ROW or NHWC. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/pool.h"

/* Threads share windows for as long as there are too few of them without, and each keeps some taps.
 */
#define ENOUGH_THREADS 1e5
#define SHARE_MOST 512

static bool multiples(const qb_cuda_window *w, int64_t width) {
    int64_t all = w->out_c | w->in_first | w->out_first;
    if (w->in_stride[1] != 1 || w->out_stride[1] != 1) return false;
    for (int32_t d = 0; d < 5; d++)
        if (d != 1) all |= w->in_stride[d] | w->out_stride[d];
    return all % width == 0;
}

/* A code that goes to the same type, scale and zero point comes back as it was: the scale and its
 * inverse are normal numbers, and 255 of three roundings are far from half a step. */
static bool keeps_quantized(const qb_cuda_pool *pool) {
    const qb_cuda_value *in = &pool->in, *out = &pool->end.out;
    return pool->width == 16 && pool->end.act == QB_ACT_NONE && in->dtype == out->dtype &&
           in->scale == out->scale && in->zero == out->zero && in->scale > 1e-30f &&
           in->scale < 1e30f;
}

/* How many threads share a window: 1, 8, 32, 128 or 512; `threads` are those that do not share. */
static int32_t share_of(const qb_cuda_window *w, double threads) {
    const double taps = (double)w->kernel[0] * w->kernel[1] * w->kernel[2];
    int32_t share = 1, more = 8;
    while (more <= SHARE_MOST && taps >= (share == 1 ? 2 : 5) * more &&
           threads * share < ENOUGH_THREADS) {
        share = more;
        more *= 4;
    }
    return share;
}

static bool lower(const qb_problem *p, qb_problem *finalized, qb_desc *in, qb_cuda_pool *pool) {
    *pool = (qb_cuda_pool){.kind = (int32_t)p->pool, .share = 1};
    if (p->kind != QB_KIND_POOL || p->n_in != 1 || qb_cuda_is_smooth(p->act.kind)) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    if (!qb_cuda_window_of(finalized, &pool->w) || !qb_cuda_value_of(&in[0], &pool->in) ||
        !qb_cuda_epilogue_params_of(finalized, &pool->end))
        return false;
    qb_cuda_window *w = &pool->w;
    if (w->in_c != w->out_c) return false;
    if (w->in_stride[1] == 1 && finalized->out.padded && w->in_first == 0 &&
        w->in_stride[4] == finalized->out.channel_total)
        w->in_c = w->out_c = (int32_t)finalized->out.channel_total;
    bool bytes = qb_dtype_size(in[0].dtype) == 1;
    pool->width = bytes && multiples(w, 16) ? 16 : multiples(w, 8) ? 8 : 1;
    const double results = (double)qb_shape_count(&finalized->out.shape);
    pool->share = share_of(w, results / pool->width);
    if (pool->kind != QB_POOL_MAX && multiples(w, 4) &&
        results / pool->width * pool->share < ENOUGH_THREADS) { /* few: divisions are long */
        pool->width = 4;
        pool->share = share_of(w, results / 4);
    }
    if (pool->width == 16 && pool->share == SHARE_MOST &&
        results / 16 * SHARE_MOST < ENOUGH_THREADS)
        pool->width = 8;
    pool->keeps = keeps_quantized(pool);
    return true;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_pool_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED(cuda_pool, "pool", QB_KIND_POOL, QB_EXACT, qb_cuda_pool, lower, launch,
                       NULL);

static bool lower_places(const qb_problem *p, qb_problem *finalized, qb_desc *in,
                         qb_cuda_pool_places *places) {
    if (p->n_in != 1 || p->out.dtype != QB_DTYPE_S64 || !qb_cuda_is_row(&p->out)) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    finalized->out.layout = QB_LAYOUT_ROW;
    return qb_cuda_window_of(finalized, &places->w) && places->w.in_c == places->w.out_c &&
           qb_cuda_value_of(&in[0], &places->in);
}

static qb_status launch_places(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(
        cx, qb_cuda_pool_places_run(kernel->state, args->in[0], args->out, args->stream),
        kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED(cuda_pool_places, "pool_places", QB_KIND_POOL_PLACES, QB_EXACT,
                       qb_cuda_pool_places, lower_places, launch_places, NULL);
