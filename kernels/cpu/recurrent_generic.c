/* Recurrent layers in plain C. */
#include "recurrent_internal.h"

#define V float
#define LANES 1
#define ATTR static
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SET(v) ((float)(v))
#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))
#define APPLY(act, x) qb_act_apply(act, x)

/* One chain of a row after another; all columns of a panel at once. */
static void product(const qb_rec_product *p) {
    const int64_t columns = (int64_t)p->vectors * QB_REC_LANES, chain = qb_rec_chain(p->k);
    for (int r = 0; r < p->rows; r++) {
        float *total = p->sums + r * columns;
        for (int64_t c = 0; c < columns; c++) total[c] = 0;
        for (int64_t first = 0; first < p->k; first += chain) {
            const int64_t end = qb_min64(first + chain, p->k);
            float sum[QB_REC_VECTORS * QB_REC_LANES] = {0};
            for (int64_t k = first; k < end; k++)
                for (int64_t c = 0; c < columns; c++)
                    sum[c] += p->left[r][k] * p->panel[k * columns + c];
            for (int64_t c = 0; c < columns; c++) total[c] += sum[c];
        }
    }
}

#include "recurrent_cells.inc"
REC_ARCH(qb_rec_generic, qb_conv_f32_generic)

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_rec_create(cx, tactic, p, constant, threads, &qb_rec_generic, out);
}

const qb_tactic qb_tactic_cpu_recurrent_generic = {.name = "cpu.recurrent_f32.generic",
                                                   .backend = "cpu",
                                                   .kind = QB_KIND_RECURRENT,
                                                   .exactness = QB_EXACT,
                                                   .supports = qb_rec_supports,
                                                   .create = create};
