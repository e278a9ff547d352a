/* Fused attention as a tactic: f16 queries, keys and values; everything row-major. */
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/tactic_common.h"
#include "kernels/heads.h"

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_MASK };
#define WGMMA 64 /* queries of a tile on wgmma */
#define SPLIT 4  /* warps that share 16 queries */

typedef struct attention_way {
    int (*prepare)(const qb_cuda_attention *p);
    int (*run)(const qb_cuda_attention *p, const void *q, const void *k, const void *v,
               const void *mask, void *out, int32_t multiprocessors, void *stream);
} attention_way;

#ifdef QB_HAVE_WGMMA
static const attention_way hopper = {qb_cuda_attention_wgmma_prepare, qb_cuda_attention_wgmma_run};
#else
static const attention_way hopper = {NULL, NULL}; /* never chosen */
#endif
static const attention_way portable = {qb_cuda_attention_prepare, qb_cuda_attention_run};

typedef struct attention_state {
    qb_cuda_attention p;
    const attention_way *way;
    int32_t multiprocessors;
} attention_state;

/* Do all heads begin at multiples of `n` elements, and end there? */
static bool lies_on(const qb_cuda_attention *a, int64_t n) {
    const qb_heads *all[4] = {&a->q, &a->k, &a->v, &a->out};
    int64_t rest = a->size % n + a->value_size % n;
    for (int32_t i = 0; i < 4; i++) {
        rest += all[i]->offset % n;
        for (int32_t d = 0; d < 4; d++) rest += all[i]->stride[d] % n;
    }
    return rest == 0;
}

bool qb_cuda_attention_of(const qb_problem *p, int32_t queries, qb_cuda_attention *a) {
    qb_attention of;
    *a = (qb_cuda_attention){.heads = (int32_t)p->group,
                             .scale = p->scale,
                             .queries = queries == SPLIT ? 16 : queries,
                             .split = queries == SPLIT};
    if (!qb_attention_of(p, &of) || !qb_cuda_is_row(&p->out)) return false;
    for (int32_t i = IN_QUERY; i <= IN_VALUE; i++)
        if (p->in[i].dtype != QB_DTYPE_F16 || p->in[i].q.n > 0 || !qb_cuda_is_row(&p->in[i]))
            return false;
    a->q = of.in[IN_QUERY];
    a->k = of.in[IN_KEY];
    a->v = of.in[IN_VALUE];
    a->out = of.out;
    a->batch = (int32_t)of.batch;
    a->rows = (int32_t)of.rows;
    a->keys = (int32_t)of.keys;
    a->size = (int32_t)of.size;
    a->value_size = (int32_t)of.value_size;
    a->pairs = !lies_on(a, 8);
    if (!lies_on(a, 2) ||
        qb_cuda_attention_longest(a) > (a->queries == 16 ? QB_CUDA_ATTENTION_SIZE : 64))
        return false;
    if (qb_problem_has(p, IN_MASK) &&
        (!qb_attention_mask(p, &of, a->mask) || !qb_cuda_is_row(&p->in[IN_MASK]) ||
         p->in[IN_MASK].q.n > 0 || !qb_cuda_value_of(&p->in[IN_MASK], &a->mask_value)))
        return false;
    if (queries == WGMMA && (a->pairs || a->keys > QB_CUDA_ATTENTION_KEYS || a->mask[2] != 0))
        return false;
    return qb_cuda_value_of(&p->out, &a->out_value);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const attention_state *s = kernel->state;
    const void *mask = qb_problem_has(&kernel->problem, IN_MASK) ? args->in[IN_MASK] : NULL;
    QB_TRY(qb_cuda_check(cx, s->way->prepare(&s->p), kernel->tactic->name));
    return qb_cuda_check(cx,
                         s->way->run(&s->p, args->in[IN_QUERY], args->in[IN_KEY],
                                     args->in[IN_VALUE], mask, args->out, s->multiprocessors,
                                     args->stream),
                         kernel->tactic->name);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        int32_t queries, qb_kernel **out) {
    attention_state s;
    qb_cuda_device device;
    if (!qb_cuda_attention_of(problem, queries, &s.p)) return qb_cuda_not_for(cx, tactic);
    QB_TRY(qb_cuda_current(cx, &device));
    bool wgmma = queries == WGMMA;
    const qb_cuda_need need = {
        .wgmma = wgmma,
        .shared_bytes = wgmma ? QB_CUDA_ATTENTION_WGMMA_SHARED
                              : QB_CUDA_ATTENTION_SHARED(qb_cuda_attention_longest(&s.p))};
    QB_TRY(qb_cuda_need_check(cx, tactic->name, &need, &device));
    s.way = wgmma ? &hopper : &portable;
    s.multiprocessors = device.multiprocessors;
    QB_TRY(qb_cuda_create(cx, tactic, problem, &s, sizeof s, out));
    for (int32_t i = 0; i < problem->n_in; i++) (*out)->in[i].layout = QB_LAYOUT_ROW;
    (*out)->problem.out.layout = QB_LAYOUT_ROW;
    (*out)->launch = launch;
    return QB_OK;
}

#define ATTENTION(SYMBOL, NAME, QUERIES)                                                           \
    static bool SYMBOL##_supports(const qb_problem *problem, const bool *constant) {               \
        qb_cuda_attention a;                                                                       \
        (void)constant;                                                                            \
        return qb_cuda_attention_of(problem, QUERIES, &a);                                         \
    }                                                                                              \
    static qb_status SYMBOL##_create(qb_ctx *cx, const qb_tactic *tactic,                          \
                                     const qb_problem *problem, const bool *constant, int threads, \
                                     qb_kernel **out) {                                            \
        (void)constant, (void)threads;                                                             \
        return create(cx, tactic, problem, QUERIES, out);                                          \
    }                                                                                              \
    QB_CUDA_TACTIC(SYMBOL, NAME, QB_KIND_ATTENTION, QB_WITHIN_1_LSB)

ATTENTION(cuda_attention_wgmma, "attention_f16.wgmma_64", WGMMA);
ATTENTION(cuda_attention_32, "attention_f16.mma_32x64", 32);
ATTENTION(cuda_attention_16, "attention_f16.mma_16x64", 16);
ATTENTION(cuda_attention_split, "attention_f16.mma_16x64_split4", SPLIT);
