/* What the reference tactics share: they pack nothing, need no workspace, choose layout ROW and
 * differ in the function they launch. */
#ifndef QB_TACTIC_REF_H
#define QB_TACTIC_REF_H

#include "kernels/tactic.h"
#include "ref_internal.h"

bool qb_ref_supports(qb_kind kind, const qb_problem *problem);
/* Makes the kernel with `launch`; kernel->state holds the number of threads. */
qb_status qb_ref_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem, int threads,
                        qb_status (*launch)(qb_ctx *cx, const qb_kernel *kernel,
                                            const qb_launch *args),
                        qb_kernel **out);

static inline int qb_ref_threads(const qb_kernel *kernel) { return (int)(intptr_t)kernel->state; }

/* Defines launch, supports, create and the descriptor of tactic ref.NAME from the call it makes. */
#define QB_REF_TACTIC(NAME, KIND, CALL)                                                            \
    static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {          \
        (void)cx;                                                                                  \
        CALL;                                                                                      \
        return QB_OK;                                                                              \
    }                                                                                              \
    static bool supports(const qb_problem *problem, const bool *constant) {                        \
        (void)constant;                                                                            \
        return qb_ref_supports(KIND, problem);                                                     \
    }                                                                                              \
    static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,        \
                            const bool *constant, int threads, qb_kernel **out) {                  \
        (void)constant;                                                                            \
        return qb_ref_create(cx, tactic, problem, threads, launch, out);                           \
    }                                                                                              \
    const qb_tactic qb_tactic_ref_##NAME = {.name = "ref." #NAME,                                  \
                                            .backend = "ref",                                      \
                                            .kind = KIND,                                          \
                                            .exactness = QB_EXACT,                                 \
                                            .rounds = (KIND) == QB_KIND_CONV ||                    \
                                                      (KIND) == QB_KIND_MATMUL,                    \
                                            .supports = supports,                                  \
                                            .create = create}

#endif
