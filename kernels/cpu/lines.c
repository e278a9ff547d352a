/* Sums so far and places of extremes along a dimension. Lines that lie side by side advance
 * together, as lanes; a line whose elements do is cut into lanes, which are joined in the end. */
#include <string.h>

#include "base/vector_loop.h"
#include "chain_internal.h"
#include "cpu_internal.h"

#define LANES 16
#define WIDTH QB_CHAIN_BLOCK    /* most lines that advance together */
#define ELEMENTS_PER_TASK 16384 /* of the data */

/* Lines [outer][n][inner]; a unit is up to WIDTH of those side by side. */
typedef struct lines {
    int64_t outer, n, inner, blocks, units_a_task;
    qb_dtype dtype;
    float scale;
    int32_t zero;
    qb_scan scan;
    qb_extreme extreme;
    qb_chain_quantized quantized; /* of sums */
} lines;

static void fill(const qb_problem *p, qb_kernel *kernel) {
    const qb_desc *x = &p->in[0];
    lines *l = kernel->state;
    *l = (lines){.outer = 1,
                 .n = x->shape.dim[p->axis],
                 .inner = 1,
                 .dtype = x->dtype,
                 .scale = x->q.n > 0 ? x->q.scale[0] : 1.0f,
                 .zero = qb_cpu_zero(x),
                 .scan = p->scan,
                 .extreme = p->extreme};
    for (int32_t d = 0; d < x->shape.rank; d++)
        if (d != p->axis) *(d < p->axis ? &l->outer : &l->inner) *= x->shape.dim[d];
    l->blocks = qb_ceil64(l->inner, WIDTH);
    l->units_a_task = qb_max64(1, ELEMENTS_PER_TASK / (l->n * qb_min64(l->inner, WIDTH)));
}

static qb_status run_lines(const qb_kernel *kernel, const qb_launch *args, qb_task_fn run_task) {
    const lines *l = kernel->state;
    return qb_cpu_run(kernel, args, qb_ceil64(l->outer * l->blocks, l->units_a_task), run_task);
}

/* ---- sums so far ---- */

/* n elements, `step` apart, of each of the lines side by side. */
#define SCAN(NAME, T, SUM, VALUE)                                                                  \
    QB_LOOP(scan_##NAME,                                                                           \
            (const T *x, int64_t n, int64_t step, int64_t width, bool exclusive, SUM *sum, T *y),  \
            (x, n, step, width, exclusive, sum, y)) {                                              \
        for (int64_t i = 0; i < n; i++, x += step, y += step)                                      \
            for (int64_t k = 0; k < width; k++) {                                                  \
                const SUM before = sum[k], with = before + VALUE;                                  \
                y[k] = (T)(exclusive ? before : with);                                             \
                sum[k] = with;                                                                     \
            }                                                                                      \
    }
SCAN(f32, float, double, (double)x[k])
SCAN(s32, int32_t, uint64_t, (uint64_t)(int64_t)x[k])
SCAN(s64, int64_t, uint64_t, (uint64_t)x[k])

static void scan_unit(const qb_cpu_job *j, int64_t unit) {
    const lines *l = j->state;
    const int64_t at = unit % l->blocks * WIDTH, width = qb_min64(WIDTH, l->inner - at);
    const int64_t last = l->scan.reverse ? (l->n - 1) * l->inner : 0;
    const int64_t step = l->scan.reverse ? -l->inner : l->inner;
    const int64_t first =
        (unit / l->blocks * l->n * l->inner + at + last) * (int64_t)qb_dtype_size(l->dtype);
    const void *x = j->data + first;
    void *y = j->out + first;
    double sum[WIDTH] = {0};
    uint64_t whole[WIDTH] = {0};
    if (l->dtype == QB_DTYPE_F32)
        scan_f32(x, l->n, step, width, l->scan.exclusive, sum, y);
    else if (l->dtype == QB_DTYPE_S32)
        scan_s32(x, l->n, step, width, l->scan.exclusive, whole, y);
    else
        scan_s64(x, l->n, step, width, l->scan.exclusive, whole, y);
}

/* The same of quantized values, or to them: rows that lie together are dequantized at once. */
static void scan_quantized(const qb_cpu_job *j, int64_t unit) {
    const lines *l = j->state;
    const int64_t at = unit % l->blocks * WIDTH, width = qb_min64(WIDTH, l->inner - at);
    const int64_t rows = width == l->inner ? WIDTH / width : 1;
    const int64_t start = unit / l->blocks * l->n * l->inner + at;
    float x[WIDTH], y[WIDTH];
    double sum[WIDTH] = {0};
    for (int64_t i = 0, n; i < l->n; i += n) {
        n = qb_min64(rows, l->n - i);
        const int64_t first = start + (l->scan.reverse ? l->n - i - n : i) * l->inner;
        const int64_t begin = l->scan.reverse ? (n - 1) * width : 0;
        qb_chain_load(l->dtype, l->scale, l->zero,
                      j->data + first * (int64_t)qb_dtype_size(l->dtype), n * width, x);
        scan_f32(x + begin, n, l->scan.reverse ? -width : width, width, l->scan.exclusive, sum,
                 y + begin);
        qb_chain_write(&l->quantized, y, n * width,
                       j->out + first * (l->quantized.dtype == QB_DTYPE_NONE ? 4 : 1));
    }
}

static void scan_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const lines *l = j->state;
    const int64_t first = task * l->units_a_task;
    const bool plain =
        l->dtype != QB_DTYPE_U8 && l->dtype != QB_DTYPE_S8 && l->quantized.dtype == QB_DTYPE_NONE;
    for (int64_t u = first; u < qb_min64(first + l->units_a_task, l->outer * l->blocks); u++)
        if (plain)
            scan_unit(j, u);
        else
            scan_quantized(j, u);
}

static bool scan_supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    (void)constant;
    const bool floats = (qb_cpu_is_f32(x) || qb_cpu_is_quantized(x)) &&
                        (qb_cpu_is_f32(y) || qb_cpu_is_quantized(y));
    const bool integers = (x->dtype == QB_DTYPE_S32 || x->dtype == QB_DTYPE_S64) && x->q.n == 0 &&
                          x->dtype == y->dtype;
    return (floats || integers) && qb_cpu_is_filled_rows(x) && qb_cpu_is_filled_rows(y);
}

static qb_status scan_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    return run_lines(kernel, args, scan_task);
}

static void scan_fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    fill(p, kernel);
    ((lines *)kernel->state)->quantized = qb_chain_quantized_of(&p->out, true);
    kernel->launch = scan_launch;
}

QB_TACTIC(cpu_scan, "cpu.scan", "cpu", QB_KIND_SCAN, QB_EXACT, scan_supports, qb_cpu_create,
          .state_bytes = sizeof(lines), .fill = scan_fill);

/* ---- places of extremes ---- */

#define INLINE static inline __attribute__((always_inline))

/* Is v rather the extreme than w? */
INLINE bool is_better(float v, float w, bool smallest) {
    return smallest ? (v < w) | ((w != w) & (v == v)) : (v > w) | ((v != v) & (w == w));
}
INLINE bool is_equal(float v, float w) { return (v == w) | ((v != v) & (w != w)); }

INLINE void compare_some(const float *x, int64_t n, int32_t i, bool smallest, bool last,
                         float *restrict best, int32_t *restrict at) {
    for (int64_t k = 0; k < n; k++) {
        const float v = x[k], w = best[k];
        const bool better = is_better(v, w, smallest) | (last & is_equal(v, w));
        best[k] = better ? v : w;
        at[k] = better ? i : at[k];
    }
}

/* With constants for what the loop has to ask. */
#define FOR_EXTREME(CALL)                                                                          \
    if (e.smallest && e.last) {                                                                    \
        CALL(true, true);                                                                          \
    } else if (e.smallest) {                                                                       \
        CALL(true, false);                                                                         \
    } else if (e.last) {                                                                           \
        CALL(false, true);                                                                         \
    } else {                                                                                       \
        CALL(false, false);                                                                        \
    }

/* Element i of each of n lines against the best ones of them so far. */
#define ONE(SMALLEST, LAST) compare_some(x, n, i, SMALLEST, LAST, best, at)
QB_LOOP(compare, (const float *x, int64_t n, int32_t i, qb_extreme e, float *best, int32_t *at),
        (x, n, i, e, best, at)){FOR_EXTREME(ONE)}

/* n elements of one line, of which the first is number `first`, LANES at a time. */
#define ALL(SMALLEST, LAST)                                                                        \
    for (int64_t i = 0; i + LANES <= n; i += LANES)                                                \
    compare_some(x + i, LANES, first + (int32_t)i, SMALLEST, LAST, best, at)
QB_LOOP(compare_run,
        (const float *x, int64_t n, int32_t first, qb_extreme e, float *best, int32_t *at),
        (x, n, first, e, best, at)) {
    FOR_EXTREME(ALL)
    const int64_t done = n / LANES * LANES;
    compare_some(x + done, n - done, first + (int32_t)done, e.smallest, e.last, best, at);
}

/* n elements as floats, in `made` where they have to be. */
static const float *floats_at(const qb_cpu_job *j, int64_t element, int64_t n, float *made) {
    const lines *l = j->state;
    const char *from = j->data + element * (int64_t)qb_dtype_size(l->dtype);
    if (l->dtype == QB_DTYPE_F32) return (const float *)(const void *)from;
    qb_chain_load(l->dtype, l->scale, l->zero, from, n, made);
    return made;
}

/* The best lane's number; among equal ones the first in the line, or the last. */
static int64_t best_lane(qb_extreme e, int64_t n, const float *best, const int32_t *at) {
    int64_t found = 0;
    for (int64_t k = 1; k < n; k++) {
        const int64_t place = at[k] + k, other = at[found] + found;
        const bool earlier = e.last ? place > other : place < other;
        if (is_better(best[k], best[found], e.smallest) ||
            (is_equal(best[k], best[found]) && earlier))
            found = k;
    }
    return found;
}

static int64_t place_in_line(const qb_cpu_job *j, int64_t line) {
    const lines *l = j->state;
    const int64_t lanes = qb_min64(LANES, l->n), start = line * l->n;
    float made[QB_CHAIN_BLOCK], best[LANES];
    int32_t at[LANES] = {0};
    memcpy(best, floats_at(j, start, lanes, made), (size_t)lanes * sizeof *best);
    for (int64_t i = lanes, n; i < l->n; i += n) {
        n = qb_min64(QB_CHAIN_BLOCK, l->n - i);
        compare_run(floats_at(j, start + i, n, made), n, (int32_t)i, l->extreme, best, at);
    }
    const int64_t lane = best_lane(l->extreme, lanes, best, at);
    return at[lane] + lane;
}

static void places_side_by_side(const qb_cpu_job *j, int64_t unit, int64_t *out) {
    const lines *l = j->state;
    const int64_t column = unit % l->blocks * WIDTH, width = qb_min64(WIDTH, l->inner - column);
    const int64_t start = unit / l->blocks * l->n * l->inner + column;
    float made[QB_CHAIN_BLOCK], best[WIDTH];
    int32_t at[WIDTH] = {0};
    memcpy(best, floats_at(j, start, width, made), (size_t)width * sizeof *best);
    for (int64_t i = 1; i < l->n; i++)
        compare(floats_at(j, start + i * l->inner, width, made), width, (int32_t)i, l->extreme,
                best, at);
    out += unit / l->blocks * l->inner + column;
    for (int64_t k = 0; k < width; k++) out[k] = at[k];
}

static void arg_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const lines *l = j->state;
    const int64_t first = task * l->units_a_task;
    int64_t *out = (int64_t *)(void *)j->out;
    for (int64_t u = first; u < qb_min64(first + l->units_a_task, l->outer * l->blocks); u++)
        if (l->inner == 1)
            out[u] = place_in_line(j, u);
        else
            places_side_by_side(j, u, out);
}

static bool arg_supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0];
    (void)constant;
    return (qb_cpu_is_f32(x) || qb_cpu_is_quantized(x)) && qb_cpu_is_filled_rows(x) &&
           qb_cpu_is_filled_rows(&p->out) && p->out.dtype == QB_DTYPE_S64 &&
           x->shape.dim[p->axis] <= INT32_MAX &&
           qb_shape_count(&p->out.shape) * x->shape.dim[p->axis] == qb_shape_count(&x->shape);
}

static qb_status arg_launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    return run_lines(kernel, args, arg_task);
}

static void arg_fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    fill(p, kernel);
    kernel->launch = arg_launch;
}

QB_TACTIC(cpu_arg, "cpu.arg", "cpu", QB_KIND_ARG, QB_EXACT, arg_supports, qb_cpu_create,
          .state_bytes = sizeof(lines), .fill = arg_fill);
