/* Elements at the places that indices name as tactics: GATHER and SCATTER. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/places.h"
#include "kernels/place_of.h"
#include "kernels/places.h"

#define SHORT_LINE                                                                                 \
    32 /* indices that are looked through rather than written down, as a third step */

/* Values of 8 bytes without scales, which move as they are. */
static bool is_wide(const qb_desc *from, const qb_desc *to) {
    return from->dtype == to->dtype && qb_dtype_size(to->dtype) == 8 && from->q.n == 0 &&
           to->q.n == 0;
}

static bool lower_places(const qb_problem *p, qb_cuda_places *e) {
    const qb_desc *x = &p->in[0], *index = &p->in[1];
    const int64_t count = qb_places_count(&p->places) * p->places.run;
    *e = (qb_cuda_places){.places = p->places, .reduce = (int32_t)p->reduce, .axis = -1};
    if (!qb_cuda_is_row(x) || !qb_cuda_is_row(index) || !qb_cuda_is_row(&p->out) || count < 0 ||
        count > INT32_MAX || qb_shape_count(&x->shape) == 0 || index->q.n > 0 ||
        (index->dtype != QB_DTYPE_S64 && index->dtype != QB_DTYPE_S32))
        return false;
    e->count = (uint32_t)count;
    e->wide_index = index->dtype == QB_DTYPE_S64;
    e->wide = is_wide(x, &p->out);
    return true;
}

/* ---- GATHER ---------------------------------------------------------------------------------- */

static bool lower_gather(const qb_problem *p, qb_cuda_places *e) {
    int32_t divide;
    return p->kind == QB_KIND_GATHER && p->n_in == 2 && lower_places(p, e) &&
           (e->wide || qb_cuda_values_of(&p->in[0], &p->out, &e->in, &e->out, &divide));
}

static qb_status launch_gather(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(
        cx,
        qb_cuda_gather_places_run(kernel->state, args->in[0], args->in[1], args->out, args->stream),
        kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_gather_places, "gather.places", QB_KIND_GATHER, QB_EXACT,
                           qb_cuda_places, lower_gather, launch_gather, NULL);

/* ---- SCATTER --------------------------------------------------------------------------------- */

/* Bits move where all three are the same; else values are converted. */
static bool lower_values(const qb_problem *p, qb_cuda_places *e) {
    int32_t divide[2];
    qb_cuda_value out;
    const bool replaces = p->reduce == QB_REDUCE_NONE;
    if (replaces && e->wide) return is_wide(&p->in[2], &p->out);
    e->wide = false;
    if (replaces && qb_cuda_values_of(&p->in[0], &p->out, &e->in, &e->out, &divide[0]) &&
        qb_cuda_values_of(&p->in[2], &p->out, &e->updates, &out, &divide[1]) && !divide[0] &&
        !divide[1])
        return true;
    return qb_cuda_value_of(&p->in[0], &e->in) && qb_cuda_value_of(&p->in[2], &e->updates) &&
           qb_cuda_value_of(&p->out, &e->out);
}

static bool lower_scatter(const qb_problem *p, qb_cuda_places *e) {
    if (p->kind != QB_KIND_SCATTER || p->n_in != 3 || !lower_places(p, e) || !lower_values(p, e) ||
        !qb_cuda_is_row(&p->in[2]) || qb_shape_count(&p->in[2].shape) != (int64_t)e->count)
        return false;
    const qb_shape *x = &p->in[0].shape;
    const bool replaces = p->reduce == QB_REDUCE_NONE;
    const int32_t axis = qb_place_axis(&p->places, x->dim, x->rank);
    if (axis >= 0 && (!replaces || p->places.dim[axis] <= SHORT_LINE)) e->axis = axis;
    e->x_count = (uint32_t)qb_shape_count(x);
    for (int32_t d = 0; d < x->rank; d++) e->x_dim[d] = x->dim[d];
    return e->axis >= 0 || replaces;
}

static qb_status launch_scatter(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx,
                         qb_cuda_scatter_run(kernel->state, args->in[0], args->in[1], args->in[2],
                                             args->out, args->workspace, args->stream),
                         kernel->tactic->name);
}

static void set_up_scatter(qb_kernel *kernel) {
    kernel->workspace_bytes = qb_cuda_scatter_bytes(kernel->state);
    kernel->in_place_inputs = kernel->problem.in[0].dtype == kernel->problem.out.dtype;
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_scatter, "scatter", QB_KIND_SCATTER, QB_WITHIN_1_LSB,
                           qb_cuda_places, lower_scatter, launch_scatter, set_up_scatter);
