/* Concatenation: blocks of each input, which are what lies from the axis on, go to their place in
 * the rows of the result; quantized values of another scale are converted on the way. */
#include <string.h>

#include "convert.h"

#define BYTES_PER_TASK 65536

typedef struct part {
    qb_convert convert;
    int64_t n, first; /* elements of a row, and before them in the result's */
    bool moves;       /* the bytes stay what they are */
} part;

typedef struct concat {
    int64_t outer, row, rows_a_task;
    int32_t n_in;
    part in[];
} concat;

typedef struct job {
    const concat *c;
    const void *const *in;
    char *out;
} job;

/* `rows` blocks of as few bytes as a register holds, `step` apart in the result; false: they have
 * another number of bytes. */
static bool move_small(const char *from, char *to, size_t bytes, int64_t rows, size_t step) {
#define MOVE(BYTES)                                                                                \
    case BYTES:                                                                                    \
        for (int64_t r = 0; r < rows; r++, from += BYTES, to += step) memcpy(to, from, BYTES);     \
        return true;
    switch (bytes) {
        MOVE(1)
        MOVE(2)
        MOVE(4)
        MOVE(8)
        MOVE(16)
        MOVE(32)
    default: return false;
    }
#undef MOVE
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const concat *c = j->c;
    const int64_t first = task * c->rows_a_task, rows = qb_min64(c->rows_a_task, c->outer - first);
    for (int32_t k = 0; k < c->n_in; k++) {
        const part *p = &c->in[k];
        const size_t size = p->convert.out_size, step = (size_t)c->row * size;
        const size_t block = (size_t)p->n * p->convert.in_size;
        const char *from = (const char *)j->in[k] + (size_t)first * block;
        char *to = j->out + (size_t)first * step + (size_t)p->first * size;
        if (p->moves && move_small(from, to, block, rows, step)) continue;
        for (int64_t r = 0; r < rows && p->n > 0; r++, from += block, to += step)
            p->convert.run(&p->convert, from, to, p->n);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const concat *c = kernel->state;
    job j = {c, args->in, args->out};
    qb_workers_run(args->workers, qb_ceil64(c->outer, c->rows_a_task), run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    if (!qb_cpu_is_rows(&p->out) || qb_shape_count(&p->out.shape) < 1) return false;
    for (int32_t k = 0; k < p->n_in; k++)
        if (!qb_cpu_is_rows(&p->in[k]) || !qb_convert_supports(&p->in[k], &p->out)) return false;
    return p->n_in > 0;
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    const qb_shape *shape = &p->out.shape;
    (void)constant, (void)threads;
    QB_TRY(
        qb_cpu_kernel_create(cx, tactic, p, sizeof(concat) + (size_t)p->n_in * sizeof(part), out));
    concat *c = (*out)->state;
    int64_t inner = 1, at = 0;
    c->outer = 1;
    c->n_in = p->n_in;
    for (int32_t d = 0; d < shape->rank; d++)
        if (d != p->axis) *(d < p->axis ? &c->outer : &inner) *= shape->dim[d];
    c->row = shape->dim[p->axis] * inner;
    for (int32_t k = 0; k < p->n_in; k++) {
        c->in[k] = (part){.convert = qb_convert_of(&p->in[k], &p->out),
                          .n = p->in[k].shape.dim[p->axis] * inner,
                          .first = at,
                          .moves = qb_convert_moves(&p->in[k], &p->out)};
        at += c->in[k].n;
    }
    c->rows_a_task = qb_max64(1, BYTES_PER_TASK / (c->row * (int64_t)qb_dtype_size(p->out.dtype)));
    (*out)->launch = launch;
    return QB_OK;
}

QB_TACTIC(cpu_concat, "cpu.concat", "cpu", QB_KIND_CONCAT, QB_EXACT, supports, create);
