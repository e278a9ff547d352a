#include "kernels/cuda/vendor/cudnn_graph.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "kernels/cuda/vendor/cudnn_internal.h"

static qb_cudnn_api cudnn;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    bool complete = true;
#define X(name)                                                                                    \
    {                                                                                              \
        void *symbol = dlsym(library, #name);                                                      \
        memcpy(&cudnn.name, &symbol, sizeof symbol);                                               \
        complete = complete && symbol;                                                             \
    }
    QB_CUDNN_FUNCTIONS(X)
#undef X
    cudnn.ready = complete;
}

qb_status qb_cudnn_open(qb_ctx *cx, qb_cudnn_graph **out) {
    pthread_once(&once, open_library);
    if (!cudnn.ready) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "libcudnn.so.9 was not found");
    cudnnHandle_t maker;
    QB_TRY(qb_cudnn_handle(cx, &cudnn, NULL, &maker));
    qb_cudnn_graph *graph = qb_alloc(cx, 1, sizeof *graph);
    if (!graph) return cx->code;
    graph->api = &cudnn;
    graph->maker = maker;
    *out = graph;
    return QB_OK;
}

void qb_cudnn_close(qb_cudnn_graph *graph) {
    if (!graph) return;
    if (graph->plan) (void)cudnn.cudnnBackendDestroyDescriptor(graph->plan);
    if (graph->config) (void)cudnn.cudnnBackendDestroyDescriptor(graph->config);
    while (graph->n_objects > 0)
        (void)cudnn.cudnnBackendDestroyDescriptor(graph->object[--graph->n_objects]);
    qb_free(graph);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

qb_status qb_cudnn_check(qb_ctx *cx, const qb_cudnn_api *api, cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS) return QB_OK;
    return qb_fail(cx, QB_STATUS_INTERNAL, "cuDNN: %s", api->cudnnGetErrorString(status));
}

void qb_cudnn_note(qb_cudnn_graph *g, cudnnStatus_t status) {
    if (g->status == CUDNN_STATUS_SUCCESS) g->status = status;
}

/* ---- the key: what was set, objects by their numbers ---- */

static void add_to_key(qb_cudnn_graph *g, const void *data, size_t n) {
    const qb_hash both[2] = {g->key, qb_hash_bytes(data, n)};
    g->key = qb_hash_bytes(both, sizeof both);
}

static size_t size_of(cudnnBackendAttributeType_t type) {
    switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_FRACTION: return sizeof(cudnnFraction_t);
    default: return 4; /* float and enumerations */
    }
}

static int32_t number_of(const qb_cudnn_graph *g, cudnnBackendDescriptor_t object) {
    int32_t i = 0;
    while (i < g->n_objects && g->object[i] != object) i++;
    return i;
}

static void note_attribute(qb_cudnn_graph *g, cudnnBackendDescriptor_t object,
                           cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t n, const void *value) {
    const int64_t head[4] = {number_of(g, object), name, type, n};
    if (type == CUDNN_TYPE_HANDLE) return;
    add_to_key(g, head, sizeof head);
    if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) add_to_key(g, value, (size_t)n * size_of(type));
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < n; i++) {
        const int32_t number = number_of(g, ((const cudnnBackendDescriptor_t *)value)[i]);
        add_to_key(g, &number, sizeof number);
    }
}

cudnnBackendDescriptor_t qb_cudnn_make(qb_cudnn_graph *g, cudnnBackendDescriptorType_t type) {
    const int64_t kind = type;
    add_to_key(g, &kind, sizeof kind);
    cudnnBackendDescriptor_t made = NULL;
    if (g->n_objects == QB_CUDNN_OBJECTS) {
        qb_cudnn_note(g, CUDNN_STATUS_ALLOC_FAILED);
        return NULL;
    }
    qb_cudnn_note(g, cudnn.cudnnBackendCreateDescriptor(type, &made));
    if (made) g->object[g->n_objects++] = made;
    return made;
}

void qb_cudnn_set(qb_cudnn_graph *g, cudnnBackendDescriptor_t object,
                  cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
                  const void *value) {
    if (g->status != CUDNN_STATUS_SUCCESS) return;
    note_attribute(g, object, name, type, n, value);
    qb_cudnn_note(g, cudnn.cudnnBackendSetAttribute(object, name, type, n, value));
}

void qb_cudnn_set_object(qb_cudnn_graph *g, cudnnBackendDescriptor_t object,
                         cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    qb_cudnn_set(g, object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void qb_cudnn_finalize(qb_cudnn_graph *g, cudnnBackendDescriptor_t object) {
    if (g->status == CUDNN_STATUS_SUCCESS) qb_cudnn_note(g, cudnn.cudnnBackendFinalize(object));
}

/* ---- tensors --------------------------------------------------------------------------------- */

static cudnnDataType_t type_of(qb_dtype dtype) {
    switch (dtype) {
    case QB_DTYPE_F16: return CUDNN_DATA_HALF;
    case QB_DTYPE_S8: return CUDNN_DATA_INT8;
    case QB_DTYPE_S32: return CUDNN_DATA_INT32;
    default: return CUDNN_DATA_FLOAT;
    }
}

qb_cudnn_tensor qb_cudnn_add(qb_cudnn_graph *g, int id, qb_dtype dtype, const int64_t dim[4],
                             const int64_t stride[4]) {
    cudnnBackendDescriptor_t t = qb_cudnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const cudnnDataType_t type = type_of(dtype);
    const bool inner = id < 0;
    /* numbers of inner tensors begin behind all the others */
    const int64_t number = inner ? QB_CUDNN_BOUND + 1 + g->n_objects : id + 1, alignment = 16;
    qb_cudnn_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    qb_cudnn_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    qb_cudnn_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    qb_cudnn_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    qb_cudnn_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    qb_cudnn_set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inner);
    qb_cudnn_finalize(g, t);
    if (!inner) g->bound[id] = true;
    return t;
}

qb_cudnn_tensor qb_cudnn_inner(qb_cudnn_graph *g, const int64_t dim[4]) {
    const int64_t stride[4] = {dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]};
    return qb_cudnn_add(g, QB_CUDNN_INNER, QB_DTYPE_F32, dim, stride);
}

/* ---- operations ------------------------------------------------------------------------------ */

static cudnnBackendDescriptor_t new_op(qb_cudnn_graph *g, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t op = qb_cudnn_make(g, type);
    if (g->n_ops == QB_CUDNN_OPS) {
        qb_cudnn_note(g, CUDNN_STATUS_BAD_PARAM);
        return NULL;
    }
    g->op[g->n_ops++] = op;
    return op;
}

void qb_cudnn_convolution(qb_cudnn_graph *g, const qb_cudnn_window *w, bool quantized,
                          qb_cudnn_tensor x, qb_cudnn_tensor weight, qb_cudnn_tensor y) {
    cudnnBackendDescriptor_t d = qb_cudnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const cudnnDataType_t compute = quantized ? CUDNN_DATA_INT32 : CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t n = 2;
    const float one = 1.0f, none = 0.0f;
    qb_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    qb_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    qb_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    qb_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, w->before);
    qb_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, w->after);
    qb_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, w->dilation);
    qb_cudnn_set(g, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, w->stride);
    qb_cudnn_finalize(g, d);
    cudnnBackendDescriptor_t op = new_op(g, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, weight);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, d);
    qb_cudnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    qb_cudnn_set(g, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &none);
    qb_cudnn_finalize(g, op);
}

static void set_fractions(qb_cudnn_graph *g, cudnnBackendDescriptor_t d,
                          cudnnBackendAttributeName_t name, const int64_t value[2]) {
    const cudnnFraction_t as[2] = {{value[0], 1}, {value[1], 1}};
    qb_cudnn_set(g, d, name, CUDNN_TYPE_FRACTION, 2, as);
}

void qb_cudnn_pool(qb_cudnn_graph *g, const qb_cudnn_window *w, qb_pool_kind kind,
                   qb_cudnn_tensor x, qb_cudnn_tensor y) {
    cudnnBackendDescriptor_t d = qb_cudnn_make(g, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR);
    const cudnnResampleMode_t mode = kind == QB_POOL_MAX   ? CUDNN_RESAMPLE_MAXPOOL
                                     : kind == QB_POOL_AVG ? CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING
                                                           : CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING;
    const cudnnPaddingMode_t padding = kind == QB_POOL_MAX ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD;
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    const int64_t n = 2;
    qb_cudnn_set(g, d, CUDNN_ATTR_RESAMPLE_MODE, CUDNN_TYPE_RESAMPLE_MODE, 1, &mode);
    qb_cudnn_set(g, d, CUDNN_ATTR_RESAMPLE_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    qb_cudnn_set(g, d, CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    qb_cudnn_set(g, d, CUDNN_ATTR_RESAMPLE_PADDING_MODE, CUDNN_TYPE_PADDING_MODE, 1, &padding);
    qb_cudnn_set(g, d, CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    set_fractions(g, d, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, w->kernel);
    set_fractions(g, d, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, w->before);
    set_fractions(g, d, CUDNN_ATTR_RESAMPLE_POST_PADDINGS, w->after);
    set_fractions(g, d, CUDNN_ATTR_RESAMPLE_STRIDES, w->stride);
    qb_cudnn_finalize(g, d);
    cudnnBackendDescriptor_t op = new_op(g, CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, d);
    qb_cudnn_finalize(g, op);
}

void qb_cudnn_attention(qb_cudnn_graph *g, qb_cudnn_tensor q, qb_cudnn_tensor k, qb_cudnn_tensor v,
                        qb_cudnn_tensor scale, qb_cudnn_tensor y) {
#if CUDNN_VERSION >= 91300
    cudnnBackendDescriptor_t op = new_op(g, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, y);
    qb_cudnn_finalize(g, op);
#else
    (void)q, (void)k, (void)v, (void)scale, (void)y;
    qb_cudnn_note(g, CUDNN_STATUS_NOT_SUPPORTED);
#endif
}

static cudnnBackendDescriptor_t pointwise_desc(qb_cudnn_graph *g, cudnnPointwiseMode_t mode) {
    cudnnBackendDescriptor_t d = qb_cudnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    qb_cudnn_set(g, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    qb_cudnn_set(g, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    return d;
}

/* `b` is NULL for a function of x alone. */
static void pointwise(qb_cudnn_graph *g, cudnnBackendDescriptor_t d, qb_cudnn_tensor x,
                      qb_cudnn_tensor b, qb_cudnn_tensor y) {
    qb_cudnn_finalize(g, d);
    cudnnBackendDescriptor_t op = new_op(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    qb_cudnn_set_object(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    qb_cudnn_finalize(g, op);
}

void qb_cudnn_combine(qb_cudnn_graph *g, qb_cudnn_pair pair, qb_cudnn_tensor a, qb_cudnn_tensor b,
                      qb_cudnn_tensor y) {
    const cudnnPointwiseMode_t mode =
        pair == QB_CUDNN_ADD ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_MUL;
    pointwise(g, pointwise_desc(g, mode), a, b, y);
}

static bool act_mode(qb_act act, cudnnPointwiseMode_t *mode) {
    switch (act.kind) {
    case QB_ACT_RELU:
    case QB_ACT_LEAKY_RELU: *mode = CUDNN_POINTWISE_RELU_FWD; return true;
    case QB_ACT_CLIP: *mode = CUDNN_POINTWISE_RELU_FWD; return act.alpha == 0.0f;
    case QB_ACT_SIGMOID: *mode = CUDNN_POINTWISE_SIGMOID_FWD; return true;
    case QB_ACT_TANH: *mode = CUDNN_POINTWISE_TANH_FWD; return true;
    case QB_ACT_SILU: *mode = CUDNN_POINTWISE_SWISH_FWD; return true;
    case QB_ACT_GELU: *mode = CUDNN_POINTWISE_GELU_FWD; return true;
    case QB_ACT_GELU_TANH: *mode = CUDNN_POINTWISE_GELU_APPROX_TANH_FWD; return true;
    case QB_ACT_ELU: *mode = CUDNN_POINTWISE_ELU_FWD; return true;
    default: return false;
    }
}

bool qb_cudnn_has_act(qb_act act) {
    cudnnPointwiseMode_t mode;
    return act.kind == QB_ACT_NONE || act_mode(act, &mode);
}

void qb_cudnn_act(qb_cudnn_graph *g, qb_act act, qb_cudnn_tensor x, qb_cudnn_tensor y) {
    cudnnPointwiseMode_t mode = CUDNN_POINTWISE_IDENTITY;
    (void)act_mode(act, &mode);
    cudnnBackendDescriptor_t d = pointwise_desc(g, mode);
    const double alpha = (double)act.alpha, beta = (double)act.beta;
    if (act.kind == QB_ACT_LEAKY_RELU)
        qb_cudnn_set(g, d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1,
                     &alpha);
    if (act.kind == QB_ACT_CLIP)
        qb_cudnn_set(g, d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &beta);
    if (act.kind == QB_ACT_ELU)
        qb_cudnn_set(g, d, CUDNN_ATTR_POINTWISE_ELU_ALPHA, CUDNN_TYPE_DOUBLE, 1, &alpha);
    pointwise(g, d, x, NULL, y);
}
