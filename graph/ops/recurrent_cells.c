/* LSTM, GRU and RNN: what a cell computes, and the operators' rows. */
#include <math.h>

#include "recurrent_internal.h"

static float run_act(const qb_rec *r, int32_t i, float x) {
    return r->act[i].apply(qb_rec_clip(r, x), r->act[i].alpha, r->act[i].beta);
}

/* Where h is quantized every item has its own range: it must not depend on its neighbours. */
static void all_products(const qb_rec *r) {
    const int64_t rows = r->r.scale ? 1 : r->batch;
    for (int64_t b = 0; b < r->batch; b += rows)
        qb_rec_multiply(r, r->h + b * r->hidden, rows, &r->r, r->sums + b * r->r.n);
}

/* --- LSTM ---------------------------------------------------------------------------------------
 * Gates in the order i, o, f, c:
 *   i = f(x_i + Pi c)  f = f(x_f + Pf c)  g = g(x_c)  c' = f c + i g  o = f(x_o + Po c')  h' = o
 * h(c') with x_* = X W + h R + biases; input_forget: f = 1 - i. */

static void lstm_step(const qb_rec *r, int64_t item, const float *input) {
    const int64_t n = r->hidden;
    const float *sums = r->sums + item * 4 * n, *p = r->peephole;
    float *h = r->h + item * n, *c = r->c + item * n;
    for (int64_t k = 0; k < n; k++) {
        float x[4];
        for (int64_t g = 0; g < 4; g++) x[g] = input[g * n + k] + sums[g * n + k];
        const float i = run_act(r, 0, x[0] + (p ? p[k] * c[k] : 0));
        const float f =
            r->attrs->input_forget ? 1 - i : run_act(r, 0, x[2] + (p ? p[2 * n + k] * c[k] : 0));
        c[k] = f * c[k] + i * run_act(r, 1, x[3]);
        const float o = run_act(r, 0, x[1] + (p ? p[n + k] * c[k] : 0));
        h[k] = o * r->act[2].apply(c[k], r->act[2].alpha, r->act[2].beta);
    }
}

static const char *const lstm_acts[] = {"Sigmoid", "Tanh", "Tanh"};
static const qb_rec_cell lstm_cell = {
    .gates = 4,
    .n_acts = 3,
    .acts = lstm_acts,
    .has_cell_state = true,
    .products = all_products,
    .step = lstm_step,
};

/* --- GRU ----------------------------------------------------------------------------------------
 * Gates in the order z, r, h:
 *   z = f(x_z + h Rz)  r = f(x_r + h Rr)  g = g(x_h + (r h) Rh)  h' = (1 - z) g + z h
 * linear_before_reset: g = g(x_h + r (h Rh + Rbh)). */

static void gru_products(const qb_rec *r) {
    const int64_t n = r->hidden;
    float *last = r->sums + r->batch * 2 * n;
    qb_rec_multiply(r, r->h, r->batch, &r->r, r->sums);
    if (r->attrs->linear_before_reset) qb_rec_multiply(r, r->h, r->batch, &r->r_last, last);
}

static void gru_step(const qb_rec *r, int64_t item, const float *input) {
    const int64_t n = r->hidden;
    const float *sums = r->sums + item * 2 * n;
    float *h = r->h + item * n, *reset = r->reset + item * n;
    float *last = r->sums + r->batch * 2 * n + item * n;
    const bool after = r->attrs->linear_before_reset != 0;
    for (int64_t k = 0; k < n; k++) reset[k] = run_act(r, 0, input[n + k] + sums[n + k]);
    if (!after) {
        for (int64_t k = 0; k < n; k++) reset[k] *= h[k];
        qb_rec_multiply(r, reset, 1, &r->r_last, last);
    }
    for (int64_t k = 0; k < n; k++) {
        const float z = run_act(r, 0, input[k] + sums[k]);
        const float bias = after && r->r_bias ? r->r_bias[2 * n + k] : 0;
        const float g =
            run_act(r, 1, input[2 * n + k] + (after ? reset[k] * (last[k] + bias) : last[k]));
        h[k] = (1 - z) * g + z * h[k];
    }
}

static const char *const gru_acts[] = {"Sigmoid", "Tanh"};
static const qb_rec_cell gru_cell = {
    .gates = 3,
    .n_acts = 2,
    .acts = gru_acts,
    .last_apart = true,
    .products = gru_products,
    .step = gru_step,
};

/* --- RNN: h' = f(X W + h R + biases) --------------------------------------------------------- */

static void rnn_step(const qb_rec *r, int64_t item, const float *input) {
    const int64_t n = r->hidden;
    const float *sums = r->sums + item * n;
    for (int64_t k = 0; k < n; k++) r->h[item * n + k] = run_act(r, 0, input[k] + sums[k]);
}

static const char *const rnn_acts[] = {"Tanh"};
static const qb_rec_cell rnn_cell = {
    .gates = 1, .n_acts = 1, .acts = rnn_acts, .products = all_products, .step = rnn_step};

/* --- rows ------------------------------------------------------------------------------------- */

#define A qb_recurrent_attrs
#define SHARED_ATTRS                                                                               \
    {.name = "activations", .type = QB_ATTR_STRINGS, .offset = offsetof(A, activations)},          \
        {.name = "activation_alpha",                                                               \
         .type = QB_ATTR_FLOATS,                                                                   \
         .offset = offsetof(A, activation_alpha)},                                                 \
        {.name = "activation_beta",                                                                \
         .type = QB_ATTR_FLOATS,                                                                   \
         .offset = offsetof(A, activation_beta)},                                                  \
        QB_A_FLOAT(A, clip, "clip", INFINITY), QB_A_STRING(A, direction, "direction", "forward"),  \
        QB_A_INT(A, hidden_size, "hidden_size", 0, 0, QB_ATTR_BIG)

QB_ATTRS(lstm_attrs, SHARED_ATTRS, QB_A_INT(A, layout, "layout", 0, 0, 1),
         QB_A_INT(A, input_forget, "input_forget", 0, 0, 1));
QB_ATTRS(gru_attrs, SHARED_ATTRS, QB_A_INT(A, layout, "layout", 0, 0, 1),
         QB_A_INT(A, linear_before_reset, "linear_before_reset", 0, 0, 1));
QB_ATTRS(rnn_attrs, SHARED_ATTRS, QB_A_INT(A, layout, "layout", 0, 0, 1));
QB_ATTRS(quantized_attrs, SHARED_ATTRS, QB_A_INT(A, input_forget, "input_forget", 0, 0, 1));
#undef A

#define CELL(NAME)                                                                                 \
    static qb_status infer_##NAME(qb_ctx *cx, const qb_infer_args *args) {                         \
        return qb_rec_infer(cx, args, &NAME##_cell);                                               \
    }                                                                                              \
    static qb_status eval_##NAME(qb_ctx *cx, const qb_node *node, const qb_tensor *in,             \
                                 qb_tensor *out) {                                                 \
        QB_EVAL_IN_F32(eval_##NAME);                                                               \
        return qb_rec_eval(cx, node, in, out, &NAME##_cell);                                       \
    }
CELL(lstm)
CELL(gru)
CELL(rnn)

bool qb_node_cell_acts(const qb_node *node, int64_t directions, qb_act *acts) {
    static const qb_rec_cell *const cells[] = {
        [QB_CELL_RNN] = &rnn_cell, [QB_CELL_GRU] = &gru_cell, [QB_CELL_LSTM] = &lstm_cell};
    const qb_rec_cell *cell = cells[node->op->kernel.cell];
    const int32_t n = cell->n_acts * (int32_t)directions;
    qb_rec_act own[2 * QB_REC_ACTS];
    qb_ctx cx;
    qb_ctx_init(&cx);
    bool known =
        qb_rec_acts(&cx, node->attrs, cell->acts, cell->n_acts, (int32_t)directions, own) == QB_OK;
    qb_ctx_clear(&cx);
    for (int32_t i = 0; known && i < n; i++) {
        acts[i / cell->n_acts * QB_CELL_ACTS + i % cell->n_acts] =
            (qb_act){own[i].kind, own[i].alpha, own[i].beta};
        known = own[i].kind != QB_ACT_NONE;
    }
    return known;
}

/* The first output may be left out, too. */
#define ROW(SYMBOL, NAME, INPUTS, OUTPUTS, CELL)                                                   \
    const qb_op qb_op_##SYMBOL = {.name = NAME,                                                    \
                                  .domain = "",                                                    \
                                  .since = 7,                                                      \
                                  .min_in = 3,                                                     \
                                  .max_in = INPUTS,                                                \
                                  .min_out = 0,                                                    \
                                  .max_out = OUTPUTS,                                              \
                                  .attr_size = sizeof(qb_recurrent_attrs),                         \
                                  .attrs = SYMBOL##_attrs,                                         \
                                  .qrule = QB_QRULE_FLOAT,                                         \
                                  .weight_input = -1,                                              \
                                  .infer = infer_##SYMBOL,                                         \
                                  .eval = eval_##SYMBOL,                                           \
                                  .types = QB_TYPES_FLOATS,                                        \
                                  .kernel = {QB_KIND_RECURRENT, .cell = CELL}}
ROW(lstm, "LSTM", 8, 3, QB_CELL_LSTM);
ROW(gru, "GRU", 6, 2, QB_CELL_GRU);
ROW(rnn, "RNN", 6, 2, QB_CELL_RNN);

/* LSTM with 8-bit weights [directions, inputs, 4 hidden]; what they are multiplied by is quantized
 * at run time. */
static qb_status infer_dynamic(qb_ctx *cx, const qb_infer_args *args) {
    for (int32_t i = QB_REC_W_SCALE; i <= QB_REC_R_ZERO; i++)
        if (!qb_infer_in(args, i)) return qb_fail(cx, QB_STATUS_INVALID, "input %d: left out", i);
    return infer_lstm(cx, args);
}

const qb_op qb_op_dynamic_quantize_lstm = {
    .name = "DynamicQuantizeLSTM",
    .domain = "com.microsoft",
    .since = 1,
    .min_in = 3,
    .max_in = 12,
    .min_out = 0,
    .max_out = 3,
    .attr_size = sizeof(qb_recurrent_attrs),
    .attrs = quantized_attrs,
    .qrule = QB_QRULE_FLOAT,
    .weight_input = -1,
    .infer = infer_dynamic,
    .eval = eval_lstm,
    .types = "f32",
    .traits = QB_TRAIT_INTEGERS,
};
