/* Matrix products of cuBLASLt. The library is opened when the first plan is made, so that nothing
 * depends on its being installed. */
#ifndef QB_CUDA_CUBLASLT_H
#define QB_CUDA_CUBLASLT_H

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* out = act(scale a b + bias + residual) for row-major matrices: a [m][k], or [k][m] where it is
 * turned; b [k][n], or [n][k]. Pitches and steps from matrix to matrix in elements; matrices of out
 * follow each other, and so do those of the residual, with the same pitch. */
typedef struct qb_cuda_gemm {
    int32_t m, n, k, batch;
    int64_t a_pitch, b_pitch, out_pitch, a_step, b_step;
    bool a_transposed, b_transposed;
    qb_dtype in, out; /* F16 -> F16 or F32, F32 -> F32, S8 -> S32 */
    qb_act_kind act;  /* NONE, RELU or GELU_TANH; S8: NONE */
    bool has_bias;    /* [n], of the type of the result; not for S8 */
    bool has_residual;
    bool tf32;   /* F32: factors are rounded to TF32 */
    float scale; /* S8: 1 */
} qb_cuda_gemm;

typedef struct qb_cuda_gemm_plan qb_cuda_gemm_plan;

/* Asks the library's heuristic and times what it offers, for the calling thread's device; with
 * *variant 1 takes the first, untried. *variant becomes that of what was taken: with it the same
 * plan is made again without asking, and the library is opened by the first run. `impl` gets its
 * name for the algorithm. UNSUPPORTED without the library or where it has nothing. */
qb_status qb_cuda_gemm_open(qb_ctx *cx, const qb_cuda_gemm *gemm, int32_t *variant,
                            qb_cuda_gemm_plan **out, char *impl, size_t impl_size);
void qb_cuda_gemm_close(qb_cuda_gemm_plan *plan);
size_t qb_cuda_gemm_workspace(const qb_cuda_gemm_plan *plan);
/* May be captured but for the first time, and called from many threads. Pointers are aligned to 256
 * bytes. */
qb_status qb_cuda_gemm_run(qb_ctx *cx, qb_cuda_gemm_plan *plan, const void *a, const void *b,
                           const void *bias, const void *residual, void *out, void *workspace,
                           void *stream);

/* quantized values[i] ^ 0x80: u8 to s8 with the zero point 128 less, or back. `n` is a multiple
 * of 16. */
int qb_cuda_flip_run(const void *in, void *out, int64_t n, void *stream);

#ifdef __cplusplus
}
#endif
#endif
