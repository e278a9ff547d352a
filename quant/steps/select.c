/* Which activations are held as integers: those from which somebody gains.
 *
 * - What an integer COMPUTE group reads must be quantized.
 * - Between integer producers and consumers that can work on integers (pools, Add, tables, moves),
 *   values stay integers rather than going through float.
 * - Operators that only move values need all their inputs in the form of the output.
 * - Graph outputs stay float, and so does what only float operators read; but for a target that
 *   fuses convolutions with quantized outputs only, those are quantized wherever they go.
 * - A target that fuses a convolution with the sum behind it gets that operand in float, also where
 *   open shapes kept the two in groups of their own.
 * - Inside of what engines compute as one step values are floats.
 * - Where that is asked for, values without a range stay float, and values get 16 bits: for the
 *   groups around them they are floats. */

#include "quant/quant_internal.h"

/* Can this group hand out integers: does it compute with them, given what is quantized so far? */
static bool makes_integers(const qb_quant_state *s, int32_t group) {
    const qb_group *g = &s->groups.group[group];
    if (s->rule[group] == QB_QRULE_COMPUTE) return true;
    if (s->rule[group] == QB_QRULE_FLOAT) return false;
    for (int32_t i = 0; i < g->n_in; i++)
        if (qb_quant_is_data(s, group, i) && s->quantized[g->in[i]]) return true;
    return false;
}

static bool has_quantized_output(const qb_quant_state *s, int32_t group) {
    int32_t value;
    for (int32_t i = 0; qb_quant_output(s, group, i, &value); i++)
        if (value >= 0 && s->quantized[value]) return true;
    return false;
}

/* Must the group read integers, or does it gain where they are there anyway? */
typedef enum appetite { NONE, GAINS, MUST } appetite;

static appetite appetite_of(const qb_quant_state *s, int32_t group) {
    switch (s->rule[group]) {
    case QB_QRULE_COMPUTE: return MUST;
    case QB_QRULE_SAME_SCALE: return has_quantized_output(s, group) ? MUST : NONE;
    case QB_QRULE_ELTWISE: return GAINS;
    case QB_QRULE_LUT:
        return s->options->target && s->options->target->float_functions ? NONE : GAINS;
    default: return NONE;
    }
}

/* Does a group that only gains do so from integers of that maker? A layer rounds at its end, which
 * is free; sums and products on the way to floats would pay for the rounding of others. */
static bool gains_from(const qb_quant_state *s, int32_t group, int32_t maker) {
    if (maker < 0 || !makes_integers(s, maker)) return false;
    return s->rule[group] != QB_QRULE_ELTWISE || s->rule[maker] == QB_QRULE_COMPUTE ||
           has_quantized_output(s, group);
}

/* The group of a convolution, nothing behind it, whose result only this sum reads; else -1. */
static int32_t sole_convolution(const qb_quant_state *s, int32_t sum, int32_t value) {
    const int32_t maker = s->producer[value];
    if (maker < 0 || s->groups.group[maker].kind != QB_KIND_CONV ||
        s->groups.group[maker].n_nodes != 1)
        return -1;
    for (int32_t g = 0; g < s->groups.n; g++) {
        const qb_group *group = &s->groups.group[g];
        for (int32_t i = 0; i < group->n_in && g != sum; i++)
            if (group->in[i] == value) return -1;
    }
    return maker;
}

/* Does a convolution that makes `value` fuse with this sum: of two, the later one? */
static bool fuses_with_sum(const qb_quant_state *s, int32_t sum, int32_t value) {
    const qb_group *group = &s->groups.group[sum];
    if (!s->options->target || s->options->target->quantized_layers ||
        group->kind != QB_KIND_BINARY ||
        s->graph->nodes[group->node[0]].op->kernel.binary != QB_BINARY_ADD)
        return false;
    const int32_t maker = sole_convolution(s, sum, value);
    const int32_t other = group->in[group->in[0] == value];
    return maker >= 0 && other != value && maker > sole_convolution(s, sum, other);
}

/* What lies behind sizes that come with the data runs in float and is not observed. */
static bool is_skipped(const qb_quant_state *s, int32_t value) {
    return qb_quant_lacks_range(s, value) && (s->options->missing_stays_float || s->late[value]);
}

static bool may_quantize(const qb_quant_state *s, int32_t value) {
    return qb_quant_is_activation(s, value) && !qb_graph_is_output(s->graph, value) &&
           !s->inside[value] && !is_skipped(s, value);
}

/* *changed where it becomes one of 8 bits. */
static void quantize(qb_quant_state *s, int32_t value, bool *changed) {
    if (s->asked_16[value])
        s->in_16_bits[value] = true;
    else
        s->quantized[value] = *changed = true;
}

static void quantize_layers(qb_quant_state *s) {
    for (int32_t g = 0; g < s->groups.n; g++) {
        const int32_t out = s->groups.group[g].out;
        bool changed;
        if (s->groups.group[g].kind == QB_KIND_CONV && s->rule[g] == QB_QRULE_COMPUTE &&
            !is_skipped(s, out))
            quantize(s, out, &changed);
    }
}

/* One sweep over all reads; returns whether anything was added. Runs backwards so that chains of
 * moves settle in one sweep. */
static bool sweep(qb_quant_state *s) {
    bool changed = false;
    for (int32_t g = s->groups.n - 1; g >= 0; g--) {
        const qb_group *group = &s->groups.group[g];
        const appetite wish = appetite_of(s, g);
        for (int32_t i = 0; i < group->n_in && wish != NONE; i++) {
            const int32_t value = group->in[i];
            if (!qb_quant_is_data(s, g, i) || s->quantized[value] || !may_quantize(s, value))
                continue;
            if (wish == GAINS && !gains_from(s, g, s->producer[value])) continue;
            if (group->kind == QB_KIND_BINARY && fuses_with_sum(s, g, value)) continue;
            quantize(s, value, &changed);
        }
    }
    return changed;
}

static qb_status run(qb_ctx *cx, qb_quant_state *s) {
    (void)cx;
    if (s->options->target && s->options->target->quantized_layers) quantize_layers(s);
    while (sweep(s)) continue;
    return QB_OK;
}

const qb_quant_step qb_quant_step_select = {.name = "select", .run = run};
