/* High-bias absorption (Nagel et al. 2019, section 4.1.3): what all elements of a channel have in
 * common goes from the bias of the layer that makes it into the biases of those that read it, so
 * that the range need not hold it: what every element exceeds. There Relu, LeakyRelu and Clip only
 * hand on; behind no activation it may be negative, too. (To take the middle of each channel's
 * extremes off there makes ranges of FastestDet narrower and its output less exact.)
 *
 * Only where all readers take no padding: an element beyond the border is 0 and not the constant.
 */
#include <math.h>

#include "quant/recover/moments.h"
#include "quant/recover/recover_internal.h"

#define HEADROOM 0.1F /* of what the samples span, for what others may reach below */
#define LEAST 0.05F   /* of the value's reach: less is not worth a change */

typedef struct work {
    qb_recover_state *state;
    qb_graph *graph; /* of known shapes, but for those that depend on values */
    qb_scales scales;
    qb_moments moments;
    double *shift; /* [scales.n_of]; scratch */
} work;

static bool is_unpadded(qb_ctx *cx, const qb_graph *graph, const qb_layer *l) {
    const qb_node *node = &graph->nodes[l->node];
    qb_window window;
    if (l->kind == QB_KIND_MATMUL) return true;
    if (l->kind != QB_KIND_CONV) return false;
    if (qb_op_window(cx, node, &graph->values[node->in[0]].shape, &graph->values[node->in[1]].shape,
                     &window) != QB_OK) {
        qb_ctx_clear(cx);
        return false;
    }
    for (int d = 0; d < window.n; d++)
        if (window.pad_begin[d] != 0 || window.pad_end[d] != 0) return false;
    return true;
}

static bool is_alone(const work *w, int32_t value) {
    return w->scales.uses.n_users[value] == 1 && !qb_graph_is_output(w->graph, value);
}

/* What the layer hands to others, behind its bias and one activation. *linear: there is none. -1:
 * an activation that changes all it gets. */
static int32_t result_of(const work *w, const qb_layer *l, bool *linear) {
    const qb_graph *graph = w->graph;
    const int32_t value = graph->nodes[l->bias_node >= 0 ? l->bias_node : l->node].out[0];
    if (value < 0 || w->scales.axis[value] < 0) return -1;
    *linear = true;
    if (!is_alone(w, value)) return value;
    const qb_node *next = &graph->nodes[w->scales.uses.users[value][0]];
    const qb_op_kernel *k = &next->op->kernel;
    if (k->function != QB_FUNCTION_RELU && k->act != QB_ACT_LEAKY_RELU && k->act != QB_ACT_CLIP)
        return value;
    *linear = false;
    return next->in[0] == value && w->scales.axis[next->out[0]] >= 0 ? next->out[0] : -1;
}

/* Can all that read the value take a change of its means? */
static bool can_absorb(qb_ctx *cx, const work *w, int32_t value) {
    const qb_uses *uses = &w->scales.uses;
    if (!w->moments.seen[value] || qb_graph_is_output(w->graph, value)) return false;
    for (int32_t u = 0; u < uses->n_users[value]; u++) {
        const int32_t node = uses->users[value][u];
        qb_layer l;
        if (w->graph->nodes[node].in[0] != value || !qb_layer_of(w->graph, uses, node, &l) ||
            w->scales.axis[value] != l.data_axis || (l.bias_node < 0 && !l.takes_bias) ||
            !is_unpadded(cx, w->graph, &l))
            return false;
    }
    return uses->n_users[value] > 0;
}

/* The shift of each channel, into w->shift; false: none is worth it. */
static bool find_shift(const work *w, int32_t value, bool linear) {
    const int32_t first = w->scales.first[value];
    const int64_t n = qb_scales_channels(&w->scales, value);
    bool any = false;
    float reach = 0;
    for (int64_t c = 0; c < n; c++)
        reach = fmaxf(reach, fmaxf(w->moments.high[first + c], -w->moments.low[first + c]));
    for (int64_t c = 0; c < n; c++) {
        const float low = w->moments.low[first + c], high = w->moments.high[first + c];
        const float limit = w->scales.limit[qb_scales_of(&w->scales, value, c)];
        const float margin = HEADROOM * (high - low);
        float shift = fmaxf(0, low - margin);
        if (linear) shift += fminf(0, high + margin);
        if (!linear && limit > 0 && high + margin > limit) shift = 0;
        if (!(fabsf(shift) > LEAST * reach)) shift = 0;
        w->shift[first + c] = (double)shift;
        any = any || shift != 0;
    }
    return any;
}

/* Adds `by[outputs]` to the bias of the layer that writes the value of this name. */
static qb_status add_bias(qb_ctx *cx, qb_graph *graph, const char *name, const double *by) {
    const int32_t node = qb_graph_writer(graph, name);
    qb_uses uses;
    qb_layer l;
    QB_TRY(qb_uses_build(cx, graph, &uses));
    const bool known = node >= 0 && qb_layer_of(graph, &uses, node, &l);
    qb_uses_release(&uses);
    if (!known) return qb_fail(cx, QB_STATUS_INTERNAL, "a bound graph has other layers");
    const int64_t n = qb_layer_outputs(&l);
    QB_FREED float *bias = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *bias));
    qb_layer_bias(graph, &l, bias);
    for (int64_t o = 0; o < n; o++) bias[o] = (float)((double)bias[o] + by[o]);
    return qb_layer_set_bias(cx, graph, &l, bias);
}

static const char *name_of(const work *w, int32_t node) {
    return w->graph->values[w->graph->nodes[node].out[0]].name;
}

/* What the reader's sums lose: its weights times the shift. */
static qb_status absorb(qb_ctx *cx, const work *w, const double *shift, const qb_layer *l) {
    QB_FREED double *by = QB_NEW(cx, qb_alloc(cx, (size_t)qb_layer_outputs(l), sizeof *by));
    for (int64_t o = 0; o < qb_layer_outputs(l); o++)
        for (int64_t i = 0; i < l->n_in; i++) {
            const float *weight = l->weight + o / l->n_out * l->group_stride +
                                  o % l->n_out * l->out_stride + i * l->in_stride;
            for (int64_t k = 0; k < l->taps; k++)
                by[o] += (double)weight[k] * shift[o / l->n_out * l->n_in + i];
        }
    return add_bias(cx, w->state->graph, name_of(w, l->node), by);
}

static qb_status move_bias(qb_ctx *cx, const work *w, const qb_layer *from, int32_t value) {
    const qb_uses *uses = &w->scales.uses;
    double *shift = w->shift + w->scales.first[value];
    for (int32_t u = 0; u < uses->n_users[value]; u++) {
        qb_layer l;
        qb_layer_of(w->graph, uses, uses->users[value][u], &l);
        QB_TRY(absorb(cx, w, shift, &l));
    }
    for (int64_t c = 0; c < qb_layer_outputs(from); c++) shift[c] = -shift[c];
    return add_bias(cx, w->state->graph, name_of(w, from->node), shift);
}

static qb_status run(qb_ctx *cx, qb_recover_state *state, int32_t *changed) {
    work w = {.state = state};
    qb_status status = QB_OK;
    QB_GO(qb_graph_bind_loosely(cx, state->graph, state->samples->shape, &w.graph));
    QB_GO(qb_scales_find(cx, w.graph, &w.scales));
    QB_GO(qb_moments_measure(cx, &w.scales, state->samples, &w.moments));
    QB_GO_NEW(cx, w.shift = qb_arena_alloc(cx, w.scales.arena, w.scales.n_of + 1, sizeof *w.shift));
    for (int32_t i = 0; i < w.graph->n_nodes; i++) {
        qb_layer l;
        bool linear;
        if (w.scales.role[i] != QB_SCALE_LAYER || !qb_layer_of(w.graph, &w.scales.uses, i, &l) ||
            (l.bias_node < 0 && !l.takes_bias))
            continue;
        const int32_t value = result_of(&w, &l, &linear);
        if (value < 0 || w.scales.axis[value] != l.out_axis || !can_absorb(cx, &w, value) ||
            !find_shift(&w, value, linear))
            continue;
        QB_GO(move_bias(cx, &w, &l, value));
        ++*changed;
    }
out:
    qb_moments_release(&w.moments);
    qb_scales_release(&w.scales);
    qb_graph_free(w.graph);
    return status;
}

const qb_recovery qb_recovery_absorb = {
    .name = "absorb",
    .summary = "what all of a channel have in common goes into later biases (bias absorption)",
    .phase = QB_RECOVER_VALUES,
    .run = run,
};
