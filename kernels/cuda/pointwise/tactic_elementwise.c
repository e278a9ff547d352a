/* Functions of one or two tensors. Activations without exact arithmetic on the device have rows of
 * their own, which promise results within one step; functions of 8-bit values are tables that the
 * reference fills, exact for every activation. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/elementwise.h"

typedef struct lowered {
    qb_problem problem;
    qb_desc in[2];
    qb_cuda_elementwise e;
} lowered;

static bool lower(const qb_problem *p, bool smooth, lowered *to) {
    qb_cuda_strides strides[QB_CUDA_OPERANDS];
    qb_cuda_elementwise *e = &to->e;
    *to = (lowered){.e = {.n_in = p->n_in,
                          .binary = (int32_t)p->binary,
                          .act = (int32_t)p->act.kind,
                          .alpha = p->act.alpha,
                          .beta = p->act.beta}};
    if (p->n_in < 1 || p->n_in > 2 || qb_cuda_is_smooth(p->act.kind) != smooth) return false;
    qb_cuda_choose_layouts(p, &to->problem, to->in);
    if (!qb_cuda_value_of(&to->problem.out, &e->out) ||
        !qb_cuda_strides_of(&to->problem.out, &strides[0]))
        return false;
    qb_shape shape = p->out.shape;
    if (shape.rank > 1) shape.dim[1] = qb_cuda_stored_channels(&to->problem.out, to->in, p->n_in);
    for (int32_t i = 0; i < p->n_in; i++) {
        if (!qb_cuda_value_of(&to->in[i], &e->in[i])) return false;
        if (!qb_cuda_strides_of(&to->in[i], &strides[1 + i])) return false;
        qb_cuda_broadcast(&to->in[i], &p->out.shape, &strides[1 + i]);
    }
    return qb_cuda_walk_make(&shape, strides, 1 + p->n_in, &e->walk);
}

bool qb_cuda_elementwise_of(const qb_problem *p, qb_cuda_elementwise *e) {
    lowered x;
    if (!lower(p, qb_cuda_is_smooth(p->act.kind), &x)) return false;
    *e = x.e;
    return true;
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const void *b = kernel->problem.n_in > 1 ? args->in[1] : NULL;
    return qb_cuda_check(
        cx, qb_cuda_elementwise_run(kernel->state, args->in[0], b, args->out, args->stream),
        kernel->tactic->name);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem, bool smooth,
                        qb_kernel **out) {
    lowered x;
    if (!lower(problem, smooth, &x)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_create(cx, tactic, &x.problem, &x.e, sizeof x.e, out));
    (*out)->in_place_inputs = qb_cuda_in_place(&x.problem, x.in);
    (*out)->launch = launch;
    return QB_OK;
}

#define FUNCTION(SYMBOL, NAME, KIND, SMOOTH, EXACTNESS)                                            \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        lowered x;                                                                                 \
        (void)constant;                                                                            \
        return problem->kind == KIND && lower(problem, SMOOTH, &x);                                \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        (void)constant, (void)threads;                                                             \
        return create(cx, tactic, problem, SMOOTH, out);                                           \
    }                                                                                              \
    QB_CUDA_TACTIC(SYMBOL, NAME, KIND, EXACTNESS)

FUNCTION(cuda_binary, "binary", QB_KIND_BINARY, false, QB_EXACT);
FUNCTION(cuda_binary_smooth, "binary_smooth", QB_KIND_BINARY, true, QB_WITHIN_1_LSB);
FUNCTION(cuda_unary, "unary", QB_KIND_UNARY, false, QB_EXACT);
FUNCTION(cuda_unary_smooth, "unary_smooth", QB_KIND_UNARY, true, QB_WITHIN_1_LSB);

/* ---- functions of quantized values as tables ------------------------------------------------- */

static bool lower_table(const qb_problem *p, lowered *to) {
    if (!lower(p, qb_cuda_is_smooth(p->act.kind), to) || p->n_in != 1) return false;
    return to->in[0].dtype == QB_DTYPE_U8 || to->in[0].dtype == QB_DTYPE_S8;
}

static qb_status table_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const qb_cuda_elementwise *e = kernel->state;
    int32_t size = (int32_t)qb_dtype_size(kernel->problem.out.dtype);
    return qb_cuda_check(
        cx, qb_cuda_table_run(&e->walk, args->packed, size, args->in[0], args->out, args->stream),
        kernel->tactic->name);
}

static bool cuda_unary_table_supports(const qb_problem *problem, const bool *constant) {
    lowered x;
    (void)constant;
    return problem->kind == QB_KIND_UNARY && lower_table(problem, &x);
}

static qb_status cuda_unary_table_create(qb_ctx *cx, const qb_tactic *tactic,
                                         const qb_problem *problem, const bool *constant,
                                         int threads, qb_kernel **out) {
    lowered x;
    (void)constant, (void)threads;
    if (!lower_table(problem, &x)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_create(cx, tactic, &x.problem, &x.e, sizeof x.e, out));
    qb_kernel *kernel = *out;
    kernel->in_place_inputs = qb_cuda_in_place(&x.problem, x.in);
    kernel->packed_bytes = 256 * qb_dtype_size(x.problem.out.dtype);
    kernel->pack = qb_cuda_pack_table;
    kernel->launch = table_launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_unary_table, "unary_s8.table", QB_KIND_UNARY, QB_EXACT);
