#include "tactic.h"

#include <string.h>

#define QB_TACTIC_ROW(symbol) extern const qb_tactic qb_tactic_##symbol;
#include "kernels/tactics.def"

static const qb_tactic *const all_tactics[] = {
#define QB_TACTIC_ROW(symbol) &qb_tactic_##symbol,
#include "kernels/tactics.def"
    NULL};

const qb_tactic *const *qb_tactics(void) { return all_tactics; }

const qb_tactic *qb_tactic_find(const char *name) {
    for (const qb_tactic *const *t = all_tactics; *t; t++)
        if (strcmp((*t)->name, name) == 0) return *t;
    return NULL;
}

bool qb_tactic_takes(const qb_tactic *tactic, const qb_problem *problem, const bool *constant) {
    return tactic->kind == problem->kind &&
           (problem->rounding.dtype == QB_DTYPE_NONE || tactic->rounds) &&
           tactic->supports(problem, constant);
}

/* Copies the scales and zero points behind `next`, which is where the next ones go. */
static char *copy_params(qb_qparams *q, char *next) {
    if (q->n <= 0) return next;
    size_t bytes = (size_t)q->n * sizeof(float);
    q->scale = memcpy(next, q->scale, bytes);
    next += bytes;
    if (!q->zero) return next;
    q->zero = memcpy(next, q->zero, bytes);
    return next + bytes;
}

qb_status qb_kernel_alloc(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                          qb_kernel **out) {
    _Static_assert(sizeof(float) == sizeof(int32_t), "scales and zero points share a block");
    if (problem->n_in < 0 || problem->n_in > QB_MAX_INPUTS)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: expected at most %d inputs, got %d",
                       tactic->name, QB_MAX_INPUTS, problem->n_in);
    size_t descs = (size_t)problem->n_in * sizeof(qb_desc), params = 0;
    for (int32_t i = 0; i <= problem->n_in; i++) {
        const qb_qparams *q = i < problem->n_in ? &problem->in[i].q : &problem->out.q;
        if (q->n > 0) params += (size_t)q->n * 2 * sizeof(float);
    }
    qb_kernel *kernel = QB_NEW(cx, qb_alloc(cx, 1, sizeof *kernel + descs + params));
    kernel->tactic = tactic;
    kernel->problem = *problem;
    kernel->problem.compiled = NULL;
    kernel->in = (qb_desc *)(kernel + 1);
    if (descs > 0) memcpy(kernel->in, problem->in, descs);
    kernel->problem.in = kernel->in;
    char *next = (char *)kernel->in + descs;
    for (int32_t i = 0; i < problem->n_in; i++) next = copy_params(&kernel->in[i].q, next);
    copy_params(&kernel->problem.out.q, next);
    *out = kernel;
    return QB_OK;
}

qb_kernel *qb_kernel_share(qb_kernel *kernel) {
    kernel->more_owners++;
    return kernel;
}

void qb_kernel_free(qb_kernel *kernel) {
    if (!kernel || kernel->more_owners-- > 0) return;
    if (kernel->destroy) kernel->destroy(kernel);
    qb_free(kernel);
}
