/* 8-bit matrix product with a constant right side: a convolution with a 1x1 window whose pixels are
 * the rows, on the best instruction set there is. */
#include "conv_internal.h"

static bool supports(const qb_problem *p, const bool *constant) {
    return qb_matmul_supports(p, constant, QB_DTYPE_S8);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    return qb_conv_create(cx, tactic, p, constant, threads, qb_conv_best(p), out);
}

QB_TACTIC(cpu_matmul_s8, "cpu.matmul_s8.packed", "cpu", QB_KIND_MATMUL, QB_EXACT, supports, create,
          .rounds = true);
