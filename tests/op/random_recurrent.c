#include "random_recurrent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void give(random_case *c, int32_t i, bool constant, qb_shape shape) {
    c->in[i].dtype = i == QB_IN_LENGTHS ? QB_DTYPE_S32 : QB_DTYPE_F32;
    c->in[i].shape = shape;
    c->constant[i] = constant;
}

/* A gate that has no bound, times a state that has none, grows beyond any float in a few steps. */
static qb_act some_act(qb_rng *rng, bool bounded) {
    static const qb_act acts[] = {
        {QB_ACT_SIGMOID, 0, 0}, {QB_ACT_TANH, 0, 0},          {QB_ACT_HARD_SIGMOID, 0.3f, 0.4f},
        {QB_ACT_RELU, 0, 0},    {QB_ACT_LEAKY_RELU, 0.1f, 0}, {QB_ACT_ELU, 0.7f, 0}};
    static const int chances[] = {35, 35, 5, 15, 5, 5}; /* others than three are a device's */
    int i = 0;
    for (int64_t left = random_between(rng, 0, bounded ? 74 : 99); left >= chances[i]; i++)
        left -= chances[i];
    return acts[i];
}

static void choose_layer(qb_rng *rng, qb_recurrence *layer) {
    layer->cell = (qb_cell_kind)random_between(rng, QB_CELL_RNN, QB_CELL_LSTM);
    layer->reverse = random_chance(rng, 30);
    layer->batch_first = random_chance(rng, 40);
    layer->input_forget = random_chance(rng, 20);
    layer->linear_before_reset = random_chance(rng, 50);
    layer->clip = random_chance(rng, 30) ? 0.7f : 0;
    const bool usual = random_chance(rng, 60);
    for (int i = 0; i < 2 * QB_CELL_ACTS; i++) {
        const bool gate = i % QB_CELL_ACTS == 0 && layer->cell != QB_CELL_RNN;
        const qb_act_kind kind = gate ? QB_ACT_SIGMOID : QB_ACT_TANH;
        layer->act[i] = usual ? (qb_act){.kind = kind} : some_act(rng, gate && layer->clip == 0);
    }
}

void random_recurrent_make(qb_rng *rng, random_case *c) {
    qb_problem *p = &c->problem;
    qb_recurrence *layer = &p->recurrence;
    choose_layer(rng, layer);
    const int64_t steps = random_between(rng, 1, 7),
                  batch = random_between(rng, 1, random_chance(rng, 15) ? 40 : 9);
    const int64_t inputs = random_between(rng, 1, 20);
    const int64_t hidden = random_between(rng, 1, random_chance(rng, 20) ? 300 : 50);
    const int64_t ways = random_between(rng, 1, 2), n = qb_cell_gates(layer->cell) * hidden;
    const qb_shape state = layer->batch_first ? qb_shape_of(3, (int)batch, (int)ways, (int)hidden)
                                              : qb_shape_of(3, (int)ways, (int)batch, (int)hidden);
    const int first = (int)(layer->batch_first ? batch : steps);
    const int second = (int)(layer->batch_first ? steps : batch);
    give(c, QB_IN_X, false, qb_shape_of(3, first, second, (int)inputs));
    give(c, QB_IN_W, true, qb_shape_of(3, (int)ways, (int)n, (int)inputs));
    give(c, QB_IN_R, true, qb_shape_of(3, (int)ways, (int)n, (int)hidden));
    if (random_chance(rng, 60)) give(c, QB_IN_B, true, qb_shape_of(2, (int)ways, (int)(2 * n)));
    if (random_chance(rng, 40)) give(c, QB_IN_LENGTHS, false, qb_shape_of(1, (int)batch));
    if (random_chance(rng, 60)) give(c, QB_IN_H, random_chance(rng, 30), state);
    const bool lstm = layer->cell == QB_CELL_LSTM;
    if (lstm && random_chance(rng, 60)) give(c, QB_IN_C, false, state);
    if (lstm && random_chance(rng, 40))
        give(c, QB_IN_P, true, qb_shape_of(2, (int)ways, (int)(3 * hidden)));
    p->n_in = lstm ? QB_RECURRENT_INPUTS : QB_IN_C;
    p->out.dtype = QB_DTYPE_F32;
    p->out.shape = layer->batch_first ? qb_shape_of(4, first, second, (int)ways, (int)hidden)
                                      : qb_shape_of(4, first, (int)ways, second, (int)hidden);
}

void random_recurrent_finalize(qb_rng *rng, random_case *c) {
    const int64_t steps = c->in[QB_IN_X].shape.dim[c->problem.recurrence.batch_first ? 1 : 0];
    for (int32_t i = QB_IN_W; i <= QB_IN_R; i++) {
        const int64_t n = qb_shape_count(&c->in[i].shape), k = c->in[i].shape.dim[2];
        float *w = c->data[i];
        for (int64_t j = 0; j < n; j++) w[j] *= (i == QB_IN_W ? 2.0f : 0.5f) / sqrtf((float)k);
    }
    int32_t *length = c->data[QB_IN_LENGTHS];
    for (int64_t b = 0; length && b < c->in[QB_IN_LENGTHS].shape.dim[0]; b++)
        length[b] = (int32_t)random_between(rng, 0, steps);
}

/* One item in one direction. */
typedef struct item {
    const random_case *c;
    int64_t direction, number, hidden, inputs, gates, batch, steps, ways;
    double *h, *state, *sum_x, *sum_h; /* state: LSTM's c; sums: [gates][hidden] */
} item;

static const float *data_of(const item *t, int32_t i) { return t->c->data[i]; }

static double squash(const item *t, int which, double x, bool clipped) {
    const qb_recurrence *layer = &t->c->problem.recurrence;
    const qb_act act = layer->act[t->direction * QB_CELL_ACTS + which];
    if (clipped && layer->clip > 0) x = fmax(-(double)layer->clip, fmin((double)layer->clip, x));
    return (double)qb_act_apply(act, (float)x);
}

/* The products of row `row` of W and R, with their biases. */
static void sum_row(const item *t, const float *x, const double *h, int64_t row) {
    const int64_t rows = t->gates * t->hidden, at = t->direction * rows + row;
    const float *w = data_of(t, QB_IN_W), *r = data_of(t, QB_IN_R), *b = data_of(t, QB_IN_B);
    t->sum_x[row] = b ? (double)b[t->direction * 2 * rows + row] : 0;
    t->sum_h[row] = b ? (double)b[t->direction * 2 * rows + rows + row] : 0;
    for (int64_t k = 0; k < t->inputs; k++)
        t->sum_x[row] += (double)x[k] * (double)w[at * t->inputs + k];
    for (int64_t k = 0; k < t->hidden; k++) t->sum_h[row] += h[k] * (double)r[at * t->hidden + k];
}

static void lstm(const item *t) {
    const int64_t n = t->hidden;
    const float *p = data_of(t, QB_IN_P);
    if (p) p += t->direction * 3 * n;
    for (int64_t k = 0; k < n; k++) {
        double sum[4], c = t->state[k];
        for (int64_t g = 0; g < 4; g++) sum[g] = t->sum_x[g * n + k] + t->sum_h[g * n + k];
        const double i = squash(t, 0, sum[0] + (p ? (double)p[k] * c : 0), true);
        double f = squash(t, 0, sum[2] + (p ? (double)p[2 * n + k] * c : 0), true);
        if (t->c->problem.recurrence.input_forget) f = 1 - i;
        c = t->state[k] = f * c + i * squash(t, 1, sum[3], true);
        t->h[k] =
            squash(t, 0, sum[1] + (p ? (double)p[n + k] * c : 0), true) * squash(t, 2, c, false);
    }
}

static void gru(const item *t, const float *x) {
    const int64_t n = t->hidden;
    double *reset = t->state;
    for (int64_t k = 0; k < n; k++)
        reset[k] = squash(t, 0, t->sum_x[n + k] + t->sum_h[n + k], true);
    if (!t->c->problem.recurrence.linear_before_reset) {
        for (int64_t k = 0; k < n; k++) reset[k] *= t->h[k];
        for (int64_t k = 0; k < n; k++) sum_row(t, x, reset, 2 * n + k);
        for (int64_t k = 0; k < n; k++) reset[k] = 1;
    }
    for (int64_t k = 0; k < n; k++) {
        const double z = squash(t, 0, t->sum_x[k] + t->sum_h[k], true);
        const double g = squash(t, 1, t->sum_x[2 * n + k] + reset[k] * t->sum_h[2 * n + k], true);
        t->h[k] = (1 - z) * g + z * t->h[k];
    }
}

static void run_item(const item *t) {
    const qb_recurrence *layer = &t->c->problem.recurrence;
    const int32_t *lengths = t->c->data[QB_IN_LENGTHS];
    const int64_t length = lengths ? lengths[t->number] : t->steps, n = t->hidden;
    const bool back = t->direction == 1 || layer->reverse, first = layer->batch_first;
    for (int64_t s = 0; s < length; s++) {
        const int64_t step = back ? length - 1 - s : s;
        const int64_t row = first ? t->number * t->steps + step : step * t->batch + t->number;
        const int64_t out = first ? row * t->ways + t->direction
                                  : (step * t->ways + t->direction) * t->batch + t->number;
        const float *x = data_of(t, QB_IN_X) + row * t->inputs;
        for (int64_t i = 0; i < t->gates * n; i++) sum_row(t, x, t->h, i);
        if (layer->cell == QB_CELL_LSTM) lstm(t);
        if (layer->cell == QB_CELL_GRU) gru(t, x);
        for (int64_t k = 0; layer->cell == QB_CELL_RNN && k < n; k++)
            t->h[k] = squash(t, 0, t->sum_x[k] + t->sum_h[k], true);
        for (int64_t k = 0; k < n; k++) ((float *)t->c->expected)[out * n + k] = (float)t->h[k];
    }
}

static void load(const item *t, int32_t i, double *to) {
    const bool first = t->c->problem.recurrence.batch_first;
    const int64_t at =
        first ? t->number * t->ways + t->direction : t->direction * t->batch + t->number;
    for (int64_t k = 0; k < t->hidden; k++)
        to[k] = data_of(t, i) ? (double)data_of(t, i)[at * t->hidden + k] : 0;
}

void random_recurrent_reference(random_case *c) {
    const qb_recurrence *layer = &c->problem.recurrence;
    const qb_shape *x = &c->in[QB_IN_X].shape, *r = &c->in[QB_IN_R].shape;
    item t = {.c = c,
              .hidden = r->dim[2],
              .inputs = x->dim[2],
              .gates = qb_cell_gates(layer->cell),
              .batch = x->dim[layer->batch_first ? 0 : 1],
              .steps = x->dim[layer->batch_first ? 1 : 0],
              .ways = r->dim[0]};
    double *memory = calloc((size_t)(t.hidden * (2 + 2 * t.gates)), sizeof *memory);
    memset(c->expected, 0, qb_desc_bytes(&c->problem.out));
    t.h = memory;
    t.state = memory + t.hidden;
    t.sum_x = memory + 2 * t.hidden;
    t.sum_h = t.sum_x + t.gates * t.hidden;
    for (t.direction = 0; memory && t.direction < t.ways; t.direction++)
        for (t.number = 0; t.number < t.batch; t.number++) {
            load(&t, QB_IN_H, t.h);
            load(&t, QB_IN_C, t.state);
            run_item(&t);
        }
    free(memory);
}
