/* Values of images at places between their pixels as a tactic. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/grid_sample.h"

static bool lower(const qb_problem *p, qb_cuda_grid_sample *s) {
    const int32_t most = p->grid.mode == QB_GRID_CUBIC ? 2 : QB_CUDA_GRID_DIMS;
    *s = (qb_cuda_grid_sample){.grid = p->grid, .size = {1, 1, 1}, .places = 1};
    if (p->kind != QB_KIND_GRID_SAMPLE || p->n_in != 2) return false;
    const qb_desc *x = &p->in[0], *at = &p->in[1];
    s->dims = x->shape.rank - 2;
    if (s->dims < 1 || s->dims > most || at->shape.rank != x->shape.rank || !qb_cuda_is_row(x) ||
        !qb_cuda_is_row(at) || !qb_cuda_is_row(&p->out) || !qb_cuda_value_of(x, &s->in) ||
        !qb_cuda_value_of(at, &s->at) || !qb_cuda_value_of(&p->out, &s->out))
        return false;
    s->batch = (uint32_t)x->shape.dim[0];
    s->channels = (uint32_t)x->shape.dim[1];
    for (int32_t d = 0; d < s->dims; d++) {
        s->places *= (uint32_t)at->shape.dim[1 + d];
        s->size[QB_CUDA_GRID_DIMS - s->dims + d] = (int32_t)x->shape.dim[2 + d];
    }
    return true;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(
        cx,
        qb_cuda_grid_sample_run(kernel->state, args->in[0], args->in[1], args->out, args->stream),
        kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_grid_sample, "grid_sample", QB_KIND_GRID_SAMPLE, QB_WITHIN_1_LSB,
                           qb_cuda_grid_sample, lower, launch, NULL);
