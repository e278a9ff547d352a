/* What LSTM, GRU and RNN share: attributes, activations, products, the walk over time. */
#ifndef QB_RECURRENT_INTERNAL_H
#define QB_RECURRENT_INTERNAL_H

#include "ops_internal.h"

typedef struct qb_recurrent_attrs {
    qb_strings activations;
    qb_floats activation_alpha, activation_beta;
    float clip; /* infinite: none */
    const char *direction;
    int64_t hidden_size; /* 0: that of the recurrent weight */
    int64_t layout, input_forget, linear_before_reset;
} qb_recurrent_attrs;

/* Inputs in ONNX's order. */
enum {
    QB_REC_X,
    QB_REC_W,
    QB_REC_R,
    QB_REC_B,
    QB_REC_LENGTHS,
    QB_REC_H,
    QB_REC_C,       /* LSTM */
    QB_REC_P,       /* LSTM: peepholes */
    QB_REC_W_SCALE, /* DynamicQuantizeLSTM */
    QB_REC_W_ZERO,
    QB_REC_R_SCALE,
    QB_REC_R_ZERO
};

typedef struct qb_rec_act {
    float (*apply)(float x, float alpha, float beta);
    float alpha, beta;
    qb_act_kind kind; /* the same for kernels; NONE: they have it not */
} qb_rec_act;

#define QB_REC_ACTS 3 /* f, g and h of a direction */

/* The functions of all directions, `each` a direction; alpha and beta go in order to those that
 * have one. Unknown names and a wrong number are errors. */
qb_status qb_rec_acts(qb_ctx *cx, const qb_recurrent_attrs *attrs, const char *const *usual,
                      int32_t each, int32_t directions, qb_rec_act *acts);

/* A matrix [k, n] that a [rows, k] one is multiplied by. Quantized values: `scale` has one for each
 * column. */
typedef struct qb_rec_matrix {
    const float *data; /* values, or quantized values minus their zero point */
    const float *scale;
    int64_t k, n;
} qb_rec_matrix;

/* Sizes and memory of one run; the cells work on one direction at a time. */
typedef struct qb_rec {
    int64_t steps, batch, inputs, hidden, gates, directions;
    const qb_recurrent_attrs *attrs;
    int threads;
    /* Of the direction at work. */
    const qb_rec_act *act;
    qb_rec_matrix w, r, r_last;              /* r_last: GRU's last gate, whose factor is another */
    const float *w_bias, *r_bias, *peephole; /* NULL: none */
    float *input;                            /* [steps, batch, gates * hidden]: X W + biases */
    float *sums;                             /* [batch, gates * hidden] of the step */
    float *h, *c;                            /* state: [batch, hidden] */
    float *reset;                            /* [batch, hidden]: GRU's r * h */
    float *q_operands;                       /* quantized left operands */
} qb_rec;

/* out [rows, m.n] = left [rows, m.k] m. With quantized values the left operand is quantized by its
 * own range, as DynamicQuantizeLinear does. */
void qb_rec_multiply(const qb_rec *r, const float *left, int64_t rows, const qb_rec_matrix *m,
                     float *out);
float qb_rec_clip(const qb_rec *r, float x);

/* A kind of cell: LSTM, GRU, RNN. */
typedef struct qb_rec_cell {
    int32_t gates, n_acts;
    const char *const *acts; /* usual functions */
    bool has_cell_state;
    bool last_apart; /* the last gate's recurrent product stands alone */
    /* The products with h of a step, for all of the batch. */
    void (*products)(const qb_rec *r);
    /* One item of the batch: from its gates' sums (input: X W + biases of the step) to h and c. */
    void (*step)(const qb_rec *r, int64_t item, const float *input);
} qb_rec_cell;

qb_status qb_rec_infer(qb_ctx *cx, const qb_infer_args *args, const qb_rec_cell *cell);
qb_status qb_rec_eval(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out,
                      const qb_rec_cell *cell);

#endif
