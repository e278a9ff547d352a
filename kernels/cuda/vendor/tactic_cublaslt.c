/* Matrix products of cuBLASLt as tactics. Floats: bias, residual, ReLU and the tanh form of GELU
 * are its own epilogue; a result in quantized values, one with a residual of another type, or in
 * f32 one with another activation, is made of one in f32 by a second kernel. Quantized values: its
 * int32 sums go to the workspace, and the end of the step is ours, so that it is complete and
 * exact; u8 data is first copied to s8 with the zero point 128 less. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/pointwise/elementwise.h"
#include "kernels/cuda/vendor/cublaslt.h"

typedef struct cublaslt_state {
    qb_cuda_gemm gemm;
    qb_cuda_gemm_plan *plan;
    int64_t at_weight, at_bias, packed_bytes; /* -1: not packed */
    qb_cuda_conv conv;                        /* quantized values: constants and end of the step */
    qb_desc conv_in[4];
    size_t data_bytes, sum_bytes; /* in the workspace, before the library's */
    bool flip;
    bool converts; /* floats: a result in f32 becomes the step's */
    qb_cuda_elementwise convert;
} cublaslt_state;

static void destroy(qb_kernel *kernel) {
    cublaslt_state *s = kernel->state;
    qb_cuda_gemm_close(s->plan);
    qb_free(s);
}

static qb_status make(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                      cublaslt_state *s, qb_kernel **out) {
    char impl[64] = "";
    int32_t variant = problem->variant;
    QB_TRY(qb_cuda_gemm_open(cx, &s->gemm, &variant, &s->plan, impl, sizeof impl));
    qb_status status = qb_cuda_create(cx, tactic, problem, s, sizeof *s, out);
    if (status != QB_OK) {
        qb_cuda_gemm_close(s->plan);
        return status;
    }
    qb_kernel *kernel = *out;
    memcpy(kernel->impl, impl, sizeof impl);
    for (int32_t i = 0; i < problem->n_in; i++) kernel->in[i].layout = QB_LAYOUT_ROW;
    kernel->problem.out.layout = QB_LAYOUT_ROW;
    kernel->problem.variant = variant;
    kernel->packed_bytes = (size_t)s->packed_bytes;
    kernel->workspace_bytes = s->data_bytes + s->sum_bytes + qb_cuda_gemm_workspace(s->plan);
    if (s->at_weight >= 0) kernel->packed_inputs |= (uint64_t)1 << QB_IN_WEIGHT;
    if (qb_problem_has(problem, QB_IN_BIAS)) kernel->packed_inputs |= (uint64_t)1 << QB_IN_BIAS;
    kernel->destroy = destroy;
    return QB_OK;
}

/* ---- floats ---------------------------------------------------------------------------------- */

/* The step from matrix to matrix where all leading dimensions are one, or none moves. */
static bool single_step(const int32_t *lead, const int64_t *stride, int32_t n, int64_t *step) {
    int64_t next = -1;
    *step = 0;
    for (int32_t d = n - 1; d >= 0; d--) {
        if (lead[d] == 1) continue;
        if (next >= 0 && stride[d] != next) return false;
        if (next < 0) *step = stride[d];
        next = stride[d] * lead[d];
    }
    return true;
}

static bool is_library_act(qb_act_kind act) {
    return act == QB_ACT_NONE || act == QB_ACT_RELU || act == QB_ACT_GELU_TANH;
}

/* What follows the product in f32, as the end of a fused step does it: quantized by a product with
 * 1 / scale. `finishes`: activation and residual are part of it. */
static bool lower_convert(const qb_problem *p, bool finishes, cublaslt_state *s) {
    const bool residual = qb_problem_has(p, QB_IN_RESIDUAL);
    qb_desc in[2] = {p->out, residual ? p->in[QB_IN_RESIDUAL] : p->out}, out = p->out;
    int64_t end = 0;
    in[0].dtype = QB_DTYPE_F32;
    in[0].q = (qb_qparams){.axis = -1};
    in[0].layout = in[1].layout = out.layout = QB_LAYOUT_ROW;
    const qb_problem sum = {.kind = residual ? QB_KIND_BINARY : QB_KIND_UNARY,
                            .binary = QB_BINARY_ADD,
                            .act = p->act,
                            .n_in = residual ? 2 : 1,
                            .in = in,
                            .out = out};
    s->converts = true;
    if (finishes ? !qb_cuda_elementwise_of(&sum, &s->convert)
                 : !qb_cuda_copy_plan(&in[0], NULL, &out, 0, &s->convert))
        return false;
    s->convert.divide = false;
    qb_cuda_reserve(&end, (int64_t)qb_desc_bytes(&in[0]));
    s->sum_bytes = (size_t)end;
    return true;
}

static bool lower_float(const qb_problem *p, const bool *constant, qb_dtype dtype,
                        cublaslt_state *s) {
    qb_cuda_matmul x;
    if (p->n_in < 2 || !qb_cuda_matmul_of(p, constant, false, &x)) return false;
    if (x.integer || p->in[QB_IN_DATA].dtype != dtype || constant[QB_IN_DATA]) return false;
    bool fixed = constant[QB_IN_WEIGHT], residual = qb_problem_has(p, QB_IN_RESIDUAL);
    qb_dtype weight = p->in[QB_IN_WEIGHT].dtype;
    const bool quantizes = p->out.q.n == 1;
    qb_dtype result = quantizes ? QB_DTYPE_F32 : p->out.dtype;
    const bool other_act = !is_library_act(p->act.kind);
    const bool finishes = other_act || (residual && p->in[QB_IN_RESIDUAL].dtype != result);
    if (finishes) result = QB_DTYPE_F32;
    if (weight != (fixed ? QB_DTYPE_F32 : dtype) || p->out.q.n > 1) return false;
    if (other_act && (quantizes || dtype != QB_DTYPE_F32)) return false; /* tiles of ours do it */
    if (residual && p->act_first && p->act.kind != QB_ACT_NONE) return false;
    if (result != dtype && result != QB_DTYPE_F32) return false;
    if (residual && constant[QB_IN_RESIDUAL]) return false;
    if (x.m == 0 || x.n == 0 || x.k == 0 || x.matrices == 0) return false;
    *s = (cublaslt_state){.at_weight = -1, .at_bias = -1};
    if ((quantizes || finishes) && !lower_convert(p, finishes, s)) return false;
    s->gemm = (qb_cuda_gemm){.m = x.m,
                             .n = x.n,
                             .k = x.k,
                             .batch = x.matrices,
                             .a_transposed = p->transpose_a,
                             .b_transposed = fixed || p->transpose_b,
                             .in = dtype,
                             .out = result,
                             .act = finishes ? QB_ACT_NONE : p->act.kind,
                             .has_bias = x.has_bias,
                             .has_residual = residual && !finishes,
                             .scale = p->scale};
    qb_cuda_gemm *g = &s->gemm;
    g->out_pitch = x.n;
    g->a_pitch = p->transpose_a ? x.a_step : x.a_row;
    g->b_pitch = fixed ? x.k : p->transpose_b ? x.b_step : x.b_row; /* a constant is [n][k] */
    if (!single_step(x.lead, x.a_lead, x.n_lead, &g->a_step) ||
        !single_step(x.lead, x.b_lead, x.n_lead, &g->b_step))
        return false;
    if (g->b_step == 0 && !g->a_transposed &&
        g->a_step == (int64_t)x.m * x.k) { /* one tall matrix */
        g->m *= g->batch;
        g->batch = 1;
    }
    int64_t size = (int64_t)qb_dtype_size(dtype), out_size = (int64_t)qb_dtype_size(result);
    if (fixed)
        s->at_weight =
            qb_cuda_reserve(&s->packed_bytes, qb_shape_count(&p->in[QB_IN_WEIGHT].shape) * size);
    if (x.has_bias) s->at_bias = qb_cuda_reserve(&s->packed_bytes, x.n * out_size);
    return true;
}

static void put_float(char *to, qb_dtype dtype, int64_t at, float v) {
    if (dtype == QB_DTYPE_F16)
        ((uint16_t *)(void *)to)[at] = qb_f32_to_f16(v);
    else
        ((float *)(void *)to)[at] = v;
}

static qb_status pack_float(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                            void *packed) {
    (void)cx;
    const cublaslt_state *s = kernel->state;
    const qb_cuda_gemm *g = &s->gemm;
    bool transposed = kernel->problem.transpose_b;
    const int64_t size = (int64_t)g->n * g->k;
    const int64_t all = s->at_weight < 0 ? 0 : qb_shape_count(&kernel->in[QB_IN_WEIGHT].shape);
    memset(packed, 0, kernel->packed_bytes);
    for (int64_t first = 0; first < all; first += size) /* each matrix */
        for (int64_t n = 0; n < g->n; n++)
            for (int64_t k = 0; k < g->k; k++)
                put_float(
                    (char *)packed + s->at_weight, g->in, first + n * g->k + k,
                    ((const float *)constants[QB_IN_WEIGHT])[first + (transposed ? n * g->k + k
                                                                                 : k * g->n + n)]);
    for (int64_t n = 0; s->at_bias >= 0 && n < g->n; n++)
        put_float((char *)packed + s->at_bias, g->out, n,
                  ((const float *)constants[QB_IN_BIAS])[n]);
    return QB_OK;
}

static qb_status launch_float(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const cublaslt_state *s = kernel->state;
    const char *packed = args->packed, *name = kernel->tactic->name;
    const void *b = s->at_weight >= 0 ? packed + s->at_weight : args->in[QB_IN_WEIGHT];
    const void *residual = kernel->problem.n_in > QB_IN_RESIDUAL ? args->in[QB_IN_RESIDUAL] : NULL;
    char *workspace = args->workspace;
    QB_TRY(qb_cuda_gemm_run(
        cx, s->plan, args->in[QB_IN_DATA], b, s->at_bias >= 0 ? packed + s->at_bias : NULL,
        s->gemm.has_residual ? residual : NULL, s->converts ? workspace : args->out,
        workspace + s->sum_bytes, args->stream));
    if (!s->converts) return QB_OK;
    if (s->convert.n_in == 2)
        return qb_cuda_check(
            cx, qb_cuda_elementwise_run(&s->convert, workspace, residual, args->out, args->stream),
            name);
    return qb_cuda_check(cx, qb_cuda_copy_run(&s->convert, workspace, args->out, args->stream),
                         name);
}

static qb_status create_float(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                              const bool *constant, qb_dtype dtype, bool tf32, qb_kernel **out) {
    cublaslt_state s;
    if (!lower_float(problem, constant, dtype, &s)) return qb_cuda_not_for(cx, tactic);
    s.gemm.tf32 = tf32;
    QB_TRY(make(cx, tactic, problem, &s, out));
    (*out)->packing_id =
        qb_packing_add(qb_packing_add(1, problem->transpose_b), (uint64_t)problem->out.dtype);
    (*out)->pack = pack_float;
    (*out)->launch = launch_float;
    return QB_OK;
}

/* ---- quantized values
 * ----------------------------------------------------------------------------------- */

/* Rows are pixels, columns output channels; constants and the end are the convolution's. */
static bool lower_quantized(const qb_problem *p, const bool *constant, bool smooth,
                            cublaslt_state *s) {
    *s = (cublaslt_state){.at_weight = 0, .at_bias = -1};
    if (p->kind != QB_KIND_MATMUL || p->n_in < 2 || p->n_in > 4 || !constant[QB_IN_WEIGHT] ||
        smooth != qb_cuda_is_smooth(p->act.kind) || p->transpose_a || p->scale != 1.0f)
        return false;
    qb_cuda_matmul x;
    if (!qb_cuda_matmul_of(p, constant, smooth, &x) || !x.integer) return false;
    int64_t rows = (int64_t)x.m * x.matrices;
    if (p->in[QB_IN_WEIGHT].shape.rank != 2 || x.n % 16 || x.k % 16 || rows == 0 || x.k == 0 ||
        rows * x.n > INT32_MAX)
        return false;
    qb_problem conv = *p;
    conv.kind = QB_KIND_CONV;
    conv.in = s->conv_in;
    conv.group = 1;
    conv.window = (qb_window){.n = 2, .kernel = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}};
    memcpy(s->conv_in, p->in, (size_t)p->n_in * sizeof *s->conv_in);
    qb_desc *images[] = {&s->conv_in[QB_IN_DATA], &s->conv_in[QB_IN_RESIDUAL], &conv.out};
    for (int i = 0; i < 3; i++) { /* rows in front, so that no side of an image is too long */
        int64_t channels = i == 0 ? x.k : x.n;
        if (i == 1 && !qb_problem_has(p, QB_IN_RESIDUAL)) continue;
        images[i]->layout = QB_LAYOUT_NHWC;
        images[i]->shape = (qb_shape){.rank = 4, .dim = {rows, channels, 1, 1}};
    }
    s->conv_in[QB_IN_WEIGHT].shape = (qb_shape){.rank = 4, .dim = {x.n, x.k, 1, 1}};
    if (rows >= 32768) { /* the convolution's limit of one side */
        int64_t high = 1;
        while (rows / high >= 32768 || rows % high) high++;
        if (high >= 32768) return false;
        for (int i = 0; i < 3; i++) {
            images[i]->shape.dim[0] = rows / high;
            images[i]->shape.dim[2] = high;
        }
    }
    if (!qb_cuda_conv_of(&conv, constant, QB_CUDA_PACKING_TENSOR, 16, 64, &s->conv)) return false;
    s->gemm = (qb_cuda_gemm){.m = (int32_t)rows,
                             .n = x.n,
                             .k = x.k,
                             .batch = 1,
                             .a_pitch = x.k,
                             .b_pitch = x.k,
                             .out_pitch = s->conv.n_pad,
                             .b_transposed = true,
                             .in = QB_DTYPE_S8,
                             .out = QB_DTYPE_S32,
                             .scale = 1.0f};
    s->flip = p->in[QB_IN_DATA].dtype == QB_DTYPE_U8;
    int64_t end = 0;
    if (s->flip) qb_cuda_reserve(&end, rows * x.k);
    s->data_bytes = (size_t)end;
    end = 0;
    qb_cuda_reserve(&end, rows * s->conv.n_pad * 4);
    s->sum_bytes = (size_t)end;
    s->packed_bytes = s->conv.packed_bytes;
    return s->conv.k_pad == x.k;
}

/* The problem that constants are packed for: data flipped has a zero point 128 less. */
static qb_problem packed_problem(const qb_kernel *kernel, const cublaslt_state *s, int32_t *zero,
                                 qb_desc *in) {
    qb_problem p = kernel->problem;
    p.kind = QB_KIND_CONV;
    memcpy(in, s->conv_in, sizeof s->conv_in);
    for (int32_t i = 0; i < p.n_in; i++) in[i].q = kernel->problem.in[i].q;
    qb_qparams *q = &in[QB_IN_DATA].q;
    *zero = (q->zero ? q->zero[0] : 0) - (s->flip ? 128 : 0);
    q->zero = zero;
    p.in = in;
    return p;
}

static qb_status pack_quantized(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                                void *packed) {
    const cublaslt_state *s = kernel->state;
    int64_t n = s->gemm.n, k = s->gemm.k;
    int32_t zero;
    qb_desc in[4];
    qb_problem p = packed_problem(kernel, s, &zero, in);
    int8_t *weight = qb_alloc(cx, (size_t)(n * k) + 1, 1);
    if (!weight) return QB_STATUS_NOMEM;
    const int8_t *from = constants[QB_IN_WEIGHT];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++)
            weight[i * k + j] = from[kernel->problem.transpose_b ? i * k + j : j * n + i];
    const void *all[4] = {0};
    for (int32_t i = 0; i < p.n_in; i++) all[i] = constants[i];
    all[QB_IN_WEIGHT] = weight;
    qb_cuda_conv_pack(&p, &s->conv, QB_CUDA_PACKING_TENSOR, all, packed);
    memcpy(packed, weight, (size_t)(n * k)); /* the library wants channels in their order */
    qb_free(weight);
    return QB_OK;
}

static qb_status launch_quantized(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const cublaslt_state *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    const char *packed = args->packed, *name = kernel->tactic->name;
    char *data = args->workspace, *sums = data + s->data_bytes, *rest = sums + s->sum_bytes;
    const void *a = args->in[QB_IN_DATA];
    if (s->flip) {
        int64_t bytes = (int64_t)s->gemm.m * s->gemm.k;
        QB_TRY(qb_cuda_check(cx, qb_cuda_flip_run(a, data, bytes, args->stream), name));
        a = data;
    }
    QB_TRY(qb_cuda_gemm_run(cx, s->plan, a, packed, NULL, NULL, sums, rest, args->stream));
    const qb_cuda_conv_io io = {
        .in = a,
        .residual = qb_problem_has(p, QB_IN_RESIDUAL) ? args->in[QB_IN_RESIDUAL] : NULL,
        .out = args->out,
        .packed = packed,
        .workspace = sums};
    return qb_cuda_check(cx, qb_cuda_conv_reduce(&s->conv, &io, args->stream), name);
}

static qb_status create_quantized(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                  const bool *constant, bool smooth, qb_kernel **out) {
    cublaslt_state s;
    if (!lower_quantized(problem, constant, smooth, &s)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(make(cx, tactic, problem, &s, out));
    (*out)->packing_id = qb_packing_add(qb_cuda_conv_packing_id(&s.conv), problem->transpose_b);
    (*out)->pack = pack_quantized;
    (*out)->launch = launch_quantized;
    return QB_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

#define CUBLASLT(SYMBOL, NAME, EXACTNESS, LOWER, CREATE)                                           \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        cublaslt_state s;                                                                          \
        return LOWER;                                                                              \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        (void)threads;                                                                             \
        return CREATE;                                                                             \
    }                                                                                              \
    QB_CUDA_TACTIC(SYMBOL, NAME, QB_KIND_MATMUL, EXACTNESS)

CUBLASLT(cuda_matmul_f16_cublaslt, "matmul_f16.cublaslt", QB_EXACT,
         lower_float(problem, constant, QB_DTYPE_F16, &s),
         create_float(cx, tactic, problem, constant, QB_DTYPE_F16, false, out));
CUBLASLT(cuda_matmul_f32_cublaslt, "matmul_f32.cublaslt", QB_EXACT,
         lower_float(problem, constant, QB_DTYPE_F32, &s),
         create_float(cx, tactic, problem, constant, QB_DTYPE_F32, false, out));
CUBLASLT(cuda_matmul_tf32_cublaslt, "matmul_tf32.cublaslt", QB_EXACT,
         problem->tf32 &&lower_float(problem, constant, QB_DTYPE_F32, &s),
         create_float(cx, tactic, problem, constant, QB_DTYPE_F32, true, out));
CUBLASLT(cuda_matmul_s8_cublaslt, "matmul_s8.cublaslt", QB_EXACT,
         lower_quantized(problem, constant, false, &s),
         create_quantized(cx, tactic, problem, constant, false, out));
CUBLASLT(cuda_matmul_s8_cublaslt_smooth, "matmul_s8.cublaslt_smooth", QB_WITHIN_1_LSB,
         lower_quantized(problem, constant, true, &s),
         create_quantized(cx, tactic, problem, constant, true, out));
