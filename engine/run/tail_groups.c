/* Groups of a tail's nodes that do much run in engines, planned for the sizes that a run brings. */

#include <pthread.h>
#include <string.h>

#include "engine/plan/plan_internal.h"
#include "engine/profiles.h"
#include "engine/run/context_internal.h"
#include "engine/run/tail_internal.h"
#include "graph/dequantize.h"

/* An engine pays from so many multiplications, or elements in and out, on. */
#define WORK_LEAST 1e5
#define ELEMENTS_LEAST (1 << 15)

typedef struct shared { /* of all runs of a group */
    qb_engine *engine;  /* for any sizes; NULL: none yet */
    int32_t *input;     /* [n_inputs of the engine] values of the tail */
    bool plain;         /* none can be built */
} shared;

struct qb_tail_groups {
    const qb_graph *graph;  /* the tail's */
    const qb_graph *floats; /* the same without quantization, value by value */
    qb_late_groups *found;
    qb_build_spec spec;
    const qb_tail_engines *engines;
    pthread_mutex_t lock; /* of `of` */
    shared *of;           /* [n_groups] */
    qb_shape *most;       /* [n_values] told; rank -1: not; NULL: none is */
};

void qb_tail_groups_free(struct qb_tail_groups *t) {
    if (!t) return;
    for (int32_t g = 0; t->of && g < t->found->n_groups; g++) {
        t->engines->free(t->of[g].engine);
        qb_free(t->of[g].input);
    }
    pthread_mutex_destroy(&t->lock);
    qb_late_groups_free(t->found);
    QB_FREE_ALL(t->of, t->most, t);
}

const qb_shape *qb_tail_most(const struct qb_tail_groups *groups) { return groups->most; }

qb_status qb_tail_groups_create(qb_ctx *cx, const qb_engine *head, const qb_tail_parts *parts,
                                const qb_graph *floats, const qb_tail_engines *engines,
                                struct qb_tail_groups **out) {
    struct qb_tail_groups *t = QB_NEW(cx, qb_alloc(cx, 1, sizeof *t));
    const size_t n_values = (size_t)parts->graph->n_values;
    *out = t;
    pthread_mutex_init(&t->lock, NULL);
    t->graph = parts->graph;
    t->floats = floats;
    t->engines = engines;
    t->spec = (qb_build_spec){.backends = head->device ? NULL : head->plan->spec.backends,
                              .threads = head->plan->spec.threads};
    QB_TRY(qb_late_groups_find(cx, floats, &t->found));
    QB_TRY_NEW(cx, t->of = qb_alloc(cx, (size_t)t->found->n_groups, sizeof *t->of));
    if (!parts->max_sizes) return QB_OK;
    QB_TRY_NEW(cx, t->most = qb_alloc(cx, n_values, sizeof *t->most));
    return qb_graph_parse_most(cx, t->graph, parts->max_sizes, t->most);
}

/* ---- the engine of a group ------------------------------------------------------------------- */

static qb_shape *shapes_of(qb_ctx *cx, const qb_graph *now, const int32_t *values, int32_t n) {
    qb_shape *shapes = qb_alloc(cx, (size_t)n, sizeof *shapes);
    for (int32_t i = 0; shapes && i < n; i++) shapes[i] = now->values[values[i]].shape;
    return shapes;
}

static qb_status build(qb_ctx *cx, const struct qb_tail_groups *t, const qb_late_group *group,
                       const qb_graph *now, shared *to) {
    QB_RELEASED(qb_graph_free_at) qb_graph *alone = NULL;
    qb_build_spec spec = t->spec;
    QB_TRY(qb_late_group_graph(cx, t->graph, group, now, &alone));
    const int32_t n = alone->n_inputs;
    QB_FREED int32_t *input = QB_NEW(cx, qb_alloc(cx, (size_t)n, sizeof *input));
    for (int32_t i = 0; i < n; i++)
        input[i] = qb_graph_find_value(now, alone->values[alone->inputs[i]].name);
    QB_FREED qb_shape *shapes = QB_NEW(cx, shapes_of(cx, now, input, n));
    const qb_profile profile = {shapes, shapes, shapes};
    spec.profiles = &profile;
    spec.n_profiles = 1;
    spec.any_shapes = true;
    QB_TRY(t->engines->build(cx, alone, &spec, &to->engine));
    to->input = QB_MOVE(input);
    return QB_OK;
}

/* What no engine can be had for runs node by node, which says what is wrong with it. */
static bool is_told_by_nodes(qb_ctx *cx) {
    if (cx->code == QB_STATUS_NOMEM || cx->code == QB_STATUS_CANCELLED) return false;
    qb_ctx_clear(cx);
    return true;
}

/* Builds the group's engine unless it is there: where that fails, other sizes may do. */
static qb_status need_engine(qb_ctx *cx, struct qb_tail_groups *t, int32_t g, const qb_graph *now) {
    pthread_mutex_lock(&t->lock);
    const qb_status status =
        t->of[g].engine ? QB_OK : build(cx, t, &t->found->group[g], now, &t->of[g]);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct own { /* what a context has for a group */
    qb_shape *in;    /* [n_in] sizes of the last run; NULL: there was none */
    bool planned;    /* for them, else node by node */
    qb_context *context;
    void **out; /* [n_out] memory of values */
} own;

struct qb_tail_groups_run {
    struct qb_tail_groups *groups;
    qb_workers *workers;     /* the context's */
    own *of;                 /* [n_groups] */
    qb_value_memory *memory; /* [n_values] of late nodes, and of what groups give */
};

void qb_tail_groups_run_free(struct qb_tail_groups_run *r) {
    if (!r) return;
    for (int32_t g = 0; r->of && g < r->groups->found->n_groups; g++) {
        r->groups->engines->free_context(r->of[g].context);
        QB_FREE_ALL(r->of[g].in, r->of[g].out);
    }
    for (int32_t v = 0; r->memory && v < r->groups->graph->n_values; v++)
        qb_free(r->memory[v].data);
    QB_FREE_ALL(r->of, r->memory, r);
}

qb_status qb_tail_groups_run_create(qb_ctx *cx, struct qb_tail_groups *groups, qb_workers *workers,
                                    struct qb_tail_groups_run **out) {
    struct qb_tail_groups_run *r = QB_NEW(cx, qb_alloc(cx, 1, sizeof *r));
    const size_t n_groups = (size_t)groups->found->n_groups;
    const size_t n_values = (size_t)groups->graph->n_values;
    *out = r;
    *r = (struct qb_tail_groups_run){.groups = groups, .workers = workers};
    QB_TRY_NEW(cx, r->of = qb_alloc(cx, n_groups, sizeof *r->of));
    QB_TRY_NEW(cx, r->memory = qb_alloc(cx, n_values, sizeof *r->memory));
    return QB_OK;
}

static bool same_sizes(const own *o, const qb_late_group *group, const qb_graph *graph) {
    for (int32_t k = 0; o->in && k < group->n_in; k++)
        if (!qb_shape_equal(&o->in[k], &graph->values[group->in[k]].shape)) return false;
    return o->in != NULL;
}

static qb_status remember_sizes(qb_ctx *cx, own *o, const qb_late_group *group,
                                const qb_graph *graph) {
    if (!o->out) QB_TRY_NEW(cx, o->out = qb_alloc(cx, (size_t)group->n_out, sizeof *o->out));
    if (!o->in) QB_TRY_NEW(cx, o->in = qb_alloc(cx, (size_t)group->n_in, sizeof *o->in));
    for (int32_t k = 0; k < group->n_in; k++) o->in[k] = graph->values[group->in[k]].shape;
    return QB_OK;
}

/* The context runs the group for the sizes of now. */
static qb_status make_ready(qb_ctx *cx, struct qb_tail_groups_run *r, int32_t g,
                            const qb_graph *now) {
    const shared *of = &r->groups->of[g];
    own *o = &r->of[g];
    QB_TRY(need_engine(cx, r->groups, g, now));
    QB_FREED qb_shape *shapes = QB_NEW(cx, shapes_of(cx, now, of->input, of->engine->n_inputs));
    QB_TRY(r->groups->engines->prepare(cx, of->engine, r->workers, shapes, &o->context));
    const qb_engine *plan = o->context->engine;
    for (int32_t k = 0; k < plan->n_outputs; k++) {
        qb_value_memory *memory = &r->memory[r->groups->found->group[g].out[k]];
        QB_TRY(qb_value_memory_reserve(cx, memory, qb_desc_bytes(&plan->outputs[k].desc)));
        o->out[k] = memory->data;
    }
    return QB_OK;
}

/* For other sizes than the last ones: an engine where that pays. */
static qb_status plan(qb_ctx *cx, struct qb_tail_groups_run *r, int32_t g, qb_graph *graph) {
    struct qb_tail_groups *t = r->groups;
    const qb_late_group *group = &t->found->group[g];
    own *o = &r->of[g];
    const qb_late_extent all = qb_late_group_measure(cx, graph, group);
    o->planned = false;
    for (int32_t i = 0; i < group->n_nodes && all.known; i++)
        QB_TRY(qb_graph_check_most(cx, graph, group->node[i], t->most));
    QB_TRY(remember_sizes(cx, o, group, graph));
    if (!all.known || all.largest > QB_TAIL_VALUE_MAX ||
        (all.work < WORK_LEAST && all.elements < ELEMENTS_LEAST))
        return QB_OK;
    o->planned = make_ready(cx, r, g, graph) == QB_OK;
    return o->planned || is_told_by_nodes(cx) ? QB_OK : cx->code;
}

/* Its outputs are constants of this run. */
static qb_status run_planned(qb_ctx *cx, const qb_tail_engines *engines, const own *o,
                             const shared *of, const qb_late_group *group, qb_graph *graph) {
    const qb_engine *engine = o->context->engine;
    QB_FREED const void **inputs =
        QB_NEW(cx, qb_alloc(cx, (size_t)engine->n_inputs, sizeof *inputs));
    for (int32_t i = 0; i < engine->n_inputs; i++) inputs[i] = graph->values[of->input[i]].data;
    QB_TRY(engines->run(cx, o->context, inputs, o->out));
    for (int32_t k = 0; k < group->n_out; k++) {
        const qb_desc *desc = &engine->outputs[k].desc;
        qb_value *value = &graph->values[group->out[k]];
        value->dtype = desc->dtype;
        value->shape = desc->shape;
        value->bytes = qb_desc_bytes(desc);
        value->data = o->out[k];
    }
    return QB_OK;
}

/* By the definition, whose results are rounded as the quantized values are that they stand for. */
static qb_status run_node(qb_ctx *cx, const struct qb_tail_groups_run *r, qb_graph *graph,
                          int32_t node) {
    QB_TRY(qb_graph_evaluate_node(cx, graph, node, QB_TAIL_VALUE_MAX, r->memory));
    qb_node_round(r->groups->graph, node, graph);
    return qb_graph_check_most(cx, graph, node, r->groups->most);
}

static qb_status run_group(qb_ctx *cx, struct qb_tail_groups_run *r, int32_t g, qb_graph *graph) {
    const qb_late_group *group = &r->groups->found->group[g];
    const own *o = &r->of[g];
    if (!same_sizes(o, group, graph)) QB_TRY(plan(cx, r, g, graph));
    if (o->planned) return run_planned(cx, r->groups->engines, o, &r->groups->of[g], group, graph);
    for (int32_t i = 0; i < group->n_nodes; i++) QB_TRY(run_node(cx, r, graph, group->node[i]));
    return QB_OK;
}

qb_status qb_tail_groups_run(qb_ctx *cx, struct qb_tail_groups_run *r, qb_graph *graph) {
    const qb_late_groups *found = r->groups->found;
    for (int32_t s = 0; s < found->n_steps; s++)
        QB_TRY(found->step[s].node >= 0 ? run_node(cx, r, graph, found->step[s].node)
                                        : run_group(cx, r, found->step[s].group, graph));
    return QB_OK;
}

int32_t qb_tail_groups_planned(const struct qb_tail_groups_run *r) {
    int32_t n = 0;
    for (int32_t g = 0; g < r->groups->found->n_groups; g++) n += r->of[g].planned;
    return n;
}
