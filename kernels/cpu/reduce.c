/* Reductions over any axes. The innermost run of memory is worked on in lanes: where its dimension
 * is kept, they are results; where it is reduced, they are joined in the end, unless it is so short
 * that as many results as there are lanes advance together. Sums are in double, in an order that
 * depends on the shape alone. Logarithms of sums of exponentials walk twice: the largest elements,
 * then what the others make beside them. */
#include <math.h>
#include <string.h>

#include "base/vector_loop.h"
#include "chain_internal.h"
#include "cpu_internal.h"
#include "reduce_internal.h"

#define LANES QB_REDUCE_LANES

typedef struct reduce {
    qb_reduce_kind kind;
    qb_reduce_walk walk;
    bool is_packed; /* a result is a run, and they lie side by side */
    qb_dtype dtype;
    float scale, factor; /* of the data; of results, 0: none */
    int32_t zero;
    int64_t in_size, out_size;
    qb_chain_quantized quantized;
} reduce;

/* ---- lanes ---- */

static double start_of(qb_reduce_kind kind) {
    return kind == QB_REDUCE_PROD  ? 1.0
           : kind == QB_REDUCE_MAX ? -INFINITY
           : kind == QB_REDUCE_MIN ? INFINITY
                                   : 0.0;
}

#define EACH(EXPRESSION)                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
        const double v = (double)x[i];                                                             \
        lane[i] = EXPRESSION;                                                                      \
    }                                                                                              \
    return

static inline __attribute__((always_inline)) void add_lanes(qb_reduce_kind kind, const float *x,
                                                            int64_t n, double *lane) {
    switch (kind) {
    case QB_REDUCE_SUM:
    case QB_REDUCE_MEAN:
    case QB_REDUCE_LOG_SUM:
    case QB_REDUCE_LOG_SUM_EXP: EACH(lane[i] + v);
    case QB_REDUCE_PROD: EACH(lane[i] * v);
    case QB_REDUCE_MAX: EACH(v > lane[i] || v != v ? v : lane[i]);
    case QB_REDUCE_MIN: EACH(v < lane[i] || v != v ? v : lane[i]);
    case QB_REDUCE_L1: EACH(lane[i] + fabs(v));
    case QB_REDUCE_L2:
    case QB_REDUCE_SUM_SQUARE: EACH(lane[i] + v * v);
    case QB_REDUCE_NONE: return;
    }
}

QB_LOOP(add, (qb_reduce_kind kind, const float *x, int64_t n, double *lane), (kind, x, n, lane)) {
    add_lanes(kind, x, n, lane);
}

/* The same of `rows` that are `step` apart. */
QB_LOOP(add_rows,
        (qb_reduce_kind kind, const float *x, int64_t rows, int64_t step, int64_t n, double *lane),
        (kind, x, rows, step, n, lane)) {
    for (int64_t i = 0; i < rows; i++) add_lanes(kind, x + i * step, n, lane);
}

#undef EACH
/* n elements go to the lanes in turn. */
#define EACH(EXPRESSION)                                                                           \
    for (; i + LANES <= n; i += LANES)                                                             \
        for (int64_t k = 0; k < LANES; k++) {                                                      \
            const double v = (double)x[i + k], s = lane[k];                                        \
            lane[k] = EXPRESSION;                                                                  \
        }                                                                                          \
    for (int64_t k = 0; i + k < n; k++) {                                                          \
        const double v = (double)x[i + k], s = lane[k];                                            \
        lane[k] = EXPRESSION;                                                                      \
    }                                                                                              \
    return

static inline __attribute__((always_inline)) void add_run(qb_reduce_kind kind, const float *x,
                                                          int64_t n, double *lane) {
    int64_t i = 0;
    switch (kind) {
    case QB_REDUCE_SUM:
    case QB_REDUCE_MEAN:
    case QB_REDUCE_LOG_SUM:
    case QB_REDUCE_LOG_SUM_EXP: EACH(s + v);
    case QB_REDUCE_PROD: EACH(s * v);
    case QB_REDUCE_MAX: EACH(v > s || v != v ? v : s);
    case QB_REDUCE_MIN: EACH(v < s || v != v ? v : s);
    case QB_REDUCE_L1: EACH(s + fabs(v));
    case QB_REDUCE_L2:
    case QB_REDUCE_SUM_SQUARE: EACH(s + v * v);
    case QB_REDUCE_NONE: return;
    }
}

/* All lanes, which were reduced already: halves, then quarters. */
#undef EACH
#define EACH(EXPRESSION)                                                                           \
    for (int64_t by = LANES / 2; by > 0; by /= 2)                                                  \
        for (int64_t k = 0; k < by; k++) {                                                         \
            const double s = lane[k], v = lane[k + by];                                            \
            lane[k] = EXPRESSION;                                                                  \
        }                                                                                          \
    return lane[0]

static inline __attribute__((always_inline)) double join(qb_reduce_kind kind, double *lane) {
    switch (kind) {
    case QB_REDUCE_PROD: EACH(s * v);
    case QB_REDUCE_MAX: EACH(v > s || v != v ? v : s);
    case QB_REDUCE_MIN: EACH(v < s || v != v ? v : s);
    default: EACH(s + v);
    }
}
#undef EACH

QB_LOOP(add_part, (qb_reduce_kind kind, const float *x, int64_t n, double *lane),
        (kind, x, n, lane)) {
    add_run(kind, x, n, lane);
}

/* n results, whose runs lie side by side. */
QB_LOOP(add_runs,
        (qb_reduce_kind kind, double start, const float *x, int64_t run, int64_t n, double *to),
        (kind, start, x, run, n, to)) {
    for (int64_t i = 0; i < n; i++) {
        double lane[LANES];
        for (int64_t k = 0; k < LANES; k++) lane[k] = start;
        add_run(kind, x + i * run, run, lane);
        to[i] = join(kind, lane);
    }
}

/* Of n results, `run` elements each, what lies above `high`. */
QB_LOOP(lower, (const float *x, const float *high, int64_t run, int64_t n, float *to),
        (x, high, run, n, to)) {
    for (int64_t i = 0; run == 1 && i < n; i++) to[i] = x[i] - high[i];
    for (int64_t i = 0; run > 1 && i < n; i++)
        for (int64_t k = 0; k < run; k++) to[i * run + k] = x[i * run + k] - high[i];
}

/* n results of what their lanes hold, each of `size` elements. */
QB_LOOP(epilogue, (qb_reduce_kind kind, int64_t size, const double *lane, int64_t n, float *to),
        (kind, size, lane, n, to)) {
    switch (kind) {
    case QB_REDUCE_MEAN:
        for (int64_t i = 0; i < n; i++) to[i] = (float)(lane[i] / (double)size);
        return;
    case QB_REDUCE_L2:
        for (int64_t i = 0; i < n; i++) to[i] = (float)sqrt(lane[i]);
        return;
    case QB_REDUCE_LOG_SUM:
    case QB_REDUCE_LOG_SUM_EXP:
        for (int64_t i = 0; i < n; i++) to[i] = (float)log(lane[i]);
        return;
    default:
        for (int64_t i = 0; i < n; i++) to[i] = (float)lane[i];
    }
}

/* ---- walking ---- */

typedef struct job {
    const reduce *r;
    const char *data;
    char *out;
} job;

/* One way through the data: what the lanes do; exponentials of what lies above `high`, where there
 * is such. */
typedef struct walk {
    const job *j;
    qb_reduce_kind kind;
    const float *high; /* of a result */
} walk;

typedef void (*add_fn)(qb_reduce_kind kind, const float *x, int64_t n, double *lane);

/* n elements as floats, in `made` where they are none. */
static const float *loaded(const reduce *r, const char *from, int64_t n, float *made) {
    if (r->dtype == QB_DTYPE_F32) return (const float *)(const void *)from;
    qb_chain_load(r->dtype, r->scale, r->zero, from, n, made);
    return made;
}

static const float *exponentials(const float *x, const float *high, int64_t run, int64_t n,
                                 float *made) {
    float above[QB_CHAIN_BLOCK];
    lower(x, high, run, n, above);
    qb_chain_block(QB_FUNCTION_EXP)(made, above, NULL, NULL, run * n);
    return made;
}

/* `n` elements from `at` of each stretch that is reduced go to the lanes. */
static void add_all(const walk *w, int64_t at, int64_t n, add_fn add_to, double *lane) {
    const reduce *r = w->j->r;
    float made[QB_CHAIN_BLOCK];
    for (int64_t k = 0; k < r->walk.reduced.count; k++) {
        const char *from = w->j->data + (at + qb_reduce_place(&r->walk.reduced, k)) * r->in_size;
        const float *x = loaded(r, from, n, made);
        if (w->high)
            x = exponentials(x, w->high, r->walk.run_kept ? 1 : n, r->walk.run_kept ? n : 1, made);
        add_to(w->kind, x, n, lane);
    }
}

/* The result of number `index`, whose run is reduced. */
static double one_result(const walk *w, int64_t index) {
    const reduce *r = w->j->r;
    const int64_t at = qb_reduce_place(&r->walk.kept, index);
    double lane[LANES];
    for (int64_t i = 0; i < LANES; i++) lane[i] = start_of(w->kind);
    for (int64_t i = 0; i < r->walk.run; i += QB_CHAIN_BLOCK)
        add_all(w, at + i, qb_min64(QB_CHAIN_BLOCK, r->walk.run - i), add_part, lane);
    return join(w->kind, lane);
}

/* Results first..first + n, which lie in one run that is kept. */
static void lane_results(const walk *w, int64_t first, int64_t n, float *to) {
    const reduce *r = w->j->r;
    double lane[QB_CHAIN_BLOCK];
    const int64_t at = qb_reduce_place(&r->walk.kept, first / r->walk.run) + first % r->walk.run;
    for (int64_t i = 0; i < n; i++) lane[i] = start_of(w->kind);
    if (r->dtype == QB_DTYPE_F32 && !w->high && r->walk.reduced.rank == 1)
        add_rows(w->kind, (const float *)(const void *)w->j->data + at, r->walk.reduced.count,
                 r->walk.reduced.stride[0], n, lane);
    else
        add_all(w, at, n, add, lane);
    epilogue(w->kind, r->walk.size, lane, n, to);
}

/* Results first..first + n, whose runs lie side by side. */
static void packed_results(const walk *w, int64_t first, int64_t n, float *to) {
    const reduce *r = w->j->r;
    float made[QB_CHAIN_BLOCK], column[QB_CHAIN_BLOCK];
    double lane[QB_CHAIN_BLOCK];
    const float *x =
        loaded(r, w->j->data + first * r->walk.run * r->in_size, n * r->walk.run, made);
    if (w->high) x = exponentials(x, w->high, r->walk.run, n, made);
    if (r->walk.run >= LANES) {
        add_runs(w->kind, start_of(w->kind), x, r->walk.run, n, lane);
    } else {
        for (int64_t i = 0; i < n; i++) lane[i] = start_of(w->kind);
        for (int64_t k = 0; k < r->walk.run; k++) {
            for (int64_t i = 0; i < n; i++) column[i] = x[i * r->walk.run + k];
            add(w->kind, column, n, lane);
        }
    }
    epilogue(w->kind, r->walk.size, lane, n, to);
}

static void some_results(const walk *w, int64_t first, int64_t n, float *to) {
    const reduce *r = w->j->r;
    if (r->walk.run_kept) {
        lane_results(w, first, n, to);
    } else if (r->is_packed) {
        packed_results(w, first, n, to);
    } else {
        double lane[QB_CHAIN_BLOCK];
        for (int64_t i = 0; i < n; i++) {
            const walk one = {w->j, w->kind, w->high ? w->high + i : NULL};
            lane[i] = one_result(&one, first + i);
        }
        epilogue(w->kind, r->walk.size, lane, n, to);
    }
}

/* An infinite maximum would make NaN of what equals it. */
static void log_sum_exp(const job *j, int64_t first, int64_t n, float *to) {
    float high[QB_CHAIN_BLOCK];
    some_results(&(walk){j, QB_REDUCE_MAX, NULL}, first, n, high);
    for (int64_t i = 0; i < n; i++) high[i] = isfinite(high[i]) ? high[i] : 0.0f;
    some_results(&(walk){j, QB_REDUCE_LOG_SUM_EXP, high}, first, n, to);
    for (int64_t i = 0; i < n; i++) to[i] += high[i];
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const reduce *r = j->r;
    float to[QB_CHAIN_BLOCK] = {0};
    const int64_t end = qb_min64((task + 1) * r->walk.results_a_task, r->walk.n);
    for (int64_t first = task * r->walk.results_a_task, n; first < end; first += n) {
        n = qb_min64(QB_CHAIN_BLOCK, end - first);
        if (r->walk.run_kept)
            n = qb_min64(n, r->walk.run - first % r->walk.run);
        else if (r->is_packed && (r->dtype != QB_DTYPE_F32 || r->kind == QB_REDUCE_LOG_SUM_EXP))
            n = qb_min64(n, QB_CHAIN_BLOCK / r->walk.run);
        if (r->kind == QB_REDUCE_LOG_SUM_EXP)
            log_sum_exp(j, first, n, to);
        else
            some_results(&(walk){j, r->kind, NULL}, first, n, to);
        for (int64_t i = 0; r->factor > 0 && i < n; i++) to[i] *= r->factor;
        qb_chain_write(&r->quantized, to, n, j->out + first * r->out_size);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const reduce *r = kernel->state;
    job j = {r, (const char *)args->in[0] + r->walk.first * r->in_size, args->out};
    qb_workers_run(args->workers, qb_ceil64(r->walk.n, r->walk.results_a_task), run_task, &j);
    return QB_OK;
}

/* ---- the tactic ---- */

static bool is_number(const qb_desc *d) {
    return (qb_cpu_is_f32(d) || qb_cpu_is_quantized(d)) &&
           (d->layout == QB_LAYOUT_NHWC || (d->layout == QB_LAYOUT_ROW && d->channel_total == 0));
}

/* Results are written in the order in which their elements lie. */
static bool keeps_order(const qb_problem *p) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    if (y->channel_total > 0) return false;
    if (x->layout == y->layout) return x->layout == QB_LAYOUT_ROW || x->shape.rank == y->shape.rank;
    bool pixels = false; /* are some of them kept? */
    for (int32_t d = 2; d < x->shape.rank; d++)
        pixels |= x->shape.dim[d] > 1 && !(p->axes >> d & 1u);
    return y->layout == QB_LAYOUT_ROW && (!pixels || (p->axes >> 1 & 1u));
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    return p->reduce != QB_REDUCE_NONE && is_number(&p->in[0]) && is_number(&p->out) &&
           keeps_order(p) && qb_shape_count(&p->in[0].shape) > 0;
}

static void plan(const qb_problem *p, int threads, reduce *r) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    *r = (reduce){.kind = p->reduce,
                  .walk = qb_reduce_walk_of(p, threads),
                  .dtype = x->dtype,
                  .scale = x->q.n > 0 ? x->q.scale[0] : 1.0f,
                  .zero = qb_cpu_zero(x),
                  .in_size = (int64_t)qb_dtype_size(x->dtype),
                  .out_size = (int64_t)qb_dtype_size(y->dtype),
                  .quantized = qb_chain_quantized_of(y, true)};
    const qb_reduce_walk *w = &r->walk;
    r->is_packed = !w->run_kept && w->reduced.count == 1 &&
                   (w->run <= QB_CHAIN_BLOCK ||
                    (r->dtype == QB_DTYPE_F32 && r->kind != QB_REDUCE_LOG_SUM_EXP)) &&
                   (w->kept.rank == 0 || (w->kept.rank == 1 && w->kept.stride[0] == w->run));
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    plan(p, threads, kernel->state);
    kernel->launch = launch;
}

/* An average pool whose window is the whole image, of any number of dimensions, is the mean over
 * them. */
static bool is_whole(const qb_problem *p) {
    const qb_shape *x = &p->in[0].shape, *y = &p->out.shape;
    if (p->pool == QB_POOL_MAX || p->act.kind != QB_ACT_NONE) return false;
    for (int32_t d = 0; d < p->window.n; d++)
        if (p->window.kernel[d] != x->dim[2 + d] || y->dim[2 + d] != 1 ||
            p->window.pad_begin[d] != 0 || p->window.pad_end[d] != 0 || p->window.dilation[d] != 1)
            return false;
    return x->rank == 2 + p->window.n && y->rank == x->rank;
}

static qb_problem mean_of(const qb_problem *p, qb_desc *in) {
    qb_problem mean = *p;
    *in = p->in[0];
    in->layout = mean.out.layout = QB_LAYOUT_ROW;
    mean.in = in;
    mean.kind = QB_KIND_REDUCE;
    mean.reduce = QB_REDUCE_MEAN;
    mean.axes = ((1u << p->window.n) - 1) << 2;
    return mean;
}

static bool is_row_or_any(const qb_desc *d) {
    return d->layout == QB_LAYOUT_ROW || d->layout == QB_LAYOUT_ANY;
}

static bool supports_whole(const qb_problem *p, const bool *constant) {
    qb_desc in;
    if (!is_whole(p) || !is_row_or_any(&p->in[0]) || !is_row_or_any(&p->out)) return false;
    const qb_problem mean = mean_of(p, &in);
    return supports(&mean, constant);
}

static void fill_whole(const qb_problem *p, int threads, qb_kernel *kernel) {
    qb_desc in;
    const qb_problem mean = mean_of(p, &in);
    reduce *r = kernel->state;
    plan(&mean, threads, r);
    if (p->in[0].q.n > 0) { /* the sum of quantized values by one factor, as problem.h says */
        r->kind = QB_REDUCE_SUM;
        r->factor = (float)((double)r->scale / (double)r->walk.size);
        r->scale = 1.0f;
    }
    kernel->in[0].layout = kernel->problem.out.layout = QB_LAYOUT_ROW;
    kernel->launch = launch;
}

QB_TACTIC(cpu_pool_whole, "cpu.pool_whole", "cpu", QB_KIND_POOL, QB_WITHIN_1_LSB, supports_whole,
          qb_cpu_create, .state_bytes = sizeof(reduce), .fill = fill_whole);

QB_TACTIC(cpu_reduce, "cpu.reduce", "cpu", QB_KIND_REDUCE, QB_WITHIN_1_LSB, supports, qb_cpu_create,
          .state_bytes = sizeof(reduce), .fill = fill);
