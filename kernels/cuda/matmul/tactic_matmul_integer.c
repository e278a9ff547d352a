/* MATMUL_INTEGER as tactics: cuBLASLt's product of s8, whose sums are the result once the zero
 * points are in them, and a plain kernel. */
#include <string.h>

#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/vendor/cublaslt.h"

/* ---- the problem ----------------------------------------------------------------------------- */

/* The sizes are those of a MATMUL of quantized values with scale 1 to floats. */
static bool lower_sizes(const qb_problem *p, qb_cuda_matmul *shape) {
    static const float one = 1.0f;
    const bool constant[2] = {false, false};
    qb_desc in[2];
    qb_problem product = *p;
    product.kind = QB_KIND_MATMUL;
    product.in = in;
    product.n_in = 2;
    product.out.dtype = QB_DTYPE_F32;
    for (int i = 0; i < 2; i++) {
        in[i] = p->in[i];
        in[i].q = (qb_qparams){.dtype = in[i].dtype, .axis = -1, .n = 1, .scale = &one};
    }
    return qb_cuda_matmul_of(&product, constant, false, shape);
}

static bool lower(const qb_problem *p, qb_cuda_integer *x) {
    *x = (qb_cuda_integer){0};
    if (!qb_problem_is_integer(p) || !lower_sizes(p, &x->shape)) return false;
    x->a_signed = p->in[QB_IN_DATA].dtype == QB_DTYPE_S8;
    x->b_signed = p->in[QB_IN_WEIGHT].dtype == QB_DTYPE_S8;
    if (qb_problem_has(p, QB_IN_WEIGHT_ZERO))
        x->b_zeros = (int32_t)qb_shape_count(&p->in[QB_IN_WEIGHT_ZERO].shape);
    return true;
}

static const void *input(const qb_kernel *kernel, const qb_launch *args, int32_t i) {
    return qb_problem_has(&kernel->problem, i) ? args->in[i] : NULL;
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

typedef struct library_state {
    qb_cuda_integer p;
    qb_cuda_gemm gemm;
    qb_cuda_gemm_plan *plan;
    bool flips, sums, ends;                   /* what there is to do around the product */
    int64_t at_columns;                       /* in the packed block, behind the weight */
    int64_t at_quantized, at_sums, own_bytes; /* in the workspace, before the library's */
} library_state;

static bool lower_library(const qb_problem *p, const bool *constant, library_state *s) {
    *s = (library_state){0};
    if (!lower(p, &s->p) || !constant[QB_IN_WEIGHT] || p->in[QB_IN_WEIGHT].shape.rank != 2)
        return false;
    const qb_cuda_matmul *x = &s->p.shape;
    const int64_t rows = (int64_t)x->m * x->matrices;
    if (x->n % 16 || x->k % 16 || x->n == 0 || x->k == 0 || rows == 0) return false;
    s->gemm = (qb_cuda_gemm){.m = (int32_t)rows,
                             .n = x->n,
                             .k = x->k,
                             .batch = 1,
                             .a_pitch = x->k,
                             .b_pitch = x->k,
                             .out_pitch = x->n,
                             .b_transposed = true,
                             .in = QB_DTYPE_S8,
                             .out = QB_DTYPE_S32,
                             .scale = 1.0f};
    s->flips = !s->p.a_signed;
    s->sums = !s->p.b_signed || s->p.b_zeros > 0;
    s->ends = s->flips || s->sums || qb_problem_has(p, QB_IN_DATA_ZERO);
    s->at_quantized = qb_cuda_reserve(&s->own_bytes, s->flips ? rows * x->k : 0);
    s->at_sums = qb_cuda_reserve(&s->own_bytes, s->sums ? rows * 4 : 0);
    return true;
}

/* The weight as s8 [n][k], and the sums of its columns. */
static qb_status pack_library(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                              void *packed) {
    (void)cx;
    const library_state *s = kernel->state;
    const uint8_t *from = constants[QB_IN_WEIGHT], flip = s->p.b_signed ? 0 : 0x80;
    int8_t *weight = packed;
    uint32_t *columns = (uint32_t *)(void *)((char *)packed + s->at_columns); /* they wrap, too */
    const int64_t n = s->gemm.n, k = s->gemm.k;
    memset(packed, 0, kernel->packed_bytes);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) {
            const int8_t code = (int8_t)(from[i * n + j] ^ flip);
            weight[j * k + i] = code;
            columns[j] += (uint32_t)code;
        }
    return QB_OK;
}

static qb_status launch_library(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const library_state *s = kernel->state;
    const char *name = kernel->tactic->name, *packed = args->packed;
    char *workspace = args->workspace;
    void *quantized = s->flips ? workspace + s->at_quantized : NULL;
    int32_t *sums = s->sums ? (int32_t *)(void *)(workspace + s->at_sums) : NULL;
    const void *a = args->in[QB_IN_DATA];
    if (quantized || sums)
        QB_TRY(qb_cuda_check(cx, qb_cuda_integer_begin_run(&s->p, a, quantized, sums, args->stream),
                             name));
    QB_TRY(qb_cuda_gemm_run(cx, s->plan, quantized ? quantized : a, packed, NULL, NULL, args->out,
                            workspace + s->own_bytes, args->stream));
    if (!s->ends) return QB_OK;
    return qb_cuda_check(
        cx,
        qb_cuda_integer_epilogue_run(
            &s->p, input(kernel, args, QB_IN_DATA_ZERO), input(kernel, args, QB_IN_WEIGHT_ZERO),
            sums, (const int32_t *)(const void *)(packed + s->at_columns), args->out, args->stream),
        name);
}

static void destroy_library(qb_kernel *kernel) {
    library_state *s = kernel->state;
    qb_cuda_gemm_close(s->plan);
    qb_free(s);
}

static bool cuda_matmul_integer_cublaslt_supports(const qb_problem *problem, const bool *constant) {
    library_state s;
    return lower_library(problem, constant, &s);
}

static qb_status cuda_matmul_integer_cublaslt_create(qb_ctx *cx, const qb_tactic *tactic,
                                                     const qb_problem *problem,
                                                     const bool *constant, int threads,
                                                     qb_kernel **out) {
    library_state s;
    char impl[64] = "";
    int32_t variant = problem->variant;
    (void)threads;
    if (!lower_library(problem, constant, &s)) return qb_cuda_not_for(cx, tactic);
    int64_t packed = 0;
    qb_cuda_reserve(&packed, (int64_t)s.gemm.n * s.gemm.k);
    s.at_columns = qb_cuda_reserve(&packed, (int64_t)s.gemm.n * 4);
    QB_TRY(qb_cuda_gemm_open(cx, &s.gemm, &variant, &s.plan, impl, sizeof impl));
    qb_status status = qb_cuda_create_row(cx, tactic, problem, &s, sizeof s, out);
    if (status != QB_OK) {
        qb_cuda_gemm_close(s.plan);
        return status;
    }
    qb_kernel *kernel = *out;
    memcpy(kernel->impl, impl, sizeof impl);
    kernel->problem.variant = variant;
    kernel->packed_bytes = (size_t)packed;
    kernel->packing_id = 1;
    kernel->packed_inputs = (uint64_t)1 << QB_IN_WEIGHT;
    kernel->workspace_bytes = (size_t)s.own_bytes + qb_cuda_gemm_workspace(s.plan);
    kernel->pack = pack_library;
    kernel->launch = launch_library;
    kernel->destroy = destroy_library;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_matmul_integer_cublaslt, "matmul_integer.cublaslt", QB_KIND_MATMUL_INTEGER,
               QB_EXACT);

/* ---- plain ----------------------------------------------------------------------------------- */

static qb_status launch_plain(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    return qb_cuda_check(
        cx,
        qb_cuda_matmul_integer_run(kernel->state, args->in[QB_IN_DATA], args->in[QB_IN_WEIGHT],
                                   input(kernel, args, QB_IN_DATA_ZERO),
                                   input(kernel, args, QB_IN_WEIGHT_ZERO), args->out, args->stream),
        kernel->tactic->name);
}

QB_CUDA_TACTIC_LOWERED_ROW(cuda_matmul_integer, "matmul_integer", QB_KIND_MATMUL_INTEGER, QB_EXACT,
                           qb_cuda_integer, lower, launch_plain, NULL);
