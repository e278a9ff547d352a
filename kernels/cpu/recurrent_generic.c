/* Recurrent layers in plain C. */
#include "recurrent_internal.h"

#define V float
#define LANES 1
#define ATTR static inline
#define CELL_ATTR
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SET(v) ((float)(v))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define APPLY(act, kind, x) apply(act, kind, x)

static float apply(qb_act act, qb_act_kind kind, float x) {
    act.kind = kind;
    return qb_act_apply(act, x);
}

/* One chain of a row after another; the columns of a panel at once. */
static void product_row(const float *left, const float *panel, int64_t n, float *total) {
    const int64_t chain = qb_rec_chain(n);
    for (int c = 0; c < QB_REC_LANES; c++) total[c] = 0;
    for (int64_t first = 0; first < n; first += chain) {
        const int64_t end = qb_min64(first + chain, n);
        float sum[QB_REC_LANES] = {0};
        for (int64_t k = first; k < end; k++)
            for (int c = 0; c < QB_REC_LANES; c++) sum[c] += left[k] * panel[k * QB_REC_LANES + c];
        for (int c = 0; c < QB_REC_LANES; c++) total[c] += sum[c];
    }
}

static void product(const qb_rec_product *p) {
    for (int r = 0; r < p->rows; r++)
        for (int v = 0; v < p->vectors; v++)
            product_row(p->left[r], p->panel + v * p->k * QB_REC_LANES, p->k,
                        p->sums + (r * p->vectors + v) * QB_REC_LANES);
}

#include "recurrent_cells.inc"
REC_ARCH(qb_rec_generic, qb_conv_f32_generic)

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_rec_create(cx, tactic, p, constant, threads, &qb_rec_generic, out);
}

QB_TACTIC(cpu_recurrent_generic, "cpu.recurrent_f32.generic", "cpu", QB_KIND_RECURRENT, QB_EXACT,
          qb_rec_supports, create);
