/* cuDNN's graph API (C backend API) as a tactic: convolution -> scale -> bias -> ReLU -> s8, one
 * fused operation. The library is opened when the first kernel is made, so that nothing depends on
 * its being installed.
 *
 * It takes s8 with zero point 0 only. The scale has 1 / Sy folded
 * in and the bias is added in float: results are within one code of the reference. */
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/conv.h"
#include "kernels/cuda/device.h"
#include "kernels/tactic.h"

#define MAX_PLANS 16
#define MAX_OBJECTS 256
#define TIMED_RUNS 10

/* The functions used, by name. */
#define CUDNN_FUNCTIONS(X)                                                                         \
    X(cudnnCreate)                                                                                 \
    X(cudnnDestroy)                                                                                \
    X(cudnnSetStream)                                                                              \
    X(cudnnGetErrorString)                                                                         \
    X(cudnnBackendCreateDescriptor)                                                                \
    X(cudnnBackendDestroyDescriptor)                                                               \
    X(cudnnBackendSetAttribute)                                                                    \
    X(cudnnBackendGetAttribute)                                                                    \
    X(cudnnBackendFinalize)                                                                        \
    X(cudnnBackendExecute)

typedef struct cudnn_api {
    void *library;
#define X(name) __typeof__(&name) name;
    CUDNN_FUNCTIONS(X)
#undef X
} cudnn_api;

/* Identifiers of the tensors of the graph. */
enum { ID_DATA = 1, ID_WEIGHT, ID_SCALE, ID_BIAS, ID_OUT, ID_CONV, ID_SCALED, ID_SUM, ID_RELU };

typedef struct cudnn_state {
    cudnn_api api;
    pthread_mutex_t lock; /* of the handle: launches come from several threads */
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t object[MAX_OBJECTS]; /* all that were made, in order */
    int32_t n_objects;
    cudnnBackendDescriptor_t plan;
    cudnnStatus_t status; /* of the first call that failed */
    int64_t weight_at, scale_at, bias_at, packed_bytes, workspace_bytes;
    int32_t in_offset, out_offset;
    int32_t variant; /* the plan's number */
} cudnn_state;

static bool open_library(cudnn_api *api) {
    api->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!api->library) return false;
    bool complete = true;
#define X(name)                                                                                    \
    {                                                                                              \
        void *symbol = dlsym(api->library, #name);                                                 \
        memcpy(&api->name, &symbol, sizeof symbol);                                                \
        complete = complete && symbol;                                                             \
    }
    CUDNN_FUNCTIONS(X)
#undef X
    return complete;
}

static void note(cudnn_state *s, cudnnStatus_t status) {
    if (s->status == CUDNN_STATUS_SUCCESS) s->status = status;
}

static cudnnBackendDescriptor_t make(cudnn_state *s, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = NULL;
    if (s->n_objects == MAX_OBJECTS) {
        note(s, CUDNN_STATUS_ALLOC_FAILED);
        return NULL;
    }
    note(s, s->api.cudnnBackendCreateDescriptor(type, &made));
    if (made) s->object[s->n_objects++] = made;
    return made;
}

static void set(cudnn_state *s, cudnnBackendDescriptor_t object, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value) {
    if (s->status != CUDNN_STATUS_SUCCESS) return;
    note(s, s->api.cudnnBackendSetAttribute(object, name, type, n, value));
}

static void set_object(cudnn_state *s, cudnnBackendDescriptor_t object,
                       cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value) {
    set(s, object, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(cudnn_state *s, cudnnBackendDescriptor_t object) {
    if (s->status == CUDNN_STATUS_SUCCESS) note(s, s->api.cudnnBackendFinalize(object));
}

/* dims N C H W with channels innermost; `pitch` channels from pixel to pixel. */
static cudnnBackendDescriptor_t tensor(cudnn_state *s, int64_t id, cudnnDataType_t type,
                                       const int64_t dim[4], int64_t pitch, bool is_virtual) {
    cudnnBackendDescriptor_t t = make(s, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t stride[4] = {dim[2] * dim[3] * pitch, 1, dim[3] * pitch, pitch}, alignment = 16;
    set(s, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(s, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(s, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(s, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(s, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(s, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finish(s, t);
    return t;
}

static cudnnBackendDescriptor_t convolution(cudnn_state *s, const qb_cuda_conv *c,
                                            cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t w,
                                            cudnnBackendDescriptor_t y) {
    cudnnBackendDescriptor_t d = make(s, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t compute = CUDNN_DATA_INT32;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t n = 2, before[2] = {c->pad_h, c->pad_w}, stride[2] = {c->stride_h, c->stride_w};
    int64_t dilation[2] = {c->dilation_h, c->dilation_w};
    int64_t after[2] = {(int64_t)(c->out_h - 1) * c->stride_h - c->pad_h - c->in_h + 1 +
                            (int64_t)(c->kernel_h - 1) * c->dilation_h,
                        (int64_t)(c->out_w - 1) * c->stride_w - c->pad_w - c->in_w + 1 +
                            (int64_t)(c->kernel_w - 1) * c->dilation_w};
    for (int i = 0; i < 2; i++)
        if (after[i] < 0) after[i] = 0; /* a stride that leaves the last pixels out */
    set(s, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    set(s, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(s, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(s, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    set(s, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    set(s, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilation);
    set(s, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, stride);
    finish(s, d);
    cudnnBackendDescriptor_t op = make(s, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    float one = 1.0f, none = 0.0f;
    set_object(s, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set_object(s, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    set_object(s, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    set_object(s, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, d);
    set(s, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, &one);
    set(s, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, &none);
    finish(s, op);
    return op;
}

/* y = x (mode) b in float; `b` is NULL for a function of x alone. */
static cudnnBackendDescriptor_t pointwise(cudnn_state *s, cudnnPointwiseMode_t mode,
                                          cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                          cudnnBackendDescriptor_t y) {
    cudnnBackendDescriptor_t d = make(s, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    set(s, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(s, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finish(s, d);
    cudnnBackendDescriptor_t op = make(s, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_object(s, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d);
    set_object(s, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set_object(s, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_object(s, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finish(s, op);
    return op;
}

static cudnnBackendDescriptor_t graph(cudnn_state *s, const qb_cuda_conv *c, bool relu) {
    int64_t x_dim[4] = {c->batch, c->in_c, c->in_h, c->in_w};
    int64_t w_dim[4] = {c->out_c, c->in_c, c->kernel_h, c->kernel_w};
    int64_t y_dim[4] = {c->batch, c->out_c, c->out_h, c->out_w}, k_dim[4] = {1, c->out_c, 1, 1};
    cudnnBackendDescriptor_t ops[4];
    int64_t n = 0;
    cudnnBackendDescriptor_t x = tensor(s, ID_DATA, CUDNN_DATA_INT8, x_dim, c->in_total, false);
    cudnnBackendDescriptor_t w = tensor(s, ID_WEIGHT, CUDNN_DATA_INT8, w_dim, c->in_c, false);
    cudnnBackendDescriptor_t k = tensor(s, ID_SCALE, CUDNN_DATA_FLOAT, k_dim, c->out_c, false);
    cudnnBackendDescriptor_t b = tensor(s, ID_BIAS, CUDNN_DATA_FLOAT, k_dim, c->out_c, false);
    cudnnBackendDescriptor_t y = tensor(s, ID_OUT, CUDNN_DATA_INT8, y_dim, c->out_total, false);
    cudnnBackendDescriptor_t sums = tensor(s, ID_CONV, CUDNN_DATA_FLOAT, y_dim, c->out_c, true);
    cudnnBackendDescriptor_t scaled = tensor(s, ID_SCALED, CUDNN_DATA_FLOAT, y_dim, c->out_c, true);
    ops[n++] = convolution(s, c, x, w, sums);
    ops[n++] = pointwise(s, CUDNN_POINTWISE_MUL, sums, k, scaled);
    if (relu) {
        cudnnBackendDescriptor_t added = tensor(s, ID_SUM, CUDNN_DATA_FLOAT, y_dim, c->out_c, true);
        ops[n++] = pointwise(s, CUDNN_POINTWISE_ADD, scaled, b, added);
        ops[n++] = pointwise(s, CUDNN_POINTWISE_RELU_FWD, added, NULL, y);
    } else {
        ops[n++] = pointwise(s, CUDNN_POINTWISE_ADD, scaled, b, y);
    }
    cudnnBackendDescriptor_t g = make(s, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(s, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    set(s, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->handle);
    finish(s, g);
    return g;
}

/* Engine configurations that a heuristic proposes, best first. */
static int64_t propose(cudnn_state *s, cudnnBackendDescriptor_t g, cudnnBackendHeurMode_t mode,
                       cudnnBackendDescriptor_t *configs) {
    cudnnBackendDescriptor_t h = make(s, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;
    set_object(s, h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g);
    set(s, h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(s, h);
    for (int32_t i = 0; i < MAX_PLANS; i++)
        configs[i] = make(s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (s->status != CUDNN_STATUS_SUCCESS) return 0;
    note(s, s->api.cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_PLANS, &n, configs));
    return s->status == CUDNN_STATUS_SUCCESS ? (n < MAX_PLANS ? n : MAX_PLANS) : 0;
}

/* NULL when cuDNN cannot make a plan of the configuration; that is no error. */
static cudnnBackendDescriptor_t plan_of(cudnn_state *s, cudnnBackendDescriptor_t config,
                                        int64_t *workspace) {
    cudnnBackendDescriptor_t plan = make(s, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t n = 0;
    set_object(s, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    set(s, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->handle);
    finish(s, plan);
    if (s->status == CUDNN_STATUS_SUCCESS)
        note(s, s->api.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &n, workspace));
    bool made = s->status == CUDNN_STATUS_SUCCESS;
    s->status = CUDNN_STATUS_SUCCESS;
    return made ? plan : NULL;
}

static cudnnStatus_t execute(const cudnn_state *s, cudnnBackendDescriptor_t plan, const char *in,
                             const char *packed, char *out, void *workspace, void *stream) {
    const cudnn_api *api = &s->api;
    int64_t ids[5] = {ID_DATA, ID_WEIGHT, ID_SCALE, ID_BIAS, ID_OUT};
    const void *data[5] = {in + s->in_offset, packed + s->weight_at, packed + s->scale_at,
                           packed + s->bias_at, out + s->out_offset};
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t status = api->cudnnSetStream(s->handle, stream);
#define STEP(call)                                                                                 \
    if (status == CUDNN_STATUS_SUCCESS) status = (call)
    STEP(api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    STEP(api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                       5, ids));
    STEP(api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                       CUDNN_TYPE_VOID_PTR, 5, data));
    STEP(api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                       1, &workspace));
    STEP(api->cudnnBackendFinalize(pack));
    STEP(api->cudnnBackendExecute(s->handle, plan, pack));
#undef STEP
    if (pack) (void)api->cudnnBackendDestroyDescriptor(pack);
    return status;
}

typedef struct scratch {
    void *in, *packed, *out, *workspace, *stream, *begin, *end;
} scratch;

static float time_plan(qb_ctx *cx, const cudnn_state *s, cudnnBackendDescriptor_t plan,
                       const scratch *m) {
    float ms = -1.0f;
    cudnnStatus_t status = execute(s, plan, m->in, m->packed, m->out, m->workspace, m->stream);
    if (status != CUDNN_STATUS_SUCCESS || qb_cuda_event_record(cx, m->begin, m->stream) != QB_OK)
        return -1.0f;
    for (int i = 0; i < TIMED_RUNS && status == CUDNN_STATUS_SUCCESS; i++)
        status = execute(s, plan, m->in, m->packed, m->out, m->workspace, m->stream);
    if (status != CUDNN_STATUS_SUCCESS || qb_cuda_event_record(cx, m->end, m->stream) != QB_OK ||
        qb_cuda_sync(cx, m->stream) != QB_OK)
        return -1.0f;
    return qb_cuda_event_elapsed(cx, m->begin, m->end, &ms) == QB_OK ? ms / TIMED_RUNS : -1.0f;
}

/* The plan of one of the configurations, by its number from 1 on. */
static qb_status take_plan(qb_ctx *cx, cudnn_state *s, cudnnBackendDescriptor_t *configs,
                           int64_t n_configs, int32_t variant, char *impl, size_t impl_size) {
    s->plan = variant <= n_configs ? plan_of(s, configs[variant - 1], &s->workspace_bytes) : NULL;
    if (!s->plan) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN has no such plan here");
    s->variant = variant;
    snprintf(impl, impl_size, "cudnn plan %d of %d", (int)variant, (int)n_configs);
    return QB_OK;
}

/* Times all plans on the device and keeps the fastest. */
static qb_status choose_plan(qb_ctx *cx, cudnn_state *s, const qb_problem *p,
                             cudnnBackendDescriptor_t *configs, int64_t n_configs, char *impl,
                             size_t impl_size) {
    qb_status status = QB_OK;
    scratch m = {0};
    float best = -1.0f;
    cudnnBackendDescriptor_t plans[MAX_PLANS];
    int64_t bytes[MAX_PLANS] = {0}, most = 0, n = n_configs;
    for (int64_t i = 0; i < n; i++) plans[i] = plan_of(s, configs[i], &bytes[i]);
    for (int64_t i = 0; i < n; i++)
        if (bytes[i] > most) most = bytes[i];
    QB_GO(qb_cuda_alloc(cx, qb_desc_bytes(&p->in[QB_IN_DATA]), &m.in));
    QB_GO(qb_cuda_alloc(cx, (size_t)s->packed_bytes, &m.packed));
    QB_GO(qb_cuda_alloc(cx, qb_desc_bytes(&p->out), &m.out));
    QB_GO(qb_cuda_alloc(cx, (size_t)most, &m.workspace));
    QB_GO(qb_cuda_stream_open(cx, &m.stream));
    QB_GO(qb_cuda_event_open(cx, &m.begin));
    QB_GO(qb_cuda_event_open(cx, &m.end));
    /* not zeros: they run faster than data does */
    QB_GO(qb_cuda_fill(cx, m.in, 0x5a, qb_desc_bytes(&p->in[QB_IN_DATA]), m.stream));
    QB_GO(qb_cuda_fill(cx, m.packed, 0x3c, (size_t)s->packed_bytes, m.stream));
    for (int64_t i = 0; i < n; i++) {
        float ms = plans[i] ? time_plan(cx, s, plans[i], &m) : -1.0f;
        if (ms <= 0.0f) continue;
        if (best > 0.0f && ms >= best) continue;
        best = ms;
        s->plan = plans[i];
        s->workspace_bytes = bytes[i];
        s->variant = (int32_t)i + 1;
        snprintf(impl, impl_size, "cudnn plan %d of %d", (int)s->variant, (int)n);
    }
    if (!s->plan) status = qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN has no plan for this problem");
out:
    qb_cuda_event_close(m.begin);
    qb_cuda_event_close(m.end);
    qb_cuda_stream_close(m.stream);
    qb_cuda_free(m.in);
    qb_cuda_free(m.packed);
    qb_cuda_free(m.out);
    qb_cuda_free(m.workspace);
    return status;
}

static void release(cudnn_state *s) {
    pthread_mutex_destroy(&s->lock);
    if (s->api.library) {
        while (s->n_objects > 0)
            (void)s->api.cudnnBackendDestroyDescriptor(s->object[--s->n_objects]);
        if (s->handle) (void)s->api.cudnnDestroy(s->handle);
        dlclose(s->api.library);
    }
    qb_free(s);
}

static void destroy(qb_kernel *kernel) {
    if (kernel->state) release(kernel->state);
}

static bool takes(const qb_problem *p, const bool *constant, qb_cuda_conv *c) {
    if (!qb_cuda_conv_of(p, constant, QB_CUDA_FORM_TENSOR, 16, 16, c) || c->narrow) return false;
    return (c->mode == QB_CUDA_PLAIN || c->mode == QB_CUDA_PLAIN_ZERO) && c->in_signed &&
           p->out.dtype == QB_DTYPE_S8 && c->out_zero == 0 &&
           (p->act.kind == QB_ACT_NONE || p->act.kind == QB_ACT_RELU) &&
           (!p->in[QB_IN_DATA].q.zero || p->in[QB_IN_DATA].q.zero[0] == 0);
}

static bool supports(const qb_problem *problem, const bool *constant) {
    qb_cuda_conv conv;
    return takes(problem, constant, &conv);
}

/* Weight [M][taps][C] as the graph declares it; scale and bias in units of the result's codes. */
static qb_status pack(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                      void *packed) {
    (void)cx;
    const cudnn_state *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    const qb_desc *w = &p->in[QB_IN_WEIGHT];
    int64_t channels = w->shape.dim[1], taps = 1, outs = w->shape.dim[0];
    for (int32_t d = 2; d < w->shape.rank; d++) taps *= w->shape.dim[d];
    const int8_t *from = constants[QB_IN_WEIGHT];
    const int32_t *bias = qb_problem_has(p, QB_IN_BIAS) ? constants[QB_IN_BIAS] : NULL;
    int8_t *to = (int8_t *)packed + s->weight_at;
    float *scale = (float *)(void *)((char *)packed + s->scale_at);
    float *sums = (float *)(void *)((char *)packed + s->bias_at);
    memset(packed, 0, (size_t)s->packed_bytes);
    for (int64_t m = 0; m < outs; m++) {
        for (int64_t c = 0; c < channels; c++)
            for (int64_t t = 0; t < taps; t++)
                to[(m * taps + t) * channels + c] = from[(m * channels + c) * taps + t];
        float real = p->in[QB_IN_DATA].q.scale[0] * w->q.scale[w->q.n > 1 ? m : 0];
        scale[m] = real / p->out.q.scale[0];
        sums[m] = bias ? (float)bias[m] * scale[m] : 0.0f;
    }
    return QB_OK;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    cudnn_state *s = kernel->state;
    pthread_mutex_lock(&s->lock);
    cudnnStatus_t status = execute(s, s->plan, args->in[QB_IN_DATA], args->packed, args->out,
                                   args->workspace, args->stream);
    pthread_mutex_unlock(&s->lock);
    if (status == CUDNN_STATUS_SUCCESS) return QB_OK;
    return qb_fail(cx, QB_STATUS_INTERNAL, "cuDNN: %s", s->api.cudnnGetErrorString(status));
}

static qb_status open_state(qb_ctx *cx, const qb_problem *p, const qb_cuda_conv *c, cudnn_state *s,
                            char *impl, size_t impl_size) {
    if (!open_library(&s->api)) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no libcudnn.so.9 here");
    int64_t weight = (int64_t)c->out_c * c->in_c * c->kernel_h * c->kernel_w;
    s->scale_at = (weight + 255) / 256 * 256;
    s->bias_at = s->scale_at + ((int64_t)c->out_c * 4 + 255) / 256 * 256;
    s->packed_bytes = s->bias_at + (int64_t)c->out_c * 4;
    s->in_offset = c->in_offset;
    s->out_offset = c->out_offset;
    note(s, s->api.cudnnCreate(&s->handle));
    cudnnBackendDescriptor_t configs[MAX_PLANS];
    cudnnBackendDescriptor_t g = graph(s, c, p->act.kind == QB_ACT_RELU);
    int64_t n = propose(s, g, CUDNN_HEUR_MODE_A, configs);
    if (s->status != CUDNN_STATUS_SUCCESS || n == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN does not take this problem: %s",
                       s->api.cudnnGetErrorString(s->status));
    return p->variant > 0 ? take_plan(cx, s, configs, n, p->variant, impl, impl_size)
                          : choose_plan(cx, s, p, configs, n, impl, impl_size);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)threads;
    qb_cuda_conv conv;
    qb_cuda_device device;
    if (!takes(problem, constant, &conv))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: not for this problem", tactic->name);
    QB_TRY(qb_cuda_current(cx, &device));
    qb_kernel *kernel;
    QB_TRY(qb_kernel_alloc(cx, tactic, problem, &kernel));
    cudnn_state *s = kernel->state = qb_alloc(cx, 1, sizeof *s);
    kernel->destroy = destroy;
    if (s) pthread_mutex_init(&s->lock, NULL);
    qb_status status =
        s ? open_state(cx, problem, &conv, s, kernel->impl, sizeof kernel->impl) : QB_STATUS_NOMEM;
    if (status != QB_OK) {
        qb_kernel_free(kernel);
        return status;
    }
    kernel->problem.variant = s->variant;
    kernel->in[QB_IN_DATA].layout = kernel->problem.out.layout = QB_LAYOUT_NHWC;
    kernel->in[QB_IN_WEIGHT].layout = QB_LAYOUT_ROW;
    kernel->packed_bytes = (size_t)s->packed_bytes;
    kernel->workspace_bytes = (size_t)s->workspace_bytes;
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT | (uint64_t)1 << QB_IN_BIAS;
    kernel->pack = pack;
    kernel->launch = launch;
    *out = kernel;
    return QB_OK;
}

const qb_tactic qb_tactic_cuda_conv_s8_cudnn = {.name = "cuda.conv_s8.cudnn",
                                                .backend = "cuda",
                                                .kind = QB_KIND_CONV,
                                                .exactness = QB_WITHIN_1_LSB,
                                                .device_memory = true,
                                                .supports = supports,
                                                .create = create};
