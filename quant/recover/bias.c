/* Bias correction (Nagel et al. 2019, section 4.2, empirical): the mean error of each layer's
 * result, with the quantized layers before it corrected already, is taken off its bias.
 *
 * The mean is the one of least squares behind the layer's activation: an error counts where the
 * activation lets it through (with Relu on the positive side alone; the means of sums that Relu
 * cuts off are of no consequence, and to correct them made squeezenet1.1 worse). A channel's mean
 * is an estimate from few samples: it is shrunk by the share of its square that chance explains. */
#include <string.h>

#include "quant/recover/recover_internal.h"
#include "quant/recover/weights.h"

enum { ROUNDS = 2 }; /* what lies behind an activation is not linear */

typedef struct errors {
    const qb_replay_layer *layer;
    int64_t channels, inner; /* of the output: [outer, channels, inner] */
    size_t count;
    double *error, *slope; /* [samples][channels] sums of slope x error and of slope^2 */
} errors;

/* How far a change of the sum changes what the activation makes of it, by its result. */
static double slope_at(const qb_group *group, float reference, float quantized) {
    const qb_act *act = &group->act;
    if (group->act_first) return 1;
    switch (act->kind) {
    case QB_ACT_RELU: return reference > 0 || quantized > 0;
    case QB_ACT_CLIP:
        return (reference > act->alpha && reference < act->beta) ||
               (quantized > act->alpha && quantized < act->beta);
    case QB_ACT_LEAKY_RELU: return reference > 0 ? 1 : (double)act->alpha;
    default: return 1;
    }
}

static qb_status measure(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    (void)worker;
    const errors *m = user;
    const qb_replay_layer *l = m->layer;
    QB_FREED float *scratch = QB_NEW(cx, qb_alloc(cx, m->count + 1, sizeof *scratch));
    const float *reference = qb_replay_floats(l, false, l->reference_output, i, NULL),
                *quantized = qb_replay_floats(l, true, l->output, i, scratch);
    double *error = m->error + i * m->channels, *slope = m->slope + i * m->channels;
    memset(error, 0, (size_t)m->channels * sizeof *error);
    memset(slope, 0, (size_t)m->channels * sizeof *slope);
    for (size_t at = 0; at < m->count; at++) {
        const size_t c = at / (size_t)m->inner % (size_t)m->channels;
        const double d = slope_at(l->group, reference[at], quantized[at]);
        error[c] += d * ((double)reference[at] - (double)quantized[at]);
        slope[c] += d * d;
    }
    return QB_OK;
}

/* The shift of one channel: sum of errors over sum of slopes, less what is chance. */
static double shift_of(const errors *m, int64_t c) {
    const int32_t n = m->layer->n_samples;
    double error = 0, slope = 0, chance = 0;
    for (int32_t s = 0; s < n; s++) {
        error += m->error[s * m->channels + c];
        slope += m->slope[s * m->channels + c];
    }
    if (!(slope > 0)) return 0;
    const double mean = error / slope;
    for (int32_t s = 0; s < n; s++) {
        const double rest = m->error[s * m->channels + c] - mean * m->slope[s * m->channels + c];
        chance += rest * rest;
    }
    chance /= slope * slope;
    return mean * mean > chance ? mean * (1 - chance / (mean * mean)) : 0;
}

static qb_status correct(qb_ctx *cx, qb_recover_state *state, const errors *m,
                         const qb_layer_weights *w) {
    QB_FREED float *bias = QB_NEW(cx, qb_alloc(cx, (size_t)m->channels, sizeof *bias));
    for (int64_t c = 0; c < m->channels; c++)
        bias[c] = (float)((double)w->bias[c] + shift_of(m, c));
    return qb_layer_weights_set_bias(cx, state, m->layer, w, bias);
}

typedef struct work {
    qb_recover_state *state;
    int32_t changed;
} work;

static qb_status after(qb_ctx *cx, void *user, qb_replay_layer *layer, bool *again) {
    work *job = user;
    const qb_shape *shape = &layer->quantized->values[layer->output].shape;
    qb_layer_weights w;
    errors m = {.layer = layer, .count = (size_t)qb_shape_count(shape)};
    bool known;
    if (layer->runs > ROUNDS) return QB_OK;
    QB_TRY(qb_layer_weights_of(cx, job->state, layer, &w, &known));
    if (!known) return QB_OK;
    qb_status status = QB_OK;
    m.channels = qb_layer_outputs(&w.layer);
    const int32_t axis = w.layer.out_axis;
    if (!w.can_shift || axis >= shape->rank || shape->dim[axis] != m.channels) goto out;
    m.inner = qb_shape_span(shape, axis + 1, shape->rank);
    const size_t size = (size_t)layer->n_samples * (size_t)m.channels;
    QB_GO_NEW(cx, m.error = qb_alloc(cx, size, sizeof *m.error));
    QB_GO_NEW(cx, m.slope = qb_alloc(cx, size, sizeof *m.slope));
    QB_GO(qb_each(cx, layer->n_samples, measure, &m));
    QB_GO(correct(cx, job->state, &m, &w));
    job->changed += layer->runs == 1;
    *again = true;
out:
    QB_FREE_ALL(m.error, m.slope);
    qb_layer_weights_release(&w);
    return status;
}

static qb_status run(qb_ctx *cx, qb_recover_state *state, int32_t *changed) {
    work w = {.state = state};
    QB_TRY(qb_recover_replay(cx, state, (qb_replay_options){.after = after, .user = &w}));
    *changed = w.changed;
    return QB_OK;
}

const qb_recovery qb_recovery_bias = {
    .name = "bias",
    .summary = "each layer's mean error goes off its bias, layer after layer (bias correction)",
    .phase = QB_RECOVER_LAYERS,
    .run = run,
};
