/* Kernels that run one graph of cuDNN. */
#include <stdio.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/vendor/cudnn_internal.h"

static void destroy(qb_kernel *kernel) {
    qb_cudnn_close(*(qb_cudnn_graph **)kernel->state);
    qb_free(kernel->state);
}

qb_status qb_cudnn_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                          const void *state, size_t bytes, qb_kernel **out) {
    qb_cudnn_graph *graph = *(qb_cudnn_graph *const *)state;
    const qb_status status = qb_cuda_create(cx, tactic, problem, state, bytes, out);
    if (status != QB_OK) {
        qb_cudnn_close(graph);
        return status;
    }
    qb_kernel *kernel = *out;
    snprintf(kernel->impl, sizeof kernel->impl, "cudnn plan %d", (int)graph->variant);
    kernel->workspace_bytes = (size_t)graph->workspace;
    kernel->problem.variant = graph->variant;
    kernel->compiled = graph->compiled;
    kernel->destroy = destroy;
    return QB_OK;
}
