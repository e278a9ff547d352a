/* The C library: include/qbench/qbench.h over the inner folders. Its handles are the inner ones. */
#include "include/qbench/qbench.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "datasets/sidecar.h"
#include "engine/file.h"
#include "engine/providers.h"
#include "graph/passes.h"
#include "graph/plugin.h"

#define IMAGE_MAX ((size_t)1 << 30)

_Static_assert(QBENCH_MAX_RANK == QB_MAX_RANK, "shapes are copied");

struct qbench_session {
    qb_ctx cx;
};

/* An engine and where it came from, for qbench_engine_save. */
struct qbench_engine {
    qb_engine *engine;
    char *model;
    qb_plugins *plugins; /* its operators; a reference */
};

struct qbench_context {
    qb_context *context;
};

struct qbench_inputs {
    qb_sidecar sidecar;
};

static qbench_status outer(qb_status status) {
    switch (status) {
    case QB_OK: return QBENCH_OK;
    case QB_STATUS_NOMEM: return QBENCH_NOMEM;
    case QB_STATUS_IO: return QBENCH_IO;
    case QB_STATUS_FORMAT: return QBENCH_FORMAT;
    case QB_STATUS_UNSUPPORTED: return QBENCH_UNSUPPORTED;
    case QB_STATUS_INVALID:
    case QB_STATUS_USAGE: return QBENCH_INVALID;
    case QB_STATUS_NOTFOUND: return QBENCH_NOTFOUND;
    case QB_STATUS_MISMATCH: return QBENCH_MISMATCH;
    default: return QBENCH_INTERNAL;
    }
}

/* The session's context without the error of an earlier call. */
static qb_ctx *begin(qbench_session *session) {
    qb_ctx_clear(&session->cx);
    return &session->cx;
}

const char *qbench_version(void) { return QB_VERSION; }

qbench_session *qbench_session_create(void) {
    qbench_session *session = calloc(1, sizeof *session);
    if (session) qb_ctx_init(&session->cx);
    return session;
}

void qbench_session_free(qbench_session *session) {
    if (session) qb_plugins_release(session->cx.plugins);
    free(session);
}

const char *qbench_error(const qbench_session *session) { return session->cx.message; }

qbench_status qbench_plugin_load(qbench_session *session, const char *path) {
    qb_ctx *cx = begin(session);
    qb_status status = cx->plugins ? QB_OK : qb_plugins_create(cx, &cx->plugins);
    return outer(status == QB_OK ? qb_plugins_load(cx, cx->plugins, path) : status);
}

/* ---- engines ---- */

/* Takes the inner engine over, also on failure. */
static qb_status wrap_engine(qb_ctx *cx, qb_engine *inner, const char *path, qbench_engine **out) {
    qbench_engine *engine = qb_alloc(cx, 1, sizeof *engine);
    char *model = engine ? qb_strdup(cx, qb_path_base(path)) : NULL;
    if (!model) {
        qb_free(engine);
        qb_engine_free(inner);
        return cx->code;
    }
    *engine = (qbench_engine){inner, model, qb_plugins_retain(cx->plugins)};
    *out = engine;
    return QB_OK;
}

qbench_status qbench_engine_load(qbench_session *session, const char *path, qbench_engine **out) {
    qb_ctx *cx = begin(session);
    qb_engine *inner;
    qb_status status = qb_engine_load(cx, path, &inner);
    return outer(status == QB_OK ? wrap_engine(cx, inner, path, out) : status);
}

static qb_status build(qb_ctx *cx, const char *path, const qbench_build_options *o,
                       qb_engine **out) {
    const qb_optimize_options all = {0};
    const char *backends = o->backends;
    char *missing = NULL;
    if (backends && o->providers)
        return qb_fail(cx, QB_STATUS_INVALID, "backends and providers: give one");
    if (o->providers) QB_TRY(qb_providers_choose(cx, o->providers, &backends, &missing));
    qb_free(missing);
    const qb_engine_options options = {.backends = backends,
                                       .batch = o->batch,
                                       .threads = o->threads,
                                       .time_tactics = o->time_tactics != 0};
    qb_graph *graph;
    QB_TRY(qb_onnx_load(cx, path, &graph));
    qb_status status = qb_optimize(cx, graph, &all, NULL);
    if (status == QB_OK) status = qb_engine_build(cx, graph, &options, out);
    qb_graph_free(graph);
    return status;
}

qbench_status qbench_engine_build(qbench_session *session, const char *onnx_path,
                                  const qbench_build_options *options, qbench_engine **out) {
    static const qbench_build_options usual = {0};
    qb_ctx *cx = begin(session);
    qb_engine *inner;
    qb_status status = build(cx, onnx_path, options ? options : &usual, &inner);
    return outer(status == QB_OK ? wrap_engine(cx, inner, onnx_path, out) : status);
}

qbench_status qbench_engine_save(qbench_session *session, const qbench_engine *engine,
                                 const char *path) {
    const qb_engine_origin origin = {.model = engine->model};
    return outer(qb_engine_save(begin(session), engine->engine, &origin, path));
}

void qbench_engine_free(qbench_engine *engine) {
    if (!engine) return;
    qb_engine_free(engine->engine);
    qb_plugins_release(engine->plugins);
    qb_free(engine->model);
    qb_free(engine);
}

const char *qbench_engine_provider(const qbench_engine *engine) {
    qb_provider_count n;
    qb_providers_count(engine->engine, &n);
    return n.cuda > 0 ? "cuda" : "cpu";
}

int32_t qbench_engine_n_inputs(const qbench_engine *engine) {
    return qb_engine_n_inputs(engine->engine);
}

int32_t qbench_engine_n_outputs(const qbench_engine *engine) {
    return qb_engine_n_outputs(engine->engine);
}

static void describe(const char *name, const qb_desc *desc, qbench_tensor *out) {
    *out = (qbench_tensor){.name = name,
                           .dtype = (qbench_dtype)qb_dtype_to_onnx(desc->dtype),
                           .rank = desc->shape.rank,
                           .bytes = qb_desc_bytes(desc)};
    for (int32_t i = 0; i < desc->shape.rank; i++) out->dim[i] = desc->shape.dim[i];
}

qbench_status qbench_engine_input(const qbench_engine *engine, int32_t i, qbench_tensor *out) {
    if (i < 0 || i >= qb_engine_n_inputs(engine->engine)) return QBENCH_INVALID;
    describe(qb_engine_input_name(engine->engine, i), qb_engine_input(engine->engine, i), out);
    return QBENCH_OK;
}

qbench_status qbench_engine_output(const qbench_engine *engine, int32_t i, qbench_tensor *out) {
    if (i < 0 || i >= qb_engine_n_outputs(engine->engine)) return QBENCH_INVALID;
    describe(qb_engine_output_name(engine->engine, i), qb_engine_output(engine->engine, i), out);
    return QBENCH_OK;
}

/* ---- execution ---- */

qbench_status qbench_context_create(qbench_session *session, const qbench_engine *engine,
                                    qbench_context **out) {
    qb_ctx *cx = begin(session);
    qbench_context *context = qb_alloc(cx, 1, sizeof *context);
    if (!context) return QBENCH_NOMEM;
    qb_status status = qb_context_create(cx, engine->engine, &context->context);
    if (status == QB_OK)
        *out = context;
    else
        qb_free(context);
    return outer(status);
}

void qbench_context_free(qbench_context *context) {
    if (!context) return;
    qb_context_free(context->context);
    qb_free(context);
}

qbench_status qbench_context_run(qbench_session *session, qbench_context *context,
                                 const void *const *inputs, void *const *outputs) {
    return outer(qb_context_run(begin(session), context->context, inputs, outputs));
}

/* ---- inputs from images ---- */

qbench_status qbench_inputs_load(qbench_session *session, const char *sidecar_path,
                                 qbench_inputs **out) {
    qb_ctx *cx = begin(session);
    qbench_inputs *inputs = qb_alloc(cx, 1, sizeof *inputs);
    if (!inputs) return QBENCH_NOMEM;
    qb_status status = qb_sidecar_load(cx, sidecar_path, &inputs->sidecar);
    if (status == QB_OK)
        *out = inputs;
    else
        qb_free(inputs);
    return outer(status);
}

void qbench_inputs_free(qbench_inputs *inputs) {
    if (!inputs) return;
    qb_sidecar_release(&inputs->sidecar);
    qb_free(inputs);
}

static qb_status prepare(qb_ctx *cx, const qb_preprocess *preprocess, const char *path,
                         int32_t height, int32_t width, float *out) {
    char *data;
    size_t size;
    qb_image image = {0};
    QB_TRY(qb_file_read(cx, path, IMAGE_MAX, &data, &size));
    qb_status status = qb_image_decode(cx, path, (const uint8_t *)data, size, &image);
    qb_free(data);
    if (status == QB_OK) {
        status = qb_preprocess_image(cx, preprocess, &image, height, width, out);
        if (status != QB_OK) qb_wrap(cx, "%s", path);
    }
    qb_image_release(&image);
    return status;
}

qbench_status qbench_inputs_image(qbench_session *session, const qbench_inputs *inputs,
                                  const char *image_path, int32_t height, int32_t width, float *out,
                                  size_t n) {
    qb_ctx *cx = begin(session);
    const qb_preprocess *preprocess = &inputs->sidecar.preprocess;
    const int32_t channels = qb_preprocess_channels(preprocess);
    if (height < 1 || width < 1 || (size_t)channels * (size_t)height * (size_t)width != n)
        return outer(qb_fail(cx, QB_STATUS_INVALID,
                             "%s: an image of %d x %d x %d is not %zu elements", image_path,
                             channels, height, width, n));
    return outer(prepare(cx, preprocess, image_path, height, width, out));
}

const char *qbench_inputs_label(const qbench_inputs *inputs, int32_t index) {
    const qb_labels *labels = &inputs->sidecar.labels;
    return index >= 0 && index < labels->n ? labels->name[index] : NULL;
}
