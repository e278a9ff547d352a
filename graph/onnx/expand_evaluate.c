/* What is known of a value while functions, branches and loops are still being expanded: the nodes
 * that lead to it are read into a graph of their own, inferred and folded. */
#include "expand_internal.h"

#define MAX_SLICE 1024             /* nodes that one value may depend on */
#define MAX_WORK ((size_t)1 << 14) /* nodes read in all evaluations of a file */
#define MAX_BYTES                                                                                  \
    ((size_t)16 << 10) /* of a constant that is looked into, and of all that is computed */

/* The nodes that a value depends on, as indices in e->node. */
typedef struct slice {
    int32_t node[MAX_SLICE];
    size_t n;
    qb_onnx_source source[MAX_SLICE];
    qb_onnx_reader reader;
} slice;

static bool in_slice(const slice *s, int32_t node) {
    for (size_t i = 0; i < s->n; i++)
        if (s->node[i] == node) return true;
    return false;
}

/* What no node makes: a constant, with its data, or an input, of which only the shape is known. */
static qb_status add_leaf(qb_ctx *cx, const qb_graph *from, const char *name, qb_graph *to) {
    const int32_t id = qb_graph_find_value(from, name);
    if (id < 0 || qb_graph_find_value(to, name) >= 0) return QB_OK;
    const qb_value *value = &from->values[id];
    qb_shape shape = value->shape;
    for (int32_t d = 0; d < shape.rank; d++)
        if (shape.dim[d] < 0) shape.dim[d] = -1; /* the symbols are those of `from` */
    const int32_t copy = qb_graph_add_value(cx, to, name, value->dtype, &shape);
    if (copy < 0) return cx->code;
    if (value->bytes > MAX_BYTES) return QB_OK; /* only its shape, then */
    to->values[copy].data = value->data;
    to->values[copy].bytes = value->bytes;
    return QB_OK;
}

/* Adds the node that makes a value, or the value itself where none does. */
static qb_status add_maker(qb_ctx *cx, const qb_expander *e, slice *s, const char *name) {
    const int32_t at = qb_names_find(&e->known, name);
    if (at < 0 || (size_t)at >= e->n) return add_leaf(cx, e->reader->graph, name, s->reader.graph);
    if (in_slice(s, at)) return QB_OK;
    if (s->n == MAX_SLICE) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "too much to evaluate");
    s->node[s->n++] = at;
    return QB_OK;
}

/* Breadth first from the value up. */
static qb_status gather(qb_ctx *cx, qb_expander *e, slice *s, const char *name) {
    QB_TRY(add_maker(cx, e, s, name));
    for (size_t i = 0; i < s->n; i++) {
        const Onnx__NodeProto *node = e->node[s->node[i]].proto;
        if (++e->evaluated > MAX_WORK)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "too much to evaluate");
        for (size_t k = 0; k < node->n_input; k++)
            if (*node->input[k]) QB_TRY(add_maker(cx, e, s, node->input[k]));
    }
    for (size_t i = 0; i < s->n; i++) s->source[i] = e->node[s->node[i]];
    return QB_OK;
}

static qb_status evaluate(qb_ctx *cx, qb_expander *e, slice *s, const char *name) {
    int32_t n_folded;
    QB_TRY(qb_graph_create(cx, &s->reader.graph));
    QB_TRY(gather(cx, e, s, name));
    s->reader.partial = true;
    s->reader.model = e->reader->model;
    s->reader.proto = e->reader->proto;
    s->reader.node = s->source;
    s->reader.n_nodes = s->n;
    QB_TRY(qb_onnx_read_expanded(cx, &s->reader));
    QB_TRY(qb_graph_sort(cx, s->reader.graph));
    return qb_graph_fold_within(cx, s->reader.graph, MAX_BYTES, &n_folded);
}

bool qb_expand_evaluate(qb_expander *e, const char *name, qb_value *out, qb_graph **owner) {
    qb_ctx cx; /* a failure only means that nothing is known */
    qb_ctx_child(e->cx, &cx);
    slice *s = qb_alloc(&cx, 1, sizeof *s);
    if (!s) return false;
    const bool good = evaluate(&cx, e, s, name) == QB_OK;
    const int32_t id = good ? qb_graph_find_value(s->reader.graph, name) : -1;
    if (id >= 0) {
        *out = s->reader.graph->values[id];
        *owner = s->reader.graph;
    } else {
        qb_graph_free(s->reader.graph);
    }
    QB_FREE_ALL(s->reader.file_node, s);
    return id >= 0;
}
