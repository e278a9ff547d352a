/* Chains of elementwise functions as tactics. Of one 8-bit value they are tables that the reference
 * fills. */
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/cuda/pointwise/chain.h"
#include "kernels/cuda/pointwise/elementwise.h"

/* ---- the program ----------------------------------------------------------------------------- */

/* The last operation that reads the result of operation i; -1: none. */
static int32_t last_reader(const qb_chain *chain, int32_t i) {
    const int32_t wanted = chain->n_in + chain->n_constants + i;
    for (int32_t n = chain->n_operations - 1; n > i; n--)
        for (int32_t a = 0; a < qb_function_arguments(chain->operation[n].function); a++)
            if (chain->operation[n].in[a] == wanted) return n;
    return -1;
}

/* Where operation n finds a register; `slot`: of each result. */
static uint8_t source(const qb_chain *chain, int32_t n, int32_t in, const int32_t *slot) {
    const int32_t results = chain->n_in + chain->n_constants;
    if (in < chain->n_in) return (uint8_t)(QB_CUDA_CHAIN_INPUT + in);
    if (in < results) return (uint8_t)(QB_CUDA_CHAIN_CONSTANT + in - chain->n_in);
    if (in - results == n - 1) return QB_CUDA_CHAIN_LAST;
    return (uint8_t)(QB_CUDA_CHAIN_SLOT + slot[in - results]);
}

/* A slot whose result is read no more behind operation n, which may read it itself. */
static int32_t free_slot(int32_t n, int32_t *until) {
    for (int32_t s = 0; s < QB_CUDA_CHAIN_SLOTS; s++)
        if (until[s] <= n) return s;
    return QB_CUDA_CHAIN_SLOTS;
}

bool qb_cuda_chain_compile(const qb_chain *chain, qb_cuda_chain *out) {
    int32_t slot[QB_CHAIN_OPERATIONS], until[QB_CUDA_CHAIN_SLOTS] = {0};
    out->n_in = chain->n_in;
    out->n_operations = chain->n_operations;
    out->n_slots = 0;
    out->divide = chain->divide;
    for (int32_t i = 0; i < chain->n_constants; i++) out->constant[i] = chain->constant[i];
    for (int32_t n = 0; n < chain->n_operations; n++) {
        const qb_chain_operation *from = &chain->operation[n];
        qb_cuda_chain_operation *to = &out->operation[n];
        const int32_t arguments = qb_function_arguments(from->function);
        const int32_t last = last_reader(chain, n);
        *to = (qb_cuda_chain_operation){.function = (uint8_t)from->function,
                                        .arguments = (uint8_t)arguments,
                                        .slot = QB_CUDA_CHAIN_SLOTS,
                                        .divide = from->quantized.divide,
                                        .narrow = from->narrow};
        for (int32_t a = 0; a < arguments; a++) to->from[a] = source(chain, n, from->in[a], slot);
        if (from->function == QB_FUNCTION_QUANTIZE) {
            const qb_chain_quantized *q = &from->quantized;
            const qb_desc desc = {.dtype = q->dtype, .q = {q->dtype, -1, 1, &q->scale, &q->zero}};
            if (!qb_cuda_value_of(&desc, &out->quantized[n])) return false;
        }
        if (last <= n + 1) continue;
        slot[n] = free_slot(n, until);
        if (slot[n] == QB_CUDA_CHAIN_SLOTS) return false;
        to->slot = (uint8_t)slot[n];
        until[slot[n]] = last;
        if (out->n_slots <= slot[n]) out->n_slots = slot[n] + 1;
    }
    return true;
}

/* ---- problems -------------------------------------------------------------------------------- */

typedef struct lowered {
    qb_cuda_chain c; /* first: what the kernel's state begins with */
    qb_chain program;
    qb_problem problem;
    qb_desc in[QB_MAX_INPUTS];
} lowered;

static bool value_of(const qb_desc *d, qb_cuda_value *out) {
    if (qb_cuda_value_of(d, out)) return true;
    return d->q.n == 0 &&
           (d->dtype == QB_DTYPE_BOOL || d->dtype == QB_DTYPE_S32 || d->dtype == QB_DTYPE_S64);
}

/* Eight elements of all operands lie together, or one stands for them. */
static bool is_wide(const qb_cuda_walk *w, int32_t n) {
    const int32_t last = w->rank - 1;
    if (last < 0 || w->dim[last] % QB_CUDA_CHAIN_WIDE || w->stride[0][last] != 1) return false;
    for (int32_t k = 0; k < n; k++) {
        if (w->stride[k][last] == 0) continue;
        int64_t all = w->first[k];
        for (int32_t d = 0; d < last; d++) all |= w->stride[k][d];
        if (w->stride[k][last] != 1 || all % QB_CUDA_CHAIN_WIDE) return false;
    }
    return true;
}

/* Do the elements of operand k follow each other in the order of the walk? */
static bool follows(const qb_cuda_walk *w, int32_t k) {
    int64_t next = 1;
    for (int32_t d = w->rank - 1; d >= 0; next *= w->dim[d--])
        if (w->dim[d] > 1 && w->stride[k][d] != next) return false;
    return w->rank > 0 && w->first[k] % QB_CUDA_CHAIN_WIDE == 0;
}

static void choose_way(qb_cuda_chain *c) {
    bool together = true;
    for (int32_t i = 0; i < QB_CUDA_CHAIN_WALKS; i++) {
        const int32_t n = c->n_in - i * (QB_CUDA_OPERANDS - 1);
        together = together && is_wide(&c->walk[i], n < 1 ? 1 : n < 2 ? 2 : 3);
    }
    for (int32_t k = 0; k < c->n_in; k++)
        if (follows(&c->walk[k / 2], 1 + k % 2)) c->alike |= UINT32_C(1) << k;
    const bool following = follows(&c->walk[0], 0) && c->walk[0].count % QB_CUDA_CHAIN_WIDE == 0;
    c->way = together    ? QB_CUDA_CHAIN_TOGETHER
             : following ? QB_CUDA_CHAIN_FOLLOWING
                         : QB_CUDA_CHAIN_APART;
}

/* The inputs from `first` on, at most two of them, beside the result. */
static bool make_walk(const lowered *x, int32_t first, qb_cuda_walk *walk) {
    qb_cuda_strides strides[QB_CUDA_OPERANDS] = {{0}};
    const qb_shape *shape = &x->problem.out.shape;
    int32_t n = 1;
    if (!qb_cuda_strides_of(&x->problem.out, &strides[0])) return false;
    for (int32_t i = first; i < x->problem.n_in && n < QB_CUDA_OPERANDS; i++, n++) {
        if (!qb_cuda_strides_of(&x->in[i], &strides[n])) return false;
        qb_cuda_broadcast(&x->in[i], shape, &strides[n]);
    }
    return qb_cuda_walk_make(shape, strides, n, walk);
}

static bool lower(const qb_problem *p, lowered *to) {
    qb_cuda_chain *c = &to->c;
    *to = (lowered){.c = {.n_in = 0}};
    if (p->kind != QB_KIND_CHAIN || p->n_in < 1 || p->n_in > QB_CHAIN_INPUTS || !p->chain)
        return false;
    qb_cuda_choose_layouts(p, &to->problem, to->in);
    to->program = *p->chain;
    if (!qb_chain_valid(&to->problem) || !qb_cuda_chain_compile(&to->program, c) ||
        !value_of(&to->problem.out, &c->out))
        return false;
    for (int32_t i = 0; i < p->n_in; i++)
        if (!value_of(&to->in[i], &c->in[i])) return false;
    for (int32_t i = 0; i < QB_CUDA_CHAIN_WALKS; i++)
        if (!make_walk(to, i * (QB_CUDA_OPERANDS - 1), &c->walk[i])) return false;
    choose_way(c);
    return true;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, lowered *x, qb_kernel **out) {
    QB_TRY(qb_cuda_create(cx, tactic, &x->problem, x, sizeof *x, out));
    (*out)->problem.chain = &((const lowered *)(*out)->state)->program;
    (*out)->in_place_inputs = qb_cuda_in_place(&x->problem, x->in);
    return QB_OK;
}

/* ---- programs -------------------------------------------------------------------------------- */

static bool cuda_chain_supports(const qb_problem *problem, const bool *constant) {
    lowered x;
    (void)constant;
    return lower(problem, &x) && !x.program.integer;
}

static qb_status chain_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const void *in[QB_CHAIN_INPUTS] = {0};
    for (int32_t i = 0; i < kernel->problem.n_in; i++) in[i] = args->in[i];
    return qb_cuda_check(cx, qb_cuda_chain_run(kernel->state, in, args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_chain_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                                   const bool *constant, int threads, qb_kernel **out) {
    lowered x;
    (void)constant, (void)threads;
    if (!lower(problem, &x)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(create(cx, tactic, &x, out));
    (*out)->launch = chain_launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_chain, "chain", QB_KIND_CHAIN, QB_WITHIN_1_LSB);

/* ---- integers -------------------------------------------------------------------------------- */

static bool cuda_chain_integer_supports(const qb_problem *problem, const bool *constant) {
    lowered x;
    (void)constant;
    return lower(problem, &x) && x.program.integer;
}

static qb_status chain_integer_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const void *in[QB_CHAIN_INPUTS] = {0};
    for (int32_t i = 0; i < kernel->problem.n_in; i++) in[i] = args->in[i];
    return qb_cuda_check(cx, qb_cuda_chain_integer_run(kernel->state, in, args->out, args->stream),
                         kernel->tactic->name);
}

static qb_status cuda_chain_integer_create(qb_ctx *cx, const qb_tactic *tactic,
                                           const qb_problem *problem, const bool *constant,
                                           int threads, qb_kernel **out) {
    QB_TRY(cuda_chain_create(cx, tactic, problem, constant, threads, out));
    (*out)->launch = chain_integer_launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_chain_integer, "chain.integer", QB_KIND_CHAIN, QB_EXACT);

/* ---- tables ---------------------------------------------------------------------------------- */

static bool lower_table(const qb_problem *p, lowered *to) {
    return p->n_in == 1 && p->in[0].q.n == 1 && qb_dtype_size(p->out.dtype) <= 4 &&
           qb_shape_equal(&p->in[0].shape, &p->out.shape) && lower(p, to);
}

static qb_status table_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const lowered *x = kernel->state;
    const int32_t size = (int32_t)qb_dtype_size(kernel->problem.out.dtype);
    return qb_cuda_check(
        cx,
        qb_cuda_table_run(&x->c.walk[0], args->packed, size, args->in[0], args->out, args->stream),
        kernel->tactic->name);
}

static bool cuda_chain_table_supports(const qb_problem *problem, const bool *constant) {
    lowered x;
    (void)constant;
    return lower_table(problem, &x);
}

static qb_status cuda_chain_table_create(qb_ctx *cx, const qb_tactic *tactic,
                                         const qb_problem *problem, const bool *constant,
                                         int threads, qb_kernel **out) {
    lowered x;
    (void)constant, (void)threads;
    if (!lower_table(problem, &x)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(create(cx, tactic, &x, out));
    (*out)->packed_bytes = 256 * qb_dtype_size(x.problem.out.dtype);
    (*out)->pack = qb_cuda_pack_table;
    (*out)->launch = table_launch;
    return QB_OK;
}

QB_CUDA_TACTIC(cuda_chain_table, "chain_s8.table", QB_KIND_CHAIN, QB_EXACT);
