/* Attention of floats, wherever the heads lie: keys and values of a head are packed once, and the
 * scores of a few queries stay in the cache until they are weights and multiplied with the values.
 */
#include "attention_internal.h"
#include "kernels/heads.h"

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_MASK };

typedef struct job {
    const qb_attention_plan *p;
    const qb_launch *args;
} job;

/* Floats of a task. */
static int64_t scratch_of(const qb_attention_plan *p) {
    return p->a.size * p->key_columns + p->a.keys * p->value_columns +
           QB_ATTENTION_ROWS * (p->key_columns + p->value_columns) + QB_CHAIN_BLOCK;
}

static qb_attention_scratch scratch_at(const qb_attention_plan *p, float *from) {
    qb_attention_scratch s = {.keys = from};
    s.values = s.keys + p->a.size * p->key_columns;
    s.scores = s.values + p->a.keys * p->value_columns;
    s.result = s.scores + QB_ATTENTION_ROWS * p->key_columns; /* whole blocks of it are read */
    return s;
}

static const float *data_at(const job *j, int32_t input, int64_t item, int64_t head,
                            int64_t token) {
    return (const float *)j->args->in[input] + qb_token_at(&j->p->a.in[input], item, head, token);
}

/* Queries of a block. */
static void run_block(const job *j, int64_t item, int64_t head, int64_t block,
                      const qb_attention_scratch *s) {
    const qb_attention_plan *p = j->p;
    const int64_t row = block * QB_ATTENTION_BLOCK, *step = p->mask_step;
    const int64_t size = p->quantized.dtype == QB_DTYPE_NONE ? (int64_t)sizeof(float) : 1;
    const int64_t out = qb_token_at(&p->a.out, item, head, row);
    const float *mask = p->masked ? j->args->in[IN_MASK] : NULL;
    if (mask) mask += item * step[0] + head * step[1] + row * step[2];
    p->arch->run(p, data_at(j, IN_QUERY, item, head, row),
                 qb_min64(QB_ATTENTION_BLOCK, p->a.rows - row), mask, s,
                 (char *)j->args->out + out * size);
}

/* Part number `task` of all blocks, those of a head behind each other. */
static void run_part(int64_t task, void *argument) {
    const job *j = argument;
    const qb_attention_plan *p = j->p;
    const int64_t all = p->a.batch * p->heads * p->blocks;
    const int64_t end = qb_part_begin(all, p->parts, task + 1);
    const qb_attention_scratch s =
        scratch_at(p, (float *)j->args->workspace + task * scratch_of(p));
    int64_t packed = -1;
    for (int64_t i = qb_part_begin(all, p->parts, task); i < end; i++) {
        const int64_t which = i / p->blocks, item = which / p->heads, head = which % p->heads;
        if (which != packed)
            p->arch->pack(p, data_at(j, IN_KEY, item, head, 0), data_at(j, IN_VALUE, item, head, 0),
                          &s);
        packed = which;
        run_block(j, item, head, i % p->blocks, &s);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const qb_attention_plan *p = kernel->state;
    job j = {p, args};
    qb_workers_run(args->workers, p->parts, run_part, &j);
    return QB_OK;
}

static bool is_row(const qb_desc *d) {
    return (d->layout == QB_LAYOUT_ROW || d->layout == QB_LAYOUT_ANY) && d->channel_total == 0;
}

static bool describe(const qb_problem *p, qb_attention_plan *plan) {
    plan->heads = p->group;
    plan->scale = p->scale;
    plan->masked = qb_problem_has(p, IN_MASK);
    if (!qb_attention_of(p, &plan->a) || plan->a.keys < 1) return false;
    for (int32_t i = 0; i < p->n_in; i++)
        if (qb_problem_has(p, i) && (!qb_cpu_is_f32(&p->in[i]) || !is_row(&p->in[i]))) return false;
    return (qb_cpu_is_f32(&p->out) || qb_cpu_is_quantized(&p->out)) && is_row(&p->out) &&
           (!plan->masked || qb_attention_mask(p, &plan->a, plan->mask_step));
}

bool qb_attention_supports(const qb_problem *p) {
    qb_attention_plan plan = {.heads = 0};
    return describe(p, &plan);
}

qb_status qb_attention_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                              const qb_attention_arch *arch, qb_kernel **out) {
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(qb_attention_plan), out));
    qb_kernel *kernel = *out;
    qb_attention_plan *plan = kernel->state;
    describe(p, plan);
    plan->arch = arch;
    plan->key_columns = qb_ceil64(plan->a.keys, arch->lanes) * arch->lanes;
    plan->value_columns = qb_ceil64(plan->a.value_size, arch->lanes) * arch->lanes;
    plan->blocks = qb_ceil64(plan->a.rows, QB_ATTENTION_BLOCK);
    plan->parts = qb_max64(1, threads);
    plan->quantized = qb_chain_quantized_of(&p->out, false);
    for (int32_t i = 0; i < p->n_in; i++) kernel->in[i].layout = QB_LAYOUT_ROW;
    kernel->problem.out.layout = QB_LAYOUT_ROW;
    kernel->workspace_bytes = (size_t)(plan->parts * scratch_of(plan)) * sizeof(float);
    kernel->launch = launch;
    return QB_OK;
}
