#include "stream/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"

typedef struct shared {
    const qb_stream_workers_options *options;
    qb_loader *loader;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t idle;  /* a worker put its batch down, or a pause ended */
    qb_progress progress;
    int32_t active;     /* workers with a batch */
    bool pausing;       /* nobody takes another batch */
    double next_pause;  /* on qb_now's clock */
    atomic_bool stop;   /* a worker failed or was interrupted: the others leave */
    atomic_bool broken; /* in the middle of a batch: what was done is no beginning of the data */
} shared;

typedef struct worker {
    shared *shared;
    qb_ctx cx;
    int32_t number;
    qb_status status;
    pthread_t thread;
    bool started;
} worker;

/* ---- samples ---- */

static qb_status run_sample(worker *w, const qb_batch *batch, int32_t i) {
    const qb_stream_workers_options *o = w->shared->options;
    QB_TRY(qb_check_cancel(&w->cx));
    const qb_status status = o->sample(&w->cx, o->user, w->number, batch, i);
    if (status == QB_OK || status == QB_STATUS_CANCELLED) return status;
    return qb_wrap(&w->cx, "sample '%s'",
                   qb_dataset_sample_name(o->loader->dataset, batch->index[i]));
}

/* ---- workers ---- */

static qb_status pause_now(worker *w) {
    shared *s = w->shared;
    qb_loader_progress progress;
    qb_loader_progress_of(s->loader, &progress);
    qb_status status = s->options->pause(&w->cx, s->options->user, &progress);
    s->pausing = false;
    s->next_pause = qb_now() + s->options->pause_s;
    pthread_cond_broadcast(&s->idle);
    return status;
}

/* Before each batch. When a pause is due, whoever finds that nobody has a batch any more makes it;
 * batches are delivered in order, so what is done then is the data's beginning. */
static qb_status begin_batch(worker *w) {
    shared *s = w->shared;
    qb_status status = QB_OK;
    pthread_mutex_lock(&s->lock);
    if (s->options->pause && qb_now() >= s->next_pause) s->pausing = true;
    while (s->pausing && status == QB_OK && !atomic_load(&s->stop)) {
        if (s->active == 0)
            status = pause_now(w);
        else
            pthread_cond_wait(&s->idle, &s->lock);
    }
    s->active++;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void end_batch(worker *w, int32_t n) {
    shared *s = w->shared;
    pthread_mutex_lock(&s->lock);
    s->active--;
    if (s->progress.done == 0)
        qb_progress_once(&s->progress, n, "engines built"); /* for the first samples */
    else
        qb_progress_step(&s->progress, n);
    pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

/* Where progress is saved, a batch that was begun is finished unless something is wrong. */
static bool leaves_batch(shared *s) {
    return atomic_load(s->options->pause ? &s->broken : &s->stop);
}

/* *n: samples done, 0 at the end. */
static qb_status next_batch(worker *w, int32_t *n) {
    qb_batch batch;
    QB_TRY(qb_loader_next(&w->cx, w->shared->loader, &batch));
    *n = batch.n;
    qb_status status = QB_OK;
    volatile sig_atomic_t *cancel = w->cx.cancel;
    if (w->shared->options->pause) w->cx.cancel = NULL; /* a batch is done or not, see save_rest */
    for (int32_t i = 0; i < batch.n && status == QB_OK && !leaves_batch(w->shared); i++)
        status = run_sample(w, &batch, i);
    w->cx.cancel = cancel;
    if (status != QB_OK) atomic_store(&w->shared->broken, true);
    qb_loader_give_back(w->shared->loader, &batch);
    return status;
}

static qb_status run_worker(worker *w) {
    int32_t n = 1;
    qb_status status = QB_OK;
    while (status == QB_OK && n > 0 && !atomic_load(&w->shared->stop)) {
        n = 0;
        status = begin_batch(w);
        if (status == QB_OK) status = next_batch(w, &n);
        if (status != QB_OK) atomic_store(&w->shared->stop, true);
        end_batch(w, status == QB_OK ? n : 0);
    }
    return status;
}

static void *worker_main(void *argument) {
    worker *w = argument;
    w->status = run_worker(w);
    return NULL;
}

static qb_status start_workers(qb_ctx *cx, shared *s, worker *workers) {
    for (int32_t i = 0; i < s->options->workers; i++) {
        worker *w = &workers[i];
        w->shared = s;
        w->number = i;
        qb_ctx_child(cx, &w->cx);
        const int error = qb_thread_start(&w->thread, worker_main, w);
        if (error != 0)
            return qb_fail(cx, QB_STATUS_NOMEM, "cannot start worker thread %d: %s", i,
                           strerror(error));
        w->started = true;
    }
    return QB_OK;
}

static qb_status join_workers(qb_ctx *cx, int32_t n, worker *workers, qb_status status) {
    for (int32_t i = 0; i < n; i++) {
        if (workers[i].started) pthread_join(workers[i].thread, NULL);
        if (status == QB_OK && workers[i].status != QB_OK) {
            qb_ctx_take(cx, &workers[i].cx);
            status = workers[i].status;
        }
    }
    return status;
}

/* ---- the whole ---- */

/* After an interruption, when all workers have finished their batches and left: what was done is
 * the data's beginning, and is saved as at any pause. */
static void save_rest(qb_ctx *cx, shared *s) {
    qb_loader_progress progress;
    qb_ctx child;
    qb_loader_progress_of(s->loader, &progress);
    if (!s->options->pause || atomic_load(&s->broken) || progress.samples == 0) return;
    qb_ctx_child(cx, &child);
    child.cancel = NULL;
    if (s->options->pause(&child, s->options->user, &progress) != QB_OK)
        qb_warn(cx, "%s", child.message);
}

static qb_status run_workers(qb_ctx *cx, shared *s) {
    const qb_stream_workers_options *o = s->options;
    QB_FREED worker *workers = QB_NEW(cx, qb_alloc(cx, (size_t)o->workers, sizeof *workers));
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->idle, NULL);
    s->next_pause = qb_now() + o->pause_s;
    qb_progress_begin(cx, &s->progress, o->label, "samples",
                      qb_dataset_count(o->loader->dataset) - o->loader->start.next);
    qb_status status = start_workers(cx, s, workers);
    if (status != QB_OK) atomic_store(&s->stop, true);
    status = join_workers(cx, o->workers, workers, status);
    qb_progress_end(&s->progress);
    if (status == QB_STATUS_CANCELLED) save_rest(cx, s);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    return status;
}

qb_status qb_stream_workers_run(qb_ctx *cx, const qb_stream_workers_options *options,
                                qb_stream_result *out) {
    shared s = {.options = options};
    qb_loader_progress progress;
    QB_TRY(qb_loader_create(cx, options->loader, &s.loader));
    qb_status status = run_workers(cx, &s);
    qb_loader_progress_of(s.loader, &progress);
    if (status == QB_OK)
        *out = (qb_stream_result){.samples = progress.samples,
                                  .skipped = qb_loader_skipped(s.loader),
                                  .blank = progress.blank,
                                  .data_hash = qb_loader_progress_hash(&progress),
                                  .data_sum = progress.sum};
    qb_loader_free(s.loader);
    return status;
}
