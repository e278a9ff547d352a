/* Weights of recurrent layers in the form that products read. */
#include <string.h>

#include "recurrent_internal.h"

/* W and the biases that are added to X W, with the units of each gate padded. The recurrent bias of
 * GRU's last gate stays apart where the reset gate multiplies it. */
static void spread(const qb_rec_plan *plan, const float *w, const float *bias, float *wide,
                   float *wide_bias) {
    const int64_t n = plan->hidden, k = plan->inputs, gates = plan->gates;
    const bool apart = plan->layer.cell == QB_CELL_GRU && plan->n_passes == 1;
    for (int64_t row = 0; row < plan->directions * gates; row++) {
        memcpy(wide + row * plan->padded * k, w + row * n * k, (size_t)(n * k) * sizeof *w);
        if (!bias) continue;
        const float *of_w = bias + (row / gates * 2 * gates + row % gates) * n;
        const float *of_r = apart && row % gates == gates - 1 ? NULL : of_w + gates * n;
        for (int64_t u = 0; u < n; u++)
            wide_bias[row * plan->padded + u] = of_w[u] + (of_r ? of_r[u] : 0);
    }
}

static qb_status pack_projection(qb_ctx *cx, const qb_rec_plan *plan, const float *w,
                                 const float *bias, void *packed) {
    const int64_t columns = plan->directions * plan->gates * plan->padded;
    QB_FREED float *wide =
        QB_NEW(cx, qb_alloc(cx, (size_t)columns, (size_t)plan->inputs * sizeof *wide));
    QB_FREED float *wide_bias = QB_NEW(cx, qb_alloc(cx, (size_t)columns, sizeof *wide_bias));
    spread(plan, w, bias, wide, wide_bias);
    const void *const constants[] = {NULL, wide, wide_bias};
    return plan->projection->pack(cx, plan->projection, constants, packed);
}

/* Columns of R [gates hidden, hidden] of the units of a block. */
static void pack_block(const qb_rec_plan *plan, const qb_rec_pass *pass, int64_t block,
                       const float *r, float *panel) {
    const int64_t n = plan->hidden, first = block * pass->width;
    const int64_t units = qb_min64(pass->width, n - first);
    for (int32_t g = 0; g < pass->gates; g++)
        for (int64_t u = 0; u < units; u++) {
            const float *from = r + ((pass->first_gate + g) * n + first + u) * n;
            float *to =
                panel + (g * pass->width + u / QB_REC_LANES * QB_REC_LANES) * n + u % QB_REC_LANES;
            for (int64_t k = 0; k < n; k++) to[k * QB_REC_LANES] = from[k];
        }
}

static void pack_panels(const qb_rec_plan *plan, const qb_rec_pass *pass, const float *r,
                        float *panels) {
    const int64_t n = plan->hidden, size = n * pass->gates * pass->width;
    for (int64_t d = 0; d < plan->directions; d++)
        for (int64_t b = 0; b < pass->blocks; b++)
            pack_block(plan, pass, b, r + d * plan->gates * n * n,
                       panels + (d * pass->blocks + b) * size);
}

/* Rows of hidden units, `stride` apart, become padded ones. */
static void pad_rows(const qb_rec_plan *plan, const float *from, int64_t rows, int64_t stride,
                     float *to) {
    for (int64_t i = 0; i < rows; i++)
        memcpy(to + i * plan->padded, from + i * stride, (size_t)plan->hidden * sizeof *to);
}

qb_status qb_rec_pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const qb_rec_plan *plan = kernel->state;
    const qb_problem *p = &kernel->problem;
    const float *bias = qb_problem_has(p, QB_IN_B) ? constants[QB_IN_B] : NULL;
    const int64_t n = plan->hidden, gates = plan->gates;
    char *to = packed;
    memset(packed, 0, kernel->packed_bytes); /* what is padded */
    QB_TRY(pack_projection(cx, plan, constants[QB_IN_W], bias, packed));
    for (int i = 0; i < plan->n_passes; i++)
        pack_panels(plan, &plan->pass[i], constants[QB_IN_R],
                    (float *)(void *)(to + plan->pass[i].panels));
    if (plan->last_bias && bias)
        pad_rows(plan, bias + (2 * gates - 1) * n, plan->directions, 2 * gates * n,
                 (float *)(void *)(to + plan->last_bias));
    if (plan->peephole)
        pad_rows(plan, constants[QB_IN_P], plan->directions * 3, n,
                 (float *)(void *)(to + plan->peephole));
    return QB_OK;
}
