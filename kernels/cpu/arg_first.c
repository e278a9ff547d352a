/* Places of several extremes along a dimension, in order (TopK). Numbers become keys whose order as
 * unsigned integers is the wanted one. A few places are kept in order while the line goes by, most
 * blocks of which hold none; for many, a histogram of the keys' upper bits says which can be among
 * them, and those are sorted digit by digit. */
#include <string.h>

#include "base/sort.h"
#include "base/vector_loop.h"
#include "chain_internal.h"
#include "cpu_internal.h"

#define FEW 32   /* places that are kept in order by moving them */
#define BLOCK 32 /* keys that are looked at together */
#define SHORT 48 /* keys that are sorted by moving them */
#define DIGIT 11 /* upper bits of keys that are counted */
#define BINS (1 << DIGIT)
#define TASKS_A_THREAD 2

/* A key above its place: entries are in order where keys are, and equal ones by their places. */
static uint64_t entry_of(uint32_t key, int64_t place) {
    return (uint64_t)key << 32 | (uint64_t)place;
}

typedef struct firsts {
    int64_t lines, n, inner, k, parts;
    qb_dtype dtype;
    float scale;
    int32_t zero;
    bool smallest;
    size_t keys, workspace; /* bytes of a line's keys; of those, and of two lists of entries */
} firsts;

typedef struct job {
    const firsts *f;
    const char *data;
    int64_t *out;
    char *workspace;
} job;

/* 0 for what comes first. */
QB_LOOP(make_keys, (const float *x, int64_t n, uint32_t flip, uint32_t *to), (x, n, flip, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = qb_float_key(x[i]) ^ flip;
}

/* Is any of a block's keys below the limit? */
QB_LOOP(find_below, (const uint32_t *key, uint32_t limit, uint32_t *found), (key, limit, found)) {
    uint32_t any = 0;
    for (int64_t i = 0; i < BLOCK; i++) any |= key[i] < limit;
    *found = any;
}

/* A line's keys, for elements `inner` apart. */
static void line_keys(const job *j, int64_t line, uint32_t *key) {
    const firsts *f = j->f;
    const int64_t size = (int64_t)qb_dtype_size(f->dtype);
    const char *from = j->data + (line / f->inner * f->n * f->inner + line % f->inner) * size;
    const uint32_t flip = f->smallest ? 0 : 0xffffffffu;
    char column[QB_CHAIN_BLOCK * sizeof(float)];
    float made[QB_CHAIN_BLOCK];
    for (int64_t i = 0, n; i < f->n; i += n) {
        n = qb_min64(QB_CHAIN_BLOCK, f->n - i);
        const char *x = from + i * f->inner * size;
        for (int64_t e = 0; f->inner > 1 && e < n; e++)
            memcpy(column + e * size, x + e * f->inner * size, (size_t)size);
        qb_chain_load(f->dtype, f->scale, f->zero, f->inner > 1 ? column : x, n, made);
        make_keys(made, n, flip, key + i);
    }
}

/* An entry goes where it belongs among the `kept` first. */
static int64_t keep(uint64_t *first, int64_t kept, int64_t k, uint64_t entry) {
    int64_t to = kept < k ? kept : k - 1;
    if (kept == k && entry >= first[to]) return kept;
    for (; to > 0 && entry < first[to - 1]; to--) first[to] = first[to - 1];
    first[to] = entry;
    return kept < k ? kept + 1 : kept;
}

static void keep_few(const uint32_t *key, int64_t n, int64_t k, uint64_t *first) {
    int64_t kept = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        end = qb_min64(i + BLOCK, n);
        uint32_t any = 1;
        if (kept == k && end - i == BLOCK)
            find_below(key + i, (uint32_t)(first[k - 1] >> 32), &any);
        for (; any && i < end; i++) kept = keep(first, kept, k, entry_of(key[i], i));
    }
}

/* Entries whose keys can be among the k first, in the line's order. */
static int64_t candidates(const uint32_t *key, int64_t n, int64_t k, uint64_t *to) {
    uint32_t count[BINS] = {0};
    int64_t found = 0, before = 0;
    uint32_t last = 0;
    for (int64_t i = 0; i < n; i++) count[key[i] >> (32 - DIGIT)]++;
    for (; (before += count[last]) < k; last++) {
    }
    for (int64_t i = 0; i < n; i++) {
        to[found] = entry_of(key[i], i);
        found += key[i] >> (32 - DIGIT) <= last;
    }
    return found;
}

/* The sorted ones: `list` or `other`. */
static const uint64_t *sorted(uint64_t *list, int64_t n, uint64_t *other) {
    if (n > SHORT) {
        qb_sort_by_key(list, n, other);
        return other;
    }
    for (int64_t i = 0; i < n; i++) keep(list, i, n, list[i]);
    return list;
}

static void one_line(const job *j, int64_t line, char *workspace) {
    const firsts *f = j->f;
    uint32_t *key = (uint32_t *)(void *)workspace;
    uint64_t *list = (uint64_t *)(void *)(workspace + f->keys), few[FEW];
    const uint64_t *first = few;
    line_keys(j, line, key);
    if (f->k <= FEW)
        keep_few(key, f->n, f->k, few);
    else
        first = sorted(list, candidates(key, f->n, f->k, list), list + f->n);
    int64_t *out = j->out + line / f->inner * f->k * f->inner + line % f->inner;
    for (int64_t i = 0; i < f->k; i++) out[i * f->inner] = (int64_t)(first[i] & UINT32_MAX);
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const firsts *f = j->f;
    char *workspace = j->workspace + (size_t)task * f->workspace;
    const int64_t end = qb_part_begin(f->lines, f->parts, task + 1);
    for (int64_t line = qb_part_begin(f->lines, f->parts, task); line < end; line++)
        one_line(j, line, workspace);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const firsts *f = kernel->state;
    job j = {f, args->in[0], args->out, args->workspace};
    qb_workers_run(args->workers, f->parts, run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0];
    (void)constant;
    return (qb_cpu_is_f32(x) || qb_cpu_is_quantized(x)) && qb_cpu_is_filled_rows(x) &&
           qb_cpu_is_filled_rows(&p->out) && p->out.dtype == QB_DTYPE_S64 && !p->extreme.last &&
           x->shape.dim[p->axis] <= INT32_MAX && p->out.shape.dim[p->axis] <= x->shape.dim[p->axis];
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    const qb_desc *x = &p->in[0];
    (void)constant;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(firsts), out));
    firsts *f = (*out)->state;
    *f = (firsts){.n = x->shape.dim[p->axis],
                  .inner = qb_shape_span(&x->shape, p->axis + 1, x->shape.rank),
                  .k = p->out.shape.dim[p->axis],
                  .dtype = x->dtype,
                  .scale = x->q.n > 0 ? x->q.scale[0] : 1.0f,
                  .zero = qb_cpu_zero(x),
                  .smallest = p->extreme.smallest};
    f->lines = qb_shape_count(&x->shape) / f->n;
    f->parts = qb_min64(f->lines, (int64_t)TASKS_A_THREAD * threads);
    f->keys = qb_pad64((size_t)f->n * sizeof(uint32_t));
    f->workspace = f->keys;
    if (f->k > FEW) f->workspace += qb_pad64(2 * (size_t)f->n * sizeof(uint64_t));
    (*out)->workspace_bytes = (size_t)f->parts * f->workspace;
    (*out)->launch = launch;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_arg_first = {.name = "cpu.arg_first",
                                           .backend = "cpu",
                                           .kind = QB_KIND_ARG,
                                           .exactness = QB_EXACT,
                                           .supports = supports,
                                           .create = create};
