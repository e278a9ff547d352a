/* Fused attention as a tactic: f16 queries, keys and values; everything row-major. */
#include <string.h>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/common/code.h"
#include "kernels/cuda/common/tactic_common.h"

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_MASK };
#define WGMMA 64 /* queries of a tile on wgmma */

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

/* [N, T, heads size] or [N, heads, T, size]: the number of tokens, and strides of batch, head and
 * token. */
static bool heads_of(const qb_desc *d, int64_t heads, int32_t *tokens, int32_t *size,
                     int64_t stride[3]) {
    const int64_t *dim = d->shape.dim;
    bool joined = d->shape.rank == 3;
    if (!qb_cuda_is_row(d) || (!joined && d->shape.rank != 4) || heads < 1) return false;
    if (joined ? dim[2] % heads != 0 : dim[1] != heads) return false;
    *tokens = (int32_t)dim[joined ? 1 : 2];
    *size = (int32_t)(joined ? dim[2] / heads : dim[3]);
    stride[0] = heads * *tokens * *size;
    stride[1] = joined ? *size : (int64_t)*tokens * *size;
    stride[2] = joined ? heads * *size : *size;
    return true;
}

/* Queries, keys and values side by side: [N, T, 3 heads size]. */
static bool packed_heads_of(const qb_desc *d, int64_t heads, qb_cuda_attention *a) {
    int32_t size;
    if (d->shape.rank != 3 || !heads_of(d, 3 * heads, &a->rows, &size, a->q)) return false;
    a->keys = a->rows;
    a->size = a->value_size = size;
    memcpy(a->k, a->q, sizeof a->k);
    memcpy(a->v, a->q, sizeof a->v);
    return true;
}

static bool parts_of(const qb_problem *p, qb_cuda_attention *a) {
    int32_t keys, key_size;
    return heads_of(&p->in[IN_QUERY], p->group, &a->rows, &a->size, a->q) &&
           heads_of(&p->in[IN_KEY], p->group, &a->keys, &key_size, a->k) &&
           heads_of(&p->in[IN_VALUE], p->group, &keys, &a->value_size, a->v) &&
           a->size == key_size && a->keys == keys;
}

/* Broadcasts to [N, heads, queries, keys]. */
static bool mask_of(const qb_desc *d, const qb_cuda_attention *p, int64_t stride[4]) {
    const int64_t full[4] = {p->batch, p->heads, p->rows, p->keys};
    int64_t step = 1;
    if (!qb_cuda_is_row(d) || d->shape.rank > 4) return false;
    for (int32_t i = d->shape.rank - 1; i >= 0; i--) {
        int32_t to = i + 4 - d->shape.rank;
        if (d->shape.dim[i] != 1 && d->shape.dim[i] != full[to]) return false;
        stride[to] = d->shape.dim[i] == 1 ? 0 : step;
        step *= d->shape.dim[i];
    }
    return true;
}

bool qb_cuda_attention_is_packed(const qb_problem *p) {
    return !qb_problem_has(p, IN_KEY) && !qb_problem_has(p, IN_VALUE);
}

void qb_cuda_attention_parts(const qb_problem *p, const void *const *in, const void *part[3]) {
    const size_t step = qb_cuda_attention_is_packed(p)
                            ? (size_t)p->in[IN_QUERY].shape.dim[2] / 3 * sizeof(uint16_t)
                            : 0;
    for (int32_t i = IN_QUERY; i <= IN_VALUE; i++)
        part[i] = step ? (const char *)in[IN_QUERY] + (size_t)i * step : in[i];
}

/* Do all heads begin at multiples of `n` elements, and end there? */
static bool lies_on(const qb_cuda_attention *a, int64_t n) {
    int64_t rest = a->size % n + a->value_size % n;
    for (int32_t i = 0; i < 3; i++) rest += a->q[i] % n + a->k[i] % n + a->v[i] % n + a->out[i] % n;
    return rest == 0;
}

bool qb_cuda_attention_of(const qb_problem *p, int32_t queries, qb_cuda_attention *a) {
    int32_t out_rows, out_size;
    *a = (qb_cuda_attention){.heads = (int32_t)p->group, .scale = p->scale, .queries = queries};
    if (p->kind != QB_KIND_ATTENTION || p->n_in < 3 || p->n_in > 4) return false;
    const bool packed = qb_cuda_attention_is_packed(p);
    for (int32_t i = IN_QUERY; i <= (packed ? IN_QUERY : IN_VALUE); i++)
        if (p->in[i].dtype != QB_DTYPE_F16 || p->in[i].q.n > 0 ||
            p->in[i].shape.rank != p->out.shape.rank ||
            p->in[i].shape.dim[0] != p->out.shape.dim[0])
            return false;
    if (!(packed ? packed_heads_of(&p->in[IN_QUERY], p->group, a) : parts_of(p, a)) ||
        !heads_of(&p->out, p->group, &out_rows, &out_size, a->out))
        return false;
    a->batch = (int32_t)p->out.shape.dim[0];
    a->pairs = !lies_on(a, 8);
    if (a->value_size != out_size || a->rows != out_rows || !lies_on(a, 2) ||
        qb_cuda_attention_longest(a) > (queries == 16 ? QB_CUDA_ATTENTION_SIZE : 64))
        return false;
    if (qb_problem_has(p, IN_MASK) &&
        (!mask_of(&p->in[IN_MASK], a, a->mask) || p->in[IN_MASK].q.n > 0 ||
         !qb_cuda_value_of(&p->in[IN_MASK], &a->mask_value)))
        return false;
    if (queries == WGMMA && (a->pairs || a->keys > QB_CUDA_ATTENTION_KEYS || a->mask[2] != 0))
        return false;
    return qb_cuda_value_of(&p->out, &a->out_value);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const attention_state *s = kernel->state;
    const void *mask = qb_problem_has(&kernel->problem, IN_MASK) ? args->in[IN_MASK] : NULL;
    const void *part[3];
    qb_cuda_attention_parts(&kernel->problem, args->in, part);
    QB_TRY(qb_cuda_check(cx, s->way->prepare(&s->p), kernel->tactic->name));
    return qb_cuda_check(cx,
                         s->way->run(&s->p, part[IN_QUERY], part[IN_KEY], part[IN_VALUE], mask,
                                     args->out, s->multiprocessors, args->stream),
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
