/* 8-bit convolution in plain C. */
#include "conv_generic.h"

static inline void add_units(uint32_t *sum, const char *x, bool is_signed, int32_t units,
                             const int16_t *weight) {
    for (int32_t u = 0; u < units; u++, x += 4, weight += 4 * QB_GENERIC_LANES)
        for (int i = 0; i < 4; i++) {
            int32_t code = is_signed ? (int32_t)(int8_t)x[i] : (int32_t)(uint8_t)x[i];
            for (int c = 0; c < QB_GENERIC_LANES; c++)
                sum[c] += (uint32_t)(code * weight[4 * c + i]);
        }
}

static void spread(char *unit, int column, const int16_t code[4]) {
    memcpy(unit + column * 8, code, 4 * sizeof *code);
}

static inline void run_tile(const qb_tile *t, bool is_signed) {
    uint32_t sum[QB_GENERIC_ROWS][QB_GENERIC_LANES];
    const char *const *data = t->data;
    for (int r = 0; r < t->rows; r++) memcpy(sum[r], t->start, sizeof sum[r]);
    for (int32_t k = 0; k < t->n_runs; k++) {
        const qb_run *run = &t->runs[k];
        const int16_t *weight =
            (const int16_t *)(const void *)t->panel + (size_t)run->weight * (4 * QB_GENERIC_LANES);
        int64_t offset = t->indirect ? 0 : run->data;
        for (int r = 0; r < t->rows; r++)
            add_units(sum[r], data[r] + offset, is_signed, run->units, weight);
        if (t->indirect) data += t->rows;
    }
    for (int r = 0; r < t->rows; r++) {
        float f32[QB_GENERIC_LANES];
        if (t->epilogue->out == QB_DTYPE_S32) { /* the end of a product of integers */
            memcpy(t->out + t->pixel[r] * t->out_stride, sum[r], (size_t)t->width * sizeof *sum[r]);
            continue;
        }
        for (int c = 0; c < t->width; c++) {
            f32[c] = (float)(int32_t)sum[r][c] * t->multiplier[c];
            if (t->bias) f32[c] += t->bias[c];
        }
        qb_generic_epilogue(t, r, f32);
    }
}

static void tile(const qb_tile *t) { run_tile(t, false); }
static void tile_s8(const qb_tile *t) { run_tile(t, true); }

const qb_conv_arch qb_conv_s8_generic = {.integer = true,
                                         .lanes = QB_GENERIC_LANES,
                                         .wide_weights = true,
                                         .column_bytes = 8,
                                         .rows = {0, QB_GENERIC_ROWS, 0, 0},
                                         .spread = spread,
                                         .tile = tile,
                                         .tile_s8 = tile_s8};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_conv_supports(p, constant, QB_DTYPE_S8, true);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, &qb_conv_s8_generic, out);
}

QB_TACTIC(cpu_conv_s8_generic, "cpu.conv_s8.generic", "cpu", QB_KIND_CONV, QB_EXACT, supports,
          create, .rounds = true, .is_portable = qb_cpu_always);
