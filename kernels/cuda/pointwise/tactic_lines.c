/* Sums so far and places of extremes along a dimension as tactics. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/lines.h"

#define SHORT 64        /* elements that a thread looks at alone */
#define SIDE_BY_SIDE 32 /* lines whose neighbours a warp reads together */
#define WARP 32

static bool lower_lines(const qb_problem *p, qb_cuda_lines *l) {
    const qb_desc *x = &p->in[0];
    *l = (qb_cuda_lines){.outer = 1, .inner = 1, .dtype = QB_DTYPE_NONE};
    if (p->n_in != 1 || !qb_cuda_is_row(x) || !qb_cuda_is_row(&p->out)) return false;
    for (int32_t d = 0; d < x->shape.rank; d++) {
        if (d < p->axis) l->outer *= (uint32_t)x->shape.dim[d];
        if (d > p->axis) l->inner *= (uint32_t)x->shape.dim[d];
    }
    l->n = (uint32_t)x->shape.dim[p->axis];
    l->k = p->out.shape.rank == x->shape.rank ? (uint32_t)p->out.shape.dim[p->axis] : 1;
    l->together = l->n <= SHORT ? 1 : WARP;
    return true;
}

/* ---- SCAN ------------------------------------------------------------------------------------ */

static bool lower_scan(const qb_problem *p, qb_cuda_lines *l) {
    const qb_dtype type = p->out.dtype;
    if (p->kind != QB_KIND_SCAN || !lower_lines(p, l)) return false;
    l->first = p->scan.exclusive;
    l->second = p->scan.reverse;
    if (type == QB_DTYPE_S32 || type == QB_DTYPE_S64) {
        l->dtype = (int32_t)type;
        return p->in[0].dtype == type;
    }
    return qb_cuda_value_of(&p->in[0], &l->in) && qb_cuda_value_of(&p->out, &l->out);
}

static bool cuda_scan_supports(const qb_problem *problem, const bool *constant) {
    qb_cuda_lines l;
    (void)constant;
    return lower_scan(problem, &l);
}

static qb_status launch_scan(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_scan_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_scan_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                  const bool *constant, int threads, qb_kernel **out) {
    qb_cuda_lines l;
    (void)constant, (void)threads;
    if (!lower_scan(problem, &l))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this problem", tactic->name);
    QB_TRY(qb_cuda_create_row(cx, tactic, problem, &l, sizeof l, out));
    (*out)->launch = launch_scan;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_scan, "scan", QB_KIND_SCAN, QB_WITHIN_1_LSB);

/* ---- ARG ------------------------------------------------------------------------------------- */

static bool lower_arg(const qb_problem *p, qb_cuda_lines *l) {
    if (p->kind != QB_KIND_ARG || !lower_lines(p, l) || p->out.dtype != QB_DTYPE_S64) return false;
    l->first = p->extreme.smallest;
    l->second = p->extreme.last;
    if (l->inner >= SIDE_BY_SIDE) l->together = 1;
    return l->n > 0 && qb_cuda_value_of(&p->in[0], &l->in);
}

static bool cuda_arg_supports(const qb_problem *problem, const bool *constant) {
    qb_cuda_lines l;
    (void)constant;
    return lower_arg(problem, &l) && l.k == 1;
}

static qb_status launch_arg(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_arg_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_arg_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                 const bool *constant, int threads, qb_kernel **out) {
    qb_cuda_lines l;
    (void)constant, (void)threads;
    if (!lower_arg(problem, &l) || l.k != 1)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this problem", tactic->name);
    QB_TRY(qb_cuda_create_row(cx, tactic, problem, &l, sizeof l, out));
    (*out)->launch = launch_arg;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_arg, "arg", QB_KIND_ARG, QB_EXACT);

/* ---- ARG of several -------------------------------------------------------------------------- */

static bool lower_first(const qb_problem *p, qb_cuda_lines *l) {
    return lower_arg(p, l) && !p->extreme.last && l->k <= l->n && l->k <= QB_CUDA_FIRST_MOST;
}

static bool cuda_arg_first_supports(const qb_problem *problem, const bool *constant) {
    qb_cuda_lines l;
    (void)constant;
    return lower_first(problem, &l);
}

static qb_status launch_first(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_first_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_arg_first_create(qb_ctx *cx, const qb_tactic *tactic,
                                       const qb_problem *problem, const bool *constant, int threads,
                                       qb_kernel **out) {
    qb_cuda_lines l;
    (void)constant, (void)threads;
    if (!lower_first(problem, &l))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this problem", tactic->name);
    QB_TRY(qb_cuda_create_row(cx, tactic, problem, &l, sizeof l, out));
    (*out)->launch = launch_first;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_arg_first, "arg_first", QB_KIND_ARG, QB_EXACT);
