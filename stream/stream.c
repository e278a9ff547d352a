#include "stream/stream.h"

#include "engine/backends.h"
#include "engine/file.h"
#include "stream/engines.h"

typedef struct stream {
    const qb_stream_options *options;
    qb_engines *engines;
    int32_t n_inputs;
} stream;

static int32_t count_engines(const qb_stream_options *o) {
    return o->engine ? o->n_engines : o->n_models;
}

static qb_status on_sample(qb_ctx *cx, void *user, int32_t worker, const qb_batch *batch,
                           int32_t i) {
    const stream *s = user;
    const qb_stream_options *o = s->options;
    const qb_tensor *input = batch->input + (size_t)i * (size_t)batch->n_inputs;
    const void *inputs[QB_INPUTS_MAX];
    for (int32_t k = 0; k < batch->n_inputs; k++) inputs[k] = input[k].data;
    qb_engine_set *set;
    QB_TRY(qb_engines_acquire(cx, s->engines, worker, input, &set));
    const qb_stream_sample sample = {.worker = worker,
                                     .index = batch->index[i],
                                     .label = batch->label[i],
                                     .key = batch->key[i],
                                     .input = input,
                                     .inputs = inputs,
                                     .engine = qb_engines_of(s->engines, set, worker),
                                     .context = set->context + worker * count_engines(o)};
    qb_status status = o->sample(cx, o->user, &sample);
    qb_engines_release(s->engines, set);
    return status;
}

static qb_status on_pause(qb_ctx *cx, void *user, const qb_loader_progress *progress) {
    const qb_stream_options *o = ((const stream *)user)->options;
    return o->pause(cx, o->user, progress);
}

/* ---- engines ---- */

/* An engine file in the place of a build: made for one shape, which must be the samples'. */
static qb_status check_engine(qb_ctx *cx, const char *path, const qb_engine *engine,
                              const qb_graph *graph, const qb_shape *shape) {
    char made[96], asked[96];
    const int32_t n = qb_engine_n_inputs(engine);
    if (n != graph->n_inputs)
        return qb_fail(cx, QB_STATUS_MISMATCH, "%s: expected %d inputs, got %d", path,
                       graph->n_inputs, n);
    for (int32_t i = 0; i < n; i++) {
        const qb_desc *own = qb_engine_input(engine, i);
        const qb_dtype given = qb_graph_input_type(graph, i);
        if (own->dtype != given)
            return qb_fail(cx, QB_STATUS_MISMATCH, "%s: input '%s' takes %s, the model's is %s",
                           path, qb_engine_input_name(engine, i), qb_dtype_text(own->dtype),
                           qb_dtype_text(given));
        if (qb_shape_equal(&own->shape, &shape[i])) continue;
        return qb_fail(
            cx, QB_STATUS_MISMATCH,
            "%s: input '%s' was built for %s, a sample is %s: build it with batch 1 and the "
            "samples' size",
            path, qb_engine_input_name(engine, i), qb_shape_text(&own->shape, made, sizeof made),
            qb_shape_text(&shape[i], asked, sizeof asked));
    }
    return QB_OK;
}

static qb_status load_engine(qb_ctx *cx, const char *path, int32_t device, const qb_graph *graph,
                             const qb_shape *shape, qb_engine **out) {
    QB_RELEASED(qb_engine_free_at) qb_engine *engine = NULL;
    QB_TRY(qb_engine_load_on(cx, path, device, &engine));
    QB_TRY(check_engine(cx, path, engine, graph, shape));
    *out = QB_MOVE(engine);
    return QB_OK;
}

/* `first`: the same engine on the first device, when it is another one's turn; an engine of the
 * host serves all. */
static qb_status build_engine(qb_ctx *cx, void *user, int32_t e, int32_t place,
                              const qb_engine *first, const qb_shape *shape, qb_engine **out) {
    const qb_stream_model *m = &((const qb_stream_options *)user)->model[e];
    const int32_t device = qb_device_number(&m->devices, place, &m->spec);
    if (first && !qb_engine_device(first)) {
        *out = (qb_engine *)(uintptr_t)first;
        return QB_OK;
    }
    if (m->file) return load_engine(cx, m->file, device, m->graph, shape, out);
    if (first && !m->spec.first_tactic) return qb_engine_copy(cx, first, device, out);
    qb_build_spec spec = m->spec;
    spec.device = device;
    spec.input_shapes = shape;
    spec.threads = 1;
    qb_status status = qb_engine_build(cx, m->graph, &spec, out);
    return status == QB_OK || !m->name ? status : qb_wrap(cx, "%s", m->name);
}

/* Images feed one float input of the loader's type; tensors were bound to its inputs. */
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
        const qb_dtype given = qb_image_type(o->loader->dtype),
                       taken = qb_graph_input_type(graph, 0);
        if (!qb_dataset_has_tensors(o->loader->dataset) && given != taken)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s%sinput '%s': images give %s, it takes %s",
                           o->model[e].name ? o->model[e].name : "", o->model[e].name ? ": " : "",
                           input->name, qb_dtype_text(given), qb_dtype_text(taken));
    }
    return QB_OK;
}

/* The most that any model is to run on. */
static qb_status count_devices(qb_ctx *cx, const qb_stream_options *o, int32_t *n) {
    *n = 1;
    for (int32_t e = 0; !o->engine && e < o->n_models; e++) {
        const qb_stream_model *m = &o->model[e];
        if (!qb_backends_name_device(m->spec.backends)) continue;
        QB_TRY(qb_devices_check(cx, m->spec.backends, &m->devices));
        if (qb_devices_count(&m->devices) > *n) *n = qb_devices_count(&m->devices);
    }
    return QB_OK;
}

qb_status qb_stream(qb_ctx *cx, const qb_stream_options *options, qb_stream_result *out) {
    const bool tensors = qb_dataset_has_tensors(options->loader->dataset);
    stream s = {.options = options, .n_inputs = tensors ? options->loader->n_inputs : 1};
    qb_engines_options engines = {.n_engines = count_engines(options),
                                  .given = options->engine,
                                  .n_inputs = s.n_inputs,
                                  .workers = options->workers,
                                  .build = build_engine,
                                  .user = (void *)(uintptr_t)options};
    const qb_stream_workers_options workers = {.loader = options->loader,
                                               .workers = options->workers,
                                               .label = options->label,
                                               .sample = on_sample,
                                               .pause = options->pause ? on_pause : NULL,
                                               .pause_s = options->pause_s,
                                               .user = &s};
    QB_TRY(check_inputs(cx, options, s.n_inputs));
    QB_TRY(count_devices(cx, options, &engines.n_devices));
    QB_TRY(qb_engines_create(cx, &engines, &s.engines));
    qb_status status = qb_stream_workers_run(cx, &workers, out);
    qb_engines_free(s.engines);
    return status;
}
