/* Matrix products with a constant right side: convolutions with a 1x1 window whose pixels are the
 * rows, on the best instruction set there is. */
#include "conv_internal.h"

static bool supports_f32(const qb_problem *p, const bool *constant) {
    return qb_matmul_supports(p, constant, QB_DTYPE_F32);
}

static bool supports_s8(const qb_problem *p, const bool *constant) {
    return qb_matmul_supports(p, constant, QB_DTYPE_S8);
}

static bool supports_bf16(const qb_problem *p, const bool *constant) {
    return qb_processor_has(QB_TIER_AVX512_BF16) && qb_matmul_supports(p, constant, QB_DTYPE_BF16);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, qb_conv_best(p), out);
}

QB_TACTIC(cpu_matmul_f32, "cpu.matmul_f32.packed", "cpu", QB_KIND_MATMUL, QB_EXACT, supports_f32,
          create, .is_portable = qb_cpu_lacks_avx2);
QB_TACTIC(cpu_matmul_s8, "cpu.matmul_s8.packed", "cpu", QB_KIND_MATMUL, QB_EXACT, supports_s8,
          create, .rounds = true);
QB_TACTIC(cpu_matmul_bf16, "cpu.matmul_bf16.avx512bf16", "cpu", QB_KIND_MATMUL, QB_WITHIN_1_LSB,
          supports_bf16, create);
