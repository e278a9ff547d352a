/* Graphs of cuDNN's backend API: tensors, operations on them, and the plan that runs them. The
 * library is opened when the first graph is, so that nothing depends on its being installed.
 *
 * A graph is built by one thread, which asks for its status once, in qb_cudnn_choose: a failed call
 * turns those after it into nothing. */
#ifndef QB_CUDA_CUDNN_GRAPH_H
#define QB_CUDA_CUDNN_GRAPH_H

#include "kernels/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_cudnn_graph qb_cudnn_graph;
typedef void *qb_cudnn_tensor; /* belongs to its graph */

/* Bound tensors, which lie in memory, have an identifier below this; others live only in the plan.
 */
#define QB_CUDNN_BOUND 8
#define QB_CUDNN_INNER (-1)

/* UNSUPPORTED without the library or where it does not start. */
qb_status qb_cudnn_open(qb_ctx *cx, qb_cudnn_graph **out);
void qb_cudnn_close(qb_cudnn_graph *graph); /* accepts NULL */

/* Four dimensions (N C H W, or batch, head, token, element) and their strides in elements. A
 * bound tensor starts at a multiple of 16 bytes. */
qb_cudnn_tensor qb_cudnn_add(qb_cudnn_graph *graph, int id, qb_dtype dtype, const int64_t dim[4],
                             const int64_t stride[4]);
/* An inner float tensor with channels innermost. */
qb_cudnn_tensor qb_cudnn_inner(qb_cudnn_graph *graph, const int64_t dim[4]);

typedef struct qb_cudnn_window {
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2];
} qb_cudnn_window;
/* y = x * w, summed in int32 for quantized values, in float otherwise. */
void qb_cudnn_convolution(qb_cudnn_graph *graph, const qb_cudnn_window *window, bool quantized,
                          qb_cudnn_tensor x, qb_cudnn_tensor w, qb_cudnn_tensor y);
void qb_cudnn_pool(qb_cudnn_graph *graph, const qb_cudnn_window *window, qb_pool_kind kind,
                   qb_cudnn_tensor x, qb_cudnn_tensor y);
/* y = softmax(scale q k^T) v over tensors [batch, heads, tokens, size]. */
void qb_cudnn_attention(qb_cudnn_graph *graph, qb_cudnn_tensor q, qb_cudnn_tensor k,
                        qb_cudnn_tensor v, qb_cudnn_tensor scale, qb_cudnn_tensor y);

typedef enum qb_cudnn_pair { QB_CUDNN_ADD, QB_CUDNN_MUL } qb_cudnn_pair;
/* y = a (pair) b in float; b broadcasts. */
void qb_cudnn_combine(qb_cudnn_graph *graph, qb_cudnn_pair pair, qb_cudnn_tensor a,
                      qb_cudnn_tensor b, qb_cudnn_tensor y);
bool qb_cudnn_has_act(qb_act act);
void qb_cudnn_act(qb_cudnn_graph *graph, qb_act act, qb_cudnn_tensor x, qb_cudnn_tensor y);

/* What a plan may not do. All are deterministic, and none rounds sums to less than float or
 * transforms its data (Winograd, FFT). */
typedef enum qb_cudnn_math {
    QB_CUDNN_ANY,   /* Tensor Cores; f32 factors are rounded to TF32 */
    QB_CUDNN_EXACT, /* f32 factors stay what they are */
} qb_cudnn_math;

/* Times the plans that cuDNN's heuristics propose on scratch memory and keeps the fastest, where
 * the problem's variant is 0; it leaves off where they are far behind `to_beat` seconds (0: there
 * is nothing to beat). Else takes the one of that number, from 1 on, out of what the problem has
 * compiled where it is there. bytes[] by identifier (0: not bound). UNSUPPORTED where there is
 * none. */
qb_status qb_cudnn_choose(qb_ctx *cx, qb_cudnn_graph *graph, qb_cudnn_math math,
                          const qb_problem *problem, double to_beat,
                          const size_t bytes[QB_CUDNN_BOUND]);
/* How many proposals the calling thread tries from now on: the first few of the first list (the
 * default, since most are compiled when they are tried), or all of all lists and to the end, and
 * every engine that takes the graph and is on no list, as a benchmark wants. */
void qb_cudnn_try_all(bool all);
/* How many plans the calling thread's last choice ran and timed. */
int32_t qb_cudnn_tried(void);
/* data[] by identifier. May be captured, and called from many threads. */
qb_status qb_cudnn_run(qb_ctx *cx, const qb_cudnn_graph *graph, void *const data[QB_CUDNN_BOUND],
                       void *workspace, void *stream);

/* A kernel whose state, `bytes` long, begins with its graph, chosen before: the graph is the
 * kernel's, or closed where this fails. Layouts, constants and launch are the caller's to set. */
qb_status qb_cudnn_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                          const void *state, size_t bytes, qb_kernel **out);

#ifdef __cplusplus
}
#endif
#endif
