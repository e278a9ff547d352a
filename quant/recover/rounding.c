/* Rounding by error instead of to the nearest (the aim of AdaRound, Nagel et al. 2020): of each
 * output channel, the weights w = S (q + e) are rounded so that the layer's sums are least wrong on
 * the inputs that it gets in the quantized network, e' C e with C the covariance of the patches;
 * what the mean patch makes of e goes into the bias. From the nearest values, one weight after the
 * other takes the other neighbour where that makes the error less, until none does: coordinate
 * descent on the objective itself instead of a relaxation of it by gradients, in one thousandth of
 * the time.
 *
 * A weight at the end of the range stays, so that the channel's largest magnitude, and with it the
 * scale that any quantizer finds, stays too. */
#include <math.h>
#include <string.h>

#include "quant/recover/recover_internal.h"
#include "quant/recover/weights.h"

#define BLOCK 1152      /* most weights of a channel that are looked at together */
#define LEAST_ROWS 4096 /* patches that the covariance comes from, and twice a block */
#define MOST_ELEMENTS ((int64_t)24 << 20) /* of the patches of several groups */
#define LANES 8                           /* rows that are added at once */
#define DAMPING 0.01 /* of the mean variance, on the diagonal: what few samples do not show */
#define SWEEPS 32

/* `n` weights of each patch from `first` on, in n_groups groups of channels from `group` on. */
typedef struct block {
    const qb_replay_layer *layer;
    const qb_layer_weights *weights;
    int64_t group, n_groups, first, n, rows, each; /* each: rows of a sample */
    size_t most;                                   /* elements of the layer's input */
    float *x;                                      /* [groups][rows][n] */
    double *mean;                                  /* [groups][n] */
    float *covariance;                             /* [groups][n][n] */
    int8_t *q;                                     /* of the whole layer */
    double *shift;                                 /* [outputs] what the bias gets */
} block;

/* Place in the tensor of weight number k of the block, of output channel o of group g of it. */
static int64_t place(const block *b, int64_t g, int64_t o, int64_t k) {
    const qb_layer *l = &b->weights->layer;
    const int64_t at = b->first + k;
    return (b->group + g) * l->group_stride + o * l->out_stride + at / l->taps * l->in_stride +
           at % l->taps;
}

static qb_status gather(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    (void)worker;
    const block *b = user;
    const qb_patches *p = &b->weights->patches;
    const size_t size = (size_t)(p->n_in * p->taps);
    QB_FREED float *scratch = QB_NEW(cx, qb_alloc(cx, b->most + size, sizeof *scratch));
    const float *x = qb_replay_floats(b->layer, true, b->layer->input, i, scratch);
    for (int64_t g = 0; g < b->n_groups; g++)
        for (int64_t r = 0; r < b->each; r++) {
            const int64_t at = (r * p->positions / b->each + i) % p->positions;
            qb_patch(p, x, b->group + g, at, scratch + b->most);
            memcpy(b->x + (g * b->rows + i * b->each + r) * b->n, scratch + b->most + b->first,
                   (size_t)b->n * sizeof *b->x);
        }
    return QB_OK;
}

static void center(const block *b, int64_t g) {
    float *x = b->x + g * b->rows * b->n;
    double *mean = b->mean + g * b->n;
    memset(mean, 0, (size_t)b->n * sizeof *mean);
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t k = 0; k < b->n; k++) mean[k] += (double)x[r * b->n + k];
    for (int64_t k = 0; k < b->n; k++) mean[k] /= (double)b->rows;
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t k = 0; k < b->n; k++) x[r * b->n + k] -= (float)mean[k];
}

/* Row i of a group's covariance, from its diagonal on. */
static void correlate(const block *b, int64_t g, int64_t i) {
    const float *first = b->x + g * b->rows * b->n;
    float *sum = b->covariance + (g * b->n + i) * b->n;
    memset(sum, 0, (size_t)b->n * sizeof *sum);
    for (int64_t r = 0; r < b->rows; r += LANES) {
        const float *x = first + r * b->n;
        const int64_t left = b->rows - r < LANES ? b->rows - r : LANES;
        if (left == LANES) {
            float f[LANES];
            for (int t = 0; t < LANES; t++) f[t] = x[t * b->n + i];
            for (int64_t k = i; k < b->n; k++)
                sum[k] += ((f[0] * x[k] + f[1] * x[b->n + k]) +
                           (f[2] * x[2 * b->n + k] + f[3] * x[3 * b->n + k])) +
                          ((f[4] * x[4 * b->n + k] + f[5] * x[5 * b->n + k]) +
                           (f[6] * x[6 * b->n + k] + f[7] * x[7 * b->n + k]));
        } else {
            for (int64_t t = 0; t < left; t++)
                for (int64_t k = i; k < b->n; k++) sum[k] += x[t * b->n + i] * x[t * b->n + k];
        }
    }
}

static void complete(const block *b, int64_t g) {
    float *c = b->covariance + g * b->n * b->n;
    double variance = 0;
    for (int64_t i = 0; i < b->n; i++) {
        variance += (double)c[i * b->n + i] / (double)b->n;
        for (int64_t k = 0; k < i; k++) c[i * b->n + k] = c[k * b->n + i];
    }
    for (int64_t i = 0; i < b->n; i++) c[i * b->n + i] += (float)(DAMPING * variance);
}

/* Takes neighbours while that makes e' C e less; `slope` is C e. */
static void descend(const block *b, int64_t g, int64_t o, const float *scale, int8_t *q, double *e,
                    double *slope) {
    const float *covariance = b->covariance + g * b->n * b->n;
    const float *w = b->weights->reference;
    for (int64_t k = 0; k < b->n; k++) {
        const int64_t at = place(b, g, o, k);
        e[k] = (double)w[at] / (double)*scale - q[at];
    }
    for (int64_t i = 0; i < b->n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < b->n; k++) sum += (double)covariance[i * b->n + k] * e[k];
        slope[i] = sum;
    }
    bool changed = true;
    for (int sweep = 0; sweep < SWEEPS && changed; sweep++) {
        changed = false;
        for (int64_t k = 0; k < b->n; k++) {
            const float *row = covariance + k * b->n;
            const int d = slope[k] > 0 ? 1 : -1;
            const int64_t at = place(b, g, o, k);
            if (q[at] >= 127 || q[at] <= -127 || q[at] + d >= 127 || q[at] + d <= -127) continue;
            if (fabs(e[k] - d) >= 1 || 2 * fabs(slope[k]) <= (double)row[k] * (1 + 1e-6)) continue;
            q[at] = (int8_t)(q[at] + d);
            e[k] -= d;
            for (int64_t i = 0; i < b->n; i++) slope[i] -= d * (double)row[i];
            changed = true;
        }
    }
}

static qb_status round_channel(qb_ctx *cx, const block *b, int64_t g, int64_t o) {
    const int64_t channel = (b->group + g) * b->weights->layer.n_out + o;
    const float *scale = &b->weights->scale[channel];
    double sum = 0;
    QB_FREED double *e = QB_NEW(cx, qb_alloc(cx, 2 * (size_t)b->n, sizeof *e));
    descend(b, g, o, scale, b->q, e, e + b->n);
    for (int64_t k = 0; k < b->n; k++) sum += e[k] * b->mean[g * b->n + k];
    b->shift[channel] += sum * (double)*scale;
    return QB_OK;
}

/* One group: rows of its covariance and channels are shared out among the workers. */
static qb_status correlate_row(qb_ctx *cx, void *user, int32_t worker, int32_t i) {
    (void)cx, (void)worker;
    correlate(user, 0, i);
    return QB_OK;
}

static qb_status round_one(qb_ctx *cx, void *user, int32_t worker, int32_t o) {
    (void)worker;
    return round_channel(cx, user, 0, o);
}

/* Several: groups are. */
static qb_status round_group(qb_ctx *cx, void *user, int32_t worker, int32_t g) {
    (void)worker;
    const block *b = user;
    center(b, g);
    for (int64_t i = 0; i < b->n; i++) correlate(b, g, i);
    complete(b, g);
    for (int64_t o = 0; o < b->weights->layer.n_out; o++) QB_TRY(round_channel(cx, b, g, o));
    return QB_OK;
}

static qb_status round_block(qb_ctx *cx, block *b) {
    const size_t n = (size_t)b->n, groups = (size_t)b->n_groups;
    qb_status status = QB_OK;
    QB_GO_NEW(cx, b->x = qb_alloc_aligned(cx, groups * (size_t)b->rows * n, sizeof *b->x));
    QB_GO_NEW(cx, b->mean = qb_alloc(cx, groups * n, sizeof *b->mean));
    QB_GO_NEW(cx, b->covariance = qb_alloc_aligned(cx, groups * n * n, sizeof *b->covariance));
    QB_GO(qb_each(cx, b->layer->n_samples, gather, b));
    if (b->n_groups > 1) {
        QB_GO(qb_each(cx, (int32_t)b->n_groups, round_group, b));
    } else {
        center(b, 0);
        QB_GO(qb_each(cx, (int32_t)n, correlate_row, b));
        complete(b, 0);
        QB_GO(qb_each(cx, (int32_t)b->weights->layer.n_out, round_one, b));
    }
out:
    QB_FREE_ALL(b->x, b->mean, b->covariance);
    return status;
}

static qb_status round_layer(qb_ctx *cx, qb_recover_state *state, block *b) {
    const qb_layer *l = &b->weights->layer;
    const qb_patches *p = &b->weights->patches;
    const int64_t size = p->n_in * p->taps, outputs = qb_layer_outputs(l);
    for (b->first = 0; b->first < size; b->first += BLOCK) {
        b->n = size - b->first < BLOCK ? size - b->first : BLOCK;
        const int64_t wanted = 2 * b->n > LEAST_ROWS ? 2 * b->n : LEAST_ROWS;
        const int64_t each = (wanted + b->layer->n_samples - 1) / b->layer->n_samples;
        b->each = each < p->positions ? each : p->positions;
        b->rows = b->each * b->layer->n_samples;
        const int64_t fit = MOST_ELEMENTS / (b->n * (b->rows + b->n));
        for (b->group = 0; b->group < p->groups; b->group += b->n_groups) {
            const int64_t left = p->groups - b->group, some = fit > 1 ? fit : 1;
            b->n_groups = some < left ? some : left;
            QB_TRY(round_block(cx, b));
        }
    }
    QB_TRY(qb_layer_weights_set(cx, state, b->layer, b->weights, b->q));
    if (!b->weights->can_shift) return QB_OK;
    QB_FREED float *bias = QB_NEW(cx, qb_alloc(cx, (size_t)outputs, sizeof *bias));
    for (int64_t o = 0; o < outputs; o++)
        bias[o] = (float)((double)b->weights->bias[o] + b->shift[o]);
    return qb_layer_weights_set_bias(cx, state, b->layer, b->weights, bias);
}

typedef struct work {
    qb_recover_state *state;
    int32_t changed;
} work;

static qb_status before(qb_ctx *cx, void *user, qb_replay_layer *layer) {
    work *job = user;
    QB_RELEASED(qb_layer_weights_release) qb_layer_weights w = {0};
    bool known;
    QB_TRY(qb_layer_weights_of(cx, job->state, layer, &w, &known));
    if (!known) return QB_OK;
    const size_t outputs = (size_t)qb_layer_outputs(&w.layer);
    QB_FREED double *shift = QB_NEW(cx, qb_alloc(cx, outputs, sizeof *shift));
    block b = {.layer = layer,
               .weights = &w,
               .most = (size_t)qb_shape_count(&layer->quantized->values[layer->input].shape),
               .q = w.q,
               .shift = shift};
    if (!w.has_patches) return QB_OK;
    job->changed++;
    return round_layer(cx, job->state, &b);
}

static qb_status run(qb_ctx *cx, qb_recover_state *state, int32_t *changed) {
    work w = {.state = state};
    QB_TRY(qb_recover_replay(cx, state, (qb_replay_options){.before = before, .user = &w}));
    *changed = w.changed;
    return QB_OK;
}

const qb_recovery qb_recovery_rounding = {
    .name = "rounding",
    .summary = "weights are rounded to where the layer's error is least (AdaRound's aim)",
    .phase = QB_RECOVER_LAYERS,
    .run = run,
};
