#include "calib/stream.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"

typedef struct shared {
    const qb_stream_options *options;
    qb_loader *loader;
    pthread_mutex_t lock; /* guards progress and samples */
    qb_progress progress;
    int64_t samples;
    atomic_bool stop; /* a worker failed: the others finish their sample and leave */
} shared;

typedef struct worker {
    shared *shared;
    qb_ctx cx;
    int32_t number;
    qb_status status;
    qb_context **context;
    pthread_t thread;
    bool started;
} worker;

static qb_status run_batch(worker *w, const qb_batch *batch) {
    const qb_stream_options *o = w->shared->options;
    const qb_desc *input = qb_engine_input(o->engine[0], 0);
    const int64_t stride = qb_shape_count(&input->shape);
    for (int32_t i = 0; i < batch->n && !atomic_load(&w->shared->stop); i++) {
        const qb_stream_sample sample = {.worker = w->number,
                                         .index = batch->index[i],
                                         .label = batch->label[i],
                                         .input = batch->data + i * stride,
                                         .context = w->context};
        QB_TRY(qb_check_cancel(&w->cx));
        QB_TRY(o->sample(&w->cx, o->user, &sample));
    }
    return QB_OK;
}

static qb_status run_worker(worker *w) {
    while (!atomic_load(&w->shared->stop)) {
        qb_batch batch;
        QB_TRY(qb_loader_next(&w->cx, w->shared->loader, &batch));
        if (batch.n == 0) break;
        qb_status status = run_batch(w, &batch);
        const int32_t n = batch.n;
        qb_loader_give_back(w->shared->loader, &batch);
        QB_TRY(status);
        pthread_mutex_lock(&w->shared->lock);
        w->shared->samples += n;
        qb_progress_step(&w->shared->progress, n);
        pthread_mutex_unlock(&w->shared->lock);
    }
    return QB_OK;
}

static void *worker_main(void *argument) {
    worker *w = argument;
    w->status = run_worker(w);
    if (w->status != QB_OK) atomic_store(&w->shared->stop, true);
    return NULL;
}

/* Every engine takes one image of the loader's size at a time. */
static qb_status check_inputs(qb_ctx *cx, const qb_stream_options *o) {
    const int32_t channels = qb_preprocess_channels(&o->loader->preprocess);
    const qb_shape sample = qb_shape_of(4, 1, channels, o->loader->height, o->loader->width);
    for (int32_t e = 0; e < o->n_engines; e++) {
        const qb_engine *engine = o->engine[e];
        if (qb_engine_n_inputs(engine) != 1)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected a model with 1 input, got %d",
                           qb_engine_n_inputs(engine));
        const qb_desc *input = qb_engine_input(engine, 0);
        char expected[96], got[96];
        if (input->dtype != QB_DTYPE_F32 ||
            qb_shape_count(&input->shape) != qb_shape_count(&sample))
            return qb_fail(
                cx, QB_STATUS_UNSUPPORTED, "input '%s': expected one sample of %s f32, got %s %s",
                qb_engine_input_name(engine, 0), qb_shape_text(&sample, expected, sizeof expected),
                qb_shape_text(&input->shape, got, sizeof got), qb_dtype_text(input->dtype));
    }
    return QB_OK;
}

static qb_status create_contexts(qb_ctx *cx, const qb_stream_options *o, worker *w) {
    w->context = qb_alloc(cx, (size_t)o->n_engines, sizeof(qb_context *));
    if (!w->context) return cx->code;
    for (int32_t e = 0; e < o->n_engines; e++)
        QB_TRY(qb_context_create(cx, o->engine[e], &w->context[e]));
    return QB_OK;
}

static qb_status start_workers(qb_ctx *cx, shared *s, worker *workers) {
    for (int32_t i = 0; i < s->options->workers; i++) {
        worker *w = &workers[i];
        w->shared = s;
        w->number = i;
        qb_ctx_child(cx, &w->cx);
        QB_TRY(create_contexts(cx, s->options, w));
    }
    for (int32_t i = 0; i < s->options->workers; i++) {
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0)
            return qb_fail(cx, QB_STATUS_NOMEM, "cannot start worker thread %d", i);
        workers[i].started = true;
    }
    return QB_OK;
}

static void release_worker(const qb_stream_options *o, worker *w) {
    for (int32_t e = 0; w->context && e < o->n_engines; e++) qb_context_free(w->context[e]);
    qb_free(w->context);
}

static qb_status join_workers(qb_ctx *cx, const qb_stream_options *o, worker *workers,
                              qb_status status) {
    for (int32_t i = 0; i < o->workers; i++) {
        if (workers[i].started) pthread_join(workers[i].thread, NULL);
        if (status == QB_OK && workers[i].status != QB_OK) {
            qb_ctx_adopt(cx, &workers[i].cx);
            status = workers[i].status;
        }
        release_worker(o, &workers[i]);
    }
    return status;
}

qb_status qb_stream(qb_ctx *cx, const qb_stream_options *options, qb_stream_result *out) {
    QB_TRY(check_inputs(cx, options));
    shared s = {.options = options, .lock = PTHREAD_MUTEX_INITIALIZER};
    worker *workers = qb_alloc(cx, (size_t)options->workers, sizeof *workers);
    if (!workers) return cx->code;
    qb_status status = QB_OK;
    QB_GO(qb_loader_create(cx, options->loader, &s.loader));
    qb_progress_begin(cx, &s.progress, options->label, "samples",
                      qb_dataset_count(options->loader->dataset));
    status = start_workers(cx, &s, workers);
    if (status != QB_OK) atomic_store(&s.stop, true);
    status = join_workers(cx, options, workers, status);
    qb_progress_end(&s.progress);
    if (status == QB_OK)
        *out = (qb_stream_result){.samples = s.samples,
                                  .skipped = qb_loader_skipped(s.loader),
                                  .data_hash = qb_loader_hash(s.loader)};
out:
    qb_loader_free(s.loader);
    qb_free(workers);
    return status;
}
