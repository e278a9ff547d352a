/* Weights of recurrent layers in the form that the kernels read. */
#include <string.h>

#include "recurrent_internal.h"

/* ---- W and the biases ------------------------------------------------------------------------ */

/* Row of W, R (of all directions) of a gate of a unit. */
static int64_t row_of(const qb_cuda_recurrent *p, int64_t direction, int64_t gate, int64_t unit) {
    return (direction * p->gates + gate) * p->hidden + unit;
}

/* Columns in the order [directions][units, padded][gates, perhaps padded]. GRU's recurrent bias of
 * the last gate stays apart where the reset gate multiplies it. */
static void spread(const qb_cuda_recurrent *p, int64_t inputs, const float *w, const float *bias,
                   float *wide, float *wide_bias) {
    const int64_t padded = (int64_t)p->blocks * p->units, gates = p->gates, n = p->hidden;
    for (int64_t d = 0; d < p->directions; d++)
        for (int64_t unit = 0; unit < n; unit++)
            for (int64_t g = 0; g < gates; g++) {
                const int64_t to = (d * padded + unit) * p->x_gates + g;
                memcpy(wide + to * inputs, w + row_of(p, d, g, unit) * inputs,
                       (size_t)inputs * sizeof *w);
                if (!bias) continue;
                const float *of_w = bias + (d * 2 * gates + g) * n + unit;
                const bool apart = p->at_last_bias >= 0 && g == gates - 1;
                wide_bias[to] = of_w[0] + (apart ? 0 : of_w[gates * n]);
            }
}

static qb_status pack_projection(qb_ctx *cx, const qb_cuda_recurrent_state *s, const float *w,
                                 const float *bias, void *packed) {
    const qb_shape *shape = &s->projection->problem.in[QB_IN_WEIGHT].shape;
    float *wide = qb_alloc(cx, (size_t)shape->dim[0], (size_t)shape->dim[1] * sizeof *wide);
    float *wide_bias = qb_alloc(cx, (size_t)shape->dim[0], sizeof *wide_bias);
    qb_status status = wide && wide_bias ? QB_OK : cx->code;
    if (status == QB_OK) {
        spread(&s->p, shape->dim[1], w, bias, wide, wide_bias);
        const void *const constants[] = {NULL, wide, wide_bias};
        status = s->projection->pack(cx, s->projection, constants, packed);
    }
    QB_FREE_ALL(wide, wide_bias);
    return status;
}

/* ---- R --------------------------------------------------------------------------------------- */

/* Where an element of R lies among the operands of m16n8k16, a lane's eight together. Within 32 of
 * the depth a thread's operands of h are eight neighbours: 2 for each half of the first step, then
 * those of the second. */
static int64_t operand_at(int64_t depth, int64_t row, int64_t k) {
    const int64_t tile = row / 16, step = k / 32 * 2 + k % 8 / 4, half = k % 4 / 2;
    const int64_t lane = row % 8 * 4 + k % 32 / 8, pair = row % 16 / 8 + 2 * half;
    return ((tile * (depth / 16) + step) * 32 + lane) * 8 + pair * 2 + k % 2;
}

static void put(const qb_cuda_recurrent *p, const qb_cuda_recurrent_pass *pass, int64_t row,
                int64_t k, float value, char *to) {
    if (p->f16)
        ((uint16_t *)(void *)to)[operand_at(p->depth, row, k)] = qb_f32_to_f16(value);
    else
        ((float *)(void *)to)[k * pass->rows + row] = value;
}

/* Row of a pass. Weight-stationary: the first and second gate of eight units make a tile, the third
 * and fourth another one. */
static int64_t pass_row(const qb_cuda_recurrent *p, int64_t gate, int64_t unit) {
    return p->stationary ? unit / 8 * 32 + gate * 8 + unit % 8 : gate * p->units + unit;
}

static void pack_block(const qb_cuda_recurrent *p, int64_t direction, int64_t block, const float *r,
                       char *to) {
    const int64_t first = block * p->units, left = p->hidden - first;
    const int64_t units = left < p->units ? left : p->units;
    for (int32_t i = 0; i < p->n_passes; i++) {
        const qb_cuda_recurrent_pass *pass = &p->pass[i];
        for (int32_t g = 0; g < pass->gates; g++)
            for (int64_t u = 0; u < units; u++) {
                const float *from =
                    r + row_of(p, direction, pass->first_gate + g, first + u) * p->hidden;
                for (int64_t k = 0; k < p->hidden; k++)
                    put(p, pass, pass_row(p, g, u), k, from[k], to + pass->at_weights);
            }
    }
}

qb_status qb_cuda_recurrent_pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                                 void *packed) {
    const qb_cuda_recurrent_state *s = kernel->state;
    const qb_cuda_recurrent *p = &s->p;
    const float *bias = qb_problem_has(&kernel->problem, QB_IN_B) ? constants[QB_IN_B] : NULL;
    const size_t row = (size_t)p->hidden * sizeof *bias;
    char *to = packed;
    memset(packed, 0, kernel->packed_bytes); /* what is padded */
    QB_TRY(pack_projection(cx, s, constants[QB_IN_W], bias, packed));
    for (int64_t d = 0; d < p->directions; d++) {
        for (int64_t b = 0; b < p->blocks; b++)
            pack_block(p, d, b, constants[QB_IN_R],
                       to + p->at_weights + (d * p->blocks + b) * p->weight_bytes);
        if (p->at_last_bias >= 0 && bias)
            memcpy(to + p->at_last_bias + (size_t)d * row,
                   bias + (d * 2 * p->gates + 2 * p->gates - 1) * p->hidden, row);
    }
    if (p->at_peepholes >= 0)
        memcpy(to + p->at_peepholes, constants[QB_IN_P], (size_t)p->directions * 3 * row);
    return QB_OK;
}
