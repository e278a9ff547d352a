/* A tensor with updates at places that indices name. The data become the result, all threads
 * copying; then the updates go in one after the other, so that of several in one place the order
 * decides. Sums and the like of quantized values are taken in floats, in the workspace where the
 * result is quantized, too. */
#include <string.h>

#include "base/vector_loop.h"
#include "convert.h"
#include "kernels/place_of.h"
#include "places_internal.h"

#define BYTES_PER_TASK 65536
#define BUFFER 4096 /* bytes of converted updates */

typedef struct scatter {
    qb_cpu_places places;
    qb_convert data, updates, result; /* result: of floats in the workspace */
    qb_reduce_kind reduce;
    bool moves_data, moves_updates; /* the bytes stay what they are */
    bool in_workspace;              /* until all updates are in */
    int64_t elements_a_task;
} scatter;

typedef struct job {
    const scatter *s;
    const qb_convert *convert;
    const char *data;
    char *out;
    int64_t n;
} job;

static void copy_task(int64_t task, void *argument) {
    const job *j = argument;
    const qb_convert *c = j->convert;
    const int64_t first = task * j->s->elements_a_task;
    c->run(c, j->data + (size_t)first * c->in_size, j->out + (size_t)first * c->out_size,
           qb_min64(j->s->elements_a_task, j->n - first));
}

/* to[i] with from[i], all in different places. */
QB_LOOP(combine, (qb_reduce_kind reduce, const float *from, int64_t n, float *to),
        (reduce, from, n, to)) {
    if (reduce == QB_REDUCE_SUM)
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
    else
        for (int64_t i = 0; i < n; i++) to[i] = qb_place_reduced(reduce, to[i], from[i]);
}

#define PUT(BITS)                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((uint##BITS##_t *)out)[begin[i]] = ((const uint##BITS##_t *)from)[i];                     \
    return

static void put_runs(const scatter *s, const void *from, const int64_t *begin, int64_t n,
                     void *out) {
    const int64_t run = s->places.places.run;
    const size_t size = s->data.out_size, bytes = (size_t)run * size;
    if (s->reduce != QB_REDUCE_NONE) {
        const float *x = from;
        float *y = out;
        for (int64_t i = 0; run == 1 && i < n; i++)
            y[begin[i]] = qb_place_reduced(s->reduce, y[begin[i]], x[i]);
        for (int64_t i = 0; run > 1 && i < n; i++)
            combine(s->reduce, x + i * run, run, y + begin[i]);
        return;
    }
    switch (run == 1 ? size : 0) {
    case 1: PUT(8);
    case 2: PUT(16);
    case 4: PUT(32);
    case 8: PUT(64);
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)out + (size_t)begin[i] * size, (const char *)from + (size_t)i * bytes,
                   bytes);
    }
}

/* A run that is longer than the buffer goes where it belongs at once, or piece by piece. */
static void write_long(const scatter *s, const char *from, int64_t begin, char *buffer, char *out) {
    const qb_convert *c = &s->updates;
    const int64_t run = s->places.places.run, most = BUFFER / (int64_t)c->out_size;
    char *to = out + (size_t)begin * c->out_size;
    if (s->reduce == QB_REDUCE_NONE) {
        c->run(c, from, to, run);
        return;
    }
    for (int64_t i = 0, n; i < run; i += n) {
        n = qb_min64(most, run - i);
        c->run(c, from + (size_t)i * c->in_size, buffer, n);
        combine(s->reduce, (const float *)(const void *)buffer, n, (float *)(void *)to + i);
    }
}

/* The next n updates, from element `first` of them on. */
static void write_runs(const scatter *s, const char *updates, const int64_t *begin, int64_t n,
                       int64_t first, char *out) {
    const qb_convert *c = &s->updates;
    const int64_t run = s->places.places.run;
    const int64_t at_once = qb_max64(1, BUFFER / (run * (int64_t)c->out_size));
    _Alignas(8) char buffer[BUFFER];
    const char *from = updates + (size_t)first * c->in_size;
    if (s->moves_updates) {
        put_runs(s, from, begin, n, out);
        return;
    }
    for (int64_t i = 0, k; i < n; i += k) {
        const char *next = from + (size_t)(i * run) * c->in_size;
        k = qb_min64(at_once, n - i);
        if (run * (int64_t)c->out_size > BUFFER) {
            write_long(s, next, begin[i], buffer, out);
            continue;
        }
        c->run(c, next, buffer, k * run);
        put_runs(s, buffer, begin + i, k, out);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const scatter *s = kernel->state;
    const qb_problem *p = &kernel->problem;
    const int64_t n = qb_places_count(&p->places);
    int64_t begin[QB_PLACES_BLOCK];
    char *made = s->in_workspace ? args->workspace : args->out;
    job j = {s, &s->data, args->in[0], made, qb_shape_count(&p->out.shape)};
    if (j.data != j.out)
        qb_workers_run(args->workers, qb_ceil64(j.n, s->elements_a_task), copy_task, &j);
    qb_place at = qb_places_begin(&s->places.places, 0);
    for (int64_t i = 0, k; i < n; i += k) {
        k = qb_cpu_places_next(&s->places, args->in[1], &at, n - i, begin);
        if (k == 0)
            return qb_cpu_places_error(cx, &s->places, args->in[1],
                                       qb_shape_count(&p->in[1].shape) / p->places.depth);
        write_runs(s, args->in[2], begin, k, i * p->places.run, made);
    }
    if (s->in_workspace) {
        j = (job){s, &s->result, made, args->out, j.n};
        qb_workers_run(args->workers, qb_ceil64(j.n, s->elements_a_task), copy_task, &j);
    }
    return QB_OK;
}

/* The tensor that updates go into. */
static qb_desc made_of(const qb_problem *p) {
    qb_desc made = p->out;
    if (p->reduce != QB_REDUCE_NONE) {
        made.dtype = QB_DTYPE_F32;
        made.q = (qb_qparams){.axis = -1};
    }
    return made;
}

static bool is_float(const qb_desc *desc) {
    return qb_cpu_is_f32(desc) || qb_cpu_is_quantized(desc);
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *all[] = {&p->in[0], &p->in[1], &p->in[2], &p->out}, made = made_of(p);
    (void)constant;
    for (int32_t i = 0; i < 4; i++)
        if (all[i]->layout != QB_LAYOUT_ROW || all[i]->channel_total > 0) return false;
    for (int32_t i = 0; i < 4; i++)
        if (p->reduce != QB_REDUCE_NONE && i != 1 && !is_float(all[i])) return false;
    return qb_cpu_places_supports(p) && qb_convert_supports(&p->in[0], &made) &&
           qb_convert_supports(&p->in[2], &made);
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    scatter *s = kernel->state;
    const qb_desc made = made_of(p);
    *s = (scatter){.places = qb_cpu_places_of(p),
                   .data = qb_convert_of(&p->in[0], &made),
                   .updates = qb_convert_of(&p->in[2], &made),
                   .reduce = p->reduce,
                   .moves_data = qb_convert_moves(&p->in[0], &made),
                   .moves_updates = qb_convert_moves(&p->in[2], &made),
                   .in_workspace = made.dtype != p->out.dtype};
    s->elements_a_task = BYTES_PER_TASK / (int64_t)s->data.out_size;
    if (s->in_workspace) {
        s->result = qb_convert_of(&made, &p->out);
        kernel->workspace_bytes = qb_desc_bytes(&made);
    }
    kernel->in_place_inputs = s->moves_data && !s->in_workspace;
    kernel->launch = launch;
}

QB_TACTIC(cpu_scatter, "cpu.scatter", "cpu", QB_KIND_SCATTER, QB_EXACT, supports, qb_cpu_create,
          .state_bytes = sizeof(scatter), .fill = fill);
