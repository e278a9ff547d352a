/* What each layer's result is worth in a quantized network, before a recovery and after it. */
#include <math.h>
#include <string.h>

#include "quant/recover/recover_internal.h"
#include "quant/recover/replay.h"

typedef struct survey {
    qb_recovered *out;
    bool after; /* layers are there already */
    size_t capacity;
} survey;

typedef struct sums {
    const qb_replay_layer *layer;
    size_t count;
    double *signal, *noise; /* [samples] */
} sums;

static qb_status measure(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    (void)worker;
    const sums *s = user;
    const qb_replay_layer *l = s->layer;
    float *scratch = QB_NEW(cx, qb_alloc(cx, s->count + 1, sizeof *scratch));
    const float *reference = qb_replay_floats(l, false, l->reference_output, i, NULL),
                *quantized = qb_replay_floats(l, true, l->output, i, scratch);
    for (size_t k = 0; k < s->count; k++) {
        const double error = (double)reference[k] - (double)quantized[k];
        s->signal[i] += (double)reference[k] * (double)reference[k];
        s->noise[i] += error * error;
    }
    qb_free(scratch);
    return QB_OK;
}

static double sqnr_of(const sums *s) {
    double signal = 0, noise = 0;
    for (int32_t i = 0; i < s->layer->n_samples; i++) {
        signal += s->signal[i];
        noise += s->noise[i];
    }
    return noise > 0 ? 10 * log10(signal / noise) : signal > 0 ? INFINITY : NAN;
}

static qb_status note(qb_ctx *cx, survey *s, const char *name, double db) {
    qb_recovered *out = s->out;
    for (int32_t i = 0; s->after && i < out->n_layers; i++)
        if (strcmp(out->layer[i].name, name) == 0) out->layer[i].after_db = db;
    if (s->after) return QB_OK;
    QB_TRY(qb_grow(cx, &out->layer, &s->capacity, (size_t)out->n_layers + 1, sizeof *out->layer));
    qb_recover_layer_gain *gain = &out->layer[out->n_layers];
    *gain = (qb_recover_layer_gain){qb_strdup(cx, name), db, NAN};
    if (!gain->name) return cx->code;
    out->n_layers++;
    return QB_OK;
}

static qb_status on_layer(qb_ctx *cx, void *user, qb_replay_layer *layer, bool *again) {
    const qb_value *value = &layer->quantized->values[layer->output];
    const size_t n = (size_t)layer->n_samples;
    QB_FREED double *signal = QB_NEW(cx, qb_alloc(cx, n, sizeof *signal));
    QB_FREED double *noise = QB_NEW(cx, qb_alloc(cx, n, sizeof *noise));
    sums s = {.layer = layer,
              .count = (size_t)qb_shape_count(&value->shape),
              .signal = signal,
              .noise = noise};
    (void)again;
    QB_TRY(qb_each(cx, layer->n_samples, measure, &s));
    return note(cx, user, value->name, sqnr_of(&s));
}

qb_status qb_layer_gains(qb_ctx *cx, const qb_graph_pair *before, const qb_graph_pair *after,
                         const qb_samples *samples, qb_recovered *out) {
    const qb_graph_pair *const pairs[] = {before, after};
    survey s = {.out = out};
    for (int i = 0; i < 2; i++) {
        const qb_replay_options options = {.reference = pairs[i]->reference,
                                           .quantized = pairs[i]->quantized,
                                           .samples = samples,
                                           .bytes = QB_RECOVER_MEMORY,
                                           .after = on_layer,
                                           .user = &s};
        s.after = i == 1;
        QB_TRY(qb_replay_run(cx, &options));
    }
    return QB_OK;
}
