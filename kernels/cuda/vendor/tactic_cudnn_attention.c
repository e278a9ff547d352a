/* Attention of cuDNN (its flash attention) as a tactic: f16, without a mask. It is there since
 * cuDNN 9.13. */
#include <string.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/vendor/cudnn_graph.h"

#define QUERIES 16 /* any tile: heads of up to 128 elements */

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_MASK };
enum { ID_QUERY, ID_KEY, ID_VALUE, ID_SCALE, ID_OUT };

typedef struct attention_state {
    qb_cudnn_graph *graph;
    qb_cuda_attention p;
} attention_state;

static bool lower(const qb_problem *p, qb_cuda_attention *a) {
    return qb_cuda_attention_of(p, QUERIES, a) && !qb_problem_has(p, IN_MASK) &&
           p->out.dtype == QB_DTYPE_F16 && p->out.q.n == 0 && !a->pairs &&
           a->q.inner + a->k.inner + a->v.inner + a->out.inner == 4;
}

static qb_cudnn_tensor add_heads(qb_cudnn_graph *g, int id, const int64_t dim[4],
                                 const qb_heads *at) {
    const int64_t stride[4] = {at->stride[0], at->stride[2], at->stride[3], 1};
    return qb_cudnn_add(g, id, QB_DTYPE_F16, dim, stride);
}

static void describe(const attention_state *s) {
    const qb_cuda_attention *a = &s->p;
    qb_cudnn_graph *g = s->graph;
    const int64_t q_dim[4] = {a->batch, a->heads, a->rows, a->size};
    const int64_t k_dim[4] = {a->batch, a->heads, a->keys, a->size}, one[4] = {1, 1, 1, 1};
    const int64_t v_dim[4] = {a->batch, a->heads, a->keys, a->value_size};
    const int64_t out_dim[4] = {a->batch, a->heads, a->rows, a->value_size};
    qb_cudnn_attention(g, add_heads(g, ID_QUERY, q_dim, &a->q), add_heads(g, ID_KEY, k_dim, &a->k),
                       add_heads(g, ID_VALUE, v_dim, &a->v),
                       qb_cudnn_add(g, ID_SCALE, QB_DTYPE_F32, one, one),
                       add_heads(g, ID_OUT, out_dim, &a->out));
}

static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    const attention_state *s = kernel->state;
    (void)cx, (void)constants;
    memcpy(packed, &s->p.scale, sizeof s->p.scale);
    return QB_OK;
}

static void *heads_in(const void *data, const qb_heads *at) {
    return (uint16_t *)(uintptr_t)data + at->offset;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const attention_state *s = kernel->state;
    const qb_cuda_attention *a = &s->p;
    void *const data[QB_CUDNN_BOUND] = {[ID_QUERY] = heads_in(args->in[IN_QUERY], &a->q),
                                        [ID_KEY] = heads_in(args->in[IN_KEY], &a->k),
                                        [ID_VALUE] = heads_in(args->in[IN_VALUE], &a->v),
                                        [ID_SCALE] = (void *)(uintptr_t)args->packed,
                                        [ID_OUT] = heads_in(args->out, &a->out)};
    return qb_cudnn_run(cx, s->graph, data, args->workspace, args->stream);
}

static bool cuda_attention_cudnn_supports(const qb_problem *problem, const bool *constant) {
    qb_cuda_attention a;
    (void)constant;
    return lower(problem, &a);
}

static qb_status open_graph(qb_ctx *cx, const qb_problem *p, double to_beat, attention_state *s) {
    const size_t bytes[QB_CUDNN_BOUND] = {[ID_QUERY] = qb_desc_bytes(&p->in[IN_QUERY]),
                                          [ID_KEY] = qb_desc_bytes(&p->in[IN_KEY]),
                                          [ID_VALUE] = qb_desc_bytes(&p->in[IN_VALUE]),
                                          [ID_SCALE] = sizeof s->p.scale,
                                          [ID_OUT] = qb_desc_bytes(&p->out)};
    QB_TRY(qb_cudnn_open(cx, &s->graph));
    describe(s);
    const qb_status status = qb_cudnn_choose(cx, s->graph, QB_CUDNN_ANY, p, to_beat, bytes);
    if (status != QB_OK) qb_cudnn_close(s->graph);
    return status;
}

static qb_status cuda_attention_cudnn_compete(qb_ctx *cx, const qb_tactic *tactic,
                                              const qb_problem *problem, const bool *constant,
                                              double to_beat, qb_kernel **out) {
    attention_state s = {0};
    qb_cuda_device device;
    (void)constant;
    if (!lower(problem, &s.p)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_current(cx, &device));
    QB_TRY(open_graph(cx, problem, to_beat, &s));
    QB_TRY(qb_cudnn_create(cx, tactic, problem, &s, sizeof s, out));
    qb_kernel *kernel = *out;
    for (int32_t i = 0; i < problem->n_in; i++) kernel->in[i].layout = QB_LAYOUT_ROW;
    kernel->problem.out.layout = QB_LAYOUT_ROW;
    kernel->packed_bytes = sizeof s.p.scale;
    kernel->pack = pack;
    kernel->launch = launch;
    return QB_OK;
}

QB_CUDA_TACTIC_COMPETING(cuda_attention_cudnn, "attention_f16.cudnn", QB_KIND_ATTENTION, QB_EXACT);
