/* bf16 matrix product with a constant right side: a convolution with a 1x1 window whose pixels are
 * the rows. */
#include "conv_internal.h"

#if QB_X86
static bool supports(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512_BF16) && qb_matmul_supports(p, constant, QB_DTYPE_BF16);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, &qb_conv_bf16_avx512_bf16, out);
}
#else
QB_CPU_ABSENT
#endif

QB_TACTIC(cpu_matmul_bf16, "cpu.matmul_bf16.avx512bf16", "cpu", QB_KIND_MATMUL, QB_WITHIN_1_LSB,
          supports, create);
