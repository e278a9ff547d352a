#include "kernels/cuda/common/fallback_reason.h"

#include <stdio.h>
#include <string.h>

#define STEP 8 /* channels that a tile copies at once, at least */

/* Runs sum by sum, not by tiles of the Tensor Cores. */
static bool is_plain(const qb_tactic *tactic) {
    static const char *const plain[] = {"cuda.conv.tile_64x64x16",
                                        "cuda.conv.tile_64x64x16_smooth",
                                        "cuda.conv",
                                        "cuda.conv_smooth",
                                        "cuda.matmul",
                                        "cuda.matmul_smooth"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(tactic->name, plain[i]) == 0) return true;
    return false;
}

static bool is_narrow(const qb_desc *data) { return data->q.n > 0 || data->dtype == QB_DTYPE_F16; }

static bool has_zeros(const qb_qparams *q) {
    for (int32_t i = 0; q->zero && i < q->n; i++)
        if (q->zero[i] != 0) return true;
    return false;
}

static void of_conv(const qb_problem *p, char *text, size_t n) {
    const qb_desc *x = &p->in[QB_IN_DATA];
    const long long channels = x->shape.dim[1], total = x->channel_total;
    const bool depthwise = p->group == channels && p->group == p->out.shape.dim[1];
    if (!depthwise && channels % STEP)
        snprintf(text, n, "C=%lld: no tile", channels);
    else if (!depthwise && (total | x->channel_offset) % STEP)
        snprintf(text, n, "C=%lld at %lld of %lld: no tile", channels, (long long)x->channel_offset,
                 total);
    else if (p->window.n > 2)
        snprintf(text, n, "window in %d dimensions: no tile", (int)p->window.n);
    else if (depthwise)
        snprintf(text, n, "depthwise %lldx%lld/%lld: no tile", (long long)p->window.kernel[0],
                 (long long)p->window.kernel[p->window.n - 1], (long long)p->window.stride[0]);
    else if (p->group > 1)
        snprintf(text, n, "group=%lld: no tile", (long long)p->group);
    else
        snprintf(text, n, "no tile takes it");
}

static void of_product(const qb_problem *p, char *text, size_t n) {
    const qb_shape *a = &p->in[QB_IN_DATA].shape;
    const long long k = a->dim[a->rank - 1];
    if (p->transpose_a)
        snprintf(text, n, "transposed data: no tile");
    else if (k % STEP)
        snprintf(text, n, "K=%lld: no tile", k);
    else if (p->scale != 1.0f)
        snprintf(text, n, "a factor on the product: no tile");
    else
        snprintf(text, n, "no tile takes it");
}

bool qb_cuda_fallback_reason(const qb_kernel *kernel, char *text, size_t n) {
    const qb_problem *p = &kernel->problem;
    if (!is_plain(kernel->tactic) || !is_narrow(&p->in[QB_IN_DATA])) return false;
    const qb_qparams *weight = &p->in[QB_IN_WEIGHT].q;
    if (p->in[QB_IN_DATA].q.n > 0 && has_zeros(weight))
        snprintf(text, n, "weights with zero points: no tile");
    else if (p->kind == QB_KIND_CONV)
        of_conv(p, text, n);
    else
        of_product(p, text, n);
    return true;
}
