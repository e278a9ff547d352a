/* Reductions of integers, exact: modulo 2^64, which agrees with any narrower type (lengths of
 * masks, tokens of an expert). */
#include "base/vector_loop.h"
#include "cpu_internal.h"
#include "reduce_internal.h"

#define RESULTS 256 /* that advance together */

typedef struct integers {
    qb_reduce_kind kind;
    qb_reduce_walk walk;
    qb_dtype dtype;
} integers;

static int64_t start_of(qb_reduce_kind kind) {
    return kind == QB_REDUCE_PROD  ? 1
           : kind == QB_REDUCE_MAX ? INT64_MIN
           : kind == QB_REDUCE_MIN ? INT64_MAX
                                   : 0;
}

static inline __attribute__((always_inline)) int64_t joined(qb_reduce_kind kind, int64_t s,
                                                            int64_t v) {
    switch (kind) {
    case QB_REDUCE_PROD: return (int64_t)((uint64_t)s * (uint64_t)v);
    case QB_REDUCE_MAX: return v > s ? v : s;
    case QB_REDUCE_MIN: return v < s ? v : s;
    default: return (int64_t)((uint64_t)s + (uint64_t)v);
    }
}

/* `rows` of n elements, `step` apart, go to n lanes. */
#define EACH(KIND)                                                                                 \
    for (int64_t r = 0; r < rows; r++, x += step)                                                  \
        for (int64_t i = 0; i < n; i++) lane[i] = joined(KIND, lane[i], (int64_t)x[i]);            \
    return
#define ADD_ROWS(NAME, T)                                                                          \
    QB_LOOP(                                                                                       \
        NAME,                                                                                      \
        (qb_reduce_kind kind, const T *x, int64_t rows, int64_t step, int64_t n, int64_t *lane),   \
        (kind, x, rows, step, n, lane)) {                                                          \
        switch (kind) {                                                                            \
        case QB_REDUCE_PROD: EACH(QB_REDUCE_PROD);                                                 \
        case QB_REDUCE_MAX: EACH(QB_REDUCE_MAX);                                                   \
        case QB_REDUCE_MIN: EACH(QB_REDUCE_MIN);                                                   \
        default: EACH(QB_REDUCE_SUM);                                                              \
        }                                                                                          \
    }
ADD_ROWS(add_s32, int32_t)
ADD_ROWS(add_s64, int64_t)

static void add(const qb_cpu_job *j, int64_t at, int64_t rows, int64_t step, int64_t n,
                int64_t *lane) {
    const integers *r = j->state;
    if (r->dtype == QB_DTYPE_S32)
        add_s32(r->kind, (const int32_t *)(const void *)j->data + at, rows, step, n, lane);
    else
        add_s64(r->kind, (const int64_t *)(const void *)j->data + at, rows, step, n, lane);
}

/* Results that lie in one run. */
static void side_by_side(const qb_cpu_job *j, int64_t at, int64_t n, int64_t *lane) {
    const qb_reduce_walk *w = &((const integers *)j->state)->walk;
    if (w->reduced.rank == 1) {
        add(j, at, w->reduced.count, w->reduced.stride[0], n, lane);
        return;
    }
    for (int64_t k = 0; k < w->reduced.count; k++)
        add(j, at + qb_reduce_place(&w->reduced, k), 1, 0, n, lane);
}

/* A result of runs: parts of it advance together. */
static int64_t of_runs(const qb_cpu_job *j, int64_t at) {
    const integers *r = j->state;
    const qb_reduce_walk *w = &r->walk;
    const int64_t whole = w->run / QB_REDUCE_LANES, rest = w->run % QB_REDUCE_LANES;
    int64_t lane[QB_REDUCE_LANES], sum = start_of(r->kind);
    for (int64_t i = 0; i < QB_REDUCE_LANES; i++) lane[i] = sum;
    for (int64_t k = 0; k < w->reduced.count; k++) {
        const int64_t from = at + qb_reduce_place(&w->reduced, k);
        add(j, from, whole, QB_REDUCE_LANES, QB_REDUCE_LANES, lane);
        add(j, from + whole * QB_REDUCE_LANES, 1, 0, rest, lane);
    }
    for (int64_t i = 0; i < QB_REDUCE_LANES; i++) sum = joined(r->kind, sum, lane[i]);
    return sum;
}

static void run_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const integers *r = j->state;
    const qb_reduce_walk *w = &r->walk;
    int64_t lane[RESULTS];
    const int64_t end = qb_min64((task + 1) * w->results_a_task, w->n);
    for (int64_t first = task * w->results_a_task, n; first < end; first += n) {
        n = qb_min64(RESULTS, end - first);
        if (w->run_kept) n = qb_min64(n, w->run - first % w->run);
        for (int64_t i = 0; i < n; i++)
            lane[i] =
                w->run_kept ? start_of(r->kind) : of_runs(j, qb_reduce_place(&w->kept, first + i));
        if (w->run_kept)
            side_by_side(j, qb_reduce_place(&w->kept, first / w->run) + first % w->run, n, lane);
        for (int64_t i = 0; i < n; i++)
            if (r->dtype == QB_DTYPE_S32)
                ((int32_t *)(void *)j->out)[first + i] = (int32_t)lane[i];
            else
                ((int64_t *)(void *)j->out)[first + i] = lane[i];
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const qb_reduce_walk *w = &((const integers *)kernel->state)->walk;
    return qb_cpu_run(kernel, args, qb_ceil64(w->n, w->results_a_task), run_task);
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0];
    (void)constant;
    return (p->reduce == QB_REDUCE_SUM || p->reduce == QB_REDUCE_PROD ||
            p->reduce == QB_REDUCE_MAX || p->reduce == QB_REDUCE_MIN) &&
           (x->dtype == QB_DTYPE_S32 || x->dtype == QB_DTYPE_S64) && x->q.n == 0 &&
           x->dtype == p->out.dtype && qb_cpu_is_filled_rows(x) && qb_cpu_is_filled_rows(&p->out);
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    integers *r = kernel->state;
    *r = (integers){p->reduce, qb_reduce_walk_of(p, threads), p->in[0].dtype};
    kernel->launch = launch;
}

QB_TACTIC(cpu_reduce_integer, "cpu.reduce_integer", "cpu", QB_KIND_REDUCE, QB_EXACT, supports,
          qb_cpu_create, .state_bytes = sizeof(integers), .fill = fill);
