/* Packing the constants of a convolution: panels, starting sums, multipliers. */
#include <string.h>

#include "conv_internal.h"
#include "kernels/ref.h"

static const qb_conv_plan *plan_of(const qb_kernel *kernel) { return kernel->state; }

/* Which taps the regions' corrections leave out, and how kernel rows lie in a panel. */
uint64_t qb_conv_form(const qb_conv_plan *plan) {
    uint64_t form = qb_packing_add((uint64_t)plan->total_units, (uint64_t)plan->tap_units);
    const bool corrected = plan->integer && (plan->zero != 0 || plan->flipped);
    for (int32_t s = 0; corrected && s < plan->n_starts; s++) {
        const qb_conv_region *r = &plan->regions[s];
        for (int d = 0; d < QB_SPATIAL; d++)
            form = qb_packing_add(form, (uint64_t)r->tap[d] << 32 | (uint32_t)r->tap_end[d]);
    }
    return form;
}

/* The unit and the place in it of channel c of element x of a kernel row. */
static int64_t unit_of(const qb_conv_plan *plan, int64_t row, int64_t x, int64_t c, int *lane) {
    const int64_t width = plan->per_unit;
    if (plan->tap_units == 0) {
        int64_t at = x * plan->channels + c;
        *lane = (int)(at % 4);
        return row * plan->row_units + at / 4;
    }
    *lane = (int)(c % width);
    return row * plan->row_units + x * plan->tap_units + c / width;
}

/* Rounded where data are bf16. */
static void put_weight(const qb_conv_plan *plan, char *to, int64_t at, float value) {
    if (plan->per_unit == 2)
        qb_number_put(QB_DTYPE_BF16, to, at, (double)value);
    else
        memcpy(to + at * 4, &value, sizeof value);
}

/* Bytes of a unit before it goes into a panel. */
static size_t column_unit(const qb_conv_plan *plan) { return plan->integer ? 8 : 4; }

/* Four quantized weights in the usual form of a panel. */
static void spread_bytes(char *unit, int column, const int16_t code[4]) {
    for (int i = 0; i < 4; i++) unit[column * 4 + i] = (char)code[i];
}

/* The weights of one column, unit by unit: of 4 bytes, quantized ones four of 16 bits. */
static void gather_column(const qb_conv_plan *plan, const qb_desc *w, const void *weight,
                          int64_t output, char *to) {
    int64_t base = output * plan->weight_stride[0];
    memset(to, 0, (size_t)plan->total_units * column_unit(plan));
    for (int64_t row = 0; row < plan->kernel_rows; row++)
        for (int64_t x = 0; x < plan->kernel[2]; x++)
            for (int64_t c = 0; c < plan->group_channels; c++) {
                int lane;
                int64_t unit = unit_of(plan, row, x, c, &lane);
                int64_t from = base + c * plan->weight_stride[1] + row * plan->kernel[2] + x;
                int64_t at = unit * plan->per_unit + lane;
                if (plan->integer)
                    ((int16_t *)(void *)to)[at] =
                        (int16_t)qb_cpu_weight_at(w, weight, from, output);
                else
                    put_weight(plan, to, at, ((const float *)weight)[from] * plan->factor);
            }
}

static void pack_block(const qb_conv_plan *plan, const qb_desc *w, const qb_conv_block *block,
                       const void *weight, char *column_units, char *packed) {
    void (*const spread)(char *, int, const int16_t *) =
        plan->arch->spread ? plan->arch->spread : spread_bytes;
    const qb_conv_arch *arch = plan->arch;
    size_t unit_bytes = (size_t)(block->vectors * arch->lanes) * (size_t)arch->column_bytes;
    char *panel = packed + block->panel;
    memset(panel, 0, unit_bytes * (size_t)plan->total_units);
    for (int32_t column = 0; column < block->width; column++) {
        gather_column(plan, w, weight, block->channel + column, column_units);
        for (int64_t u = 0; u < plan->total_units; u++) {
            char *unit = panel + (size_t)u * unit_bytes;
            if (plan->integer)
                spread(unit, column, (const int16_t *)(const void *)column_units + u * 4);
            else
                memcpy(unit + (size_t)column * 4, column_units + u * 4, 4);
        }
    }
}

/* The sum of an output's weights over the taps that a region has. */
static uint32_t sum_of_taps(const qb_conv_plan *plan, const qb_conv_region *r, const qb_desc *w,
                            const void *weight, int64_t output) {
    uint32_t sum = 0;
    for (int64_t c = 0; c < plan->group_channels; c++) {
        const int64_t at = output * plan->weight_stride[0] + c * plan->weight_stride[1];
        for (int64_t z = r->tap[0]; z < r->tap_end[0]; z++)
            for (int64_t y = r->tap[1]; y < r->tap_end[1]; y++)
                for (int64_t x = r->tap[2]; x < r->tap_end[2]; x++) {
                    const int64_t tap = (z * plan->kernel[1] + y) * plan->kernel[2] + x;
                    sum += (uint32_t)qb_cpu_weight_at(w, weight, at + tap, output);
                }
    }
    return sum;
}

/* What the data's zero point adds to the sums of a region, to be taken off at the start. */
static int32_t correction(const qb_conv_plan *plan, const qb_conv_region *r, const qb_desc *w,
                          const void *weight, int64_t output) {
    const int32_t zero = plan->zero + (plan->flipped ? 128 : 0);
    return (int32_t)(sum_of_taps(plan, r, w, weight, output) * (uint32_t)zero);
}

static void pack_starts(const qb_conv_plan *plan, const qb_desc *w, const void *weight,
                        const void *bias, char *packed) {
    for (int32_t s = 0; s < plan->n_starts; s++) {
        char *start = packed + plan->start + (size_t)s * (size_t)plan->columns * 4;
        memset(start, 0, (size_t)plan->columns * 4);
        for (int64_t m = 0; m < plan->outputs; m++) {
            if (!plan->integer) {
                if (bias) ((float *)(void *)start)[m] = ((const float *)bias)[m];
                continue;
            }
            uint32_t sum = bias && !plan->float_bias ? ((const uint32_t *)bias)[m] : 0;
            if (plan->zero != 0 || plan->flipped)
                sum -= (uint32_t)correction(plan, &plan->regions[s], w, weight, m);
            ((uint32_t *)(void *)start)[m] = sum;
        }
    }
}

/* The multipliers in the order of problem.h: the scales' rounded product, then MATMUL's factor. */
static void pack_multipliers(const qb_conv_plan *plan, const qb_problem *p, const float *bias,
                             char *packed) {
    const qb_qparams *w = &p->in[QB_IN_WEIGHT].q;
    float *multiplier = (float *)(void *)(packed + plan->multiplier);
    for (int64_t m = 0; m < plan->columns; m++) {
        float scale = m < plan->outputs ? w->scale[w->n > 1 ? m % w->n : 0] : 0.0f;
        float product = p->in[QB_IN_DATA].q.scale[0] * scale;
        multiplier[m] = plan->factor == 1.0f ? product : product * plan->factor;
        if (plan->float_bias)
            ((float *)(void *)(packed + plan->bias))[m] = m < plan->outputs ? bias[m] : 0.0f;
    }
}

qb_status qb_conv_pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                       void *packed) {
    const qb_conv_plan *plan = plan_of(kernel);
    const qb_desc *w = &kernel->problem.in[QB_IN_WEIGHT];
    const void *weight = constants[QB_IN_WEIGHT];
    const void *bias = qb_problem_has(&kernel->problem, QB_IN_BIAS) ? constants[QB_IN_BIAS] : NULL;
    char *column_units = qb_alloc(cx, (size_t)plan->total_units, column_unit(plan));
    if (!column_units) return cx->code;
    for (int32_t b = 0; b < plan->n_blocks; b++)
        pack_block(plan, w, &plan->blocks[b], weight, column_units, packed);
    pack_starts(plan, w, weight, bias, packed);
    if (plan->integer) pack_multipliers(plan, &kernel->problem, bias, packed);
    memset((char *)packed + plan->zeros, (uint8_t)plan->zero,
           (size_t)plan->channels * plan->element + QB_BUFFER_SLACK);
    qb_free(column_units);
    return QB_OK;
}
