/* Scale and zero point of every activation that was selected.
 *
 * Values that are only moved (Concat, MaxPool, Reshape ...) share one set of parameters with what
 * they are moved from: union-find over SAME_SCALE groups. A shared range covers the ranges of the
 * members that came in from outside: a value that was only selected from other members adds nothing
 * new. */
#include <math.h>

#include "base/hash.h"
#include "quant/quant_internal.h"

static int32_t root(int32_t *parent, int32_t v) {
    while (parent[v] != v) {
        parent[v] = parent[parent[v]];
        v = parent[v];
    }
    return v;
}

static void join(int32_t *parent, int32_t *first, int32_t v) {
    if (*first < 0) *first = v;
    parent[root(parent, v)] = root(parent, *first);
}

/* parent[v]: the class of values that share parameters with v. */
static void join_classes(qb_quant_state *s, int32_t *parent) {
    for (int32_t v = 0; v < s->n_values; v++) parent[v] = v;
    for (int32_t g = 0; g < s->groups.n; g++) {
        const qb_group *group = &s->groups.group[g];
        int32_t first = -1, value;
        if (s->rule[g] != QB_QRULE_SAME_SCALE) continue;
        for (int32_t o = 0; qb_quant_output(s, g, o, &value); o++)
            if (value >= 0 && s->quantized[value]) join(parent, &first, value);
        for (int32_t i = 0; i < group->n_in && first >= 0; i++)
            if (qb_quant_is_data(s, g, i) && s->quantized[group->in[i]])
                join(parent, &first, group->in[i]);
    }
}

/* Was the value selected from members of its class alone, and not from a constant or from a value
 * that stays float? */
static bool is_moved(const qb_quant_state *s, int32_t value) {
    const int32_t g = s->producer[value];
    if (g < 0 || s->rule[g] != QB_QRULE_SAME_SCALE) return false;
    const qb_group *group = &s->groups.group[g];
    for (int32_t i = 0; i < group->n_in; i++) {
        const int32_t in = group->in[i];
        if (in >= 0 && s->graph->values[in].dtype == QB_DTYPE_F32 && !s->quantized[in])
            return false;
    }
    return true;
}

/* Part of a split that takes none of the channels, say: calibration has seen nothing of it. */
static bool is_empty(const qb_shape *shape) {
    for (int32_t d = 0; d < shape->rank; d++)
        if (shape->dim[d] == 0) return true;
    return false;
}

static qb_status range_of(qb_ctx *cx, const qb_quant_state *s, int32_t value, qb_range *out) {
    const char *name = s->graph->values[value].name;
    const qb_table_entry *entry = qb_table_find(s->table, name);
    *out = (qb_range){0, 0};
    if (!entry && is_empty(&s->graph->values[value].shape)) return QB_OK;
    if (!entry && qb_table_is_imported(s->table))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "tensor '%s' has no range in the imported calibration of %s: "
                       "--skip-missing leaves it in float",
                       name, s->table->model ? s->table->model : "this model");
    if (!entry)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "tensor '%s' has no statistics in the calibration of %s: calibrate again",
                       name, s->table->model ? s->table->model : "this model");
    *out = entry->range[s->method];
    return QB_OK;
}

/* range[class]: lo > hi while empty. */
static qb_status gather_ranges(qb_ctx *cx, qb_quant_state *s, int32_t *parent, qb_range *range) {
    for (int32_t v = 0; v < s->n_values; v++) range[v] = (qb_range){INFINITY, -INFINITY};
    for (int32_t v = 0; v < s->n_values; v++) {
        if (!s->quantized[v] || is_moved(s, v)) continue;
        qb_range own;
        QB_TRY(range_of(cx, s, v, &own));
        qb_range *shared = &range[root(parent, v)];
        shared->lo = fminf(shared->lo, own.lo);
        shared->hi = fmaxf(shared->hi, own.hi);
    }
    return QB_OK;
}

/* Most of what `off_ties` adds to a range: an eighth of one step over all 255. */
#define TIE_SHARE 0x1p-11

/* A result of integers whose scale is in a simple ratio with theirs (ranges that end on bins of
 * histograms are) often lies exactly between two quantized values, and then the order of float
 * operations decides, which every runtime chooses for itself. A range that is wider by a share of
 * its own leaves no such ratio; equal ranges stay equal. */
static qb_range off_ties(qb_range range) {
    const qb_hash hash = qb_hash_bytes(&range, sizeof range);
    const double part = (hash.byte[0] * 256 + hash.byte[1]) * 0x1p-16;
    const double factor = 1 + TIE_SHARE * (0.5 + 0.5 * part);
    return (qb_range){(float)(range.lo * factor), (float)(range.hi * factor)};
}

/* For targets that compute sums, products and averages from quantized values to quantized values.
 */
static void part_ties(const qb_quant_state *s, int32_t *parent, qb_range *range) {
    for (int32_t g = 0; g < s->groups.n; g++) {
        const int32_t out = s->groups.group[g].out;
        if (s->rule[g] != QB_QRULE_ELTWISE || !s->quantized[out]) continue;
        qb_range *of = &range[root(parent, out)];
        *of = off_ties(*of);
    }
}

static qb_status params_of(qb_ctx *cx, const qb_quant_state *s, qb_range range, int bits,
                           qb_dtype dtype, qb_qparams *out) {
    float *scale = QB_NEW(cx, qb_arena_alloc(cx, s->graph->arena, 1, sizeof *scale));
    int32_t *zero = QB_NEW(cx, qb_arena_alloc(cx, s->graph->arena, 1, sizeof *zero));
    qb_affine_params(range, s->activations, bits, scale, zero);
    *out = (qb_qparams){.dtype = dtype, .axis = -1, .n = 1, .scale = scale, .zero = zero};
    return QB_OK;
}

static qb_status set_params(qb_ctx *cx, qb_quant_state *s, int32_t value, qb_range range) {
    qb_value *v = &s->graph->values[value];
    v->dtype = s->activations == QB_SCHEME_U8_AFFINE ? QB_DTYPE_U8 : QB_DTYPE_S8;
    return params_of(cx, s, range, 8, v->dtype, &v->q);
}

/* Each by its own range, from minimum to maximum: a step of 16 bits is so small that nothing is to
 * be had by sharing it with others, or by cutting off what is rare. */
static qb_status set_params_16(qb_ctx *cx, qb_quant_state *s, int32_t value) {
    const qb_dtype dtype = s->activations == QB_SCHEME_U8_AFFINE ? QB_DTYPE_U16 : QB_DTYPE_S16;
    qb_range range;
    QB_TRY(range_of(cx, s, value, &range));
    const qb_table_entry *entry = qb_table_find(s->table, s->graph->values[value].name);
    if (entry)
        range = (qb_range){fminf(range.lo, entry->stats->min), fmaxf(range.hi, entry->stats->max)};
    return params_of(cx, s, range, 16, dtype, &s->params_16[value]);
}

static qb_status run(qb_ctx *cx, qb_quant_state *s) {
    const size_t n = (size_t)s->n_values;
    int32_t *parent = QB_NEW(cx, qb_arena_alloc(cx, s->groups.arena, n, sizeof *parent));
    qb_range *range = QB_NEW(cx, qb_arena_alloc(cx, s->groups.arena, n, sizeof *range));
    join_classes(s, parent);
    QB_TRY(gather_ranges(cx, s, parent, range));
    if (s->options->target && s->options->target->quantized_layers) part_ties(s, parent, range);
    for (int32_t v = 0; v < s->n_values; v++) {
        if (s->quantized[v]) QB_TRY(set_params(cx, s, v, range[root(parent, v)]));
        if (s->in_16_bits[v]) QB_TRY(set_params_16(cx, s, v));
    }
    return QB_OK;
}

const qb_quant_step qb_quant_step_ranges = {.name = "ranges", .run = run};
