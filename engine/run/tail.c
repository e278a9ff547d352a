#include "engine/run/tail_internal.h"

#include <string.h>

#include "graph/dequantize.h"

struct qb_tail {
    qb_tail_parts parts;
    qb_graph *floats; /* the graph, or where it is quantized, a copy that is not */
    qb_port *output;  /* with the largest shapes */
    int32_t *input;   /* of the graph: the head's output, or -1 - the engine's input */
    qb_arena *arena;  /* texts */
    struct qb_tail_groups *groups;
};

void qb_tail_free(struct qb_tail *tail) {
    if (!tail) return;
    qb_tail_groups_free(tail->groups);
    if (tail->floats != tail->parts.graph) qb_graph_free(tail->floats);
    qb_graph_free(tail->parts.graph);
    qb_arena_free(tail->arena);
    QB_FREE_ALL(tail->output, tail->parts.from, tail->input, tail);
}

static int32_t port_of(const qb_port *ports, int32_t n, const char *name) {
    for (int32_t i = 0; i < n; i++)
        if (strcmp(ports[i].name, name) == 0) return i;
    return -1;
}

/* Where the tail's inputs come from, and their shapes. */
static qb_status find_inputs(qb_ctx *cx, const qb_engine *engine, struct qb_tail *t) {
    const qb_graph *graph = t->parts.graph;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        qb_value *value = &graph->values[graph->inputs[i]];
        const int32_t head = port_of(engine->outputs, engine->n_outputs, value->name);
        const int32_t input = port_of(engine->inputs, engine->n_inputs, value->name);
        if (head < 0 && input < 0)
            return qb_fail(cx, QB_STATUS_INTERNAL, "the engine has no value '%s'", value->name);
        const qb_desc *desc = head >= 0 ? &engine->outputs[head].desc : &engine->inputs[input].desc;
        t->input[i] = head >= 0 ? head : -1 - input;
        value->shape = desc->shape;
        if (value->q.n == 0) value->dtype = desc->dtype;
    }
    return QB_OK;
}

static qb_status name_outputs(qb_ctx *cx, const qb_engine *engine, const qb_graph *bounds,
                              struct qb_tail *t) {
    for (int32_t i = 0; i < t->parts.n_outputs; i++) {
        const int32_t from = t->parts.from[i];
        const qb_value *value = from < 0 ? &bounds->values[bounds->outputs[-1 - from]] : NULL;
        qb_port *port = &t->output[i];
        char sizes[128];
        QB_TRY_NEW(cx, port->name = qb_arena_strdup(
                           cx, t->arena, value ? value->name : engine->outputs[from].name));
        port->desc = value ? (qb_desc){.dtype = value->dtype, .shape = value->shape}
                           : engine->outputs[from].desc;
        if (value &&
            (!qb_shape_known(&value->shape) || qb_desc_bytes(&port->desc) > QB_TAIL_VALUE_MAX))
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "output '%s': nothing bounds its size, which depends on the input's "
                           "values: add --max-size %s=%s, with your largest size for each ?",
                           port->name, port->name,
                           qb_shape_text(&value->shape, sizes, sizeof sizes));
    }
    return QB_OK;
}

static qb_status make_tail(qb_ctx *cx, const qb_engine *engine, const qb_tail_engines *engines,
                           struct qb_tail *t) {
    qb_tail_parts *p = &t->parts;
    QB_RELEASED(qb_graph_free_at) qb_graph *bounds = NULL;
    QB_TRY(qb_arena_create(cx, &t->arena));
    if (p->max_sizes) QB_TRY_NEW(cx, p->max_sizes = qb_arena_strdup(cx, t->arena, p->max_sizes));
    QB_TRY_NEW(cx, t->output = qb_alloc(cx, (size_t)p->n_outputs, sizeof *t->output));
    QB_TRY_NEW(cx, t->input = qb_alloc(cx, (size_t)p->graph->n_inputs, sizeof *t->input));
    QB_TRY(find_inputs(cx, engine, t));
    QB_TRY(qb_graph_sweep(cx, p->graph));
    t->floats = p->graph;
    if (qb_graph_is_quantized(p->graph)) QB_TRY(qb_graph_dequantize(cx, p->graph, &t->floats));
    QB_TRY(qb_tail_groups_create(cx, engine, p, t->floats, engines, &t->groups));
    QB_TRY(qb_graph_clone_sharing(cx, t->floats, &bounds));
    QB_TRY(qb_graph_bound(cx, bounds, qb_tail_most(t->groups)));
    return name_outputs(cx, engine, bounds, t);
}

qb_status qb_tail_attach(qb_ctx *cx, qb_engine *engine, const qb_tail_parts *parts,
                         const qb_tail_engines *engines) {
    struct qb_tail *t = qb_alloc(cx, 1, sizeof *t);
    if (!t) {
        qb_graph_free(parts->graph);
        qb_free(parts->from);
        return cx->code;
    }
    t->parts = *parts;
    const qb_status status = make_tail(cx, engine, engines, t);
    if (status == QB_OK)
        engine->tail = t;
    else
        qb_tail_free(t);
    return status;
}

const qb_tail_parts *qb_tail_parts_of(const struct qb_tail *tail) { return &tail->parts; }
int32_t qb_tail_n_outputs(const struct qb_tail *tail) { return tail->parts.n_outputs; }
const qb_port *qb_tail_output(const struct qb_tail *tail, int32_t i) { return &tail->output[i]; }

/* ---- a run ----------------------------------------------------------------------------------- */

void qb_tail_run_free(qb_tail_run *run) {
    if (!run) return;
    for (int32_t i = 0; run->head && i < run->engine->n_outputs; i++) qb_free(run->head[i]);
    qb_tail_groups_run_free(run->groups);
    QB_FREE_ALL(run->head, run->shape, run);
}

qb_status qb_tail_run_create(qb_ctx *cx, const qb_engine *engine, qb_workers *workers,
                             qb_tail_run **out) {
    QB_RELEASED(qb_tail_run_free_at) qb_tail_run *r = QB_NEW(cx, qb_alloc(cx, 1, sizeof *r));
    r->engine = engine;
    QB_TRY_NEW(cx, r->head = qb_alloc(cx, (size_t)engine->n_outputs, sizeof *r->head));
    QB_TRY_NEW(cx,
               r->shape = qb_alloc(cx, (size_t)engine->tail->parts.n_outputs, sizeof *r->shape));
    for (int32_t i = 0; i < engine->n_outputs; i++) {
        const size_t bytes = qb_desc_bytes(&engine->outputs[i].desc) + 1;
        QB_TRY_NEW(cx, r->head[i] = qb_alloc_aligned(cx, 1, bytes));
    }
    for (int32_t i = 0; i < engine->tail->parts.n_outputs; i++)
        r->shape[i] = engine->tail->output[i].desc.shape;
    QB_TRY(qb_tail_groups_run_create(cx, engine->tail->groups, workers, &r->groups));
    *out = QB_MOVE(r);
    return QB_OK;
}

/* The tail's inputs are constants of this run, where they lie. */
static void fix_inputs(const qb_tail_run *r, const void *const *inputs, qb_graph *graph) {
    const struct qb_tail *t = r->engine->tail;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const int32_t from = t->input[i];
        const qb_desc *desc =
            from >= 0 ? &r->engine->outputs[from].desc : &r->engine->inputs[-1 - from].desc;
        qb_value *value = &graph->values[graph->inputs[i]];
        value->dtype = desc->dtype;
        value->shape = desc->shape;
        value->bytes = qb_desc_bytes(desc);
        value->data = from >= 0 ? r->head[from] : inputs[-1 - from];
    }
}

static qb_status give_output(qb_ctx *cx, const qb_tail_run *r, int32_t i, const qb_graph *graph,
                             void *out) {
    const struct qb_tail *t = r->engine->tail;
    const qb_port *port = &t->output[i];
    const size_t capacity = qb_desc_bytes(&port->desc);
    if (t->parts.from[i] >= 0) {
        if (out && capacity > 0) memcpy(out, r->head[t->parts.from[i]], capacity);
        return QB_OK;
    }
    const qb_value *value = &graph->values[graph->outputs[-1 - t->parts.from[i]]];
    char got[128], most[128];
    r->shape[i] = value->shape;
    if (!value->data || value->bytes > capacity)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "output '%s': %s is more than the bound of %s",
                       port->name, qb_shape_text(&value->shape, got, sizeof got),
                       qb_shape_text(&port->desc.shape, most, sizeof most));
    if (!out) return QB_OK;
    if (value->bytes > 0) memcpy(out, value->data, value->bytes);
    if (capacity > value->bytes) memset((char *)out + value->bytes, 0, capacity - value->bytes);
    return QB_OK;
}

qb_status qb_tail_run_nodes(qb_ctx *cx, qb_tail_run *r, const void *const *inputs,
                            void *const *outputs) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_graph_clone_sharing(cx, r->engine->tail->floats, &graph));
    fix_inputs(r, inputs, graph);
    qb_status status = qb_tail_groups_run(cx, r->groups, graph);
    for (int32_t i = 0; i < r->engine->tail->parts.n_outputs && status == QB_OK; i++)
        status = give_output(cx, r, i, graph, outputs ? outputs[i] : NULL);
    return status;
}
