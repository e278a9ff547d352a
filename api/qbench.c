/* The C library: include/qbench/qbench.h over the inner folders. Its handles are the inner ones. */
#include "include/qbench/qbench.h"

#include <fenv.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "datasets/sidecar.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "engine/providers.h"
#include "graph/passes.h"
#include "graph/plugin.h"

#define IMAGE_MAX ((size_t)1 << 30)
#define THREADS_MAX 4096

_Static_assert(QBENCH_MAX_RANK == QB_MAX_RANK, "shapes are copied");

/* A thread's floating-point environment. */
typedef struct floats {
#if defined(__x86_64__)
    uint32_t vectors; /* MXCSR */
    uint16_t stack;   /* the x87's control word */
#else
    fenv_t all;
#endif
} floats;

struct qbench_session {
    qb_ctx cx; /* first: leave() finds the session by it */
    char *key; /* what cx.engine_key points to */
    atomic_flag busy;
    floats floats;   /* of the thread that is in a call, from before it, */
    locale_t locale; /* and its locale */
};

/* An engine and where it came from, for qbench_engine_save. */
struct qbench_engine {
    qb_engine *engine;
    char *model;
    qb_plugins *plugins; /* its operators; a reference */
    atomic_int users;    /* the program and the contexts: the last one frees it */
};

struct qbench_context {
    qb_context *context;
    qbench_engine *engine; /* one of its users */
    atomic_flag busy;
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

/* An argument that has to be there, by the name that the header gives it. */
typedef struct needed {
    const char *name;
    const void *pointer;
} needed;

/* Results do not depend on the program's rounding, on whether it flushes small numbers or traps
 * others, or on how it writes a decimal point: each call has the usual ones, and so have the
 * threads that it starts. The program's own, exceptions that were raised among them, are as before
 * behind it. */
#if defined(__x86_64__)
/* A fifth of the time of fegetenv and fesetenv, a run may take less than they do. */
static void take_floats(floats *own) {
    uint16_t usual = 0x37f;
    own->vectors = __builtin_ia32_stmxcsr();
    __asm__ volatile("fnstcw %0" : "=m"(own->stack));
    __builtin_ia32_ldmxcsr(0x1f80);
    if (own->stack != usual) __asm__ volatile("fldcw %0" ::"m"(usual));
}

static void give_floats(const floats *own) {
    uint16_t stack;
    __asm__ volatile("fnstcw %0" : "=m"(stack));
    __builtin_ia32_ldmxcsr(own->vectors);
    if (own->stack != stack) __asm__ volatile("fldcw %0" ::"m"(own->stack));
}
#else
static void take_floats(floats *own) {
    fegetenv(&own->all);
    fesetenv(FE_DFL_ENV);
}

static void give_floats(const floats *own) { fesetenv(&own->all); }
#endif

/* "C" takes no memory and needs no freelocale. */
static void take_habits(qbench_session *session) {
    const locale_t usual = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    take_floats(&session->floats);
    session->locale = usual ? uselocale(usual) : (locale_t)0;
}

static void give_habits(const qbench_session *session) {
    if (session->locale) uselocale(session->locale);
    give_floats(&session->floats);
}

/* Begins a call: the session's context, without the error of an earlier call; leave() ends it. NULL
 * where the call ends as QBENCH_INVALID: an argument is missing, which is the session's error, or
 * the session is, or another thread is in a call with it, whose text is left alone. */
static qb_ctx *begin(qbench_session *session, const char *function, const needed *argument, int n) {
    if (!session || atomic_flag_test_and_set_explicit(&session->busy, memory_order_acquire))
        return NULL;
    qb_ctx_clear(&session->cx);
    for (int i = 0; i < n; i++)
        if (!argument[i].pointer) {
            qb_fail(&session->cx, QB_STATUS_INVALID, "%s: %s: expected a pointer, got NULL",
                    function, argument[i].name);
            atomic_flag_clear_explicit(&session->busy, memory_order_release);
            return NULL;
        }
    take_habits(session);
    return &session->cx;
}

static void leave(qb_ctx *const *cx) {
    if (!*cx) return;
    qbench_session *session = (qbench_session *)(void *)*cx;
    give_habits(session);
    atomic_flag_clear_explicit(&session->busy, memory_order_release);
}

const char *qbench_version(void) { return QB_VERSION; }

qbench_session *qbench_session_create(void) {
    qbench_session *session = calloc(1, sizeof *session);
    if (session) {
        qb_ctx_init(&session->cx);
        atomic_flag_clear(&session->busy);
    }
    return session;
}

void qbench_session_free(qbench_session *session) {
    if (session) qb_plugins_release(session->cx.plugins);
    if (session) qb_free(session->key);
    free(session);
}

qbench_status qbench_session_trust(qbench_session *session, const char *key, int no_machine_code) {
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, NULL, 0);
    if (!cx) return QBENCH_INVALID;
    char *copy = key ? qb_strdup(cx, key) : NULL;
    if (key && !copy) return outer(cx->code);
    qb_free(session->key);
    session->key = copy;
    cx->engine_key = copy;
    cx->no_machine_code = no_machine_code != 0;
    return QBENCH_OK;
}

const char *qbench_error(const qbench_session *session) {
    return session ? session->cx.message : "";
}

qbench_status qbench_plugin_load(qbench_session *session, const char *path) {
    const needed arguments[] = {{"path", path}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 1);
    if (!cx) return QBENCH_INVALID;
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
    *engine = (qbench_engine){
        .engine = inner, .model = model, .plugins = qb_plugins_retain(cx->plugins), .users = 1};
    *out = engine;
    return QB_OK;
}

qbench_status qbench_engine_load(qbench_session *session, const char *path, qbench_engine **out) {
    const needed arguments[] = {{"path", path}, {"out", out}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 2);
    if (!cx) return QBENCH_INVALID;
    qb_engine *inner;
    qb_status status = qb_engine_load(cx, path, &inner);
    return outer(status == QB_OK ? wrap_engine(cx, inner, path, out) : status);
}

/* ---- ranges of sizes ---- */

static qb_status bad_range(qb_ctx *cx, const qbench_range *r, const char *why) {
    return qb_fail(cx, QB_STATUS_INVALID, "range of input '%s' in profile %d: %s",
                   r->input ? r->input : "(null)", (int)r->profile, why);
}

static qb_shape shape_of(int32_t rank, const int64_t *dim) {
    qb_shape shape = {.rank = rank};
    for (int32_t d = 0; d < rank; d++) shape.dim[d] = dim[d];
    return shape;
}

static qb_status place_range(qb_ctx *cx, const qb_graph *graph, const qbench_range *r,
                             const qb_profile *profiles) {
    int32_t i = graph->n_inputs - 1;
    while (i >= 0 && (!r->input || strcmp(graph->values[graph->inputs[i]].name, r->input) != 0))
        i--;
    if (i < 0) return bad_range(cx, r, "the model has no such input");
    if (r->rank < 0 || r->rank > QBENCH_MAX_RANK) return bad_range(cx, r, "too many dimensions");
    qb_shape *min = (qb_shape *)(uintptr_t)&profiles[r->profile].min[i];
    if (min->rank >= 0) return bad_range(cx, r, "given twice");
    *min = shape_of(r->rank, r->min);
    *(qb_shape *)(uintptr_t)&profiles[r->profile].opt[i] = shape_of(r->rank, r->opt);
    *(qb_shape *)(uintptr_t)&profiles[r->profile].max[i] = shape_of(r->rank, r->max);
    return QB_OK;
}

/* The profiles of the options as one block of new memory; none when there are no ranges. */
static qb_status take_ranges(qb_ctx *cx, const qb_graph *graph, const qbench_build_options *o,
                             qb_profile **out, int32_t *n) {
    const size_t inputs = (size_t)graph->n_inputs;
    int32_t count = 0;
    if (o->n_ranges < 0 || (o->n_ranges > 0 && !o->ranges))
        return qb_fail(cx, QB_STATUS_INVALID, "n_ranges: %d, but there are no ranges",
                       (int)o->n_ranges);
    for (int32_t i = 0; i < o->n_ranges; i++) {
        if (o->ranges[i].profile < 0 || o->ranges[i].profile >= o->n_ranges)
            return bad_range(cx, &o->ranges[i], "profiles are numbered from 0 on, without gaps");
        if (o->ranges[i].profile >= count) count = o->ranges[i].profile + 1;
    }
    if (count == 0) return QB_OK;
    QB_FREED qb_profile *profiles = QB_NEW(
        cx, qb_alloc(cx, 1, (size_t)count * (sizeof *profiles + 3 * inputs * sizeof(qb_shape))));
    qb_shape *shape = (qb_shape *)(void *)(profiles + count);
    for (int32_t p = 0; p < count; p++, shape += 3 * inputs)
        profiles[p] = (qb_profile){shape, shape + inputs, shape + 2 * inputs};
    for (qb_shape *s = (qb_shape *)(void *)(profiles + count); s < shape; s++) s->rank = -1;
    for (int32_t i = 0; i < o->n_ranges; i++)
        QB_TRY(place_range(cx, graph, &o->ranges[i], profiles));
    for (int32_t p = 0; p < count; p++)
        for (size_t i = 0; i < inputs; i++)
            if (profiles[p].min[i].rank < 0)
                return qb_fail(cx, QB_STATUS_INVALID, "profile %d: input '%s' has no range", (int)p,
                               graph->values[graph->inputs[i]].name);
    *out = QB_MOVE(profiles);
    *n = count;
    return QB_OK;
}

int32_t qbench_engine_n_profiles(const qbench_engine *engine) {
    return engine ? qb_engine_n_profiles(engine->engine) : 0;
}

qbench_status qbench_engine_range(const qbench_engine *engine, int32_t profile, int32_t i,
                                  qbench_range *out) {
    if (!engine || !out || profile < 0 || profile >= qb_engine_n_profiles(engine->engine) ||
        i < 0 || i >= qb_engine_n_inputs(engine->engine))
        return QBENCH_INVALID;
    const qb_profile *p = qb_engine_profile(engine->engine, profile);
    *out = (qbench_range){.input = qb_engine_input_name(engine->engine, i),
                          .profile = profile,
                          .rank = p->min[i].rank};
    for (int32_t d = 0; d < out->rank; d++) {
        out->min[d] = p->min[i].dim[d];
        out->opt[d] = p->opt[i].dim[d];
        out->max[d] = p->max[i].dim[d];
    }
    return QBENCH_OK;
}

static qb_status build(qb_ctx *cx, const char *path, const qbench_build_options *o,
                       qb_engine **out) {
    const qb_optimize_options all = {0};
    const char *backends = o->backends;
    char *missing = NULL;
    if (o->batch < 0)
        return qb_fail(cx, QB_STATUS_INVALID, "batch: expected 0 or more, got %lld",
                       (long long)o->batch);
    if (o->threads < 0 || o->threads > THREADS_MAX)
        return qb_fail(cx, QB_STATUS_INVALID, "threads: expected 0 to %d, got %d", THREADS_MAX,
                       (int)o->threads);
    if (backends && o->providers)
        return qb_fail(cx, QB_STATUS_INVALID, "backends and providers: give one");
    if (o->providers) QB_TRY(qb_providers_choose(cx, o->providers, &backends, &missing));
    qb_free(missing);
    qb_build_spec options = {.backends = backends,
                             .batch = o->batch,
                             .threads = o->threads,
                             .workspace_limit = o->workspace_limit,
                             .time_tactics = o->time_tactics != 0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_FREED qb_profile *profiles = NULL;
    QB_TRY(qb_onnx_load(cx, path, &graph));
    QB_TRY(qb_optimize(cx, graph, &all, NULL));
    QB_TRY(take_ranges(cx, graph, o, &profiles, &options.n_profiles));
    options.profiles = profiles;
    return qb_engine_build(cx, graph, &options, out);
}

qbench_status qbench_engine_build(qbench_session *session, const char *onnx_path,
                                  const qbench_build_options *options, qbench_engine **out) {
    static const qbench_build_options usual = {0};
    const needed arguments[] = {{"onnx_path", onnx_path}, {"out", out}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 2);
    if (!cx) return QBENCH_INVALID;
    qb_engine *inner;
    qb_status status = build(cx, onnx_path, options ? options : &usual, &inner);
    return outer(status == QB_OK ? wrap_engine(cx, inner, onnx_path, out) : status);
}

qbench_status qbench_engine_save(qbench_session *session, const qbench_engine *engine,
                                 const char *path) {
    const needed arguments[] = {{"engine", engine}, {"path", path}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 2);
    if (!cx) return QBENCH_INVALID;
    const qb_engine_origin origin = {.model = engine->model};
    return outer(qb_engine_save(cx, engine->engine, &origin, path));
}

void qbench_engine_free(qbench_engine *engine) {
    if (!engine || atomic_fetch_sub_explicit(&engine->users, 1, memory_order_acq_rel) > 1) return;
    qb_engine_free(engine->engine);
    qb_plugins_release(engine->plugins);
    QB_FREE_ALL(engine->model, engine);
}

const char *qbench_engine_provider(const qbench_engine *engine) {
    qb_provider_count n = {0};
    if (engine) qb_providers_count(engine->engine, &n);
    return n.cuda > 0 ? "cuda" : "cpu";
}

int32_t qbench_engine_n_inputs(const qbench_engine *engine) {
    return engine ? qb_engine_n_inputs(engine->engine) : 0;
}

int32_t qbench_engine_n_outputs(const qbench_engine *engine) {
    return engine ? qb_engine_n_outputs(engine->engine) : 0;
}

static void describe(const char *name, const qb_desc *desc, qbench_tensor *out) {
    *out = (qbench_tensor){.name = name,
                           .dtype = (qbench_dtype)qb_dtype_to_onnx(desc->dtype),
                           .rank = desc->shape.rank,
                           .bytes = qb_desc_bytes(desc)};
    for (int32_t i = 0; i < desc->shape.rank; i++) out->dim[i] = desc->shape.dim[i];
}

static qbench_status describe_input(const qb_engine *engine, int32_t i, qbench_tensor *out) {
    if (!engine || !out || i < 0 || i >= qb_engine_n_inputs(engine)) return QBENCH_INVALID;
    describe(qb_engine_input_name(engine, i), qb_engine_input(engine, i), out);
    return QBENCH_OK;
}

static qbench_status describe_output(const qb_engine *engine, int32_t i, qbench_tensor *out) {
    if (!engine || !out || i < 0 || i >= qb_engine_n_outputs(engine)) return QBENCH_INVALID;
    describe(qb_engine_output_name(engine, i), qb_engine_output(engine, i), out);
    return QBENCH_OK;
}

qbench_status qbench_engine_input(const qbench_engine *engine, int32_t i, qbench_tensor *out) {
    return describe_input(engine ? engine->engine : NULL, i, out);
}

qbench_status qbench_engine_output(const qbench_engine *engine, int32_t i, qbench_tensor *out) {
    return describe_output(engine ? engine->engine : NULL, i, out);
}

/* ---- execution ---- */

qbench_status qbench_context_create(qbench_session *session, const qbench_engine *engine,
                                    qbench_context **out) {
    const needed arguments[] = {{"engine", engine}, {"out", out}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 2);
    if (!cx) return QBENCH_INVALID;
    qbench_context *context = qb_alloc(cx, 1, sizeof *context);
    if (!context) return QBENCH_NOMEM;
    qb_status status = qb_context_create(cx, engine->engine, &context->context);
    if (status == QB_OK) {
        context->engine = (qbench_engine *)(uintptr_t)engine; /* its count alone is changed */
        atomic_fetch_add_explicit(&context->engine->users, 1, memory_order_relaxed);
        atomic_flag_clear(&context->busy);
        *out = context;
    } else {
        qb_free(context);
    }
    return outer(status);
}

void qbench_context_free(qbench_context *context) {
    if (!context) return;
    qb_context_free(context->context);
    qbench_engine_free(context->engine);
    qb_free(context);
}

/* A context has one set of activations: a second thread in it would give both wrong results. */
static qb_status enter(qb_ctx *cx, qbench_context *context) {
    return atomic_flag_test_and_set_explicit(&context->busy, memory_order_acquire)
               ? qb_fail(cx, QB_STATUS_INVALID,
                         "context: another thread is in a call with it; each needs its own")
               : QB_OK;
}

static void exit_context(qbench_context *context) {
    atomic_flag_clear_explicit(&context->busy, memory_order_release);
}

static const qb_engine *engine_of(const qbench_context *context) {
    return context ? qb_context_engine(context->context) : NULL;
}

qbench_status qbench_context_input(const qbench_context *context, int32_t i, qbench_tensor *out) {
    return describe_input(engine_of(context), i, out);
}

qbench_status qbench_context_output(const qbench_context *context, int32_t i, qbench_tensor *out) {
    return describe_output(engine_of(context), i, out);
}

qbench_status qbench_context_result(const qbench_context *context, int32_t i, qbench_tensor *out) {
    const qb_engine *engine = engine_of(context);
    if (!engine || !out || i < 0 || i >= qb_engine_n_outputs(engine)) return QBENCH_INVALID;
    qb_desc desc = *qb_engine_output(engine, i);
    desc.shape = qb_context_output_shape(context->context, i);
    describe(qb_engine_output_name(engine, i), &desc, out);
    return QBENCH_OK;
}

static qb_status set_shapes(qb_ctx *cx, qb_context *context, const int64_t *const *dim) {
    const qb_engine *now = qb_context_engine(context);
    const int32_t n = qb_engine_n_inputs(now);
    QB_FREED qb_shape *shapes = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *shapes));
    for (int32_t i = 0; i < n; i++) {
        if (!dim[i])
            return qb_fail(cx, QB_STATUS_INVALID, "input '%s': expected sizes, got NULL",
                           qb_engine_input_name(now, i));
        shapes[i] = shape_of(qb_engine_input(now, i)->shape.rank, dim[i]);
    }
    return qb_context_set_shapes(cx, context, shapes);
}

qbench_status qbench_context_set_shapes(qbench_session *session, qbench_context *context,
                                        const int64_t *const *dim) {
    const needed arguments[] = {{"context", context}, {"dim", dim}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 2);
    if (!cx) return QBENCH_INVALID;
    qb_status status = enter(cx, context);
    if (status != QB_OK) return outer(status);
    status = set_shapes(cx, context->context, dim);
    exit_context(context);
    return outer(status);
}

static bool overlap(const char *a, const qb_desc *of_a, const char *b, const qb_desc *of_b) {
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a && b && x < y + qb_desc_bytes(of_b) && y < x + qb_desc_bytes(of_a);
}

/* Steps write outputs while others still read inputs: in one memory the result would be silently
 * wrong. */
static qb_status check_apart(qb_ctx *cx, const qb_engine *e, const void *const *inputs,
                             void *const *outputs) {
    for (int32_t o = 0; outputs && o < qb_engine_n_outputs(e); o++) {
        const qb_desc *desc = qb_engine_output(e, o);
        for (int32_t i = 0; i < qb_engine_n_inputs(e); i++)
            if (overlap(outputs[o], desc, inputs[i], qb_engine_input(e, i)))
                return qb_fail(cx, QB_STATUS_INVALID,
                               "output '%s' lies in the memory of input '%s'",
                               qb_engine_output_name(e, o), qb_engine_input_name(e, i));
        for (int32_t k = 0; k < o; k++)
            if (overlap(outputs[o], desc, outputs[k], qb_engine_output(e, k)))
                return qb_fail(cx, QB_STATUS_INVALID,
                               "output '%s' lies in the memory of output '%s'",
                               qb_engine_output_name(e, o), qb_engine_output_name(e, k));
    }
    return QB_OK;
}

qbench_status qbench_context_run(qbench_session *session, qbench_context *context,
                                 const void *const *inputs, void *const *outputs) {
    const needed arguments[] = {{"context", context}, {"inputs", inputs}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 2);
    if (!cx) return QBENCH_INVALID;
    qb_status status = enter(cx, context);
    if (status != QB_OK) return outer(status);
    status = check_apart(cx, engine_of(context), inputs, outputs);
    if (status == QB_OK) status = qb_context_run(cx, context->context, inputs, outputs);
    exit_context(context);
    return outer(status);
}

/* ---- inputs from images ---- */

qbench_status qbench_inputs_load(qbench_session *session, const char *sidecar_path,
                                 qbench_inputs **out) {
    const needed arguments[] = {{"sidecar_path", sidecar_path}, {"out", out}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 2);
    if (!cx) return QBENCH_INVALID;
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
    QB_FREED char *data = NULL;
    size_t size;
    QB_RELEASED(qb_image_release) qb_image image = {0};
    QB_TRY(qb_file_read(cx, path, IMAGE_MAX, &data, &size));
    QB_TRY(qb_image_decode(cx, path, (const uint8_t *)data, size, &image));
    QB_TRY_WRAP(cx, qb_preprocess_image(cx, preprocess, &image, height, width, out), "%s", path);
    return QB_OK;
}

qbench_status qbench_inputs_image(qbench_session *session, const qbench_inputs *inputs,
                                  const char *image_path, int32_t height, int32_t width, float *out,
                                  size_t n) {
    const needed arguments[] = {{"inputs", inputs}, {"image_path", image_path}, {"out", out}};
    QB_RELEASED(leave) qb_ctx *const cx = begin(session, __func__, arguments, 3);
    if (!cx) return QBENCH_INVALID;
    const qb_preprocess *preprocess = &inputs->sidecar.preprocess;
    const int32_t channels = qb_preprocess_channels(preprocess);
    if (height < 1 || width < 1 || (size_t)channels * (size_t)height * (size_t)width != n)
        return outer(qb_fail(cx, QB_STATUS_INVALID,
                             "%s: an image of %d x %d x %d is not %zu elements", image_path,
                             channels, height, width, n));
    return outer(prepare(cx, preprocess, image_path, height, width, out));
}

const char *qbench_inputs_label(const qbench_inputs *inputs, int32_t index) {
    const qb_labels *labels = inputs ? &inputs->sidecar.labels : NULL;
    return labels && index >= 0 && index < labels->n ? labels->name[index] : NULL;
}
