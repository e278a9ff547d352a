/* Where along an axis the largest or smallest element lies. What lies side by side goes through the
 * comparison together: the elements behind the axis, or, where there are none, pieces of the line
 * itself, which are joined at the end. Quantized values are compared as integers, in floats. */
#include <string.h>

#include "base/vector_loop.h"
#include "cpu_internal.h"

#define WIDTH 256 /* most elements side by side */
#define LANES 64  /* of a single line */
#define ELEMENTS_PER_TASK 16384

typedef struct arg {
    qb_extreme extreme;
    qb_dtype dtype;
    int64_t outer, n, inner; /* elements before the axis, along it, behind it */
    int64_t pieces, units_a_task;
} arg;

/* Extremes so far of what lies side by side. */
typedef struct extremes {
    float best[WIDTH];
    int32_t at[WIDTH];
} extremes;

typedef struct job {
    const arg *a;
    const char *in;
    int64_t *out;
} job;

/* Does v take the place of w, which comes before it? NaN is larger than any number. */
static inline __attribute__((always_inline)) bool replaces(float v, float w, bool smallest,
                                                           bool last) {
    const bool above = (v > w) | ((v != v) & (w == w)), below = (v < w) | ((w != w) & (v == v));
    return smallest ? below | (last & !above) : above | (last & !below);
}

#define COMPARE(SMALLEST, LAST)                                                                    \
    for (int64_t j = 0; j < width; j++) {                                                          \
        const bool better = replaces(x[j], best[j], SMALLEST, LAST);                               \
        best[j] = better ? x[j] : best[j];                                                         \
        at[j] = better ? row : at[j];                                                              \
    }

/* One more row of numbers. */
QB_LOOP(compare,
        (const float *restrict x, int64_t width, int32_t row, qb_extreme how, float *restrict best,
         int32_t *restrict at),
        (x, width, row, how, best, at)) {
    if (how.smallest && how.last)
        COMPARE(true, true)
    else if (how.smallest)
        COMPARE(true, false)
    else if (how.last)
        COMPARE(false, true)
    else
        COMPARE(false, false)
}

QB_LOOP(widen_u8, (const uint8_t *from, int64_t n, float *to), (from, n, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}
QB_LOOP(widen_s8, (const int8_t *from, int64_t n, float *to), (from, n, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
}

/* n elements from `first` on as floats, in `room` where they are none. */
static const float *floats_at(const job *j, int64_t first, int64_t n, float *room) {
    switch (j->a->dtype) {
    case QB_DTYPE_F32: return (const float *)(const void *)j->in + first;
    case QB_DTYPE_U8: widen_u8((const uint8_t *)j->in + first, n, room); return room;
    default: widen_s8((const int8_t *)j->in + first, n, room); return room;
    }
}

/* `rows` rows of elements side by side, `step` elements apart. */
static void find(const job *j, int64_t first, int64_t rows, int64_t step, int64_t width,
                 extremes *e) {
    float room[WIDTH];
    memcpy(e->best, floats_at(j, first, width, room), (size_t)width * sizeof *room);
    memset(e->at, 0, (size_t)width * sizeof *e->at);
    for (int64_t i = 1; i < rows; i++)
        compare(floats_at(j, first + i * step, width, room), width, (int32_t)i, j->a->extreme,
                e->best, e->at);
}

/* A line of its own: of the extremes of its pieces, and of the rest behind them. */
static int64_t find_line(const job *j, int64_t first) {
    const arg *a = j->a;
    const int64_t width = qb_min64(a->n, LANES), rows = a->n / width;
    extremes e;
    float room[LANES];
    find(j, first, rows, width, width, &e);
    int64_t at = e.at[0] * width;
    float best = e.best[0];
    for (int64_t k = 1; k < width; k++) {
        const int64_t other = e.at[k] * width + k;
        const bool behind = other > at;
        /* of two equal ones the order in the line decides */
        const bool takes = behind
                               ? replaces(e.best[k], best, a->extreme.smallest, a->extreme.last)
                               : !replaces(best, e.best[k], a->extreme.smallest, a->extreme.last);
        if (takes) at = other, best = e.best[k];
    }
    const int64_t rest = a->n - rows * width;
    const float *x = floats_at(j, first + rows * width, rest, room);
    for (int64_t k = 0; k < rest; k++)
        if (replaces(x[k], best, a->extreme.smallest, a->extreme.last))
            at = rows * width + k, best = x[k];
    return at;
}

static void run_unit(const job *j, int64_t unit) {
    const arg *a = j->a;
    const int64_t outer = unit / a->pieces, begin = unit % a->pieces * WIDTH;
    const int64_t first = outer * a->n * a->inner + begin;
    const int64_t width = qb_min64(WIDTH, a->inner - begin);
    int64_t *out = j->out + outer * a->inner + begin;
    extremes e;
    if (a->inner == 1) {
        *out = find_line(j, first);
        return;
    }
    find(j, first, a->n, a->inner, width, &e);
    for (int64_t k = 0; k < width; k++) out[k] = e.at[k];
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const int64_t first = task * j->a->units_a_task;
    const int64_t end = qb_min64(first + j->a->units_a_task, j->a->outer * j->a->pieces);
    for (int64_t unit = first; unit < end; unit++) run_unit(j, unit);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const arg *a = kernel->state;
    job j = {a, args->in[0], args->out};
    qb_workers_run(args->workers, qb_ceil64(a->outer * a->pieces, a->units_a_task), run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    (void)constant;
    return (qb_cpu_is_f32(x) || qb_cpu_is_quantized(x) ||
            ((x->dtype == QB_DTYPE_U8 || x->dtype == QB_DTYPE_S8) && x->q.n == 0)) &&
           y->dtype == QB_DTYPE_S64 && x->layout == QB_LAYOUT_ROW && y->layout == QB_LAYOUT_ROW &&
           x->channel_total <= 0 && y->channel_total <= 0 && qb_shape_count(&x->shape) > 0 &&
           x->shape.dim[p->axis] <= INT32_MAX;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    const qb_shape *x = &p->in[0].shape;
    (void)constant, (void)threads;
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(arg), out));
    arg *a = (*out)->state;
    *a = (arg){.extreme = p->extreme, .dtype = p->in[0].dtype, .outer = 1, .inner = 1};
    a->n = x->dim[p->axis];
    for (int32_t d = 0; d < p->axis; d++) a->outer *= x->dim[d];
    for (int32_t d = p->axis + 1; d < x->rank; d++) a->inner *= x->dim[d];
    a->pieces = qb_ceil64(a->inner, WIDTH);
    a->units_a_task = qb_max64(1, ELEMENTS_PER_TASK / (a->n * qb_min64(a->inner, WIDTH)));
    (*out)->launch = launch;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_arg = {.name = "cpu.arg",
                                     .backend = "cpu",
                                     .kind = QB_KIND_ARG,
                                     .exactness = QB_EXACT,
                                     .supports = supports,
                                     .create = create};
