/* What the files of the cuDNN graphs share. */
#ifndef QB_CUDA_CUDNN_INTERNAL_H
#define QB_CUDA_CUDNN_INTERNAL_H

#include <cudnn.h>

#include "base/hash.h"
#include "kernels/cuda/vendor/cudnn_graph.h"

#define QB_CUDNN_OPS 12
#define QB_CUDNN_OBJECTS 64
#define QB_CUDNN_WORKSPACE_MAX ((int64_t)512 << 20) /* bytes that a plan may use */

/* The functions used, by name. */
#define QB_CUDNN_FUNCTIONS(X)                                                                      \
    X(cudnnCreate)                                                                                 \
    X(cudnnSetStream)                                                                              \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendExecute)

/* The library, open for as long as the process runs. */
typedef struct qb_cudnn_api {
    bool ready;
#define X(name) __typeof__(&name) name;
    QB_CUDNN_FUNCTIONS(X)
#undef X
} qb_cudnn_api;

struct qb_cudnn_graph {
    const qb_cudnn_api *api;
    cudnnHandle_t maker; /* with which plans are made: the default stream's */
    cudnnBackendDescriptor_t object[QB_CUDNN_OBJECTS]; /* all that were made, in order */
    int32_t n_objects;
    cudnnBackendDescriptor_t op[QB_CUDNN_OPS];
    int64_t n_ops;
    bool bound[QB_CUDNN_BOUND];
    cudnnStatus_t status;                  /* of the first call that failed */
    qb_hash key;                           /* of all that was set */
    cudnnBackendDescriptor_t plan, config; /* chosen; not among the objects */
    int64_t workspace;
    int32_t variant;  /* the plan's number */
    qb_hash compiled; /* under which it is kept; zero: it is not */
};

/* The stream's own handle, made where it has none; NULL: the default stream's. Any thread. */
qb_status qb_cudnn_handle(qb_ctx *cx, const qb_cudnn_api *api, void *stream, cudnnHandle_t *out);
qb_status qb_cudnn_check(qb_ctx *cx, const qb_cudnn_api *api, cudnnStatus_t status);

void qb_cudnn_note(qb_cudnn_graph *graph, cudnnStatus_t status);
cudnnBackendDescriptor_t qb_cudnn_make(qb_cudnn_graph *graph, cudnnBackendDescriptorType_t type);
void qb_cudnn_set(qb_cudnn_graph *graph, cudnnBackendDescriptor_t object,
                  cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                  const void *value);
void qb_cudnn_set_object(qb_cudnn_graph *graph, cudnnBackendDescriptor_t object,
                         cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void qb_cudnn_finalize(qb_cudnn_graph *graph, cudnnBackendDescriptor_t object);

/* Around whatever makes or runs a plan. */
void qb_cudnn_lock(void);
void qb_cudnn_unlock(void);

/* cudnn_keep.c: plans as text. Does the plan of this key lie in what was compiled before, and can
 * it be made again here? It is then the graph's. */
bool qb_cudnn_restore(qb_ctx *cx, qb_cudnn_graph *graph, const qb_compiled *from, qb_hash key);
/* Keeps the graph's plan under the key, where cuDNN gives its text. */
qb_status qb_cudnn_keep(qb_ctx *cx, qb_cudnn_graph *graph, qb_compiled *to, qb_hash key);

#endif
