/* Layer normalization, resizing and gathering as tactics. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/nodes.h"

/* ---- LAYER_NORM ------------------------------------------------------------------------------ */

static bool lower_layer_norm(const qb_problem *p, const bool *constant, qb_cuda_layer_norm *l) {
    *l = (qb_cuda_layer_norm){.epsilon = p->epsilon, .rms = p->rms, .rows = 1, .n = 1};
    if (p->kind != QB_KIND_LAYER_NORM || p->n_in < 2 || p->n_in > 3) return false;
    const qb_desc *x = &p->in[0];
    if (!qb_cuda_is_row(x) || !qb_cuda_is_row(&p->out) || !qb_cuda_value_of(x, &l->in) ||
        !qb_cuda_value_of(&p->out, &l->out))
        return false;
    int64_t n = 1;
    for (int32_t d = 0; d < x->shape.rank; d++) *(d < p->axis ? &l->rows : &n) *= x->shape.dim[d];
    l->n = (int32_t)n;
    for (int32_t i = 1; i < p->n_in; i++)
        if (qb_problem_has(p, i) && (!constant[i] || p->in[i].dtype != QB_DTYPE_F32 ||
                                     qb_shape_count(&p->in[i].shape) != n))
            return false;
    return true;
}

static bool cuda_layer_norm_supports(const qb_problem *problem, const bool *constant) {
    qb_cuda_layer_norm l;
    return lower_layer_norm(problem, constant, &l);
}

/* Scale, then bias. */
static qb_status pack_layer_norm(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                                 void *packed) {
    (void)cx;
    const qb_cuda_layer_norm *l = kernel->state;
    memset(packed, 0, kernel->packed_bytes);
    for (int32_t i = 1; i < kernel->problem.n_in; i++)
        if (qb_problem_has(&kernel->problem, i))
            memcpy((float *)packed + (i - 1) * l->n, constants[i], (size_t)l->n * sizeof(float));
    return QB_OK;
}

static qb_status launch_layer_norm(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_cuda_layer_norm *l = kernel->state;
    const float *scale = args->packed;
    return qb_cuda_check(cx,
                         qb_cuda_layer_norm_run(l, args->in[0], scale, scale + l->n, args->out,
                                                qb_cuda_multiprocessors(), args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_layer_norm_create(qb_ctx *cx, const qb_tactic *tactic,
                                        const qb_problem *problem, const bool *constant,
                                        int threads, qb_kernel **out) {
    qb_cuda_layer_norm l;
    (void)threads;
    if (!lower_layer_norm(problem, constant, &l)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_create_row(cx, tactic, problem, &l, sizeof l, out));
    (*out)->packed_bytes = (size_t)l.n * 2 * sizeof(float);
    (*out)->packed_inputs = 6; /* inputs 1 and 2 */
    (*out)->pack = pack_layer_norm;
    (*out)->launch = launch_layer_norm;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_layer_norm, "layer_norm", QB_KIND_LAYER_NORM, QB_WITHIN_1_LSB);

/* ---- RESIZE ---------------------------------------------------------------------------------- */

/* Missing dimensions in front have size 1. */
static bool set_sizes(const qb_desc *d, int32_t size[3], int64_t stride[5], int64_t *first) {
    const int32_t lead = 5 - d->shape.rank;
    qb_cuda_strides s;
    if (!qb_cuda_strides_of(d, &s)) return false;
    *first = s.first;
    for (int32_t i = 0; i < 2; i++) stride[i] = s.stride[i];
    for (int32_t i = 0; i < 3; i++) {
        const int32_t own = 2 + i - lead;
        size[i] = own < 2 ? 1 : (int32_t)d->shape.dim[own];
        stride[2 + i] = own < 2 ? 0 : s.stride[own];
    }
    return true;
}

static bool lower_resize(const qb_problem *p, qb_problem *finalized, qb_desc *in,
                         qb_cuda_resize *r) {
    int32_t divide = 0;
    const bool linear = p->resize != QB_RESIZE_NEAREST;
    *r = (qb_cuda_resize){.kind = (int32_t)p->resize, .width = 8};
    if (p->resize > QB_RESIZE_LINEAR_ASYMMETRIC) return false;
    if (p->kind != QB_KIND_RESIZE || p->n_in != 1) return false;
    qb_cuda_choose_layouts(p, finalized, in);
    const qb_desc *y = &finalized->out;
    if (in->shape.rank < 3 || in->shape.rank > 5 || y->shape.rank != in->shape.rank ||
        !qb_cuda_is_countable(in) || !qb_cuda_is_countable(y) ||
        !set_sizes(in, r->in_size, r->in_stride, &r->in_first) ||
        !set_sizes(y, r->out_size, r->out_stride, &r->out_first))
        return false;
    if (linear ? !qb_cuda_value_of(in, &r->in) || !qb_cuda_value_of(y, &r->out)
               : !qb_cuda_values_of(in, y, &r->in, &r->out, &divide))
        return false;
    r->batch = (int32_t)in->shape.dim[0];
    r->channels = (int32_t)in->shape.dim[1];
    r->channels_last = y->layout == QB_LAYOUT_NHWC;
    int64_t all = r->channels | r->in_first | r->out_first;
    for (int32_t d = 0; d < 5; d++)
        if (d != 1) all |= r->in_stride[d] | r->out_stride[d];
    const bool stay = !linear && !divide && qb_dtype_size(y->dtype) == 1;
    if (all % 16 == 0 && stay) r->width = 16;
    if (all % 8 || r->in_stride[1] != 1 || r->out_stride[1] != 1) r->width = 1;
    return true;
}

static qb_status launch_resize(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(cx,
                         qb_cuda_resize_run(kernel->state, args->in[0], args->out, args->stream),
                         kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED(cuda_resize, "resize", QB_KIND_RESIZE, QB_WITHIN_1_LSB, qb_cuda_resize,
                       lower_resize, launch_resize, NULL);

/* ---- GATHER ---------------------------------------------------------------------------------- */

static bool lower_gather(const qb_problem *p, qb_cuda_gather *g) {
    int32_t divide;
    *g = (qb_cuda_gather){.outer = 1, .inner = 1};
    if (p->kind != QB_KIND_GATHER || p->n_in != 2 || p->axis < 0) return false;
    const qb_desc *x = &p->in[0], *index = &p->in[1];
    if (!qb_cuda_is_row(x) || !qb_cuda_is_row(index) || !qb_cuda_is_row(&p->out)) return false;
    if (index->dtype != QB_DTYPE_S64 && index->dtype != QB_DTYPE_S32) return false;
    if (!qb_cuda_values_of(x, &p->out, &g->in, &g->out, &divide)) return false;
    for (int32_t d = 0; d < x->shape.rank; d++) {
        if (d < p->axis) g->outer *= x->shape.dim[d];
        if (d > p->axis) g->inner *= x->shape.dim[d];
    }
    g->n_in = (int32_t)x->shape.dim[p->axis];
    g->n = (int32_t)qb_shape_count(&index->shape);
    g->wide_index = index->dtype == QB_DTYPE_S64;
    g->width = g->inner % 4 == 0 ? 4 : 1;
    return g->n_in > 0 || g->n == 0;
}

static qb_status launch_gather(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(
        cx, qb_cuda_gather_run(kernel->state, args->in[0], args->in[1], args->out, args->stream),
        kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_gather, "gather", QB_KIND_GATHER, QB_EXACT, qb_cuda_gather,
                           lower_gather, launch_gather, NULL);
