#include "calib/stream.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "calib/engines.h"
#include "engine/file.h"

typedef struct shared {
    const qb_stream_options *options;
    qb_loader *loader;
    qb_engines *engines;
    int32_t n_inputs;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t idle;  /* a worker put its batch down, or a pause ended */
    qb_progress progress;
    int64_t samples;
    int32_t active;    /* workers with a batch */
    bool pausing;      /* nobody takes another batch */
    double next_pause; /* on qb_now's clock */
    atomic_bool stop;  /* a worker failed: the others finish their sample and leave */
} shared;

typedef struct worker {
    shared *shared;
    qb_ctx cx;
    int32_t number;
    qb_status status;
    pthread_t thread;
    bool started;
} worker;

static int32_t count_engines(const qb_stream_options *o) {
    return o->engine ? o->n_engines : o->n_models;
}

/* ---- samples ---- */

static qb_status run_sample(worker *w, const qb_batch *batch, int32_t i) {
    const qb_stream_options *o = w->shared->options;
    const qb_tensor *input = batch->input + (size_t)i * (size_t)batch->n_inputs;
    const void *inputs[QB_INPUTS_MAX];
    for (int32_t k = 0; k < batch->n_inputs; k++) inputs[k] = input[k].data;
    qb_engine_set *set;
    qb_status status = qb_engines_acquire(&w->cx, w->shared->engines, w->number, input, &set);
    if (status == QB_OK) {
        const qb_stream_sample sample = {.worker = w->number,
                                         .index = batch->index[i],
                                         .label = batch->label[i],
                                         .hash = batch->hash[i],
                                         .input = input,
                                         .inputs = inputs,
                                         .engine = set->engine,
                                         .context = set->context + w->number * count_engines(o)};
        status = o->sample(&w->cx, o->user, &sample);
        qb_engines_release(w->shared->engines, set);
    }
    if (status == QB_OK || status == QB_STATUS_CANCELLED) return status;
    return qb_wrap(&w->cx, "sample '%s'",
                   qb_dataset_sample_name(o->loader->dataset, batch->index[i]));
}

static qb_status run_batch(worker *w, const qb_batch *batch) {
    for (int32_t i = 0; i < batch->n && !atomic_load(&w->shared->stop); i++) {
        QB_TRY(qb_check_cancel(&w->cx));
        QB_TRY(run_sample(w, batch, i));
    }
    return QB_OK;
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
    s->samples += n;
    qb_progress_step(&s->progress, n);
    pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

/* *n: samples done, 0 at the end. */
static qb_status next_batch(worker *w, int32_t *n) {
    qb_batch batch;
    QB_TRY(qb_loader_next(&w->cx, w->shared->loader, &batch));
    *n = batch.n;
    qb_status status = run_batch(w, &batch);
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
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
            return qb_fail(cx, QB_STATUS_NOMEM, "cannot start worker thread %d", i);
        w->started = true;
    }
    return QB_OK;
}

static qb_status join_workers(qb_ctx *cx, int32_t n, worker *workers, qb_status status) {
    for (int32_t i = 0; i < n; i++) {
        if (workers[i].started) pthread_join(workers[i].thread, NULL);
        if (status == QB_OK && workers[i].status != QB_OK) {
            qb_ctx_adopt(cx, &workers[i].cx);
            status = workers[i].status;
        }
    }
    return status;
}

/* ---- the whole ---- */

/* An engine file in the place of a build: made for one shape, which must be the samples'. */
static qb_status load_engine(qb_ctx *cx, const char *path, int32_t n_inputs, const qb_shape *shape,
                             qb_engine **out) {
    char made[96], asked[96];
    qb_engine *engine;
    QB_TRY(qb_engine_load(cx, path, &engine));
    if (qb_engine_n_inputs(engine) != n_inputs) {
        qb_fail(cx, QB_STATUS_MISMATCH, "%s: expected %d inputs, got %d", path, n_inputs,
                qb_engine_n_inputs(engine));
        qb_engine_free(engine);
        return cx->code;
    }
    for (int32_t i = 0; i < n_inputs; i++) {
        const qb_shape *own = &qb_engine_input(engine, i)->shape;
        if (qb_shape_equal(own, &shape[i])) continue;
        qb_fail(cx, QB_STATUS_MISMATCH,
                "%s: input '%s' was built for %s, a sample is %s: build it with batch 1 and the "
                "samples' size",
                path, qb_engine_input_name(engine, i), qb_shape_text(own, made, sizeof made),
                qb_shape_text(&shape[i], asked, sizeof asked));
        qb_engine_free(engine);
        return cx->code;
    }
    *out = engine;
    return QB_OK;
}

static qb_status build_engine(qb_ctx *cx, void *user, int32_t e, const qb_shape *shape,
                              qb_engine **out) {
    const qb_stream_model *m = &((const qb_stream_options *)user)->model[e];
    if (m->file) return load_engine(cx, m->file, m->graph->n_inputs, shape, out);
    const qb_engine_options build = {.backends = m->backends,
                                     .float_type = m->float_type,
                                     .timing_cache = m->timing_cache,
                                     .no_mixing = m->no_mixing,
                                     .without = m->without,
                                     .tf32 = m->tf32,
                                     .input_shapes = shape,
                                     .threads = 1,
                                     .observable = m->observable,
                                     .first_tactic = m->first_tactic};
    qb_status status = qb_engine_build(cx, m->graph, &build, out);
    return status == QB_OK || !m->name ? status : qb_wrap(cx, "%s", m->name);
}

/* Images feed one float input; tensors were bound to the loader's inputs. */
static qb_status check_inputs(qb_ctx *cx, const qb_stream_options *o, int32_t n_inputs) {
    for (int32_t e = 0; e < o->n_engines; e++)
        if (qb_engine_n_inputs(o->engine[e]) != n_inputs)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected an engine with %d inputs, got %d",
                           n_inputs, qb_engine_n_inputs(o->engine[e]));
    for (int32_t e = 0; e < o->n_models; e++) {
        const qb_graph *graph = o->model[e].graph;
        if (graph->n_inputs != n_inputs)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "expected a model with %d input%s, got %d",
                           n_inputs, n_inputs == 1 ? "" : "s", graph->n_inputs);
        const qb_value *input = &graph->values[graph->inputs[0]];
        if (!qb_dataset_has_tensors(o->loader->dataset) && input->q.n == 0 &&
            input->dtype != QB_DTYPE_F32)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "input '%s': images give f32, it takes %s",
                           input->name, qb_dtype_text(input->dtype));
    }
    return QB_OK;
}

static qb_status run_workers(qb_ctx *cx, shared *s) {
    const qb_stream_options *o = s->options;
    worker *workers = qb_alloc(cx, (size_t)o->workers, sizeof *workers);
    if (!workers) return cx->code;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->idle, NULL);
    s->next_pause = qb_now() + o->pause_s;
    qb_progress_begin(cx, &s->progress, o->label, "samples",
                      qb_dataset_count(o->loader->dataset) - o->loader->start.next);
    qb_status status = start_workers(cx, s, workers);
    if (status != QB_OK) atomic_store(&s->stop, true);
    status = join_workers(cx, o->workers, workers, status);
    qb_progress_end(&s->progress);
    pthread_cond_destroy(&s->idle);
    pthread_mutex_destroy(&s->lock);
    qb_free(workers);
    return status;
}

qb_status qb_stream(qb_ctx *cx, const qb_stream_options *options, qb_stream_result *out) {
    const bool tensors = qb_dataset_has_tensors(options->loader->dataset);
    shared s = {.options = options, .n_inputs = tensors ? options->loader->n_inputs : 1};
    const qb_engines_options engines = {.n_engines = count_engines(options),
                                        .given = options->engine,
                                        .n_inputs = s.n_inputs,
                                        .workers = options->workers,
                                        .build = build_engine,
                                        .user = (void *)(uintptr_t)options};
    qb_status status = QB_OK;
    qb_loader_progress progress;
    QB_GO(check_inputs(cx, options, s.n_inputs));
    QB_GO(qb_engines_create(cx, &engines, &s.engines));
    QB_GO(qb_loader_create(cx, options->loader, &s.loader));
    QB_GO(run_workers(cx, &s));
    qb_loader_progress_of(s.loader, &progress);
    *out = (qb_stream_result){.samples = progress.samples,
                              .skipped = qb_loader_skipped(s.loader),
                              .blank = progress.blank,
                              .data_hash = qb_loader_progress_hash(&progress),
                              .data_sum = progress.sum};
out:
    qb_loader_free(s.loader);
    qb_engines_free(s.engines);
    return status;
}
