/* Elements and runs of a tensor by their numbers, in the result's type and quantization. */
#include <stdatomic.h>
#include <string.h>

#include "base/vector_loop.h"
#include "convert.h"
#include "places_internal.h"

#define BYTES_PER_TASK 65536
#define BUFFER 4096 /* bytes of short runs that are converted together */

typedef struct gather {
    qb_cpu_places places;
    qb_convert convert;
    bool moves; /* the bytes stay what they are */
    int64_t places_a_task;
} gather;

typedef struct job {
    const gather *g;
    const char *data;
    const void *indices;
    char *out;
    atomic_bool outside;
} job;

#define DEFINE_COLLECT(BITS)                                                                       \
    QB_LOOP(collect_##BITS,                                                                        \
            (const uint##BITS##_t *data, const int64_t *begin, int64_t n, uint##BITS##_t *to),     \
            (data, begin, n, to)) {                                                                \
        for (int64_t i = 0; i < n; i++) to[i] = data[begin[i]];                                    \
    }
DEFINE_COLLECT(8)
DEFINE_COLLECT(16)
DEFINE_COLLECT(32)
DEFINE_COLLECT(64)

/* n runs side by side; single elements and bytes of the sizes that most copies have are known to
 * the compiler. */
static void collect(const void *data, const int64_t *begin, int64_t n, int64_t run, size_t size,
                    void *to) {
    const size_t bytes = (size_t)run * size;
    switch (run == 1 ? size : 0) {
    case 1: collect_8(data, begin, n, to); return;
    case 2: collect_16(data, begin, n, to); return;
    case 4: collect_32(data, begin, n, to); return;
    case 8: collect_64(data, begin, n, to); return;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)to + (size_t)i * bytes, (const char *)data + (size_t)begin[i] * size,
                   bytes);
    }
}

static void write_runs(const job *j, const int64_t *begin, int64_t n, int64_t first) {
    const gather *g = j->g;
    const int64_t run = g->places.places.run;
    const qb_convert *c = &g->convert;
    char *out = j->out + (size_t)(first * run) * c->out_size;
    _Alignas(8) char buffer[BUFFER];
    const int64_t at_once = BUFFER / (run * (int64_t)c->in_size);
    if (g->moves) {
        collect(j->data, begin, n, run, c->in_size, out);
        return;
    }
    for (int64_t i = 0, k; i < n; i += k) {
        k = qb_min64(qb_max64(1, at_once), n - i);
        const void *from = j->data + (size_t)begin[i] * c->in_size;
        if (k > 1) {
            collect(j->data, begin + i, k, run, c->in_size, buffer);
            from = buffer;
        }
        c->run(c, from, out + (size_t)(i * run) * c->out_size, k * run);
    }
}

static void run_task(int64_t task, void *argument) {
    job *j = argument;
    const gather *g = j->g;
    const qb_places *p = &g->places.places;
    const int64_t first = task * g->places_a_task;
    const int64_t end = qb_min64(first + g->places_a_task, qb_places_count(p));
    int64_t begin[QB_PLACES_BLOCK];
    qb_place at = qb_places_begin(p, first);
    for (int64_t i = first, n; i < end; i += n) {
        n = qb_cpu_places_next(&g->places, j->indices, &at, end - i, begin);
        if (n == 0) {
            atomic_store(&j->outside, true);
            return;
        }
        write_runs(j, begin, n, i);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const gather *g = kernel->state;
    const qb_problem *p = &kernel->problem;
    job j = {.g = g, .data = args->in[0], .indices = args->in[1], .out = args->out};
    qb_workers_run(args->workers, qb_ceil64(qb_places_count(&p->places), g->places_a_task),
                   run_task, &j);
    if (!atomic_load(&j.outside)) return QB_OK;
    return qb_cpu_places_error(cx, &g->places, j.indices,
                               qb_shape_count(&p->in[1].shape) / p->places.depth);
}

static bool supports(const qb_problem *p, const bool *constant) {
    (void)constant;
    return qb_cpu_is_rows(&p->in[0]) && qb_cpu_is_rows(&p->in[1]) && qb_cpu_is_rows(&p->out) &&
           qb_cpu_places_supports(p) && qb_convert_supports(&p->in[0], &p->out);
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    const qb_desc *x = &p->in[0];
    gather *g = kernel->state;
    *g = (gather){.places = qb_cpu_places_of(p),
                  .convert = qb_convert_of(x, &p->out),
                  .moves = qb_convert_moves(x, &p->out)};
    g->places_a_task = qb_max64(1, BYTES_PER_TASK / (p->places.run * (int64_t)g->convert.out_size));
    kernel->launch = launch;
}

QB_TACTIC(cpu_gather, "cpu.gather", "cpu", QB_KIND_GATHER, QB_EXACT, supports, qb_cpu_create,
          .state_bytes = sizeof(gather), .fill = fill);
