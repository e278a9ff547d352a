#include "quant/recover/balance.h"

#include <math.h>
#include <string.h>

#include "quant/recover/moments.h"

#define BINS 64             /* of the ends of ranges that are tried */
#define STEPS 4             /* of each exponent, from 0 to 1 */
#define LEAST_GAIN 0.98     /* the noise that is left, of what it was */
#define HEADROOM 1.25f      /* for what other samples reach in channels that Clip does not clip */
#define MOST_FACTOR 0x1p20f /* of a channel that hardly reaches anywhere */

/* A layer that reads values of a component. */
typedef struct reader {
    qb_layer layer;
    int32_t value;
    float *largest;      /* [outputs][n_in] magnitude of the weights between two channels */
    double *sensitivity; /* [inputs] sum of the squares of its weights */
    double signal;
    bool is_first; /* of the readers of its value */
} reader;

/* Room for factors and what decides them, by variable (at roots). */
typedef struct work {
    qb_recover_state *state;
    qb_graph *graph; /* of known shapes, but for those that depend on values */
    qb_scales scales;
    qb_moments moments;
    int32_t *component; /* union-find over variables */
    float *reach[QB_REACHES], *reach_of_half[QB_REACHES], *weight;
    double *demand; /* [scales.n_of] what error of a channel does to all layers that read it */
    double *factor, *trial;
    reader *readers;
    int32_t n_readers;
    bool symmetric, per_tensor;
} work;

/* ---- components ---- */

static int32_t component_of(const work *w, int32_t variable) {
    int32_t *parent = w->component;
    while (parent[variable] != variable) variable = parent[variable] = parent[parent[variable]];
    return variable;
}

static int32_t component_of_value(const work *w, int32_t value) {
    return component_of(w, qb_scales_of(&w->scales, value, 0));
}

static void find_components(work *w) {
    const qb_scales *s = &w->scales;
    for (int32_t i = 0; i < s->n; i++) w->component[i] = i;
    for (int32_t v = 0; v < s->graph->n_values; v++) {
        if (s->axis[v] < 0 || qb_scales_channels(s, v) == 0) continue;
        const int32_t first = component_of_value(w, v);
        for (int64_t c = 1; c < qb_scales_channels(s, v); c++)
            w->component[component_of(w, qb_scales_of(s, v, c))] = first;
    }
}

/* ---- what is known of channels and layers ---- */

static void measure_reach(work *w) {
    const qb_scales *s = &w->scales;
    for (int32_t v = 0; v < s->graph->n_values; v++) {
        if (s->axis[v] < 0 || !w->moments.seen[v]) continue;
        for (int64_t c = 0; c < qb_scales_channels(s, v); c++) {
            const int32_t at = s->first[v] + (int32_t)c, of = qb_scales_of(s, v, c);
            for (int k = 0; k < QB_REACHES; k++) {
                w->reach[k][of] = fmaxf(w->reach[k][of], w->moments.reach[k][at]);
                w->reach_of_half[k][of] =
                    fmaxf(w->reach_of_half[k][of], w->moments.reach_of_half[k][at]);
            }
        }
    }
}

static qb_status read_weights(qb_ctx *cx, work *w, reader *r) {
    const qb_layer *l = &r->layer;
    const size_t n = (size_t)(qb_layer_outputs(l) * l->n_in);
    QB_TRY_NEW(cx, r->largest = qb_arena_alloc(cx, w->scales.arena, n, sizeof *r->largest));
    QB_TRY_NEW(cx, r->sensitivity = qb_arena_alloc(cx, w->scales.arena, (size_t)qb_layer_inputs(l),
                                                   sizeof *r->sensitivity));
    for (int64_t o = 0; o < qb_layer_outputs(l); o++)
        for (int64_t i = 0; i < l->n_in; i++) {
            const float *weight = l->weight + o / l->n_out * l->group_stride +
                                  o % l->n_out * l->out_stride + i * l->in_stride;
            const int64_t in = o / l->n_out * l->n_in + i;
            float largest = 0;
            double square = 0;
            for (int64_t k = 0; k < l->taps; k++) {
                largest = fmaxf(largest, fabsf(weight[k]));
                square += (double)weight[k] * (double)weight[k];
            }
            r->largest[o * l->n_in + i] = largest;
            r->sensitivity[in] += square;
            r->signal += square * w->moments.square[w->scales.first[r->value] + in];
            float *most = &w->weight[qb_scales_of(&w->scales, r->value, in)];
            /* One input channel an output: its scale goes with it, whatever the weights are. */
            if (l->n_in > 1 || w->per_tensor) *most = fmaxf(*most, largest);
        }
    for (int64_t in = 0; r->signal > 0 && in < qb_layer_inputs(l); in++)
        w->demand[w->scales.first[r->value] + in] += r->sensitivity[in] / r->signal;
    return QB_OK;
}

static qb_status find_readers(qb_ctx *cx, work *w) {
    const qb_graph *graph = w->graph;
    w->readers = qb_arena_alloc(cx, w->scales.arena, (size_t)graph->n_nodes, sizeof *w->readers);
    if (!w->readers) return cx->code;
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        reader r = {.value = graph->nodes[i].n_in > 0 ? graph->nodes[i].in[0] : -1};
        if (w->scales.role[i] != QB_SCALE_LAYER || w->scales.axis[r.value] < 0 ||
            !w->moments.seen[r.value] || !qb_layer_of(graph, &w->scales.uses, i, &r.layer))
            continue;
        QB_TRY(read_weights(cx, w, &r));
        r.is_first = true;
        for (int32_t k = 0; k < w->n_readers; k++)
            r.is_first = r.is_first && w->readers[k].value != r.value;
        w->readers[w->n_readers++] = r;
    }
    return QB_OK;
}

/* ---- the noise that factors lead to ---- */

/* What a value's integers cost the layers that read it, each by its signal: elements beyond the
 * range are cut off, others but zero are rounded. The range is the one of least cost, a share of
 * the extremes. */
static double noise_of_value(const work *w, int32_t value, const double *factor) {
    const qb_scales *s = &w->scales;
    const qb_moments *m = &w->moments;
    const int64_t n = qb_scales_channels(s, value);
    double count[BINS] = {0}, sum[BINS] = {0}, square[BINS] = {0}, l = 0, h = 0, all = 0;
    for (int64_t c = 0; c < n; c++) {
        const double f = factor[qb_scales_of(s, value, c)];
        l = fmin(l, f * (double)m->low[s->first[value] + c]);
        h = fmax(h, f * (double)m->high[s->first[value] + c]);
    }
    if (w->symmetric) {
        h = fmax(-l, h);
        l = -h;
    }
    for (int64_t c = 0; c < n; c++) {
        const int64_t at = s->first[value] + c;
        const double f = factor[qb_scales_of(s, value, c)], demand = w->demand[at] / (f * f);
        const float *x = m->element + (size_t)at * (size_t)m->n_elements;
        for (int32_t e = m->others; e < m->n_elements; e++) {
            const double v = f * (double)x[e], share = v > 0 ? v / h : l < 0 ? v / l : 0;
            if (x[e] == 0) continue;
            const int bin = share > 0 ? (int)fmin(BINS - 1, share * BINS) : 0;
            count[bin] += demand;
            sum[bin] += demand * share;
            square[bin] += demand * share * share;
            all += demand;
        }
    }
    /* Ends at bin k: what lies beyond is cut off. Both sides count by their share of the longer. */
    const double longest = fmax(-l, h);
    double beyond = 0, best = INFINITY, tail_count = 0, tail_sum = 0, tail_square = 0;
    for (int k = BINS; k > 1; k--) {
        const double at = (double)k / BINS, step = (h - l) * at / 255;
        beyond = tail_square - 2 * at * tail_sum + at * at * tail_count;
        best = fmin(best, beyond * longest * longest + (all - tail_count) * step * step / 12);
        tail_count += count[k - 1];
        tail_sum += sum[k - 1];
        tail_square += square[k - 1];
    }
    return best / (m->n_elements - m->others);
}

static double noise_of_weights(const work *w, const reader *r, const double *factor) {
    const qb_layer *l = &r->layer;
    const qb_scales *s = &w->scales;
    double weights = 0, widest = 0, carried = 0;
    for (int64_t o = 0; o < qb_layer_outputs(l); o++) {
        double reach = 0, power = 0;
        for (int64_t i = 0; i < l->n_in; i++) {
            const int64_t in = o / l->n_out * l->n_in + i;
            const double f = factor[qb_scales_of(s, r->value, in)];
            reach = fmax(reach, (double)r->largest[o * l->n_in + i] / f);
            power += f * f * w->moments.square[s->first[r->value] + in];
        }
        weights += reach / 127 * (reach / 127) * power;
        widest = fmax(widest, reach);
        carried += power;
    }
    if (w->per_tensor) weights = widest / 127 * (widest / 127) * carried;
    return r->signal > 0 ? weights * (double)l->taps / 12 / r->signal : 0;
}

static double noise_of(const work *w, int32_t component, const double *factor) {
    double sum = 0;
    for (int32_t i = 0; i < w->n_readers; i++) {
        const reader *r = &w->readers[i];
        if (component_of_value(w, r->value) != component) continue;
        if (r->is_first) sum += noise_of_value(w, r->value, factor);
        sum += noise_of_weights(w, r, factor);
    }
    return sum;
}

/* ---- the search ---- */

static void set_factors(const work *w, int32_t component, const float *reach, double a, double b,
                        double *factor) {
    const qb_scales *s = &w->scales;
    float far = 0, heavy = 0;
    for (int32_t i = 0; i < s->n; i++) {
        if (s->parent[i] != i || component_of(w, i) != component) continue;
        far = fmaxf(far, reach[i]);
        heavy = fmaxf(heavy, w->weight[i]);
    }
    for (int32_t i = 0; i < s->n; i++) {
        if (s->parent[i] != i || component_of(w, i) != component) continue;
        const float limit = s->limit[i] / HEADROOM, most = w->reach[0][i];
        factor[i] = 1;
        if (s->pinned[i] || !(reach[i] > 0) || (limit > 0 && most >= limit)) continue;
        factor[i] = pow((double)(far / reach[i]), a);
        if (w->weight[i] > 0) factor[i] *= pow((double)(w->weight[i] / heavy), b);
        factor[i] = fmin(factor[i], (double)MOST_FACTOR);
        if (limit > 0) factor[i] = fmin(factor[i], (double)(limit / most));
    }
}

static void copy_factors(const work *w, int32_t component, const double *from, double *to) {
    for (int32_t i = 0; i < w->scales.n; i++)
        if (w->scales.parent[i] == i && component_of(w, i) == component) to[i] = from[i];
}

/* Reaches of half of the samples, noise on the others: what reaches far in a few samples alone must
 * not decide. */
static void search(const work *w, int32_t component) {
    double least = noise_of(w, component, w->factor) * LEAST_GAIN;
    int best_k = -1, best_a = 0, best_b = 0;
    if (!(least > 0)) return; /* no layer reads it */
    for (int k = 0; k < QB_REACHES; k++)
        for (int a = 0; a <= STEPS; a++)
            for (int b = 0; b <= STEPS; b++) {
                if (k > 0 && a == 0) continue;
                set_factors(w, component, w->reach_of_half[k], (double)a / STEPS, (double)b / STEPS,
                            w->trial);
                const double noise = noise_of(w, component, w->trial);
                if (!(noise < least)) continue;
                least = noise;
                best_k = k;
                best_a = a;
                best_b = b;
            }
    if (best_k < 0) return;
    set_factors(w, component, w->reach[best_k], (double)best_a / STEPS, (double)best_b / STEPS,
                w->trial);
    copy_factors(w, component, w->trial, w->factor);
}

/* Does a normalization or a product with a constant make a value of the component? */
static bool is_behind_constants(const work *w, int32_t component) {
    const qb_scales *s = &w->scales;
    for (int32_t i = 0; i < s->graph->n_nodes; i++) {
        const int32_t out = s->graph->nodes[i].n_out > 0 ? s->graph->nodes[i].out[0] : -1;
        if ((s->role[i] == QB_SCALE_NORM || s->role[i] == QB_SCALE_FACTOR) && s->axis[out] >= 0 &&
            component_of_value(w, out) == component)
            return true;
    }
    return false;
}

/* ---- the change ---- */

/* Factors of a value's channels into out[]; whether any is not 1. */
static bool factors_of(const work *w, int32_t value, double *out) {
    const qb_scales *s = &w->scales;
    bool any = false;
    if (value < 0 || s->axis[value] < 0) return false;
    for (int64_t c = 0; c < qb_scales_channels(s, value); c++) {
        out[c] = w->factor[qb_scales_of(s, value, c)];
        any = any || out[c] != 1;
    }
    return any;
}

static qb_status scale_constant(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t input,
                                const double *out, const double *in) {
    const qb_value *value = &graph->values[graph->nodes[node].in[input]];
    const int64_t n = qb_shape_count(&value->shape);
    QB_FREED float *data = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *data));
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)((double)((const float *)value->data)[i] * (out ? out[i] : 1) /
                          (in ? in[i] : 1));
    return qb_graph_replace_constant(cx, graph, node, input, data);
}

/* Node number `index` of the bound graph, in the state's own graph. */
static qb_status apply_to(qb_ctx *cx, const work *w, int32_t index, double *out, double *in,
                          int32_t *changed) {
    const qb_node *bound = &w->graph->nodes[index];
    const qb_scale_role role = w->scales.role[index];
    qb_graph *graph = w->state->graph;
    const bool reads = role == QB_SCALE_LAYER || role == QB_SCALE_FACTOR;
    const int32_t constant = w->scales.constant[index];
    const int32_t data = role == QB_SCALE_FACTOR ? bound->in[1 - constant] : bound->in[0];
    const bool scales = factors_of(w, bound->out[0], out),
               undoes = reads && factors_of(w, data, in);
    if (!scales && !undoes) return QB_OK;
    const int32_t node = qb_graph_writer(graph, w->graph->values[bound->out[0]].name);
    if (node < 0) return qb_fail(cx, QB_STATUS_INTERNAL, "a bound graph has other nodes");
    *changed += undoes && role == QB_SCALE_LAYER;
    if (role == QB_SCALE_LAYER) {
        qb_uses uses;
        qb_layer layer;
        QB_TRY(qb_uses_build(cx, graph, &uses));
        const bool known = qb_layer_of(graph, &uses, node, &layer);
        qb_uses_release(&uses);
        if (!known) return qb_fail(cx, QB_STATUS_INTERNAL, "a bound graph has other layers");
        return qb_layer_scale(cx, graph, &layer, scales ? out : NULL, undoes ? in : NULL);
    }
    if (role != QB_SCALE_NORM)
        return scale_constant(cx, graph, node, constant, scales ? out : NULL, undoes ? in : NULL);
    for (int32_t i = 1; i < bound->n_in; i++) QB_TRY(scale_constant(cx, graph, node, i, out, NULL));
    return QB_OK;
}

static qb_status apply(qb_ctx *cx, const work *w, int32_t *changed) {
    QB_FREED double *out = QB_NEW(cx, qb_alloc(cx, w->scales.n_of + 1, sizeof *out));
    QB_FREED double *in = QB_NEW(cx, qb_alloc(cx, w->scales.n_of + 1, sizeof *in));
    for (int32_t i = 0; i < w->graph->n_nodes; i++)
        if (w->scales.role[i] != QB_SCALE_NONE) QB_TRY(apply_to(cx, w, i, out, in, changed));
    return QB_OK;
}

/* ---- all of it ---- */

static qb_status prepare(qb_ctx *cx, work *w) {
    QB_TRY(qb_graph_bind_loosely(cx, w->state->graph, w->state->samples->shape, &w->graph));
    QB_TRY(qb_scales_find(cx, w->graph, &w->scales));
    QB_TRY(qb_moments_measure(cx, &w->scales, w->state->samples, &w->moments));
    const size_t n = (size_t)w->scales.n + 1;
    w->component = qb_arena_alloc(cx, w->scales.arena, n, sizeof *w->component);
    w->demand = qb_arena_alloc(cx, w->scales.arena, w->scales.n_of + 1, sizeof *w->demand);
    for (int k = 0; k < QB_REACHES; k++) {
        w->reach[k] = qb_arena_alloc(cx, w->scales.arena, n, sizeof *w->reach[k]);
        w->reach_of_half[k] = qb_arena_alloc(cx, w->scales.arena, n, sizeof *w->reach_of_half[k]);
        if (!w->reach[k] || !w->reach_of_half[k]) return cx->code;
    }
    w->weight = qb_arena_alloc(cx, w->scales.arena, n, sizeof *w->weight);
    w->factor = qb_arena_alloc(cx, w->scales.arena, n, sizeof *w->factor);
    w->trial = qb_arena_alloc(cx, w->scales.arena, n, sizeof *w->trial);
    if (!w->component || !w->demand || !w->weight || !w->factor || !w->trial) return cx->code;
    for (size_t i = 0; i < n; i++) w->factor[i] = w->trial[i] = 1;
    find_components(w);
    measure_reach(w);
    return find_readers(cx, w);
}

qb_status qb_balance(qb_ctx *cx, qb_recover_state *state, bool behind_constants, int32_t *changed) {
    const qb_quant_options *quant = state->options->quant;
    work w = {.state = state,
              .per_tensor = quant->per_tensor_weights,
              .symmetric = quant->activations == QB_SCHEME_S8_SYMMETRIC};
    qb_status status = prepare(cx, &w);
    for (int32_t i = 0; status == QB_OK && i < w.scales.n; i++)
        if (w.scales.parent[i] == i && component_of(&w, i) == i &&
            is_behind_constants(&w, i) == behind_constants)
            search(&w, i);
    if (status == QB_OK) status = apply(cx, &w, changed);
    qb_moments_release(&w.moments);
    qb_scales_release(&w.scales);
    qb_graph_free(w.graph);
    return status;
}
