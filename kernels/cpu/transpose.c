/* Transpose: dimensions that stay together move as one; where the last one changes places, small
 * squares are turned so that both sides use whole cache lines. */
#include <string.h>

#include "cpu_internal.h"

#define SQUARE 16
#define TASK_BYTES 32768

/* Output dimensions after merging, outermost first, with the strides of the input (in elements). */
typedef struct transpose {
    int32_t rank;
    int64_t dim[QB_MAX_RANK], stride[QB_MAX_RANK];
    int32_t turned; /* the output dimension that is innermost in the input, -1: the last one is */
    int64_t count, row, rows_a_task; /* row: elements of the last dimension, or of a whole plane */
    size_t size;
} transpose;

typedef struct job {
    const transpose *t;
    const char *data;
    char *out;
} job;

/* Merges output dimension d into the one before where the input has them side by side, too. */
static void merge(transpose *t, const int64_t *dim, const int64_t *stride, int32_t rank) {
    for (int32_t d = 0; d < rank; d++) {
        if (dim[d] == 1) continue;
        const int32_t last = t->rank - 1;
        if (t->rank > 0 && t->stride[last] == dim[d] * stride[d]) {
            t->dim[last] *= dim[d];
            t->stride[last] = stride[d];
            continue;
        }
        t->dim[t->rank] = dim[d];
        t->stride[t->rank++] = stride[d];
    }
    if (t->rank == 0) t->dim[t->rank] = t->stride[t->rank] = 1, t->rank = 1;
}

static void describe(transpose *t, const qb_problem *p) {
    const qb_shape *x = &p->in[0].shape;
    int64_t stride[QB_MAX_RANK], moved[QB_MAX_RANK], step = 1;
    for (int32_t d = x->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->dim[d];
    }
    for (int32_t d = 0; d < x->rank; d++) moved[d] = stride[p->perm[d]];
    merge(t, p->out.shape.dim, moved, x->rank);
    t->count = qb_shape_count(x);
    t->size = qb_dtype_size(p->out.dtype);
    t->turned = -1;
    for (int32_t d = 0; d < t->rank - 1; d++)
        if (t->stride[d] == 1) t->turned = d;
    t->row = t->dim[t->rank - 1] * (t->turned >= 0 ? t->dim[t->turned] : 1);
    t->rows_a_task = qb_max64(1, TASK_BYTES / (t->row * (int64_t)t->size));
}

/* Offsets in input and output of row (or plane) number `index`: all dimensions but the last, and
 * but the turned one. */
static void locate(const transpose *t, int64_t index, int64_t *from, int64_t *to) {
    int64_t step = t->dim[t->rank - 1];
    *from = *to = 0;
    for (int32_t d = t->rank - 2; d >= 0; d--) {
        if (d != t->turned) {
            *from += index % t->dim[d] * t->stride[d];
            *to += index % t->dim[d] * step;
            index /= t->dim[d];
        }
        step *= t->dim[d];
    }
}

/* to[i * to_step + k] = from[k * from_step + i], in squares. */
#define DEFINE_TURN(NAME, T)                                                                       \
    static void NAME(const char *from_bytes, int64_t from_step, char *to_bytes, int64_t to_step,   \
                     int64_t rows, int64_t columns) {                                              \
        const T *from = (const T *)(const void *)from_bytes;                                       \
        T *to = (T *)(void *)to_bytes;                                                             \
        for (int64_t i0 = 0; i0 < rows; i0 += SQUARE)                                              \
            for (int64_t k0 = 0; k0 < columns; k0 += SQUARE) {                                     \
                const int64_t i1 = qb_min64(i0 + SQUARE, rows);                                    \
                const int64_t k1 = qb_min64(k0 + SQUARE, columns);                                 \
                for (int64_t i = i0; i < i1; i++)                                                  \
                    for (int64_t k = k0; k < k1; k++)                                              \
                        to[i * to_step + k] = from[k * from_step + i];                             \
            }                                                                                      \
    }
DEFINE_TURN(turn_1, uint8_t)
DEFINE_TURN(turn_2, uint16_t)
DEFINE_TURN(turn_4, uint32_t)
DEFINE_TURN(turn_8, uint64_t)

static void one_plane(const transpose *t, const char *from, char *to) {
    const int32_t last = t->rank - 1;
    int64_t to_step = t->dim[last];
    for (int32_t d = last - 1; d > t->turned; d--) to_step *= t->dim[d];
    void (*turn)(const char *, int64_t, char *, int64_t, int64_t, int64_t) = t->size == 1   ? turn_1
                                                                             : t->size == 2 ? turn_2
                                                                             : t->size == 4
                                                                                 ? turn_4
                                                                                 : turn_8;
    turn(from, t->stride[last], to, to_step, t->dim[t->turned], t->dim[last]);
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const transpose *t = j->t;
    const int64_t end = qb_min64((task + 1) * t->rows_a_task, t->count / t->row);
    for (int64_t r = task * t->rows_a_task; r < end; r++) {
        int64_t from, to;
        locate(t, r, &from, &to);
        const char *source = j->data + (size_t)from * t->size;
        char *target = j->out + (size_t)to * t->size;
        if (t->turned >= 0)
            one_plane(t, source, target);
        else
            memcpy(target, source, (size_t)t->row * t->size);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const transpose *t = kernel->state;
    job j = {t, args->in[0], args->out};
    qb_workers_run(args->workers, qb_ceil64(t->count / t->row, t->rows_a_task), run_task, &j);
    return QB_OK;
}

static void destroy(qb_kernel *kernel) { qb_free(kernel->state); }

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    const qb_desc *x = &p->in[0];
    const size_t size = qb_dtype_size(x->dtype);
    return x->layout == QB_LAYOUT_ROW && p->out.layout == QB_LAYOUT_ROW && x->channel_total == 0 &&
           p->out.channel_total == 0 && x->dtype == p->out.dtype && x->q.n <= 1 &&
           p->out.q.n <= 1 && x->shape.rank == p->out.shape.rank &&
           (size == 1 || size == 2 || size == 4 || size == 8) && qb_shape_count(&x->shape) > 0;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    (void)constant, (void)threads;
    qb_kernel *kernel;
    QB_TRY(qb_kernel_alloc(cx, tactic, p, &kernel));
    transpose *t = qb_alloc(cx, 1, sizeof *t);
    kernel->state = t;
    kernel->destroy = destroy;
    if (!t) {
        qb_kernel_free(kernel);
        return cx->code;
    }
    describe(t, p);
    kernel->launch = launch;
    *out = kernel;
    return QB_OK;
}

const qb_tactic qb_tactic_cpu_transpose = {.name = "cpu.transpose",
                                           .backend = "cpu",
                                           .kind = QB_KIND_TRANSPOSE,
                                           .exactness = QB_EXACT,
                                           .supports = supports,
                                           .create = create};
