/* Chains of elementwise functions: a block of each input is loaded, all operations run on it while
 * it is in the first level cache, and the result's block is written. Broadcasting is in the loads:
 * what an input repeats is loaded again, or spread. */
#include <string.h>

#include "chain_internal.h"
#include "convert.h"

#define BLOCKS_PER_TASK 32
#define LANES 16 /* functions run on whole vectors */
#define REGISTERS (QB_CHAIN_INPUTS + QB_CHAIN_CONSTANTS + QB_CHAIN_OPERATIONS)

/* A tensor in the loops over the result's memory; strides in elements, 0: repeated. */
typedef struct operand {
    qb_dtype dtype;
    size_t size;
    float scale;
    int32_t zero;
    int64_t first, stride[QB_MAX_RANK];
} operand;

/* An input's own loops, inner ones last: those that lie together, or repeat together, in it are
 * one, though the result's or another input's memory parts them. At least two. */
typedef struct own_loops {
    int32_t rank;
    int64_t dim[QB_MAX_RANK + 1], stride[QB_MAX_RANK + 1];
} own_loops;

typedef struct chain {
    qb_chain program;
    qb_chain_block_fn run[QB_CHAIN_OPERATIONS];
    int32_t n_in, rank; /* loops: those merged that lie together everywhere; at least one */
    int64_t dim[QB_MAX_RANK], count;
    operand in[QB_CHAIN_INPUTS], out;
    bool is_whole; /* the result's elements lie one after the other */
    own_loops loops[QB_CHAIN_INPUTS];
    int64_t block; /* elements that run at once; every one begins where a period does */
    bool is_periodic[QB_CHAIN_INPUTS]; /* all blocks have the same elements of it */
    qb_chain_quantized quantized;
    bool has_table; /* of one 8-bit value: what each of the 256 becomes */
    qb_convert table;
} chain;

/* ---- where tensors lie ---- */

/* Strides by the dimension of the output, of a tensor in its own layout. */
static void strides_of(const qb_desc *desc, int32_t rank, operand *o) {
    const qb_shape *s = &desc->shape;
    int64_t stride[QB_MAX_RANK], step = 1;
    for (int32_t d = s->rank - 1; d >= 0; d--) {
        const int32_t at = qb_cpu_dimension(desc->layout, s->rank, d);
        stride[at] = step;
        if (at == 1 && desc->channel_total > 0) o->first = desc->channel_offset * step;
        step *= at == 1 && desc->channel_total > 0 ? desc->channel_total : s->dim[at];
    }
    for (int32_t d = 0; d < rank; d++) {
        const int32_t own = d - (rank - s->rank);
        o->stride[d] = own < 0 || s->dim[own] == 1 ? 0 : stride[own];
    }
}

static void describe(const qb_desc *desc, int32_t rank, operand *o) {
    *o = (operand){.dtype = desc->dtype,
                   .size = qb_dtype_size(desc->dtype),
                   .scale = desc->q.n > 0 ? desc->q.scale[0] : 1.0f,
                   .zero = qb_cpu_zero(desc)};
    strides_of(desc, rank, o);
}

/* The loops in the order of the result's memory. */
static void place(const qb_problem *p, chain *c) {
    const int32_t rank = p->out.shape.rank;
    operand *const all[] = {&c->out, &c->in[0], &c->in[1], &c->in[2], &c->in[3]};
    operand given[QB_CHAIN_INPUTS + 1];
    for (int32_t k = 0; k <= p->n_in; k++) given[k] = *all[k];
    c->rank = 0;
    for (int32_t i = 0; i < rank; i++) {
        const int32_t d = qb_cpu_dimension(p->out.layout, rank, i);
        const int64_t dim = p->out.shape.dim[d];
        bool joins = c->rank > 0;
        if (dim == 1) continue;
        for (int32_t k = 0; joins && k <= p->n_in; k++)
            joins = all[k]->stride[c->rank - 1] == given[k].stride[d] * dim;
        const int32_t to = joins ? c->rank - 1 : c->rank++;
        c->dim[to] = joins ? c->dim[to] * dim : dim;
        for (int32_t k = 0; k <= p->n_in; k++) all[k]->stride[to] = given[k].stride[d];
    }
    if (c->rank > 0) return;
    c->rank = 1;
    c->dim[0] = 1;
    for (int32_t k = 0; k <= p->n_in; k++) all[k]->stride[0] = 0;
}

static bool is_whole(const chain *c) {
    int64_t step = 1;
    for (int32_t d = c->rank - 1; d >= 0; step *= c->dim[d--])
        if (c->out.stride[d] != step && c->dim[d] > 1) return false;
    return true;
}

static own_loops own_loops_of(const chain *c, const operand *o) {
    own_loops l = {.rank = 1, .dim = {1}, .stride = {0}};
    for (int32_t d = 0; d < c->rank; d++) {
        const bool joins = l.rank > 1 && l.stride[l.rank - 1] == o->stride[d] * c->dim[d];
        const int32_t to = joins ? l.rank - 1 : l.rank++;
        l.dim[to] = joins ? l.dim[to] * c->dim[d] : c->dim[d];
        l.stride[to] = o->stride[d];
    }
    return l;
}

/* The elements that an input repeats again and again; 0: it does not. */
static int64_t period_of(const own_loops *l) {
    const int32_t last = l->rank - 1;
    for (int32_t d = 0; d < last; d++)
        if (l->stride[d] != 0) return 0;
    return l->stride[last] == 1 ? l->dim[last] : 0;
}

/* Blocks of whole vectors, and of whole periods where they are short. */
static void choose_block(chain *c) {
    c->block = QB_CHAIN_BLOCK;
    for (int32_t k = 0; k < c->n_in; k++) {
        int64_t unit = period_of(&c->loops[k]);
        while (unit % LANES != 0) unit *= 2;
        if (unit > 0 && unit <= QB_CHAIN_BLOCK) c->block = QB_CHAIN_BLOCK / unit * unit;
    }
    for (int32_t k = 0; k < c->n_in; k++) {
        const int64_t period = period_of(&c->loops[k]);
        c->is_periodic[k] = period > 0 && c->block % period == 0;
    }
}

/* ---- running ---- */

typedef struct job {
    const chain *c;
    const char *in[QB_CHAIN_INPUTS];
    char *out;
    bool is_apart; /* the result's memory is no input's */
} job;

/* Where the loops stand; the last one at at[rank - 1]. */
typedef struct cursor {
    int64_t at[QB_MAX_RANK];
} cursor;

static cursor cursor_at(const chain *c, int64_t element) {
    cursor w;
    for (int32_t d = c->rank - 1; d >= 0; element /= c->dim[d--]) w.at[d] = element % c->dim[d];
    return w;
}

static int64_t place_of(const chain *c, const operand *o, const cursor *w) {
    int64_t at = o->first;
    for (int32_t d = 0; d < c->rank; d++) at += w->at[d] * o->stride[d];
    return at;
}

/* The rest of the innermost loop, at most `left`, is behind the cursor. */
static int64_t advance(const chain *c, cursor *w, int64_t left) {
    int32_t d = c->rank - 1;
    const int64_t n = qb_min64(left, c->dim[d] - w->at[d]);
    w->at[d] += n;
    for (; d > 0 && w->at[d] == c->dim[d]; d--) {
        w->at[d] = 0;
        w->at[d - 1]++;
    }
    return n;
}

static void spread(float *to, int64_t n) {
    for (int64_t i = 1; i < n; i++) to[i] = to[0];
}

/* n elements, `step` apart. */
static void load_row(const operand *o, const char *from, int64_t step, int64_t n, float *to) {
    if (o->dtype == QB_DTYPE_F32 && (step != 1 || n < LANES)) {
        const float *x = (const float *)(const void *)from;
        for (int64_t i = 0; i < n; i++) to[i] = x[i * step];
    } else if (step == 1) {
        qb_chain_load(o->dtype, o->scale, o->zero, from, n, to);
    } else {
        for (int64_t i = 0; i < n; i++)
            qb_chain_load(o->dtype, o->scale, o->zero, from + i * step * (int64_t)o->size, 1,
                          to + i);
    }
}

/* The same `period` elements again and again, from element `at` of them on. */
static void load_period(const operand *o, const char *from, int64_t period, int64_t at, int64_t n,
                        float *to) {
    const int64_t head = qb_min64(period - at, n), size = (int64_t)o->size;
    int64_t done = qb_min64(period, n);
    load_row(o, from + at * size, 1, head, to);
    load_row(o, from, 1, done - head, to + head);
    for (int64_t some; done < n; done += some) {
        some = qb_min64(done, n - done);
        memcpy(to + done, to, (size_t)some * sizeof *to);
    }
}

/* Elements `step` apart, each of them `times` times; of the first one the last `left` times. */
static void load_repeated(const operand *o, const char *from, int64_t step, int64_t times,
                          int64_t left, int64_t n, float *to) {
    float value[QB_CHAIN_BLOCK];
    load_row(o, from, step, 1 + qb_ceil64(qb_max64(n - left, 0), times), value);
    for (int64_t done = 0, i = 0, some; done < n; done += some, left = times, i++) {
        some = qb_min64(left, n - done);
        for (int64_t k = 0; k < some; k++) to[done + k] = value[i];
    }
}

/* In the two inner loops, from element `at` of them on. */
static void load_rows(const operand *o, const own_loops *l, const char *from, int64_t at, int64_t n,
                      float *to) {
    const int64_t run = l->dim[l->rank - 1], step = l->stride[l->rank - 1];
    const int64_t outer = l->stride[l->rank - 2], size = (int64_t)o->size;
    int64_t row = at / run, first = at % run;
    if (step == 0) {
        load_repeated(o, from + row * outer * size, outer, run, run - first, n, to);
    } else if (step == 1 && outer == 0) {
        load_period(o, from, run, first, n, to);
    } else {
        for (int64_t done = 0, some; done < n; done += some, row++, first = 0) {
            some = qb_min64(run - first, n - done);
            load_row(o, from + (row * outer + first * step) * size, step, some, to + done);
        }
    }
}

/* Elements from `element` of the result on, as many floats; where that takes no work, where they
 * are. */
static const float *load(const operand *o, const own_loops *l, const char *data, int64_t element,
                         int64_t n, float *to) {
    const int64_t inner = l->dim[l->rank - 1] * l->dim[l->rank - 2];
    for (int64_t done = 0, some; done < n; done += some) {
        int64_t rest = (element + done) / inner, at = o->first;
        const int64_t first = (element + done) % inner;
        for (int32_t d = l->rank - 3; d >= 0; rest /= l->dim[d--])
            at += rest % l->dim[d] * l->stride[d];
        const char *from = data + at * (int64_t)o->size;
        if (n % LANES == 0 && o->dtype == QB_DTYPE_F32 && l->rank == 2 && l->stride[1] == 1)
            return (const float *)(const void *)from + first;
        some = qb_min64(inner - first, n - done);
        load_rows(o, l, from, first, some, to + done);
    }
    for (int64_t i = n; i % LANES != 0; i++) to[i] = 0; /* functions of these are thrown away */
    return to;
}

static void put(const chain *c, const char *from, cursor w, int64_t n, char *data) {
    const operand *o = &c->out;
    const int64_t size = (int64_t)o->size, step = o->stride[c->rank - 1];
    for (int64_t done = 0, some; done < n; done += some) {
        char *to = data + place_of(c, o, &w) * size;
        some = advance(c, &w, n - done);
        if (step <= 1)
            memcpy(to, from + done * size, (size_t)(some * size));
        else
            for (int64_t i = 0; i < some; i++)
                memcpy(to + i * step * size, from + (done + i) * size, (size_t)size);
    }
}

/* All operations on n elements, a multiple of the lanes; the last one's result, which goes to
 * `result` unless that is NULL. */
static const float *compute(const chain *c, const float **at, float (*registers)[QB_CHAIN_BLOCK],
                            int64_t n, float *result) {
    const qb_chain *p = &c->program;
    const int32_t first = p->n_in + p->n_constants;
    for (int32_t i = 0; i < p->n_operations; i++) {
        const qb_chain_operation *o = &p->operation[i];
        float *to = i == p->n_operations - 1 && result ? result : registers[first + i];
        if (o->function == QB_FUNCTION_QUANTIZE)
            qb_chain_round(at[o->in[0]], &o->quantized, n, to);
        else
            c->run[i](to, at[o->in[0]], at[o->in[1]], at[o->in[2]], n);
        at[first + i] = to;
    }
    return at[first + p->n_operations - 1];
}

static void set_constants(const chain *c, const float **at, float (*registers)[QB_CHAIN_BLOCK],
                          int64_t n) {
    const qb_chain *p = &c->program;
    for (int32_t k = 0; k < p->n_constants; k++) {
        float *to = registers[p->n_in + k];
        to[0] = p->constant[k];
        spread(to, n);
        at[p->n_in + k] = to;
    }
}

static void run_block(const job *j, int64_t element, int64_t n, const float **at,
                      float (*registers)[QB_CHAIN_BLOCK]) {
    const chain *c = j->c;
    const bool in_place =
        c->is_whole && n % LANES == 0 && c->out.dtype == QB_DTYPE_F32 && j->is_apart;
    _Alignas(64) char made[QB_CHAIN_BLOCK * sizeof(int64_t)];
    for (int32_t k = 0; k < c->n_in; k++)
        if (!c->is_periodic[k])
            at[k] = load(&c->in[k], &c->loops[k], j->in[k], element, n, registers[k]);
    char *place = j->out + (c->out.first + element) * (int64_t)c->out.size;
    const float *result = compute(c, at, registers, qb_ceil64(n, LANES) * LANES,
                                  in_place ? (float *)(void *)place : NULL);
    if (in_place) return;
    char *to = c->is_whole ? place : made;
    if (c->quantized.dtype != QB_DTYPE_NONE)
        qb_chain_quantize(result, &c->quantized, n, (uint8_t *)to);
    else
        qb_chain_store(c->out.dtype, result, n, to);
    if (!c->is_whole) put(c, made, cursor_at(c, element), n, j->out);
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const chain *c = j->c;
    _Alignas(64) float registers[REGISTERS][QB_CHAIN_BLOCK];
    const float *places[REGISTERS];
    int64_t at = task * BLOCKS_PER_TASK * c->block;
    const int64_t end = qb_min64(at + BLOCKS_PER_TASK * c->block, c->count);
    const int64_t block = qb_min64(c->block, end - at);
    if (c->has_table) {
        c->table.run(&c->table, j->in[0] + at, j->out + at * (int64_t)c->out.size, end - at);
        return;
    }
    set_constants(c, places, registers, qb_ceil64(block, LANES) * LANES);
    for (int32_t k = 0; k < c->n_in; k++)
        if (c->is_periodic[k])
            places[k] = load(&c->in[k], &c->loops[k], j->in[k], at, block, registers[k]);
    for (; at < end; at += c->block)
        run_block(j, at, qb_min64(c->block, end - at), places, registers);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const chain *c = kernel->state;
    job j = {.c = c, .out = args->out, .is_apart = true};
    for (int32_t k = 0; k < c->n_in; k++) {
        j.in[k] = args->in[k];
        j.is_apart = j.is_apart && args->in[k] != args->out;
    }
    qb_workers_run(args->workers, qb_ceil64(c->count, BLOCKS_PER_TASK * c->block), run_task, &j);
    return QB_OK;
}

/* ---- the tactic ---- */

static bool layout_supported(const qb_desc *desc) {
    const int32_t rank = desc->shape.rank;
    if (desc->layout == QB_LAYOUT_ROW) return desc->channel_total == 0 || rank >= 2;
    return desc->layout == QB_LAYOUT_NHWC && rank >= 3 && rank <= 5;
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    if (!qb_chain_valid(p) || p->chain->integer || !layout_supported(&p->out) ||
        qb_shape_count(&p->out.shape) < 1)
        return false;
    for (int32_t k = 0; k < p->n_in; k++)
        if (!layout_supported(&p->in[k])) return false;
    return true;
}

/* One run of one step of 8-bit values: a table. */
static bool is_table(const qb_problem *p, const chain *c) {
    return p->n_in == 1 && p->in[0].q.n == 1 && c->in[0].size == 1 &&
           (c->out.size == 1 || c->out.dtype == QB_DTYPE_F32) && c->rank == 1 &&
           c->in[0].stride[0] == 1 && c->out.stride[0] == 1 && c->in[0].first == 0 &&
           c->out.first == 0;
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    chain *c = kernel->state;
    const int32_t rank = p->out.shape.rank;
    c->program = *p->chain;
    kernel->problem.chain = &c->program;
    c->n_in = p->n_in;
    c->count = qb_shape_count(&p->out.shape);
    for (int32_t i = 0; i < c->program.n_operations; i++)
        c->run[i] = qb_chain_block(c->program.operation[i].function);
    describe(&p->out, rank, &c->out);
    for (int32_t k = 0; k < p->n_in; k++) {
        describe(&p->in[k], rank, &c->in[k]);
        if (qb_shape_equal(&p->in[k].shape, &p->out.shape) && c->in[k].size == c->out.size &&
            p->in[k].layout == p->out.layout && p->in[k].channel_total == 0 &&
            p->out.channel_total == 0)
            kernel->in_place_inputs |= UINT64_C(1) << k;
    }
    c->quantized = qb_chain_quantized_of(&p->out, p->chain->divide);
    place(p, c);
    c->is_whole = is_whole(c);
    for (int32_t k = 0; k < c->n_in; k++) c->loops[k] = own_loops_of(c, &c->in[k]);
    choose_block(c);
    c->has_table = is_table(p, c);
    if (c->has_table) c->table = qb_convert_unary(p);
    kernel->launch = launch;
}

QB_TACTIC(cpu_chain, "cpu.chain", "cpu", QB_KIND_CHAIN, QB_WITHIN_1_LSB, supports, qb_cpu_create,
          .state_bytes = sizeof(chain), .fill = fill);
