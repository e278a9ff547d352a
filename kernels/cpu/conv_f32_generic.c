/* f32 convolution in plain C. Multiplies and adds round separately, so results differ from the
 * fused ones in the last bits. */
#include "conv_generic.h"

static void tile(const qb_tile *t) {
    float sum[QB_GENERIC_ROWS][QB_GENERIC_LANES];
    const char *const *data = t->data;
    for (int r = 0; r < t->rows; r++) memcpy(sum[r], t->start, sizeof sum[r]);
    for (int32_t k = 0; k < t->n_runs; k++) {
        const qb_run *run = &t->runs[k];
        const float *weight =
            (const float *)(const void *)t->panel + (size_t)run->weight * QB_GENERIC_LANES;
        int64_t offset = t->indirect ? 0 : run->data;
        for (int r = 0; r < t->rows; r++) {
            const float *x = (const float *)(const void *)(data[r] + offset);
            for (int32_t u = 0; u < run->units; u++)
                for (int c = 0; c < QB_GENERIC_LANES; c++)
                    sum[r][c] += x[u] * weight[(size_t)u * QB_GENERIC_LANES + (size_t)c];
        }
        if (t->indirect) data += t->rows;
    }
    for (int r = 0; r < t->rows; r++) qb_generic_epilogue(t, r, sum[r]);
}

const qb_conv_arch qb_conv_f32_generic = {
    .lanes = QB_GENERIC_LANES, .column_bytes = 4, .rows = {0, QB_GENERIC_ROWS, 0, 0}, .tile = tile};

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_conv_supports(p, constant, QB_DTYPE_F32, false);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, &qb_conv_f32_generic, out);
}

QB_TACTIC(cpu_conv_f32_generic, "cpu.conv_f32.generic", "cpu", QB_KIND_CONV, QB_EXACT, supports,
          create, .is_portable = qb_cpu_always);
