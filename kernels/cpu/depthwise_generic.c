/* Depthwise convolution in plain C: one pixel after the other, vectorized along the channels by the
 * compiler. Two rows of the table: floats and quantized values. */
#include <string.h>

#include "depthwise_internal.h"

#define LANES 16

/* Weights [taps][LANES], then starts, multipliers, biases. */
static void pack_f32(const qb_dw *dw, const qb_dw_block *block, const void *weight,
                     const void *start, const float *multiplier, const float *bias, char *packed) {
    (void)multiplier, (void)bias;
    float *to = (float *)(void *)(packed + block->weight);
    memset(to, 0, (size_t)(dw->groups * LANES) * 4);
    for (int64_t t = 0; t < dw->taps; t++)
        for (int i = 0; i < block->width; i++)
            to[t * LANES + i] = ((const float *)weight)[i * dw->taps + t];
    memcpy(packed + block->start, start, LANES * 4);
}

static void pack_s8(const qb_dw *dw, const qb_dw_block *block, const void *weight,
                    const void *start, const float *multiplier, const float *bias, char *packed) {
    int32_t *to = (int32_t *)(void *)(packed + block->weight);
    memset(to, 0, (size_t)(dw->groups * LANES) * 4);
    for (int64_t t = 0; t < dw->taps; t++)
        for (int i = 0; i < block->width; i++)
            to[t * LANES + i] = ((const int16_t *)weight)[i * dw->taps + t];
    memcpy(packed + block->start, start, LANES * 4);
    memcpy(packed + block->start + LANES * 4, multiplier, LANES * 4);
    memcpy(packed + block->start + LANES * 8, bias, LANES * 4);
}

static void sum_f32(const qb_dw *dw, const qb_dw_block *block, const char *const *taps,
                    const char *packed, float f32[LANES]) {
    const float *weight = (const float *)(const void *)(packed + block->weight);
    float x[LANES] = {0};
    memcpy(f32, packed + block->start, LANES * 4);
    for (int64_t t = 0; t < dw->taps; t++) {
        memcpy(x, taps[t] + block->channel * 4, (size_t)block->width * 4);
        for (int i = 0; i < LANES; i++) f32[i] += x[i] * weight[t * LANES + i];
    }
}

static void sum_quantized(const qb_dw *dw, const qb_dw_block *block, const char *const *taps,
                          const char *packed, float f32[LANES]) {
    const int32_t *weight = (const int32_t *)(const void *)(packed + block->weight);
    const float *multiplier = (const float *)(const void *)(packed + block->start + LANES * 4);
    const float *bias = (const float *)(const void *)(packed + block->start + LANES * 8);
    uint32_t sum[LANES];
    uint8_t x[LANES] = {0};
    memcpy(sum, packed + block->start, sizeof sum);
    for (int64_t t = 0; t < dw->taps; t++) {
        memcpy(x, taps[t] + block->channel, (size_t)block->width);
        for (int i = 0; i < LANES; i++) {
            int32_t code = dw->is_s8 ? (int32_t)(int8_t)x[i] : (int32_t)x[i];
            sum[i] += (uint32_t)(code * weight[t * LANES + i]);
        }
    }
    for (int i = 0; i < LANES; i++) {
        f32[i] = (float)(int32_t)sum[i] * multiplier[i];
        if (dw->float_bias) f32[i] += bias[i];
    }
}

static void row(const qb_dw *dw, const qb_dw_row *row) {
    const char *taps[QB_DW_TAPS];
    int64_t out_size = (int64_t)qb_dtype_size(dw->epilogue.out);
    int64_t residual_size = (int64_t)qb_dtype_size(dw->epilogue.residual);
    float f32[LANES];
    for (int64_t x = 0; x < dw->out[2]; x++) {
        qb_dw_taps(dw, row, x, taps);
        for (int32_t b = row->first_block; b < row->end_block; b++) {
            const qb_dw_block *block = &dw->blocks[b];
            if (dw->integer)
                sum_quantized(dw, block, taps, row->packed, f32);
            else
                sum_f32(dw, block, taps, row->packed, f32);
            const char *residual = NULL;
            if (row->residual)
                residual = row->residual + x * dw->residual_stride + block->channel * residual_size;
            qb_epilogue_run(&dw->epilogue, f32, block->width, residual,
                            row->out + x * dw->out_stride + block->channel * out_size);
        }
    }
}

static const qb_dw_arch arch_f32 = {
    .lanes = {LANES, 0, 0}, .tap_group = 1, .group_bytes = 4, .pack = pack_f32, .row = row};
static const qb_dw_arch arch_s8 = {.integer = true,
                                   .wide_weights = true,
                                   .lanes = {LANES, 0, 0},
                                   .tap_group = 1,
                                   .group_bytes = 4,
                                   .pack = pack_s8,
                                   .row = row};

static bool supports_f32(const qb_problem *p, const bool *constant) {
    return qb_dw_supports(p, constant, &arch_f32);
}
static bool supports_s8(const qb_problem *p, const bool *constant) {
    return qb_dw_supports(p, constant, &arch_s8);
}

static qb_status create_f32(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                            const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    return qb_dw_create(cx, tactic, p, threads, &arch_f32, out);
}
static qb_status create_s8(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                           const bool *constant, int threads, qb_kernel **out) {
    (void)constant;
    return qb_dw_create(cx, tactic, p, threads, &arch_s8, out);
}

QB_TACTIC(cpu_depthwise_f32_generic, "cpu.depthwise_f32.generic", "cpu", QB_KIND_CONV, QB_EXACT,
          supports_f32, create_f32, .is_portable = qb_cpu_always);
QB_TACTIC(cpu_depthwise_s8_generic, "cpu.depthwise_s8.generic", "cpu", QB_KIND_CONV, QB_EXACT,
          supports_s8, create_s8, .rounds = true, .is_portable = qb_cpu_always);
