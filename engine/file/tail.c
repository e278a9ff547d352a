/* The TAIL section of engine files: the nodes whose sizes only a run knows. */
#include <string.h>

#include "base/text.h"
#include "engine/file/file_internal.h"
#include "engine/run/tail_internal.h"
#include "engine/tune/tune_internal.h"
#include "graph/store.h"

qb_status qb_file_tail_put(qb_ctx *cx, const qb_engine *engine, qb_strbuf *out) {
    if (!engine->tail) return QB_OK;
    const qb_tail_parts *parts = qb_tail_parts_of(engine->tail);
    const char *sizes = parts->max_sizes ? parts->max_sizes : "";
    const int32_t head[2] = {parts->n_outputs, (int32_t)strlen(sizes)};
    size_t holes, apart;
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    qb_strbuf_addn(out, (const char *)head, sizeof head);
    qb_strbuf_addn(out, (const char *)parts->from, (size_t)head[0] * sizeof *parts->from);
    qb_strbuf_addn(out, sizes, (size_t)head[1]);
    QB_TRY(qb_graph_clone_sharing(cx, parts->graph, &graph));
    QB_TRY(qb_graph_infer(cx, graph)); /* as a reader will find it */
    return qb_graph_store(cx, graph, NULL, out, &holes, &apart);
}

typedef struct reading {
    qb_ctx *cx;
    const char *path, *at, *end;
} reading;

static qb_status damaged(const reading *r, const char *what) {
    return qb_fail(r->cx, QB_STATUS_FORMAT, "%s: damaged engine file: the tail: %s", r->path, what);
}

/* Everything but the graph. Memory: *parts' from and *sizes, also on failure. */
static qb_status get_head(reading *r, qb_tail_parts *parts, char **sizes) {
    int32_t head[2];
    if ((size_t)(r->end - r->at) < sizeof head) return damaged(r, "it ends too early");
    memcpy(head, r->at, sizeof head);
    r->at += sizeof head;
    const size_t left = (size_t)(r->end - r->at), entry = sizeof *parts->from;
    if (head[0] < 0 || head[1] < 0 || (size_t)head[0] > left / entry ||
        (size_t)head[1] > left - (size_t)head[0] * entry)
        return damaged(r, "it ends too early");
    if (head[0] == 0) return damaged(r, "no outputs");
    parts->n_outputs = head[0];
    QB_TRY_NEW(r->cx, parts->from = qb_alloc(r->cx, (size_t)head[0], entry));
    QB_TRY_NEW(r->cx, *sizes = qb_alloc(r->cx, (size_t)head[1] + 1, 1));
    memcpy(parts->from, r->at, (size_t)head[0] * entry);
    r->at += (size_t)head[0] * entry;
    memcpy(*sizes, r->at, (size_t)head[1]);
    r->at += head[1];
    if (strlen(*sizes) != (size_t)head[1] || !qb_text_is_clean(*sizes))
        return damaged(r, "largest sizes that are no text");
    parts->max_sizes = head[1] > 0 ? *sizes : NULL;
    return QB_OK;
}

/* Is this input of the graph the engine's value of that name, as it is there? */
static bool is_given(const qb_engine *e, const qb_graph *graph, int32_t input) {
    const qb_value *value = &graph->values[graph->inputs[input]];
    for (int32_t i = 0; i < e->n_outputs + e->n_inputs; i++) {
        const qb_port *port = i < e->n_outputs ? &e->outputs[i] : &e->inputs[i - e->n_outputs];
        if (strcmp(port->name, value->name) == 0)
            return port->desc.dtype == qb_graph_input_type(graph, input) &&
                   qb_shape_equal(&port->desc.shape, &value->shape);
    }
    return false;
}

static qb_status check(const reading *r, const qb_engine *e, const qb_tail_parts *parts) {
    const qb_graph *graph = parts->graph;
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (!is_given(e, graph, i)) return damaged(r, "an input that the engine does not give");
    for (int32_t i = 0; i < parts->n_outputs; i++)
        if (parts->from[i] >= e->n_outputs || parts->from[i] < -graph->n_outputs)
            return damaged(r, "an output that is not there");
    return QB_OK;
}

qb_status qb_file_tail_get(qb_ctx *cx, const char *path, const void *bytes, size_t size,
                           qb_engine *engine) {
    reading r = {cx, path, bytes, (const char *)bytes + size};
    const qb_store_memory none = {0};
    qb_tail_parts parts = {0};
    char *sizes = NULL;
    qb_status status = QB_OK;
    if (size == 0) return QB_OK;
    QB_GO(get_head(&r, &parts, &sizes));
    QB_GO(qb_graph_restore(cx, path, r.at, (size_t)(r.end - r.at), &none, &parts.graph));
    QB_GO(check(&r, engine, &parts));
    status = qb_tail_attach(cx, engine, &parts, &qb_tail_group_engines);
    parts = (qb_tail_parts){0};
    if (status != QB_OK) status = qb_wrap(cx, "%s", path);
out:
    qb_graph_free(parts.graph);
    QB_FREE_ALL(parts.from, sizes);
    return status;
}
