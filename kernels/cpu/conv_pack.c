/* Packing the constants of a convolution: panels, starting sums, multipliers. */
#include <string.h>

#include "conv_internal.h"
#include "kernels/ref.h"

/* Which taps the regions' corrections leave out, and how kernel rows lie in a panel. */
uint64_t qb_conv_form(const qb_conv_plan *plan) {
    uint64_t id = qb_packing_add((uint64_t)plan->total_units, (uint64_t)plan->tap_units);
    const bool corrected = plan->integer && (plan->zero != 0 || plan->flipped);
    for (int32_t s = 0; corrected && s < plan->n_starts; s++) {
        const qb_conv_region *r = &plan->regions[s];
        for (int d = 0; d < QB_SPATIAL; d++)
            id = qb_packing_add(id, (uint64_t)r->tap[d] << 32 | (uint32_t)r->tap_end[d]);
    }
    return id;
}

/* Which of an output's weights is in place `lane` of a unit; -1: none. */
static int64_t element_of(const qb_conv_plan *plan, int64_t unit, int lane) {
    const int64_t row = unit / plan->row_units, at = unit % plan->row_units;
    int64_t x, c;
    if (plan->tap_units == 0) { /* taps do not begin at units */
        x = (at * 4 + lane) / plan->channels;
        c = (at * 4 + lane) % plan->channels;
    } else {
        x = at / plan->tap_units;
        c = at % plan->tap_units * plan->per_unit + lane;
    }
    if (x >= plan->kernel[2] || c >= plan->group_channels) return -1;
    return c * plan->weight_stride[1] + row * plan->kernel[2] + x;
}

/* Four quantized weights in the usual id of a panel. */
static void spread_bytes(char *unit, int column, const int16_t code[4]) {
    for (int i = 0; i < 4; i++) unit[column * 4 + i] = (char)code[i];
}

typedef struct pack_job {
    const qb_conv_plan *plan;
    const qb_problem *p;
    const void *weight;
    const void *bias; /* NULL: none */
    char *packed;
} pack_job;

/* A column's four weights of a unit. */
static void weights_of(const pack_job *j, const qb_conv_block *block, int64_t unit, int32_t column,
                       int16_t code[4]) {
    const qb_conv_plan *plan = j->plan;
    const int64_t output = block->channel + column, at = output * plan->weight_stride[0];
    for (int i = 0; i < 4; i++) {
        const int64_t from = element_of(plan, unit, i);
        code[i] = from < 0 ? 0
                           : (int16_t)qb_cpu_weight_at(&j->p->in[QB_IN_WEIGHT], j->weight,
                                                       at + from, output);
    }
}

static void put_integers(const pack_job *j, const qb_conv_block *block, int64_t unit,
                         void (*spread)(char *, int, const int16_t *), char *to) {
    for (int32_t column = 0; column < block->width; column++) {
        int16_t code[4];
        weights_of(j, block, unit, column, code);
        spread(to, column, code);
    }
}

/* Can no sum of two products of a u8 and one of the unit's weights leave 16 bits? */
static bool fits_bytes(const pack_job *j, const qb_conv_block *block, int64_t unit) {
    for (int32_t column = 0; column < block->width; column++) {
        int16_t code[4];
        weights_of(j, block, unit, column, code);
        for (int i = 0; i < 4; i += 2) {
            const int a = code[i], b = code[i + 1];
            const int most = (a > 0 ? a : 0) + (b > 0 ? b : 0);
            const int least = (a < 0 ? a : 0) + (b < 0 ? b : 0);
            if (most * UINT8_MAX > INT16_MAX || least * UINT8_MAX < INT16_MIN || a > INT8_MAX ||
                b > INT8_MAX)
                return false;
        }
    }
    return true;
}

/* Units of each run, those that fit in bytes first. */
static void pack_ordered(const pack_job *j, const qb_conv_block *block) {
    const qb_conv_plan *plan = j->plan;
    const size_t bytes = (size_t)(block->vectors * plan->arch->lanes) * 4;
    const size_t wide_bytes = bytes / 4 * (size_t)plan->arch->column_bytes;
    const int64_t run = plan->tap_units > 0 ? plan->tap_units : plan->row_units;
    char *panel = j->packed + block->panel;
    qb_unit_order *order = (qb_unit_order *)(void *)panel;
    memset(panel, 0, plan->order_bytes + wide_bytes * (size_t)plan->total_units);
    for (int64_t first = 0; first < plan->total_units; first += run, order += run) {
        char *to = panel + plan->order_bytes + (size_t)first * wide_bytes;
        int64_t n = 0;
        for (int narrow = 1; narrow >= 0; narrow--) {
            for (int64_t unit = 0; unit < run; unit++) {
                if (fits_bytes(j, block, first + unit) != narrow) continue;
                put_integers(j, block, first + unit, narrow ? spread_bytes : plan->arch->spread,
                             to);
                order[n++].data = (int32_t)(4 * unit);
                to += narrow ? bytes : wide_bytes;
            }
            if (narrow) order->narrow = (int32_t)n;
        }
    }
}

/* Rounded where data are bf16. */
static void put_floats(const pack_job *j, const qb_conv_block *block, int64_t unit, char *to) {
    const qb_conv_plan *plan = j->plan;
    for (int lane = 0; lane < plan->per_unit; lane++) {
        const int64_t from = element_of(plan, unit, lane), step = plan->weight_stride[0];
        if (from < 0) continue;
        const float *weight = (const float *)j->weight + block->channel * step + from;
        for (int32_t column = 0; column < block->width; column++) {
            const float value = weight[column * step] * plan->factor;
            if (plan->per_unit == 1)
                memcpy(to + (size_t)column * 4, &value, sizeof value);
            else
                qb_number_put(QB_DTYPE_BF16, to, 2 * column + lane, (double)value);
        }
    }
}

/* The taps of a channel lie together in the weight: one channel after the other. */
static void pack_panel(const pack_job *j, const qb_conv_block *block) {
    const qb_conv_plan *plan = j->plan;
    const size_t unit_bytes =
        (size_t)(block->vectors * plan->arch->lanes) * (size_t)plan->arch->column_bytes;
    const int64_t step = plan->tap_units > 0 ? plan->tap_units : plan->row_units;
    void (*const spread)(char *, int, const int16_t *) =
        plan->arch->spread ? plan->arch->spread : spread_bytes;
    char *panel = j->packed + block->panel;
    memset(panel, 0, unit_bytes * (size_t)plan->total_units);
    for (int64_t first = 0; first < step; first++)
        for (int64_t unit = first; unit < plan->total_units; unit += step) {
            char *to = panel + (size_t)unit * unit_bytes;
            if (plan->integer)
                put_integers(j, block, unit, spread, to);
            else
                put_floats(j, block, unit, to);
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

static void pack_starts(const pack_job *j, const qb_conv_block *block) {
    const qb_conv_plan *plan = j->plan;
    for (int32_t s = 0; s < plan->n_starts; s++) {
        char *start = j->packed + plan->start + (size_t)s * (size_t)plan->columns * 4;
        for (int64_t m = block->channel; m < block->channel + block->width; m++) {
            if (!plan->integer) {
                if (j->bias) ((float *)(void *)start)[m] = ((const float *)j->bias)[m];
                continue;
            }
            uint32_t sum = j->bias && !plan->float_bias ? ((const uint32_t *)j->bias)[m] : 0;
            if (plan->zero != 0 || plan->flipped)
                sum -= (uint32_t)correction(plan, &plan->regions[s], &j->p->in[QB_IN_WEIGHT],
                                            j->weight, m);
            ((uint32_t *)(void *)start)[m] = sum;
        }
    }
}

static void pack_block(int64_t block, void *argument) {
    const pack_job *j = argument;
    (j->plan->arch->ordered ? pack_ordered : pack_panel)(j, &j->plan->blocks[block]);
    pack_starts(j, &j->plan->blocks[block]);
}

/* The multipliers in the order of problem.h: the scales' rounded product, then MATMUL's factor. */
void qb_conv_pack_multipliers(const qb_conv_plan *plan, const qb_problem *p, const float *bias,
                              float *multiplier, float *to_bias) {
    const qb_qparams *w = &p->in[QB_IN_WEIGHT].q;
    for (int64_t m = 0; m < plan->columns; m++) {
        float scale = m < plan->outputs ? w->scale[w->n > 1 ? m % w->n : 0] : 0.0f;
        float product = p->in[QB_IN_DATA].q.scale[0] * scale;
        multiplier[m] = plan->factor == 1.0f ? product : product * plan->factor;
        if (plan->float_bias) to_bias[m] = m < plan->outputs ? bias[m] : 0.0f;
    }
}

static void pack_by(qb_workers *workers, const qb_kernel *kernel, const void *const *constants,
                    void *packed) {
    const qb_conv_plan *plan = kernel->state;
    const qb_problem *p = &kernel->problem;
    pack_job j = {.plan = plan, .p = p, .weight = constants[QB_IN_WEIGHT], .packed = packed};
    if (qb_problem_has(p, QB_IN_BIAS)) j.bias = constants[QB_IN_BIAS];
    memset(j.packed + plan->start, 0, (size_t)plan->n_starts * (size_t)plan->columns * 4);
    qb_workers_run(workers, plan->n_blocks, pack_block, &j);
    if (plan->integer)
        qb_conv_pack_multipliers(plan, p, j.bias, (float *)(void *)(j.packed + plan->multiplier),
                                 (float *)(void *)(j.packed + plan->bias));
    memset(j.packed + plan->zeros, (uint8_t)plan->zero,
           (size_t)plan->channels * plan->element + QB_BUFFER_SLACK);
}

qb_status qb_conv_pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                       void *packed) {
    (void)cx;
    pack_by(NULL, kernel, constants, packed);
    return QB_OK;
}

const bool qb_conv_known[QB_MAX_INPUTS] = {[QB_IN_WEIGHT] = true, [QB_IN_BIAS] = true};

bool qb_conv_has_plain_constants(const qb_problem *p) {
    for (int32_t i = QB_IN_WEIGHT; i <= QB_IN_BIAS && i < p->n_in; i++)
        if (qb_problem_has(p, i) &&
            (p->in[i].layout != QB_LAYOUT_ROW || p->in[i].channel_total > 0))
            return false;
    return true;
}

qb_status qb_conv_pack_computed(qb_ctx *cx, qb_workers *workers, const qb_kernel *kernel,
                                const void *const *constants, void *packed) {
    if (kernel->pack != qb_conv_pack) return kernel->pack(cx, kernel, constants, packed);
    pack_by(workers, kernel, constants, packed);
    return QB_OK;
}
