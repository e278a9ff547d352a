/* Rows of a tensor by their numbers: what lies behind the axis is one block of memory. */
#include <string.h>

#include "cpu_internal.h"

#define BYTES_PER_TASK 65536

typedef struct gather {
    int64_t outer, lines, indices, block; /* block: bytes behind the axis */
    bool wide;                            /* indices of 64 bits */
    int64_t blocks_a_task;
} gather;

typedef struct job {
    const gather *g;
    const char *data;
    const void *indices;
    char *out;
} job;

static int64_t index_at(const job *j, int64_t i) {
    return j->g->wide ? ((const int64_t *)j->indices)[i] : ((const int32_t *)j->indices)[i];
}

/* Negative indices count from the end. */
static bool resolve(const gather *g, int64_t *index) {
    if (*index < 0) *index += g->lines;
    return *index >= 0 && *index < g->lines;
}

/* The sizes that most copies have are known to the compiler. */
static void copy_block(char *to, const char *from, int64_t n) {
    switch (n) {
    case 1: *to = *from; return;
    case 4: memcpy(to, from, 4); return;
    case 8: memcpy(to, from, 8); return;
    default: memcpy(to, from, (size_t)n);
    }
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const gather *g = j->g;
    const int64_t end = qb_min64((task + 1) * g->blocks_a_task, g->outer * g->indices);
    for (int64_t b = task * g->blocks_a_task; b < end; b++) {
        int64_t index = index_at(j, b % g->indices);
        if (resolve(g, &index))
            copy_block(j->out + b * g->block,
                       j->data + (b / g->indices * g->lines + index) * g->block, g->block);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const gather *g = kernel->state;
    job j = {g, args->in[0], args->in[1], args->out};
    for (int64_t i = 0; i < g->indices; i++) {
        int64_t index = index_at(&j, i);
        if (!resolve(g, &index))
            return qb_fail(cx, QB_STATUS_INVALID, "index %lld: expected -%lld to %lld",
                           (long long)index_at(&j, i), (long long)g->lines,
                           (long long)(g->lines - 1));
    }
    qb_workers_run(args->workers, qb_ceil64(g->outer * g->indices, g->blocks_a_task), run_task, &j);
    return QB_OK;
}

static bool is_plain(const qb_desc *desc) {
    return desc->layout == QB_LAYOUT_ROW && desc->channel_total == 0 && desc->q.n <= 1;
}

static bool same_numbers(const qb_desc *x, const qb_desc *y) {
    return x->dtype == y->dtype && x->q.n == y->q.n &&
           (x->q.n == 0 || (x->q.scale[0] == y->q.scale[0] && qb_cpu_zero(x) == qb_cpu_zero(y)));
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0], *i = &p->in[1], *y = &p->out;
    (void)constant;
    return is_plain(x) && is_plain(y) && is_plain(i) && same_numbers(x, y) && i->q.n == 0 &&
           (i->dtype == QB_DTYPE_S64 || i->dtype == QB_DTYPE_S32) &&
           qb_shape_count(&y->shape) > 0 && qb_shape_count(&x->shape) > 0;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    const qb_shape *x = &p->in[0].shape;
    (void)constant, (void)threads;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(gather), out));
    gather *g = (*out)->state;
    *g = (gather){.outer = 1,
                  .lines = x->dim[p->axis],
                  .indices = qb_shape_count(&p->in[1].shape),
                  .block = (int64_t)qb_dtype_size(p->out.dtype),
                  .wide = p->in[1].dtype == QB_DTYPE_S64};
    for (int32_t d = 0; d < p->axis; d++) g->outer *= x->dim[d];
    for (int32_t d = p->axis + 1; d < x->rank; d++) g->block *= x->dim[d];
    g->blocks_a_task = qb_max64(1, BYTES_PER_TASK / g->block);
    (*out)->launch = launch;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_gather = {.name = "cpu.gather",
                                        .backend = "cpu",
                                        .kind = QB_KIND_GATHER,
                                        .exactness = QB_EXACT,
                                        .supports = supports,
                                        .create = create};
