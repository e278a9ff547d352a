/* Padding, and cutting off: rows of the result are copied from rows of the data, and what lies
 * around them from where the mode says. What each position of an axis takes is listed once. */
#include <string.h>

#include "convert.h"

#define BYTES_PER_TASK 65536
#define POSITIONS_MAX (1 << 24) /* of all axes */

typedef struct pad {
    int32_t rank;                     /* axes in the order of memory, the last one is padded */
    int64_t out[QB_MAX_RANK];         /* their sizes */
    int64_t step[QB_MAX_RANK];        /* of the data, in blocks */
    const int32_t *from[QB_MAX_RANK]; /* by position: that of the data, or -1 */
    int64_t block, rows, rows_a_task; /* elements behind the last axis; rows of the result */
    int64_t first, run;               /* of the last axis: what is copied as it lies */
    qb_convert convert;
    int64_t in_size, out_size;
    char value[8];
    int32_t list[];
} pad;

static void fill(const pad *p, char *to, int64_t n) {
    switch (p->out_size) {
    case 1: memset(to, p->value[0], (size_t)n); return;
    case 4: {
        float v; /* whatever it is, its bits */
        memcpy(&v, p->value, sizeof v);
        for (int64_t i = 0; i < n; i++) memcpy(to + i * 4, &v, sizeof v);
        return;
    }
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * p->out_size, p->value, (size_t)p->out_size);
    }
}

static void copy(const pad *p, const char *row, int64_t from, int64_t blocks, char *to) {
    p->convert.run(&p->convert, row + from * p->block * p->in_size, to, blocks * p->block);
}

static void one_row(const qb_cpu_job *j, int64_t row) {
    const pad *p = j->state;
    const int32_t last = p->rank - 1;
    const int64_t bytes = p->block * p->out_size;
    char *out = j->out + row * p->out[last] * bytes;
    int64_t at = 0, rest = row;
    for (int32_t d = last - 1; d >= 0; rest /= p->out[d--]) {
        const int32_t from = p->from[d][rest % p->out[d]];
        if (from < 0) {
            fill(p, out, p->out[last] * p->block);
            return;
        }
        at += from * p->step[d];
    }
    const char *data = j->data + at * p->block * p->in_size;
    for (int64_t i = 0; i < p->out[last]; i++) {
        const int32_t from = p->from[last][i];
        if (i == p->first && p->run > 0) {
            copy(p, data, from, p->run, out + i * bytes);
            i += p->run - 1;
        } else if (from < 0) {
            fill(p, out + i * bytes, p->block);
        } else {
            copy(p, data, from, 1, out + i * bytes);
        }
    }
}

static void run_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const pad *p = j->state;
    const int64_t end = qb_min64((task + 1) * p->rows_a_task, p->rows);
    for (int64_t row = task * p->rows_a_task; row < end; row++) one_row(j, row);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const pad *p = kernel->state;
    return qb_cpu_run(kernel, args, qb_ceil64(p->rows, p->rows_a_task), run_task);
}

/* ---- the tactic ---- */

static bool lies_plain(const qb_desc *d) {
    return d->channel_total == 0 &&
           (d->layout == QB_LAYOUT_ROW || (d->layout == QB_LAYOUT_NHWC && d->shape.rank >= 3));
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    int64_t positions = 0;
    (void)constant;
    if (!lies_plain(x) || !lies_plain(y) || x->layout != y->layout || x->shape.rank < 1 ||
        x->shape.rank != y->shape.rank || qb_shape_count(&x->shape) < 1 ||
        qb_shape_count(&y->shape) < 1 || !qb_convert_supports(x, y) ||
        !(qb_cpu_is_f32(y) || qb_cpu_is_quantized(y)))
        return false;
    for (int32_t d = 0; d < y->shape.rank; d++) positions += y->shape.dim[d];
    return positions <= POSITIONS_MAX;
}

static int32_t source(qb_pad_mode mode, int64_t at, int64_t n) {
    const int64_t period = mode == QB_PAD_REFLECT ? qb_max64(1, 2 * (n - 1)) : n;
    const int64_t k = ((at % period) + period) % period;
    if (at >= 0 && at < n) return (int32_t)at;
    if (mode == QB_PAD_CONSTANT) return -1;
    if (mode == QB_PAD_EDGE) return at < 0 ? 0 : (int32_t)(n - 1);
    return (int32_t)(k < n ? k : period - k);
}

/* Axes behind the last padded one are a block. */
static void describe(const qb_problem *problem, pad *p) {
    const qb_shape *x = &problem->in[0].shape, *y = &problem->out.shape;
    const qb_layout layout = problem->out.layout;
    int64_t step[QB_MAX_RANK], all = 1;
    int32_t *next = p->list;
    p->rank = x->rank;
    p->block = p->rows = 1;
    for (; p->rank > 1; p->rank--) {
        const int32_t d = qb_cpu_dimension(layout, x->rank, p->rank - 1);
        if (problem->padding.begin[d] != 0 || x->dim[d] != y->dim[d]) break;
        p->block *= x->dim[d];
    }
    for (int32_t i = p->rank - 1; i >= 0; all *= x->dim[qb_cpu_dimension(layout, x->rank, i--)])
        step[i] = all;
    for (int32_t i = 0; i < p->rank; i++) {
        const int32_t d = qb_cpu_dimension(layout, x->rank, i);
        p->out[i] = y->dim[d];
        p->step[i] = step[i];
        p->from[i] = next;
        if (i < p->rank - 1) p->rows *= y->dim[d];
        for (int64_t o = 0; o < y->dim[d]; o++)
            *next++ = source(problem->padding.mode, o - problem->padding.begin[d], x->dim[d]);
    }
    const int32_t d = qb_cpu_dimension(layout, x->rank, p->rank - 1);
    const int64_t begin = problem->padding.begin[d];
    p->first = qb_max64(0, begin);
    p->run = qb_min64(y->dim[d], begin + x->dim[d]) - p->first;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *problem,
                        const bool *constant, int threads, qb_kernel **out) {
    const qb_desc *x = &problem->in[0], *y = &problem->out;
    size_t positions = 0;
    (void)constant, (void)threads;
    for (int32_t d = 0; d < y->shape.rank; d++) positions += (size_t)y->shape.dim[d];
    QB_TRY(
        qb_cpu_kernel_create(cx, tactic, problem, sizeof(pad) + positions * sizeof(int32_t), out));
    pad *p = (*out)->state;
    p->convert = qb_convert_of(x, y);
    p->in_size = (int64_t)qb_dtype_size(x->dtype);
    p->out_size = (int64_t)qb_dtype_size(y->dtype);
    describe(problem, p);
    p->rows_a_task = qb_max64(1, BYTES_PER_TASK / (p->out[p->rank - 1] * p->block * p->out_size));
    if (y->q.n > 0)
        p->value[0] = (char)qb_quantize_value(problem->padding.value, y->q.scale[0], qb_cpu_zero(y),
                                              y->dtype);
    else
        memcpy(p->value, &problem->padding.value, sizeof problem->padding.value);
    (*out)->launch = launch;
    return QB_OK;
}

QB_TACTIC(cpu_pad, "cpu.pad", "cpu", QB_KIND_PAD, QB_EXACT, supports, create);
