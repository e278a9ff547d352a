/* Chains of integers (kernels/integers.def): blocks of each input as integers of 64 bits, all
 * operations on them, and the result's block. */
#include <string.h>

#include "cpu_internal.h"
#include "kernels/chain.h"

#define BLOCK 256
#define BLOCKS_PER_TASK 32
#define REGISTERS (QB_CHAIN_INPUTS + QB_CHAIN_CONSTANTS + QB_CHAIN_OPERATIONS)

typedef struct chain {
    qb_chain program;
    qb_dtype in[QB_CHAIN_INPUTS], out;
    qb_shape shape;                               /* of the result */
    int64_t stride[QB_CHAIN_INPUTS][QB_MAX_RANK]; /* of an input, by the result's dimensions */
} chain;

typedef struct job {
    const chain *c;
    const void *in[QB_CHAIN_INPUTS];
    void *out;
} job;

static void apply(qb_function function, const int64_t *xs, const int64_t *ys, const int64_t *zs,
                  int64_t *to) {
    switch (function) {
#define QB_INTEGER(NAME, EXPRESSION)                                                               \
    case QB_FUNCTION_##NAME:                                                                       \
        for (int32_t i = 0; i < BLOCK; i++) {                                                      \
            const int64_t a = xs[i], b = ys[i], c = zs[i];                                         \
            (void)b, (void)c;                                                                      \
            to[i] = EXPRESSION;                                                                    \
        }                                                                                          \
        return;
#include "kernels/integers.def"
#undef QB_INTEGER
    default: return;
    }
}

static int64_t value_at(qb_dtype dtype, const void *data, int64_t at) {
    switch (dtype) {
    case QB_DTYPE_S64: return ((const int64_t *)data)[at];
    case QB_DTYPE_S32: return ((const int32_t *)data)[at];
    default: return ((const uint8_t *)data)[at] != 0;
    }
}

/* n elements of an input from element `from` of the result on; the inner dimension in one go. */
static void load(const chain *c, int32_t k, const void *data, int64_t from, int64_t n,
                 int64_t *to) {
    const int32_t last = c->shape.rank - 1;
    const int64_t inner = last < 0 ? 1 : c->shape.dim[last];
    const int64_t step = last < 0 ? 0 : c->stride[k][last];
    for (int64_t done = 0, some; done < n; done += some) {
        int64_t rest = (from + done) / inner, first = (from + done) % inner, at = first * step;
        for (int32_t d = last - 1; d >= 0; rest /= c->shape.dim[d--])
            at += rest % c->shape.dim[d] * c->stride[k][d];
        some = inner - first < n - done ? inner - first : n - done;
        for (int64_t i = 0; i < some; i++) to[done + i] = value_at(c->in[k], data, at + i * step);
    }
    memset(to + n, 0, (size_t)(BLOCK - n) * sizeof *to); /* what is made of these is thrown away */
}

static void store(const chain *c, const int64_t *from, int64_t at, int64_t n, void *data) {
    for (int64_t i = 0; i < n; i++) switch (c->out) {
        case QB_DTYPE_S64: ((int64_t *)data)[at + i] = from[i]; break;
        case QB_DTYPE_S32: ((int32_t *)data)[at + i] = (int32_t)from[i]; break;
        default: ((uint8_t *)data)[at + i] = from[i] != 0;
        }
}

static void run_block(const job *j, int64_t at, int64_t n, int64_t (*registers)[BLOCK]) {
    const qb_chain *p = &j->c->program;
    int64_t *to = registers[p->n_in + p->n_constants];
    for (int32_t k = 0; k < p->n_in; k++) load(j->c, k, j->in[k], at, n, registers[k]);
    for (int32_t i = 0; i < p->n_operations; i++) {
        const qb_chain_operation *o = &p->operation[i];
        to = registers[p->n_in + p->n_constants + i];
        apply(o->function, registers[o->in[0]], registers[o->in[1]], registers[o->in[2]], to);
        for (int32_t e = 0; o->narrow && e < BLOCK; e++) to[e] = (int32_t)to[e];
    }
    store(j->c, to, at, n, j->out);
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const qb_chain *p = &j->c->program;
    int64_t registers[REGISTERS][BLOCK];
    const int64_t first = task * BLOCKS_PER_TASK * BLOCK, count = qb_shape_count(&j->c->shape);
    for (int32_t k = 0; k < p->n_constants; k++)
        for (int32_t e = 0; e < BLOCK; e++) registers[p->n_in + k][e] = (int64_t)p->constant[k];
    for (int64_t at = first; at < count && at < first + BLOCKS_PER_TASK * BLOCK; at += BLOCK)
        run_block(j, at, count - at < BLOCK ? count - at : BLOCK, registers);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    job j = {.c = kernel->state, .out = args->out};
    for (int32_t k = 0; k < j.c->program.n_in; k++) j.in[k] = args->in[k];
    qb_workers_run(args->workers, qb_ceil64(qb_shape_count(&j.c->shape), BLOCKS_PER_TASK * BLOCK),
                   run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    if (!qb_chain_valid(p) || !p->chain->integer || !qb_cpu_is_rows(&p->out)) return false;
    for (int32_t k = 0; k < p->n_in; k++)
        if (!qb_cpu_is_rows(&p->in[k])) return false;
    return qb_shape_count(&p->out.shape) > 0;
}

static void strides_of(const qb_shape *in, const qb_shape *out, int64_t *stride) {
    int64_t step = 1;
    for (int32_t d = out->rank - 1, own = in->rank - 1; d >= 0; d--, own--) {
        stride[d] = own < 0 || in->dim[own] == 1 ? 0 : step;
        if (own >= 0) step *= in->dim[own];
    }
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(chain), out));
    chain *c = (*out)->state;
    c->program = *p->chain;
    (*out)->problem.chain = &c->program;
    c->out = p->out.dtype;
    c->shape = p->out.shape;
    for (int32_t k = 0; k < p->n_in; k++) {
        c->in[k] = p->in[k].dtype;
        strides_of(&p->in[k].shape, &p->out.shape, c->stride[k]);
    }
    (*out)->launch = launch;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_chain_integer = {.name = "cpu.chain.integer",
                                               .backend = "cpu",
                                               .kind = QB_KIND_CHAIN,
                                               .exactness = QB_EXACT,
                                               .supports = supports,
                                               .create = create};
