/* Recurrent layers: the products of all steps with W are one matrix product, then a step adds those
 * with R and runs the cells.
 *
 * Units are padded to whole vectors; what is padded has weights and states of zero. A task of a
 * step is a block of units in one direction with all gates that a pass computes, so that nothing
 * but h goes from thread to thread; GRU without linear_before_reset takes two passes, as its last
 * gate's product needs the reset gates of all units.
 *
 * Order of summation: products with h in chains of QB_REC_CHAIN at most, an even number of them,
 * whose sums are added in order. It depends on the number of hidden units alone, so results are the
 * same bits for any batch, neighbours and threads. */
#ifndef QB_CPU_RECURRENT_INTERNAL_H
#define QB_CPU_RECURRENT_INTERNAL_H

#include "conv_internal.h"

#define QB_REC_LANES 16  /* units of a vector, also in portable code */
#define QB_REC_ROWS 12   /* most items of the batch that share a walk over the weights */
#define QB_REC_VECTORS 4 /* most vectors of a block: gates times vectors of units */
#define QB_REC_CHAIN 128

/* sums [rows][vectors][lanes] = left [rows][k] times panels [vectors][k][lanes] */
typedef struct qb_rec_product {
    int rows, vectors;
    int64_t k;
    const float *panel;
    const float *left[QB_REC_ROWS];
    float *sums;
} qb_rec_product;

/* Length of a chain and number of pairs of chains for k terms. */
static inline int64_t qb_rec_pairs(int64_t k) { return qb_ceil64(k, (int64_t)2 * QB_REC_CHAIN); }
static inline int64_t qb_rec_chain(int64_t k) { return qb_ceil64(k, 2 * qb_rec_pairs(k)); }

/* Units [at, at + n) of one item in one direction, where a pass ends. States are the item's own. */
typedef struct qb_rec_units {
    const qb_recurrence *layer;
    const qb_act *act; /* of the direction */
    int64_t at, n, padded;
    const float *sums;      /* [gates of the pass][n]: products with h */
    const float *x;         /* [gates][padded]: products with x, and biases */
    const float *peephole;  /* LSTM: [i, o, f][padded]; NULL: none */
    const float *last_bias; /* GRU, linear_before_reset: of the last gate's product with h */
    const float *h;
    float *h_next;
    float *c;     /* LSTM: cell state; GRU of two passes: update gates between them */
    float *reset; /* GRU of two passes: reset gates times h */
} qb_rec_units;

typedef void (*qb_rec_cell_fn)(const qb_rec_units *u);

typedef struct qb_rec_arch {
    const qb_conv_arch *projection;
    void (*product)(const qb_rec_product *p);
    qb_rec_cell_fn rnn, lstm, gru; /* gru: linear_before_reset */
    qb_rec_cell_fn gru_gates, gru_last;
} qb_rec_arch;

extern const qb_rec_arch qb_rec_avx512, qb_rec_avx2, qb_rec_sse2, qb_rec_generic;

typedef struct qb_rec_pass {
    int32_t first_gate, gates, width; /* width: units of a block */
    bool of_reset;                    /* the left operand is `reset` and not h */
    int64_t blocks;
    size_t panels; /* offset in packed: [directions][blocks][gates][width / lanes][hidden][lanes] */
    qb_rec_cell_fn cell;
} qb_rec_pass;

typedef struct qb_rec_plan {
    const qb_rec_arch *arch;
    qb_recurrence layer;
    int64_t steps, batch, inputs, hidden, padded, gates, directions;
    int threads;
    qb_kernel *projection; /* [steps batch, inputs] W + biases, packed at the start of `packed` */
    int n_passes;
    qb_rec_pass pass[2];
    size_t last_bias,
        peephole; /* offsets in packed: [directions][padded], [directions][3][padded] */
    /* Offsets in the workspace. */
    size_t x, h[2], c, reset, active;
} qb_rec_plan;

/* recurrent_pack.c */
qb_status qb_rec_pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed);
/* recurrent_run.c */
qb_status qb_rec_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args);

/* recurrent.c: what both tactics share. */
bool qb_rec_supports(const qb_problem *p, const bool *constant);
qb_status qb_rec_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, const qb_rec_arch *arch,
                        qb_kernel **out);

#endif
