/* The library counts columns first: a row-major [m][n] is its n x m. So out^T = b^T a^T, and b is
 * its first operand. */
#include "kernels/cuda/vendor/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/common/device.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)
#define WORKSPACE ((size_t)32 << 20) /* bytes that an algorithm may use */
#define MAX_ALGORITHMS 8
#define WARM_UP 2
#define TIMED_RUNS 5

#define CUBLASLT_FUNCTIONS(X)                                                                      \
    X(cublasLtCreate)                                                                              \
    X(cublasLtMatmulDescInit_internal)                                                             \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatrixLayoutInit_internal)                                                           \
    X(cublasLtMatrixLayoutSetAttribute)                                                            \
    X(cublasLtMatmulPreferenceInit_internal)                                                       \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtMatmul)

#define DEVICES_MAX 64

/* Open for as long as the process runs: the library keeps its kernels in it, in a handle for each
 * device. */
static struct {
    bool ready;
    pthread_mutex_t lock;
    cublasLtHandle_t handle[DEVICES_MAX];
#define X(name) __typeof__(&name) name;
    CUBLASLT_FUNCTIONS(X)
#undef X
} lt;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    bool complete = true;
#define X(name)                                                                                    \
    {                                                                                              \
        void *symbol = dlsym(library, #name);                                                      \
        memcpy(&lt.name, &symbol, sizeof symbol);                                                  \
        complete = complete && symbol;                                                             \
    }
    CUBLASLT_FUNCTIONS(X)
#undef X
    pthread_mutex_init(&lt.lock, NULL);
    lt.ready = complete;
}

/* A variant: the number of the algorithm in the heuristic's list, and its workspace in pages, so
 * that a plan whose variant is known need not ask the library before it runs: opening that takes a
 * tenth of a second. */
#define NUMBER_BITS 8
#define PAGE 4096
#define KNOWN (1 << 30)

struct qb_cuda_gemm_plan {
    qb_cuda_gemm gemm;
    size_t workspace;
    int32_t number; /* of the algorithm, from 1 on; 0: to be chosen */
    /* From the first run on, or from the beginning: */
    pthread_mutex_t lock;
    bool ready;
    cublasLtMatrixLayoutOpaque_t a, b, out;
    cublasLtMatmulAlgo_t algorithm;
    cublasLtHandle_t handle;
};

static qb_status check(qb_ctx *cx, cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return QB_OK;
    return qb_fail(
        cx, status == CUBLAS_STATUS_NOT_SUPPORTED ? QB_STATUS_UNSUPPORTED : QB_STATUS_INTERNAL,
        "cuBLASLt: %s: %s", what, lt.cublasLtGetStatusString(status));
}

static cudaDataType_t type_of(qb_dtype dtype) {
    switch (dtype) {
    case QB_DTYPE_F16: return CUDA_R_16F;
    case QB_DTYPE_S8: return CUDA_R_8I;
    case QB_DTYPE_S32: return CUDA_R_32I;
    default: return CUDA_R_32F;
    }
}

static cublasLtEpilogue_t epilogue_of(const qb_cuda_gemm *g) {
    switch (g->act) {
    case QB_ACT_RELU: return g->has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case QB_ACT_GELU_TANH:
        return g->has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: return g->has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* On the caller's stack: it holds the bias, which differs from launch to launch. */
static qb_status describe(qb_ctx *cx, const qb_cuda_gemm *g, const void *bias,
                          cublasLtMatmulDescOpaque_t *d) {
    bool quantized = g->in == QB_DTYPE_S8;
    cublasOperation_t a = g->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = g->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(g);
    const cublasComputeType_t compute = quantized ? CUBLAS_COMPUTE_32I
                                        : g->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
    QB_TRY(check(cx,
                 lt.cublasLtMatmulDescInit_internal(d, sizeof *d, compute,
                                                    quantized ? CUDA_R_32I : CUDA_R_32F),
                 "description"));
#define SET(NAME, VALUE)                                                                           \
    QB_TRY(check(cx,                                                                               \
                 lt.cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_##NAME, &(VALUE),       \
                                                   sizeof(VALUE)),                                 \
                 "description"))
    SET(TRANSA, b); /* its first operand is our second */
    SET(TRANSB, a);
    SET(EPILOGUE, epilogue);
    if (g->has_bias) SET(BIAS_POINTER, bias);
#undef SET
    return QB_OK;
}

/* `width` elements without a gap, `height` times, `pitch` apart. */
static qb_status lay_out(qb_ctx *cx, cublasLtMatrixLayoutOpaque_t *to, qb_dtype dtype,
                         int64_t width, int64_t height, int64_t pitch, int32_t batch,
                         int64_t step) {
    QB_TRY(check(cx,
                 lt.cublasLtMatrixLayoutInit_internal(to, sizeof *to, type_of(dtype),
                                                      (uint64_t)width, (uint64_t)height, pitch),
                 "layout"));
    if (batch == 1) return QB_OK;
    QB_TRY(check(cx,
                 lt.cublasLtMatrixLayoutSetAttribute(to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                     sizeof batch),
                 "layout"));
    return check(cx,
                 lt.cublasLtMatrixLayoutSetAttribute(
                     to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step),
                 "layout");
}

static qb_status lay_all(qb_ctx *cx, qb_cuda_gemm_plan *p) {
    const qb_cuda_gemm *g = &p->gemm;
    QB_TRY(lay_out(cx, &p->a, g->in, g->a_transposed ? g->m : g->k, g->a_transposed ? g->k : g->m,
                   g->a_pitch, g->batch, g->a_step));
    QB_TRY(lay_out(cx, &p->b, g->in, g->b_transposed ? g->k : g->n, g->b_transposed ? g->n : g->k,
                   g->b_pitch, g->batch, g->b_step));
    return lay_out(cx, &p->out, g->out, g->n, g->m, g->out_pitch, g->batch, g->m * g->out_pitch);
}

/* The largest power of two up to 256 that divides the step in bytes: what all matrices of a batch
 * are aligned to. */
static uint32_t alignment_of(const qb_cuda_gemm *g, qb_dtype dtype, int64_t step) {
    uint32_t align = 256;
    int64_t bytes = step * (int64_t)qb_dtype_size(dtype);
    while (g->batch > 1 && bytes % align != 0) align /= 2;
    return align;
}

static qb_status ask(qb_ctx *cx, const qb_cuda_gemm_plan *p, cublasLtMatmulHeuristicResult_t *found,
                     int *n) {
    const qb_cuda_gemm *g = &p->gemm;
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t a_layout = p->a, b_layout = p->b, out_layout = p->out;
    size_t workspace = WORKSPACE;
    const uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; /* no sums in f16 */
    uint32_t a = alignment_of(g, g->in, g->a_step), b = alignment_of(g, g->in, g->b_step);
    uint32_t out = alignment_of(g, g->out, g->m * g->out_pitch);
    QB_TRY(describe(cx, g, NULL, &description));
    QB_TRY(check(cx, lt.cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference),
                 "preference"));
#define SET(NAME, VALUE)                                                                           \
    QB_TRY(check(cx,                                                                               \
                 lt.cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_##NAME, \
                                                         &(VALUE), sizeof(VALUE)),                 \
                 "preference"))
    SET(MAX_WORKSPACE_BYTES, workspace);
    SET(REDUCTION_SCHEME_MASK, reduction);
    SET(MIN_ALIGNMENT_A_BYTES, b);
    SET(MIN_ALIGNMENT_B_BYTES, a);
    SET(MIN_ALIGNMENT_C_BYTES, out);
    SET(MIN_ALIGNMENT_D_BYTES, out);
#undef SET
    *n = 0;
    QB_TRY(check(cx,
                 lt.cublasLtMatmulAlgoGetHeuristic(p->handle, &description, &b_layout, &a_layout,
                                                   &out_layout, &out_layout, &preference,
                                                   MAX_ALGORITHMS, found, n),
                 "heuristic"));
    return *n > 0 ? QB_OK : qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuBLASLt has no algorithm");
}

static qb_status product(qb_ctx *cx, const qb_cuda_gemm_plan *p, const void *a, const void *b,
                         const void *bias, const void *residual, void *out, void *workspace,
                         void *stream) {
    const qb_cuda_gemm *g = &p->gemm;
    cublasLtMatmulDescOpaque_t description;
    cublasLtMatrixLayoutOpaque_t a_layout = p->a, b_layout = p->b, out_layout = p->out;
    const int32_t one = 1, zero = 0;
    const float scale = g->scale, rest = g->has_residual ? 1.0f : 0.0f;
    bool quantized = g->in == QB_DTYPE_S8;
    QB_TRY(describe(cx, g, bias, &description));
    return check(cx,
                 lt.cublasLtMatmul(p->handle, &description,
                                   quantized ? (const void *)&one : (const void *)&scale, b,
                                   &b_layout, a, &a_layout,
                                   quantized ? (const void *)&zero : (const void *)&rest,
                                   g->has_residual ? residual : out, &out_layout, out, &out_layout,
                                   &p->algorithm, workspace, p->workspace, (cudaStream_t)stream),
                 "product");
}

/* What a trial needs on the device. */
typedef struct trial {
    void *a, *b, *bias, *out, *workspace, *stream, *begin, *end;
} trial;

static qb_status open_trial(qb_ctx *cx, const qb_cuda_gemm *g, trial *t) {
    size_t in = qb_dtype_size(g->in), batch = (size_t)g->batch;
    size_t matrix = (size_t)(g->m * g->out_pitch) * qb_dtype_size(g->out);
    int64_t a_rows = g->a_transposed ? g->k : g->m, b_rows = g->b_transposed ? g->n : g->k;
    QB_TRY(qb_cuda_alloc(
        cx, in * ((size_t)(g->a_step * (g->batch - 1)) + (size_t)(a_rows * g->a_pitch)), &t->a));
    QB_TRY(qb_cuda_alloc(
        cx, in * ((size_t)(g->b_step * (g->batch - 1)) + (size_t)(b_rows * g->b_pitch)), &t->b));
    QB_TRY(qb_cuda_alloc(cx, (size_t)g->n * 4, &t->bias));
    QB_TRY(qb_cuda_alloc(cx, matrix * batch, &t->out));
    QB_TRY(qb_cuda_alloc(cx, WORKSPACE, &t->workspace));
    QB_TRY(qb_cuda_stream_open(cx, &t->stream));
    QB_TRY(qb_cuda_event_open(cx, &t->begin));
    return qb_cuda_event_open(cx, &t->end);
}

static void close_trial(trial *t) {
    qb_cuda_event_close(t->begin);
    qb_cuda_event_close(t->end);
    qb_cuda_stream_close(t->stream);
    qb_cuda_free(t->a);
    qb_cuda_free(t->b);
    qb_cuda_free(t->bias);
    qb_cuda_free(t->out);
    qb_cuda_free(t->workspace);
}

static qb_status time_one(qb_ctx *cx, const qb_cuda_gemm_plan *p, const trial *t, float *ms) {
    for (int run = 0; run < WARM_UP + TIMED_RUNS; run++) {
        if (run == WARM_UP) QB_TRY(qb_cuda_event_record(cx, t->begin, t->stream));
        QB_TRY(product(cx, p, t->a, t->b, t->bias, t->out, t->out, t->workspace, t->stream));
    }
    QB_TRY(qb_cuda_event_record(cx, t->end, t->stream));
    QB_TRY(qb_cuda_sync(cx, t->stream));
    return qb_cuda_event_elapsed(cx, t->begin, t->end, ms);
}

static bool take(qb_cuda_gemm_plan *p, const cublasLtMatmulHeuristicResult_t *found) {
    p->algorithm = found->algo;
    p->workspace = found->workspaceSize;
    return found->state == CUBLAS_STATUS_SUCCESS && p->workspace <= WORKSPACE;
}

/* *best: the fastest of what the heuristic offers; an algorithm that fails when it runs is left
 * out. */
static qb_status time_all(qb_ctx *cx, qb_cuda_gemm_plan *p,
                          const cublasLtMatmulHeuristicResult_t *found, int n, int *best) {
    float best_ms = 0;
    trial t = {0};
    qb_status status = QB_OK;
    *best = -1;
    QB_GO(open_trial(cx, &p->gemm, &t));
    for (int i = 0; i < n; i++) {
        float ms = 0;
        if (!take(p, &found[i])) continue;
        if (time_one(cx, p, &t, &ms) != QB_OK) {
            qb_ctx_clear(cx);
            continue;
        }
        if (*best < 0 || ms < best_ms) {
            *best = i;
            best_ms = ms;
        }
    }
out:
    close_trial(&t);
    return status;
}

static qb_status choose(qb_ctx *cx, qb_cuda_gemm_plan *p) {
    cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS];
    int n = 0, best = p->number - 1;
    QB_TRY(ask(cx, p, found, &n));
    if (best < 0) QB_TRY(time_all(cx, p, found, n, &best));
    if (best < 0 || best >= n || !take(p, &found[best]))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no algorithm of cuBLASLt ran");
    p->number = best + 1;
    return QB_OK;
}

/* The current device's handle. */
static qb_status find_handle(qb_ctx *cx, cublasLtHandle_t *out) {
    qb_cuda_device device;
    QB_TRY(qb_cuda_current(cx, &device));
    if (device.ordinal >= DEVICES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuBLASLt: a device beyond the first %d",
                       DEVICES_MAX);
    cublasLtHandle_t *handle = &lt.handle[device.ordinal];
    cublasStatus_t code = CUBLAS_STATUS_SUCCESS;
    pthread_mutex_lock(&lt.lock);
    if (!*handle) code = lt.cublasLtCreate(handle);
    *out = *handle;
    pthread_mutex_unlock(&lt.lock);
    return check(cx, code, "opening");
}

static qb_status make_ready(qb_ctx *cx, qb_cuda_gemm_plan *p) {
    pthread_once(&once, open_library);
    if (!lt.ready) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s was not found", LIBRARY);
    QB_TRY(find_handle(cx, &p->handle));
    QB_TRY(lay_all(cx, p));
    QB_TRY(choose(cx, p));
    p->ready = true;
    return QB_OK;
}

static size_t pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE; }

qb_status qb_cuda_gemm_open(qb_ctx *cx, const qb_cuda_gemm *gemm, int32_t *variant,
                            qb_cuda_gemm_plan **out, char *impl, size_t impl_size) {
    qb_status status = QB_OK;
    qb_cuda_gemm_plan *plan = qb_alloc(cx, 1, sizeof *plan);
    if (!plan) return cx->code;
    plan->gemm = *gemm;
    plan->number = *variant & ((1 << NUMBER_BITS) - 1);
    plan->workspace = (size_t)((*variant & ~KNOWN) >> NUMBER_BITS) * PAGE;
    pthread_mutex_init(&plan->lock, NULL);
    if (!(*variant & KNOWN)) status = make_ready(cx, plan);
    if (status != QB_OK || plan->workspace > WORKSPACE) {
        qb_cuda_gemm_close(plan);
        return status != QB_OK ? status : qb_fail(cx, QB_STATUS_MISMATCH, "no such algorithm");
    }
    snprintf(impl, impl_size, "cublasLt algorithm %d of its list", (int)plan->number);
    *variant = KNOWN | (int32_t)pages(plan->workspace) << NUMBER_BITS | plan->number;
    *out = plan;
    return QB_OK;
}

void qb_cuda_gemm_close(qb_cuda_gemm_plan *plan) {
    pthread_mutex_destroy(&plan->lock);
    qb_free(plan);
}

qb_status qb_cuda_gemm_run(qb_ctx *cx, qb_cuda_gemm_plan *p, const void *a, const void *b,
                           const void *bias, const void *residual, void *out, void *workspace,
                           void *stream) {
    const size_t planned = p->workspace;
    pthread_mutex_lock(&p->lock);
    qb_status status = p->ready ? QB_OK : make_ready(cx, p);
    if (status == QB_OK && p->workspace > planned)
        status = qb_fail(cx, QB_STATUS_MISMATCH,
                         "cuBLASLt: the algorithm wants %zu bytes of "
                         "workspace, %zu when the engine was built",
                         p->workspace, planned);
    pthread_mutex_unlock(&p->lock);
    return status == QB_OK ? product(cx, p, a, b, bias, residual, out, workspace, stream) : status;
}

size_t qb_cuda_gemm_workspace(const qb_cuda_gemm_plan *plan) { return plan->workspace; }
