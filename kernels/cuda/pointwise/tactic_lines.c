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

static qb_status launch_scan(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_scan_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_scan, "scan", QB_KIND_SCAN, QB_WITHIN_1_LSB, qb_cuda_lines,
                           lower_scan, launch_scan, NULL);

/* ---- ARG ------------------------------------------------------------------------------------- */

static bool lower_arg(const qb_problem *p, qb_cuda_lines *l) {
    if (p->kind != QB_KIND_ARG || !lower_lines(p, l) || p->out.dtype != QB_DTYPE_S64) return false;
    l->first = p->extreme.smallest;
    l->second = p->extreme.last;
    if (l->inner >= SIDE_BY_SIDE) l->together = 1;
    return l->n > 0 && qb_cuda_value_of(&p->in[0], &l->in);
}

static bool lower_one(const qb_problem *p, qb_cuda_lines *l) {
    return lower_arg(p, l) && l->k == 1;
}

static qb_status launch_arg(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_arg_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_arg, "arg", QB_KIND_ARG, QB_EXACT, qb_cuda_lines, lower_one,
                           launch_arg, NULL);

/* ---- ARG of several -------------------------------------------------------------------------- */

static bool lower_first(const qb_problem *p, qb_cuda_lines *l) {
    return lower_arg(p, l) && !p->extreme.last && l->k <= l->n && l->k <= QB_CUDA_FIRST_MOST;
}

static qb_status launch_first(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx, qb_cuda_first_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_arg_first, "arg_first", QB_KIND_ARG, QB_EXACT, qb_cuda_lines,
                           lower_first, launch_first, NULL);
