/* Nodes of a tail that do much: each has an engine of its own for the shapes of the last run. */
#include <pthread.h>
#include <string.h>

#include "engine/plan/plan_internal.h"
#include "engine/run/tail_internal.h"
#include "graph/op.h"

/* An engine pays from so many multiplications, or elements in and out, on. */
#define WORK_LEAST 1e6
#define ELEMENTS_LEAST (1 << 18)

typedef struct planned {
    qb_engine *engine;
    qb_shape *in; /* [n_in of the node] that it is for */
    int32_t refs; /* of runs, and of the table */
} planned;

struct qb_tail_nodes {
    const qb_graph *graph; /* the tail's */
    qb_build_spec spec;
    const qb_tail_engines *engines;
    pthread_mutex_t lock; /* of the table */
    planned **of;         /* [n_nodes] NULL: none yet */
    bool *plain;          /* [n_nodes] no kernel runs it */
    qb_shape *most;       /* [n_values] told; rank -1: not; NULL: none is */
};

static void release(struct qb_tail_nodes *t, planned *p) {
    if (!p) return;
    pthread_mutex_lock(&t->lock);
    const bool last = --p->refs == 0;
    pthread_mutex_unlock(&t->lock);
    if (!last) return;
    t->engines->free(p->engine);
    qb_free(p->in);
    qb_free(p);
}

void qb_tail_nodes_free(struct qb_tail_nodes *t) {
    if (!t) return;
    for (int32_t i = 0; t->of && i < t->graph->n_nodes; i++) release(t, t->of[i]);
    pthread_mutex_destroy(&t->lock);
    qb_free(t->of);
    qb_free(t->plain);
    qb_free(t->most);
    qb_free(t);
}

qb_status qb_tail_nodes_create(qb_ctx *cx, const qb_engine *head, const qb_graph *graph,
                               const qb_tail_engines *engines, struct qb_tail_nodes **out) {
    struct qb_tail_nodes *t = QB_NEW(cx, qb_alloc(cx, 1, sizeof *t));
    pthread_mutex_init(&t->lock, NULL);
    t->graph = graph;
    t->engines = engines;
    t->spec = (qb_build_spec){.backends = head->device ? NULL : head->plan->spec.backends,
                              .threads = head->plan->spec.threads};
    t->of = qb_alloc(cx, (size_t)graph->n_nodes, sizeof *t->of);
    t->plain = qb_alloc(cx, (size_t)graph->n_nodes, sizeof *t->plain);
    if (t->of && t->plain) {
        *out = t;
        return QB_OK;
    }
    qb_tail_nodes_free(t);
    return cx->code;
}

/* ---- sizes that are told --------------------------------------------------------------------- */

const qb_shape *qb_tail_most(const struct qb_tail_nodes *nodes) { return nodes->most; }

qb_status qb_tail_nodes_limit(qb_ctx *cx, struct qb_tail_nodes *t, const char *max_sizes) {
    if (!max_sizes) return QB_OK;
    t->most = qb_alloc(cx, (size_t)t->graph->n_values, sizeof *t->most);
    return t->most ? qb_graph_parse_most(cx, t->graph, max_sizes, t->most) : cx->code;
}

static bool is_within(const qb_shape *got, const qb_shape *most) {
    if (got->rank != most->rank) return qb_shape_count(got) <= qb_shape_count(most);
    for (int32_t d = 0; d < got->rank; d++)
        if (got->dim[d] > most->dim[d]) return false;
    return true;
}

static qb_status check_within(qb_ctx *cx, const struct qb_tail_nodes *t, const qb_node *node,
                              const qb_tensor *out) {
    for (int32_t k = 0; t->most && k < node->n_out; k++) {
        const qb_shape *most = node->out[k] >= 0 ? &t->most[node->out[k]] : NULL;
        char got[128], told[128];
        if (!most || most->rank < 0 || is_within(&out[k].desc.shape, most)) continue;
        return qb_fail(
            cx, QB_STATUS_UNSUPPORTED, "output '%s' is %s here, more than the %s of --max-size",
            t->graph->values[node->out[k]].name, qb_shape_text(&out[k].desc.shape, got, sizeof got),
            qb_shape_text(most, told, sizeof told));
    }
    return QB_OK;
}

/* ---- one engine ------------------------------------------------------------------------------ */

static bool is_for(const planned *p, const qb_node *node, const qb_tensor *in) {
    for (int32_t k = 0; k < node->n_in; k++)
        if (node->in[k] >= 0 && !qb_shape_equal(&p->in[k], &in[k].desc.shape)) return false;
    return true;
}

static bool is_of_kernels(const qb_engine *engine) {
    for (int32_t s = 0; s < engine->n_steps; s++)
        if (engine->steps[s].kind == QB_STEP_NODE) return false;
    return !engine->tail;
}

/* *out stays NULL where no kernel runs the node. */
static qb_status build(qb_ctx *cx, const struct qb_tail_nodes *t, int32_t node, const qb_tensor *in,
                       planned **out) {
    const qb_node *it = &t->graph->nodes[node];
    QB_RELEASED(qb_graph_free_at) qb_graph *alone = NULL;
    QB_FREED qb_shape *shapes = NULL;
    qb_build_spec spec = t->spec;
    qb_status status = QB_OK;
    planned *p = QB_NEW(cx, qb_alloc(cx, 1, sizeof *p));
    QB_GO_NEW(cx, p->in = qb_alloc(cx, (size_t)it->n_in, sizeof *p->in));
    for (int32_t k = 0; k < it->n_in; k++) p->in[k] = in[k].desc.shape;
    QB_GO(qb_graph_isolate(cx, t->graph, node, in, &alone));
    QB_GO_NEW(cx, shapes = qb_alloc(cx, (size_t)alone->n_inputs, sizeof *shapes));
    for (int32_t i = 0; i < alone->n_inputs; i++) shapes[i] = alone->values[alone->inputs[i]].shape;
    spec.input_shapes = shapes;
    if (t->engines->build(cx, alone, &spec, &p->engine) != QB_OK) {
        status = cx->code == QB_STATUS_UNSUPPORTED ? QB_OK : cx->code;
        if (status == QB_OK) qb_ctx_clear(cx);
    } else if (is_of_kernels(p->engine)) {
        p->refs = 1;
        *out = QB_MOVE(p);
    }
out:
    if (p) {
        if (p->engine) t->engines->free(p->engine);
        qb_free(p->in);
        qb_free(p);
    }
    return status;
}

/* The engine for these shapes, held; NULL: there is none. */
static qb_status acquire(qb_ctx *cx, struct qb_tail_nodes *t, int32_t node, const qb_tensor *in,
                         planned **out) {
    planned *before = NULL;
    qb_status status = QB_OK;
    pthread_mutex_lock(&t->lock);
    planned *p = t->of[node];
    if (!t->plain[node] && (!p || !is_for(p, &t->graph->nodes[node], in))) {
        planned *made = NULL;
        status = build(cx, t, node, in, &made);
        t->plain[node] = status == QB_OK && !made;
        if (made) {
            before = p;
            t->of[node] = made;
        }
        p = made;
    }
    if (t->plain[node]) p = NULL;
    if (p) p->refs++;
    pthread_mutex_unlock(&t->lock);
    release(t, before);
    *out = p;
    return status;
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* The engine's inputs are those of the node that are not constant, each once. */
static qb_status run(qb_ctx *cx, const struct qb_tail_nodes *t, int32_t node, const qb_engine *e,
                     const qb_tensor *in, const qb_tensor *out) {
    const qb_node *it = &t->graph->nodes[node];
    QB_FREED const void **inputs = QB_NEW(cx, qb_alloc(cx, (size_t)e->n_inputs, sizeof *inputs));
    QB_FREED void **outputs = QB_NEW(cx, qb_alloc(cx, (size_t)e->n_outputs, sizeof *outputs));
    for (int32_t i = 0; i < e->n_inputs; i++)
        for (int32_t k = 0; k < it->n_in; k++)
            if (it->in[k] >= 0 && strcmp(t->graph->values[it->in[k]].name, e->inputs[i].name) == 0)
                inputs[i] = in[k].data;
    for (int32_t k = 0, n = 0; k < it->n_out; k++)
        if (it->out[k] >= 0) outputs[n++] = out[k].data;
    return t->engines->run(cx, e, inputs, outputs);
}

static bool pays(const qb_graph *graph, const qb_node *node, const qb_tensor *in,
                 const qb_tensor *out) {
    int64_t elements = 0;
    if (node->op->kernel.kind == QB_KIND_NODE && !node->op->kernel.function) return false;
    for (int32_t k = 0; k < node->n_in + node->n_out; k++) {
        const qb_tensor *tensor = k < node->n_in ? &in[k] : &out[k - node->n_in];
        const int64_t count = qb_shape_count(&tensor->desc.shape);
        if (tensor->desc.dtype == QB_DTYPE_NONE) continue;
        if (count == 0) return false;
        elements += count;
    }
    return elements >= ELEMENTS_LEAST || qb_node_work(graph, node) >= WORK_LEAST;
}

qb_status qb_tail_run_node(qb_ctx *cx, void *user, const qb_graph *graph, int32_t node,
                           const qb_tensor *in, const qb_tensor *out, bool *done) {
    struct qb_tail_nodes *t = user;
    planned *p;
    QB_TRY(check_within(cx, t, &graph->nodes[node], out));
    if (!pays(graph, &graph->nodes[node], in, out)) return QB_OK;
    QB_TRY(acquire(cx, t, node, in, &p));
    if (!p) return QB_OK;
    const qb_status status = run(cx, t, node, p->engine, in, out);
    release(t, p);
    *done = status == QB_OK;
    return status;
}
