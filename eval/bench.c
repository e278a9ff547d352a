#include "eval/bench.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"

#define PROFILE_WARMUP 2

/* ---- order statistics ---- */

double qb_percentile(const double *sorted, int64_t n, double percent) {
    /* The tiny term: (100 - 99.9) * 1000 / 100 is a little less than 1 in binary. */
    const int64_t at = n - 1 - (int64_t)floor((100 - percent) * (double)n / 100 + 1e-9);
    return sorted[at > 0 ? at : 0];
}

double qb_median(const double *sorted, int64_t n) {
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* ---- outputs ---- */

void qb_outputs_free(const qb_engine *engine, void **outputs) {
    for (int32_t i = 0; outputs && i < qb_engine_n_outputs(engine); i++)
        qb_engine_buffer_free(engine, outputs[i]);
    qb_free(outputs);
}

void **qb_outputs_new(qb_ctx *cx, const qb_engine *engine) {
    const int32_t n = qb_engine_n_outputs(engine);
    void **outputs = qb_alloc(cx, (size_t)n, sizeof *outputs);
    for (int32_t i = 0; outputs && i < n; i++) {
        outputs[i] = qb_engine_buffer(cx, engine, qb_desc_bytes(qb_engine_output(engine, i)));
        if (!outputs[i]) {
            qb_outputs_free(engine, outputs);
            return NULL;
        }
    }
    return outputs;
}

/* ---- streams ---- */

/* What all streams share. The gate is held until all threads are there; `begin` is set by the one
 * that leaves the barrier as its serial thread; a stream that fails raises `failed`, which ends the
 * others. */
typedef struct session {
    const qb_engine *engine;
    const void *const *inputs;
    const qb_bench_options *options;
    pthread_mutex_t gate;
    pthread_barrier_t ready, started;
    double begin;
    volatile sig_atomic_t failed;
} session;

typedef struct stream {
    session *shared;
    int32_t number;
    const qb_engine *engine; /* the session's, or that of another device */
    pthread_t thread;
    qb_ctx cx;
    qb_context *context;
    void **outputs;
    qb_query *query;
    size_t capacity;
    int64_t n, warmup_queries;
} stream;

static void pause_ms(double ms) {
    if (ms <= 0) return;
    const struct timespec t = {.tv_sec = (time_t)(ms / 1e3),
                               .tv_nsec = (long)(fmod(ms, 1e3) * 1e6)};
    nanosleep(&t, NULL);
}

/* The first query of a stream brings the inputs to the device in any case. */
static qb_status one_query(stream *s, qb_run_times *times) {
    const session *b = s->shared;
    *times = (qb_run_times){0};
    if (!qb_engine_device(s->engine))
        return qb_context_run(&s->cx, s->context, b->inputs, s->outputs);
    const bool transfers = !b->options->no_transfers || s->warmup_queries == 0;
    return qb_context_run_timed(&s->cx, s->context, b->inputs, s->outputs, transfers, times);
}

static qb_status warm_up(stream *s) {
    const double begin = qb_now();
    qb_run_times times;
    do {
        QB_TRY(one_query(s, &times));
        s->warmup_queries++;
    } while ((qb_now() - begin) * 1e3 < s->shared->options->warmup_ms && !s->shared->failed &&
             qb_check_cancel(&s->cx) == QB_OK);
    return s->cx.code;
}

static bool goes_on(const stream *s) {
    const qb_bench_options *o = s->shared->options;
    return o->duration_s < 0 || qb_now() - s->shared->begin < o->duration_s || s->n < o->min_runs;
}

static qb_status measure(stream *s) {
    do {
        QB_TRY(qb_grow(&s->cx, &s->query, &s->capacity, (size_t)s->n + 1, sizeof *s->query));
        const double start = qb_now();
        qb_run_times times;
        QB_TRY(one_query(s, &times));
        const double end = qb_now();
        s->query[s->n++] = (qb_query){s->number, (start - s->shared->begin) * 1e3,
                                      (end - s->shared->begin) * 1e3, times};
        pause_ms(s->shared->options->idle_ms);
        QB_TRY(qb_check_cancel(&s->cx));
    } while (goes_on(s) && !s->shared->failed);
    return QB_OK;
}

static void *stream_main(void *user) {
    stream *s = user;
    session *b = s->shared;
    pthread_mutex_lock(&b->gate);
    pthread_mutex_unlock(&b->gate);
    if (b->failed) return NULL; /* not all threads could be started: nobody may wait for them */
    qb_status status = qb_context_create(&s->cx, s->engine, &s->context);
    if (status == QB_OK) s->outputs = qb_outputs_new(&s->cx, s->engine);
    if (status == QB_OK) status = s->outputs ? warm_up(s) : s->cx.code;
    if (status != QB_OK) b->failed = 1;
    /* All have warmed up; then the clock starts for all at once. */
    if (pthread_barrier_wait(&b->ready) == PTHREAD_BARRIER_SERIAL_THREAD) b->begin = qb_now();
    pthread_barrier_wait(&b->started);
    if (!b->failed && measure(s) != QB_OK) b->failed = 1;
    return NULL;
}

/* The streams' queries as one list, the first start as the zero of time. */
static qb_status gather(qb_ctx *cx, const stream *streams, int32_t n, qb_bench *out) {
    int64_t total = 0;
    for (int32_t i = 0; i < n; i++) total += streams[i].n;
    qb_bench result = {.query = qb_alloc(cx, (size_t)total, sizeof *result.query),
                       .on_device = qb_engine_device(streams->shared->engine) != NULL};
    if (!result.query) return cx->code;
    double first = INFINITY, last = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        const stream *s = &streams[i];
        result.warmup_queries += s->warmup_queries;
        if (s->n == 0) continue;
        memcpy(result.query + result.n, s->query, (size_t)s->n * sizeof *s->query);
        result.n += s->n;
        first = fmin(first, s->query[0].start_ms);
        last = fmax(last, s->query[s->n - 1].end_ms);
    }
    for (int64_t i = 0; i < result.n; i++) {
        result.query[i].start_ms -= first;
        result.query[i].end_ms -= first;
    }
    result.wall_ms = last - first;
    *out = result;
    return QB_OK;
}

/* The first error of any stream, but one of being interrupted with something measured is none. */
static qb_status first_error(qb_ctx *cx, const stream *streams, int32_t n) {
    bool measured = true;
    for (int32_t i = 0; i < n; i++) measured = measured && streams[i].n > 0;
    for (int32_t i = 0; i < n; i++)
        if (streams[i].cx.code != QB_OK && !(streams[i].cx.code == QB_STATUS_CANCELLED && measured))
            qb_ctx_take(cx, &streams[i].cx);
    return cx->code;
}

/* Streams are dealt out to the devices in turn. */
static const qb_engine *engine_of(const session *shared, int32_t number) {
    const int32_t device = number % (shared->options->n_others + 1);
    return device == 0 ? shared->engine : shared->options->others[device - 1];
}

/* The last stream is the calling thread: with one stream nothing is handed over. */
static qb_status run_streams(qb_ctx *cx, session *shared, stream *streams, int32_t n) {
    int32_t running = 0;
    pthread_mutex_init(&shared->gate, NULL);
    pthread_barrier_init(&shared->ready, NULL, (unsigned)n);
    pthread_barrier_init(&shared->started, NULL, (unsigned)n);
    for (int32_t i = 0; i < n; i++) {
        streams[i].shared = shared;
        streams[i].number = i;
        streams[i].engine = engine_of(shared, i);
        qb_ctx_child(cx, &streams[i].cx);
    }
    pthread_mutex_lock(&shared->gate);
    while (running < n - 1 &&
           qb_thread_start(&streams[running].thread, stream_main, &streams[running]) == 0)
        running++;
    if (running < n - 1) {
        shared->failed = 1;
        qb_fail(cx, QB_STATUS_NOMEM, "%d streams: only %d threads could be started", (int)n,
                (int)running + 1);
    }
    pthread_mutex_unlock(&shared->gate);
    if (running == n - 1) stream_main(&streams[n - 1]);
    for (int32_t i = 0; i < running; i++) pthread_join(streams[i].thread, NULL);
    pthread_barrier_destroy(&shared->ready);
    pthread_barrier_destroy(&shared->started);
    pthread_mutex_destroy(&shared->gate);
    return cx->code == QB_OK ? first_error(cx, streams, n) : cx->code;
}

qb_status qb_bench_run(qb_ctx *cx, const qb_engine *engine, const void *const *inputs,
                       const qb_bench_options *options, qb_bench *out) {
    const int32_t n = (options->streams > 0 ? options->streams : 1) * (options->n_others + 1);
    session shared = {.engine = engine, .inputs = inputs, .options = options};
    QB_FREED stream *streams = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *streams));
    qb_status status = run_streams(cx, &shared, streams, n);
    if (status == QB_OK) status = gather(cx, streams, n, out);
    for (stream *s = streams; s < streams + n; s++) {
        if (s->outputs) qb_outputs_free(s->engine, s->outputs);
        qb_context_free(s->context);
        qb_free(s->query);
    }
    return status;
}

void qb_bench_release(qb_bench *bench) {
    qb_free(bench->query);
    *bench = (qb_bench){0};
}

/* ---- machine ---- */

char *qb_processor_name(qb_ctx *cx) {
    char *text, *name = NULL;
    size_t size;
    if (qb_file_read(cx, "/proc/cpuinfo", 1 << 22, &text, &size) == QB_OK) {
        const char *line = strstr(text, "model name");
        const char *colon = line ? strchr(line, ':') : NULL;
        const char *words = colon ? colon + 1 + strspn(colon + 1, " \t") : "";
        const int length = (int)strcspn(words, "\n");
        if (length > 0) name = qb_format(cx, "%.*s", length, words);
        qb_free(text);
    }
    qb_ctx_clear(cx);
    return name ? name : qb_strdup(cx, "unknown processor");
}

/* ---- profile ---- */

void qb_bench_steps_release(qb_bench_steps *steps) {
    QB_FREE_ALL(steps->seconds, steps->raw.step, steps->late);
    *steps = (qb_bench_steps){0};
}

static qb_status profile_run(qb_ctx *cx, qb_context *context, const void *const *inputs,
                             void **outputs, size_t n_steps, int64_t run, double *one,
                             qb_bench_steps *to) {
    memset(one, 0, n_steps * sizeof *one);
    QB_TRY(qb_check_cancel(cx));
    QB_TRY(qb_context_profile_raw(cx, context, inputs, outputs, one, &to->raw));
    to->late[run] = qb_context_late_seconds(context);
    to->late_engines = qb_context_late_engines(context);
    for (size_t s = 0; s < n_steps; s++) to->seconds[s * (size_t)to->runs + (size_t)run] = one[s];
    return QB_OK;
}

qb_status qb_bench_profile(qb_ctx *cx, const qb_engine *engine, const void *const *inputs,
                           int64_t runs, qb_bench_steps *out) {
    const size_t n_steps = (size_t)qb_engine_n_steps(engine);
    qb_status status = QB_OK;
    qb_context *context = NULL;
    void **outputs = qb_outputs_new(cx, engine);
    QB_FREED double *one = qb_alloc(cx, n_steps, sizeof *one);
    QB_RELEASED(qb_bench_steps_release) qb_bench_steps all = {.runs = runs};
    all.seconds = qb_alloc(cx, n_steps * (size_t)runs, sizeof *all.seconds);
    all.raw.step = qb_alloc(cx, n_steps, sizeof *all.raw.step);
    all.late = qb_alloc(cx, (size_t)runs, sizeof *all.late);
    if (!outputs || !one || !all.seconds || !all.raw.step || !all.late) QB_GO(cx->code);
    QB_GO(qb_context_create(cx, engine, &context));
    for (int run = 0; run < PROFILE_WARMUP; run++) {
        QB_GO(qb_check_cancel(cx));
        QB_GO(qb_context_profile(cx, context, inputs, outputs, one));
    }
    for (int64_t run = 0; run < runs; run++)
        QB_GO(profile_run(cx, context, inputs, outputs, n_steps, run, one, &all));
    *out = QB_MOVE(all);
out:
    qb_context_free(context);
    qb_outputs_free(engine, outputs);
    return status;
}
