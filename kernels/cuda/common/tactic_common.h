/* What the tactics of this folder share. */
#ifndef QB_CUDA_TACTIC_COMMON_H
#define QB_CUDA_TACTIC_COMMON_H

#include "kernels/cuda/common/device.h"
#include "kernels/tactic.h"

/* Gives descs with layout ANY one: images that of the others (NHWC when there is none), all else
 * ROW. The inputs go to in[QB_MAX_INPUTS]. */
void qb_cuda_choose_layouts(const qb_problem *from, qb_problem *to, qb_desc *in);
/* A kernel for a finalized problem with a copy of `state` (released with it). UNSUPPORTED without a
 * device. */
qb_status qb_cuda_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *finalized,
                         const void *state, size_t bytes, qb_kernel **out);
/* UNSUPPORTED: what a tactic answers that is given a problem it does not take. */
qb_status qb_cuda_not_for(qb_ctx *cx, const qb_tactic *tactic);
/* Calls `setup` unless it is NULL; QB_OK. */
qb_status qb_cuda_set_up(qb_kernel *kernel, void (*setup)(qb_kernel *));
/* At most INT32_MAX elements: kernels that count in 32 bits. */
bool qb_cuda_is_countable(const qb_desc *d);
/* ... row-major, or not settled, and no slice. */
bool qb_cuda_is_row(const qb_desc *d);
/* ... channels last, or not settled? */
bool qb_cuda_is_channels_last(const qb_desc *d);
/* Settles the layouts of a convolution's kernel: images are channels last, constants row-major. */
void qb_cuda_set_channels_last(qb_kernel *kernel);
/* qb_cuda_create where everything is row-major. */
qb_status qb_cuda_create_row(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                             const void *state, size_t bytes, qb_kernel **out);
/* A kernel that leaves the arithmetic to one of `tactic_in` for the problem `in`: that one's
 * constants (with their form) and workspace are its own. The state's first member is a qb_kernel *,
 * which becomes the inner kernel and is released with the outer one. Layouts, pack and launch are
 * left to the caller.
 */
qb_status qb_cuda_create_around(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                const qb_tactic *tactic_in, const qb_problem *in,
                                const bool *constant, int threads, void *state, size_t bytes,
                                qb_kernel **out);
/* The reference's answer for every value of the one 8-bit input of a UNARY or CHAIN: `pack` of a
 * kernel that is a table of 256. */
qb_status qb_cuda_pack_table(qb_ctx *cx, const qb_kernel *kernel, const void *const *constants,
                             void *packed);
/* Rounds *end up to the next boundary and reserves `bytes` there; returns where. */
int64_t qb_cuda_reserve(int64_t *end, int64_t bytes);

/* The descriptor qb_tactic_SYMBOL of cuda.NAME with functions SYMBOL_supports and SYMBOL_create. */
#define QB_CUDA_TACTIC(SYMBOL, NAME, KIND, EXACTNESS)                                              \
    QB_CUDA_TACTIC_ROW(SYMBOL, NAME, KIND, .exactness = EXACTNESS)
/* The same of create(cx, tactic, &INNER, problem, ...) and of lower(problem, constant, &lowered),
 * of the file's own type `lowered`, whose member `problem` the tactic INNER takes: a tactic around
 * another one, see qb_cuda_create_around. */
#define QB_CUDA_TACTIC_AROUND(SYMBOL, NAME, KIND, EXACTNESS, INNER)                                \
    extern const qb_tactic INNER;                                                                  \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        lowered inner;                                                                             \
        return lower(problem, constant, &inner) &&                                                 \
               qb_tactic_takes(&INNER, &inner.problem, constant);                                  \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        return create(cx, tactic, &INNER, problem, constant, threads, out);                        \
    }                                                                                              \
    QB_CUDA_TACTIC_ROW(SYMBOL, NAME, KIND, .exactness = EXACTNESS, .rounds = true)
/* The same with SYMBOL_compete, of which SYMBOL_create is made. */
#define QB_CUDA_TACTIC_COMPETING(SYMBOL, NAME, KIND, EXACTNESS)                                    \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        (void)threads;                                                                             \
        return SYMBOL##_compete(cx, tactic, problem, constant, 0, out);                            \
    }                                                                                              \
    QB_CUDA_TACTIC_ROW(SYMBOL, NAME, KIND, .exactness = EXACTNESS, .compete = SYMBOL##_compete)
/* The same of LOWER, which tells whether the tactic takes a problem of this kind and fills in what
 * its kernel holds: lower(problem, &finalized, in, &state), with layouts as qb_cuda_choose_layouts
 * chooses them. SETUP(kernel) sets what else a kernel has; NULL: nothing. */
#define QB_CUDA_TACTIC_LOWERED(SYMBOL, NAME, KIND, EXACTNESS, STATE, LOWER, LAUNCH, SETUP)         \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        qb_problem finalized;                                                                      \
        qb_desc in[QB_MAX_INPUTS];                                                                 \
        STATE state;                                                                               \
        (void)constant;                                                                            \
        return problem->kind == KIND && LOWER(problem, &finalized, in, &state);                    \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        qb_problem finalized;                                                                      \
        qb_desc in[QB_MAX_INPUTS];                                                                 \
        STATE state;                                                                               \
        (void)constant, (void)threads;                                                             \
        if (!LOWER(problem, &finalized, in, &state)) return qb_cuda_not_for(cx, tactic);           \
        QB_TRY(qb_cuda_create(cx, tactic, &finalized, &state, sizeof state, out));                 \
        (*out)->launch = LAUNCH;                                                                   \
        return qb_cuda_set_up(*out, SETUP);                                                        \
    }                                                                                              \
    QB_CUDA_TACTIC(SYMBOL, NAME, KIND, EXACTNESS)
/* The same where everything is row-major: lower(problem, &state). */
#define QB_CUDA_TACTIC_LOWERED_ROW(SYMBOL, NAME, KIND, EXACTNESS, STATE, LOWER, LAUNCH, SETUP)     \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        STATE state;                                                                               \
        (void)constant;                                                                            \
        return problem->kind == KIND && LOWER(problem, &state);                                    \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        STATE state;                                                                               \
        (void)constant, (void)threads;                                                             \
        if (!LOWER(problem, &state)) return qb_cuda_not_for(cx, tactic);                           \
        QB_TRY(qb_cuda_create_row(cx, tactic, problem, &state, sizeof state, out));                \
        (*out)->launch = LAUNCH;                                                                   \
        return qb_cuda_set_up(*out, SETUP);                                                        \
    }                                                                                              \
    QB_CUDA_TACTIC(SYMBOL, NAME, KIND, EXACTNESS)
#define QB_CUDA_TACTIC_ROW(SYMBOL, NAME, KIND, ...)                                                \
    const qb_tactic qb_tactic_##SYMBOL = {.name = "cuda." NAME,                                    \
                                          .backend = "cuda",                                       \
                                          .kind = KIND,                                            \
                                          .device_memory = true,                                   \
                                          .supports = SYMBOL##_supports,                           \
                                          .create = SYMBOL##_create,                               \
                                          __VA_ARGS__}

#endif
