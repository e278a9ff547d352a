/* Pooling by cuDNN as tactics: two-dimensional images with channels last. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/vendor/cudnn_graph.h"

enum { ID_DATA, ID_OUT };

typedef struct pool_state {
    qb_cudnn_graph *graph;
    qb_cudnn_window window;
    int64_t in_offset, out_offset; /* bytes */
} pool_state;

static bool is_taken(const qb_desc *d) {
    const bool floats = d->dtype == QB_DTYPE_F16 || d->dtype == QB_DTYPE_F32;
    return floats && d->q.n == 0 && d->shape.rank == 4 && qb_shape_known(&d->shape) &&
           qb_shape_count(&d->shape) > 0 &&
           (d->layout == QB_LAYOUT_NHWC || d->layout == QB_LAYOUT_ANY);
}

static int64_t offset_of(const qb_desc *d) {
    return d->channel_offset * (int64_t)qb_dtype_size(d->dtype);
}

static bool lower(const qb_problem *p, pool_state *s) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    const qb_window *w = &p->window;
    *s = (pool_state){.in_offset = offset_of(x), .out_offset = offset_of(y)};
    if (p->kind != QB_KIND_POOL || p->n_in != 1 || w->n != 2 || p->act.kind != QB_ACT_NONE ||
        !is_taken(x) || !is_taken(y) || x->dtype != y->dtype || s->in_offset % 16 ||
        s->out_offset % 16)
        return false;
    for (int i = 0; i < 2; i++) {
        if (w->dilation[i] != 1 || w->pad_begin[i] < 0 || w->pad_begin[i] >= w->kernel[i])
            return false;
        s->window.kernel[i] = w->kernel[i];
        s->window.stride[i] = w->stride[i];
        s->window.dilation[i] = 1;
        s->window.before[i] = w->pad_begin[i];
        s->window.after[i] = (y->shape.dim[2 + i] - 1) * w->stride[i] + w->kernel[i] -
                             w->pad_begin[i] - x->shape.dim[2 + i];
        if (s->window.after[i] < 0) s->window.after[i] = 0;
        /* elements behind the padding are not counted, but the library would */
        if (p->pool == QB_POOL_AVG_INCLUDE_PAD && s->window.after[i] > w->pad_end[i]) return false;
        if (s->window.after[i] >= w->kernel[i]) return false;
    }
    return true;
}

static qb_cudnn_tensor add_image(qb_cudnn_graph *g, int id, const qb_desc *d) {
    const int64_t *dim = d->shape.dim, total = d->channel_total > 0 ? d->channel_total : dim[1];
    const int64_t stride[4] = {dim[2] * dim[3] * total, 1, dim[3] * total, total};
    return qb_cudnn_add(g, id, d->dtype, dim, stride);
}

static qb_status open_graph(qb_ctx *cx, const qb_problem *p, double to_beat, pool_state *s) {
    const size_t bytes[QB_CUDNN_BOUND] = {
        [ID_DATA] = qb_desc_bytes(&p->in[0]), [ID_OUT] = qb_desc_bytes(&p->out)};
    QB_TRY(qb_cudnn_open(cx, &s->graph));
    qb_cudnn_tensor x = add_image(s->graph, ID_DATA, &p->in[0]);
    qb_cudnn_pool(s->graph, &s->window, p->pool, x, add_image(s->graph, ID_OUT, &p->out));
    const qb_status status = qb_cudnn_choose(cx, s->graph, QB_CUDNN_EXACT, p, to_beat, bytes);
    if (status != QB_OK) qb_cudnn_close(s->graph);
    return status;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const pool_state *s = kernel->state;
    void *const data[QB_CUDNN_BOUND] = {[ID_DATA] = (char *)(uintptr_t)args->in[0] + s->in_offset,
                                        [ID_OUT] = (char *)args->out + s->out_offset};
    return qb_cudnn_run(cx, s->graph, data, args->workspace, args->stream);
}

static bool cuda_pool_cudnn_supports(const qb_problem *problem, const bool *constant) {
    pool_state s;
    (void)constant;
    return lower(problem, &s);
}

static qb_status cuda_pool_cudnn_compete(qb_ctx *cx, const qb_tactic *tactic,
                                         const qb_problem *problem, const bool *constant,
                                         double to_beat, qb_kernel **out) {
    pool_state s;
    qb_cuda_device device;
    (void)constant;
    if (!lower(problem, &s)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_current(cx, &device));
    QB_TRY(open_graph(cx, problem, to_beat, &s));
    QB_TRY(qb_cudnn_create(cx, tactic, problem, &s, sizeof s, out));
    qb_kernel *kernel = *out;
    kernel->in[0].layout = kernel->problem.out.layout = QB_LAYOUT_NHWC;
    kernel->launch = launch;
    return QB_OK;
}

QB_CUDA_TACTIC_COMPETING(cuda_pool_cudnn, "pool.cudnn", QB_KIND_POOL, QB_EXACT);
