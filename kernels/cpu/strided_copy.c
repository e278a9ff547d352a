/* Strided copies: what transposes, slices, expands, tiles and flips.
 *
 * The last dimension is a row of the result: a block of memory, one element repeated, or elements
 * that lie apart. Blocks of a few bytes are moved as one element of a row of blocks. Where another
 * dimension is innermost in the data, both make a plane, which is transposed (transpose.h). */
#include <string.h>

#include "cpu_internal.h"
#include "transpose.h"

#define TILE 16 /* rows of a plane that are moved together */
#define TASK_BYTES 32768
#define BLOCK_MOST 64

typedef struct strided_copy {
    qb_strided_loops l;
    int32_t inner;                       /* the loop that is innermost in the data; -1: rows */
    int32_t outer[QB_MAX_RANK], n_outer; /* the loops but the last and `inner` */
    int64_t piece, pieces;               /* of a row, or of `inner`, that are moved at once */
    int64_t items, items_a_task;
    size_t size;
    int64_t block; /* bytes that lie together in rows of blocks, where all strides are bytes; 0 */
} strided_copy;

/* Drops the last loop where it is a short block. */
static void join_blocks(strided_copy *c) {
    qb_strided_loops *l = &c->l;
    const int32_t last = l->rank - 1;
    const int64_t size = (int64_t)c->size, bytes = l->dim[last] * size;
    if (last < 1 || l->from[last] != 1 || l->to[last] != 1 || bytes > BLOCK_MOST) return;
    c->block = bytes;
    c->size = 1;
    l->rank = last;
    l->from_first *= size;
    l->to_first *= size;
    for (int32_t d = 0; d < last; d++) {
        l->from[d] *= size;
        l->to[d] *= size;
    }
}

static bool describe(strided_copy *c, const qb_problem *p) {
    qb_strided_loops *l = &c->l;
    *c = (strided_copy){.inner = -1, .items = 1, .size = qb_dtype_size(p->out.dtype)};
    if (!qb_strided_loops_of(&p->strided, &p->in[0], &p->out, l)) return false;
    join_blocks(c);
    const int32_t last = l->rank - 1;
    for (int32_t d = last - 1; d >= 0 && c->block == 0; d--)
        if (l->from[d] == 1 && l->from[last] > 1 && l->to[last] == 1) c->inner = d;
    for (int32_t d = 0; d < last; d++) {
        if (d == c->inner) continue;
        c->outer[c->n_outer++] = d;
        c->items *= l->dim[d];
    }
    const int64_t cut = c->inner >= 0 ? l->dim[c->inner] : l->dim[last];
    const int64_t thick = c->inner >= 0  ? l->dim[last] /* elements moved for one of the cut */
                          : c->block > 0 ? c->block
                                         : 1;
    c->piece = qb_max64(1, TASK_BYTES / (thick * (int64_t)c->size));
    if (c->inner >= 0) c->piece = qb_ceil64(c->piece, TILE) * TILE;
    c->piece = qb_min64(c->piece, cut);
    c->pieces = qb_ceil64(cut, c->piece);
    c->items *= c->pieces;
    c->items_a_task = qb_max64(1, TASK_BYTES / (c->piece * thick * (int64_t)c->size));
    return true;
}

/* to[i * to_step] = from[i * from_step]. */
#define DEFINE_MOVES(BITS)                                                                         \
    static void row_##BITS(const char *data, int64_t from_step, char *out, int64_t to_step,        \
                           int64_t n) {                                                            \
        const uint##BITS##_t *from = (const uint##BITS##_t *)(const void *)data;                   \
        uint##BITS##_t *to = (uint##BITS##_t *)(void *)out;                                        \
        if (to_step != 1)                                                                          \
            for (int64_t i = 0; i < n; i++) to[i * to_step] = from[i * from_step];                 \
        else if (from_step == 2)                                                                   \
            for (int64_t i = 0; i < n; i++) to[i] = from[2 * i];                                   \
        else if (from_step == 0)                                                                   \
            for (int64_t i = 0; i < n; i++) to[i] = *from;                                         \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i] = from[i * from_step];                           \
    }
DEFINE_MOVES(8)
DEFINE_MOVES(16)
DEFINE_MOVES(32)
DEFINE_MOVES(64)

/* n blocks; those of the usual sizes without a call for each. */
static void move_blocks(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t n,
                        int64_t bytes) {
#define SIZE(BYTES)                                                                                \
    case BYTES:                                                                                    \
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, BYTES);     \
        return;
    switch (bytes) {
        SIZE(2)
        SIZE(4)
        SIZE(8)
        SIZE(12)
        SIZE(16)
        SIZE(32)
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * to_step, from + i * from_step, (size_t)bytes);
    }
#undef SIZE
}

static void move_row(const strided_copy *c, const char *from, char *to, int64_t n) {
    const int64_t step = c->l.from[c->l.rank - 1], to_step = c->l.to[c->l.rank - 1];
    if (c->block > 0) {
        move_blocks(from, step, to, to_step, n, c->block);
        return;
    }
    if (step == 1 && to_step == 1) {
        memcpy(to, from, (size_t)n * c->size);
        return;
    }
    switch (c->size) {
    case 1: row_8(from, step, to, to_step, n); return;
    case 2: row_16(from, step, to, to_step, n); return;
    case 4: row_32(from, step, to, to_step, n); return;
    default: row_64(from, step, to, to_step, n); return;
    }
}

/* Where the outer dimensions stand, with their offsets in data and result. */
typedef struct odometer {
    int64_t at[QB_MAX_RANK], from, to;
} odometer;

static void set_odometer(const strided_copy *c, int64_t row, odometer *o) {
    *o = (odometer){.from = c->l.from_first, .to = c->l.to_first};
    for (int32_t i = c->n_outer - 1; i >= 0; i--) {
        const int32_t d = c->outer[i];
        o->at[i] = row % c->l.dim[d];
        row /= c->l.dim[d];
        o->from += o->at[i] * c->l.from[d];
        o->to += o->at[i] * c->l.to[d];
    }
}

static void advance(const strided_copy *c, odometer *o) {
    for (int32_t i = c->n_outer - 1; i >= 0; i--) {
        const int32_t d = c->outer[i];
        o->from += c->l.from[d];
        o->to += c->l.to[d];
        if (++o->at[i] < c->l.dim[d]) return;
        o->from -= c->l.dim[d] * c->l.from[d];
        o->to -= c->l.dim[d] * c->l.to[d];
        o->at[i] = 0;
    }
}

static void run_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const strided_copy *c = j->state;
    const int32_t cut = c->inner >= 0 ? c->inner : c->l.rank - 1;
    const int64_t first = task * c->items_a_task;
    const int64_t end = qb_min64(first + c->items_a_task, c->items);
    int64_t piece = first % c->pieces;
    odometer o;
    set_odometer(c, first / c->pieces, &o);
    for (int64_t item = first; item < end; item++) {
        const int64_t begin = piece * c->piece, n = qb_min64(c->piece, c->l.dim[cut] - begin);
        const char *from = j->data + (o.from + begin * c->l.from[cut]) * (int64_t)c->size;
        char *to = j->out + (o.to + begin * c->l.to[cut]) * (int64_t)c->size;
        if (c->inner >= 0)
            qb_transpose(c->size, from, c->l.from[c->l.rank - 1], to, c->l.to[c->inner], n,
                         c->l.dim[c->l.rank - 1]);
        else
            move_row(c, from, to, n);
        if (++piece < c->pieces) continue;
        piece = 0;
        advance(c, &o);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const strided_copy *c = kernel->state;
    return qb_cpu_run(kernel, args, qb_ceil64(c->items, c->items_a_task), run_task);
}

/* Are elements copied as they are? */
static bool is_same_type(const qb_desc *x, const qb_desc *y) {
    if (x->dtype != y->dtype || x->q.n != y->q.n || x->q.n > 1) return false;
    return x->q.n == 0 || (x->q.scale[0] == y->q.scale[0] && x->q.zero[0] == y->q.zero[0]);
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    strided_copy c;
    return is_same_type(&p->in[0], &p->out) && qb_shape_count(&p->out.shape) > 0 && describe(&c, p);
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    describe(kernel->state, p);
    kernel->launch = launch;
}

QB_TACTIC(cpu_strided_copy, "cpu.strided_copy", "cpu", QB_KIND_STRIDED_COPY, QB_EXACT, supports,
          qb_cpu_create, .state_bytes = sizeof(strided_copy), .fill = fill);
