/* Float matrix product with a constant right side: a convolution with a 1x1 window whose pixels are
 * the rows, on the best instruction set there is. */
#include "conv_internal.h"

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_matmul_supports(p, constant, QB_DTYPE_F32);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, qb_conv_best(p), out);
}

QB_TACTIC(cpu_matmul_f32, "cpu.matmul_f32.packed", "cpu", QB_KIND_MATMUL, QB_EXACT, supports,
          create, .is_portable = qb_cpu_lacks_avx2);
