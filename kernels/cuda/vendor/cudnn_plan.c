/* From a graph to the plan that runs it: proposals of cuDNN's heuristics, each compiled and timed
 * on the device. One after the other: threads must not use a handle of cuDNN at the same time,
 * nor, as nothing says that they may, a plan. */
#include <pthread.h>
#include <string.h>

#include "kernels/cuda/common/device.h"
#include "kernels/cuda/vendor/cudnn_internal.h"

#define LISTED 32    /* of one heuristic */
#define LISTS 3      /* heuristics */
#define ENGINES 128  /* looked at beside their lists */
#define TRIED 3      /* of the first list, unless all are */
#define HOPELESS 1.5 /* times what is to be beaten: the proposals behind are not tried */
#define TIMED_RUNS 10
#define REPLAYS 3
#define FILLING 0x39 /* bytes of trial data: zeros run faster than data does; 0.65 as f16 */

static _Thread_local bool try_all;
static _Thread_local int32_t tried;

static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;

void qb_cudnn_try_all(bool all) { try_all = all; }
int32_t qb_cudnn_tried(void) { return tried; }
void qb_cudnn_lock(void) { pthread_mutex_lock(&plan_lock); }
void qb_cudnn_unlock(void) { pthread_mutex_unlock(&plan_lock); }

typedef struct proposal {
    cudnnBackendDescriptor_t config, plan; /* no plan: cuDNN cannot make one; that is no error */
    cudnnBackendDescriptor_t engine;       /* the config's; NULL: the config came with it */
    int64_t index;                         /* the engine's number */
    int64_t workspace;
} proposal;

typedef struct search {
    const qb_cudnn_api *api;
    cudnnBackendDescriptor_t whole; /* the operations as one */
    qb_cudnn_math math;
    proposal *proposal; /* [LISTS x LISTED + ENGINES] */
    int n;
} search;

static cudnnBackendDescriptor_t create(const qb_cudnn_api *api, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = NULL;
    return api->cudnnBackendCreateDescriptor(type, &made) == CUDNN_STATUS_SUCCESS ? made : NULL;
}

static void destroy(const qb_cudnn_api *api, cudnnBackendDescriptor_t object) {
    if (object) (void)api->cudnnBackendDestroyDescriptor(object);
}

/* ---- proposals ------------------------------------------------------------------------------- */

static bool is_allowed(qb_cudnn_math math, cudnnBackendNumericalNote_t note) {
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: return math == QB_CUDNN_ANY;
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: return true;
    default: return false;
    }
}

static bool is_engine_allowed(const search *s, cudnnBackendDescriptor_t engine) {
    cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t n = 0;
    bool allowed = s->api->cudnnBackendGetAttribute(
                       engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                       CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; allowed && i < n; i++) allowed = is_allowed(s->math, note[i]);
    return allowed;
}

/* *index: the number of its engine. */
static bool is_config_allowed(const search *s, cudnnBackendDescriptor_t config, int64_t *index) {
    const qb_cudnn_api *api = s->api;
    int64_t one = 0;
    cudnnBackendDescriptor_t engine = create(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    const bool allowed =
        engine &&
        api->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one,
                                      &engine) == CUDNN_STATUS_SUCCESS &&
        api->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                                      &one, index) == CUDNN_STATUS_SUCCESS &&
        is_engine_allowed(s, engine);
    destroy(api, engine);
    return allowed;
}

/* Adds at most `most` of what a heuristic proposes, best first; false where it has no answer. */
static bool propose(search *s, cudnnBackendHeurMode_t mode, int most) {
    const qb_cudnn_api *api = s->api;
    cudnnBackendDescriptor_t config[LISTED] = {NULL};
    cudnnBackendDescriptor_t list = create(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;
    qb_cudnn_lock();
    bool answered =
        list &&
        api->cudnnBackendSetAttribute(list, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &s->whole) == CUDNN_STATUS_SUCCESS &&
        api->cudnnBackendSetAttribute(list, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                                      &mode) == CUDNN_STATUS_SUCCESS &&
        api->cudnnBackendFinalize(list) == CUDNN_STATUS_SUCCESS;
    for (int i = 0; answered && i < LISTED; i++)
        answered = (config[i] = create(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)) != NULL;
    answered = answered && api->cudnnBackendGetAttribute(list, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, LISTED, &n,
                                                         config) == CUDNN_STATUS_SUCCESS;
    qb_cudnn_unlock();
    for (int i = 0; i < LISTED; i++) {
        int64_t index;
        if (answered && i < n && most > 0 && is_config_allowed(s, config[i], &index)) {
            s->proposal[s->n++] = (proposal){.config = config[i], .index = index};
            most--;
        } else {
            destroy(api, config[i]);
        }
    }
    destroy(api, list);
    return answered && n > 0;
}

static bool is_proposed(const search *s, int64_t index) {
    for (int i = 0; i < s->n; i++)
        if (s->proposal[i].index == index) return true;
    return false;
}

/* The engine of this number as it works by default; false where it does not take the graph. */
static bool open_engine(const search *s, int64_t index, proposal *p) {
    const qb_cudnn_api *api = s->api;
    *p = (proposal){.engine = create(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR),
                    .config = create(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                    .index = index};
    return p->engine && p->config &&
           api->cudnnBackendSetAttribute(p->engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         &s->whole) == CUDNN_STATUS_SUCCESS &&
           api->cudnnBackendSetAttribute(p->engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                         CUDNN_TYPE_INT64, 1, &index) == CUDNN_STATUS_SUCCESS &&
           api->cudnnBackendFinalize(p->engine) == CUDNN_STATUS_SUCCESS &&
           is_engine_allowed(s, p->engine) &&
           api->cudnnBackendSetAttribute(p->config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                         &p->engine) == CUDNN_STATUS_SUCCESS &&
           api->cudnnBackendFinalize(p->config) == CUDNN_STATUS_SUCCESS;
}

/* Adds the engines that take the graph and that no heuristic proposes. */
static void propose_others(search *s) {
    const qb_cudnn_api *api = s->api;
    const int proposed = s->n;
    int64_t one = 0, engines = 0;
    qb_cudnn_lock();
    if (api->cudnnBackendGetAttribute(s->whole, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT,
                                      CUDNN_TYPE_INT64, 1, &one, &engines) != CUDNN_STATUS_SUCCESS)
        engines = 0;
    for (int64_t i = 0; i < engines && s->n < proposed + ENGINES; i++) {
        proposal *next = &s->proposal[s->n];
        if (is_proposed(s, i)) continue;
        if (open_engine(s, i, next)) {
            s->n++;
            continue;
        }
        destroy(api, next->config);
        destroy(api, next->engine);
    }
    qb_cudnn_unlock();
}

static void compile(const qb_cudnn_api *api, cudnnHandle_t maker, proposal *p) {
    int64_t n = 0;
    qb_cudnn_lock();
    p->plan = create(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const bool made =
        p->plan &&
        api->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &p->config) == CUDNN_STATUS_SUCCESS &&
        api->cudnnBackendSetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
                                      1, &maker) == CUDNN_STATUS_SUCCESS &&
        api->cudnnBackendFinalize(p->plan) == CUDNN_STATUS_SUCCESS &&
        api->cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                      CUDNN_TYPE_INT64, 1, &n,
                                      &p->workspace) == CUDNN_STATUS_SUCCESS;
    qb_cudnn_unlock();
    if (made && p->workspace <= QB_CUDNN_WORKSPACE_MAX) return;
    destroy(api, p->plan);
    p->plan = NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

static cudnnStatus_t execute(const qb_cudnn_graph *g, cudnnBackendDescriptor_t plan,
                             void *const data[QB_CUDNN_BOUND], void *workspace,
                             cudnnHandle_t handle) {
    const qb_cudnn_api *a = g->api;
    int64_t id[QB_CUDNN_BOUND], n = 0;
    void *at[QB_CUDNN_BOUND];
    cudnnBackendDescriptor_t pack = NULL;
    for (int i = 0; i < QB_CUDNN_BOUND; i++)
        if (g->bound[i]) {
            id[n] = i + 1;
            at[n++] = data[i];
        }
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
#define STEP(call)                                                                                 \
    if (status == CUDNN_STATUS_SUCCESS) status = (call)
    STEP(a->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    STEP(a->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n,
                                     id));
    STEP(a->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                     CUDNN_TYPE_VOID_PTR, n, at));
    STEP(a->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                     1, &workspace));
    STEP(a->cudnnBackendFinalize(pack));
    STEP(a->cudnnBackendExecute(handle, plan, pack));
#undef STEP
    destroy(a, pack);
    return status;
}

qb_status qb_cudnn_run(qb_ctx *cx, const qb_cudnn_graph *g, void *const data[QB_CUDNN_BOUND],
                       void *workspace, void *stream) {
    cudnnHandle_t handle;
    QB_TRY(qb_cudnn_handle(cx, g->api, stream, &handle));
    qb_cudnn_lock();
    const cudnnStatus_t status = execute(g, g->plan, data, workspace, handle);
    qb_cudnn_unlock();
    return qb_cudnn_check(cx, g->api, status);
}

/* ---- choosing -------------------------------------------------------------------------------- */

typedef struct scratch {
    void *data[QB_CUDNN_BOUND], *workspace, *stream, *begin, *end;
    int64_t workspace_bytes;
} scratch;

static qb_status open_scratch(qb_ctx *cx, const size_t bytes[QB_CUDNN_BOUND], scratch *m) {
    QB_TRY(qb_cuda_stream_open(cx, &m->stream));
    QB_TRY(qb_cuda_event_open(cx, &m->begin));
    QB_TRY(qb_cuda_event_open(cx, &m->end));
    for (int i = 0; i < QB_CUDNN_BOUND; i++) {
        if (bytes[i] == 0) continue;
        QB_TRY(qb_cuda_alloc(cx, bytes[i], &m->data[i]));
        QB_TRY(qb_cuda_fill(cx, m->data[i], FILLING, bytes[i], m->stream));
    }
    return QB_OK;
}

static qb_status grow_workspace(qb_ctx *cx, int64_t bytes, scratch *m) {
    if (m->workspace && bytes <= m->workspace_bytes) return QB_OK;
    qb_cuda_free(m->workspace);
    m->workspace = NULL;
    m->workspace_bytes = bytes;
    return qb_cuda_alloc(cx, (size_t)bytes, &m->workspace);
}

static void close_scratch(scratch *m) {
    qb_cuda_event_close(m->begin);
    qb_cuda_event_close(m->end);
    qb_cuda_stream_close(m->stream);
    for (int i = 0; i < QB_CUDNN_BOUND; i++) qb_cuda_free(m->data[i]);
    qb_cuda_free(m->workspace);
}

/* The shortest of some replays of a recorded graph, as engines run it. */
static qb_status time_plan(qb_ctx *cx, const qb_cudnn_graph *g, const scratch *m, float *ms) {
    void *recorded = NULL;
    qb_status status = QB_OK, ended;
    QB_TRY(qb_cudnn_run(cx, g, m->data, m->workspace, m->stream)); /* loads code */
    QB_TRY(qb_cuda_sync(cx, m->stream));
    QB_TRY(qb_cuda_capture_begin(cx, m->stream));
    for (int i = 0; i < TIMED_RUNS && status == QB_OK; i++)
        status = qb_cudnn_run(cx, g, m->data, m->workspace, m->stream);
    ended = qb_cuda_capture_end(cx, m->stream, &recorded); /* a stream must not stay captured */
    if (status == QB_OK) status = ended;
    for (int i = 0; i < REPLAYS && status == QB_OK; i++) {
        float took = 0.0f;
        QB_GO(qb_cuda_event_record(cx, m->begin, m->stream));
        QB_GO(qb_cuda_graph_launch(cx, recorded, m->stream));
        QB_GO(qb_cuda_event_record(cx, m->end, m->stream));
        QB_GO(qb_cuda_sync(cx, m->stream));
        QB_GO(qb_cuda_event_elapsed(cx, m->begin, m->end, &took));
        if (i == 0 || took < *ms) *ms = took;
    }
out:
    qb_cuda_graph_close(recorded);
    return status;
}

/* The proposal becomes the graph's. */
static void keep(qb_cudnn_graph *g, search *s, int which) {
    proposal *p = &s->proposal[which];
    g->plan = p->plan;
    g->config = p->config;
    g->workspace = p->workspace;
    g->variant = which + 1;
    p->plan = p->config = NULL;
}

/* After a plan that failed: a device that it broke does nothing more in this process. */
static qb_status check_alive(qb_ctx *cx, void *stream) {
    QB_TRY_WRAP(cx, qb_cuda_sync(cx, stream),
                "a plan of cuDNN broke the device; --tacticSources=-CUDNN builds without cuDNN");
    return QB_OK;
}

/* Keeps the fastest plan; one that fails when it runs is left out. Those that the library puts last
 * are not made where the first ones are far behind what there is already. */
static qb_status choose(qb_ctx *cx, qb_cudnn_graph *g, search *s, double to_beat,
                        const size_t bytes[QB_CUDNN_BOUND]) {
    const double enough = try_all ? 0 : HOPELESS * to_beat * 1e3 * TIMED_RUNS; /* ms */
    scratch m = {0};
    qb_status status = QB_OK;
    int best = -1;
    float shortest = 0.0f;
    tried = 0;
    QB_GO(open_scratch(cx, bytes, &m));
    for (int i = 0; i < s->n; i++) {
        float ms = 0.0f;
        if (best >= 0 && enough > 0 && (double)shortest > enough) break;
        compile(s->api, g->maker, &s->proposal[i]);
        if (!s->proposal[i].plan) continue;
        QB_GO(grow_workspace(cx, s->proposal[i].workspace, &m));
        g->plan = s->proposal[i].plan;
        const qb_status timed = time_plan(cx, g, &m, &ms);
        g->plan = NULL;
        if (timed != QB_OK) {
            qb_ctx_clear(cx);
            QB_GO(check_alive(cx, m.stream));
            continue;
        }
        tried++;
        if (best >= 0 && ms >= shortest) continue;
        best = i;
        shortest = ms;
    }
    if (best < 0) QB_GO(qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN has no plan for this problem"));
    keep(g, s, best);
out:
    close_scratch(&m);
    return status;
}

/* The proposal of this number, from 1 on, without trying it. */
static qb_status take(qb_ctx *cx, qb_cudnn_graph *g, search *s, int32_t variant) {
    if (variant > s->n) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN has no such plan here");
    compile(s->api, g->maker, &s->proposal[variant - 1]);
    if (!s->proposal[variant - 1].plan)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN cannot make plan %d", (int)variant);
    keep(g, s, variant - 1);
    return QB_OK;
}

/* What the heuristics propose, and with all of it every other engine. */
static qb_status list_proposals(qb_ctx *cx, search *s) {
    const bool all = try_all;
    bool answered = propose(s, CUDNN_HEUR_MODE_A, all ? LISTED : TRIED);
    if (all) answered |= propose(s, CUDNN_HEUR_MODE_B, LISTED);
    if (all || s->n == 0) answered |= propose(s, CUDNN_HEUR_MODE_FALLBACK, all ? LISTED : TRIED);
    if (all) propose_others(s);
    if (s->n > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN %s",
                   answered ? "has only plans of less precision" : "does not take this graph");
}

/* The graph as one operation, and its proposals. */
static qb_status open_search(qb_ctx *cx, qb_cudnn_graph *g, qb_cudnn_math math, search *s) {
    *s = (search){.api = g->api, .math = math};
    s->whole = qb_cudnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    qb_cudnn_set(g, s->whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 g->n_ops, g->op);
    qb_cudnn_set(g, s->whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &g->maker);
    qb_cudnn_finalize(g, s->whole);
    if (g->status != CUDNN_STATUS_SUCCESS)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "cuDNN does not take this graph: %s",
                       g->api->cudnnGetErrorString(g->status));
    s->proposal = qb_alloc(cx, LISTS * LISTED + ENGINES, sizeof *s->proposal);
    if (!s->proposal) return cx->code;
    return list_proposals(cx, s);
}

static void close_search(search *s) {
    for (int i = 0; i < s->n; i++) {
        destroy(s->api, s->proposal[i].plan);
        destroy(s->api, s->proposal[i].config);
        destroy(s->api, s->proposal[i].engine);
    }
    qb_free(s->proposal);
}

/* By the heuristics. */
static qb_status find_plan(qb_ctx *cx, qb_cudnn_graph *g, qb_cudnn_math math, int32_t variant,
                           double to_beat, const size_t bytes[QB_CUDNN_BOUND]) {
    search s;
    qb_status status = open_search(cx, g, math, &s);
    if (status == QB_OK)
        status = variant > 0 ? take(cx, g, &s, variant) : choose(cx, g, &s, to_beat, bytes);
    close_search(&s);
    return status;
}

/* A plan's number means something with the same limits alone. */
static qb_hash key_of(qb_hash lowered, qb_cudnn_math math, int32_t variant) {
    const int32_t more[3] = {(int32_t)math, try_all, variant};
    const qb_hash both[2] = {lowered, qb_hash_bytes(more, sizeof more)};
    return qb_hash_bytes(both, sizeof both);
}

qb_status qb_cudnn_choose(qb_ctx *cx, qb_cudnn_graph *g, qb_cudnn_math math,
                          const qb_problem *problem, double to_beat,
                          const size_t bytes[QB_CUDNN_BOUND]) {
    const int32_t variant = problem->variant;
    const qb_hash lowered = g->key; /* the search adds to it */
    if (variant > 0 && problem->compiled &&
        qb_cudnn_restore(cx, g, problem->compiled, key_of(lowered, math, variant))) {
        g->variant = variant;
        return QB_OK;
    }
    QB_TRY(find_plan(cx, g, math, variant, to_beat, bytes));
    if (!problem->compiled) return QB_OK;
    return qb_cudnn_keep(cx, g, problem->compiled, key_of(lowered, math, g->variant));
}
