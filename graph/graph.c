/* Making and changing graphs. */
#include "graph_internal.h"

#include <stdio.h>
#include <string.h>

qb_status qb_graph_create(qb_ctx *cx, qb_graph **out) {
    QB_RELEASED(qb_arena_free_at) qb_arena *arena = NULL;
    QB_TRY(qb_arena_create(cx, &arena));
    qb_graph *graph = QB_NEW(cx, qb_arena_alloc(cx, arena, 1, sizeof *graph));
    QB_TRY_NEW(cx, graph->names = qb_arena_alloc(cx, arena, 1, sizeof *graph->names));
    graph->arena = QB_MOVE(arena);
    graph->name = "main"; /* ONNX wants one */
    graph->source = "";
    graph->opset = QB_GRAPH_OPSET;
    *out = graph;
    return QB_OK;
}

void qb_graph_free(qb_graph *graph) {
    if (graph) qb_arena_free(graph->arena); /* the graph itself lies in it */
}

/* Makes room for one more element of an array in the arena. */
static qb_status reserve(qb_ctx *cx, qb_arena *arena, void *array_pointer, size_t *capacity,
                         int32_t n, size_t size) {
    if ((size_t)n < *capacity) return QB_OK;
    if (n >= INT32_MAX / 2) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "graph: too many elements");
    size_t grown = n < 16 ? 16 : (size_t)n * 2;
    void *array = qb_arena_alloc(cx, arena, grown, size), *old;
    if (!array) return cx->code;
    memcpy(&old, array_pointer, sizeof old);
    if (n) memcpy(array, old, (size_t)n * size);
    memcpy(array_pointer, &array, sizeof array);
    *capacity = grown;
    return QB_OK;
}

qb_status qb_graph_reserve(qb_ctx *cx, qb_graph *graph, int32_t n_values, int32_t n_nodes) {
    const size_t values = (size_t)n_values, nodes = (size_t)n_nodes;
    qb_value *value = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, values, sizeof *value));
    qb_node *node = QB_NEW(cx, qb_arena_alloc(cx, graph->arena, nodes, sizeof *node));
    graph->values = value;
    graph->nodes = node;
    graph->cap_values = values;
    graph->cap_nodes = nodes;
    return qb_names_reserve(cx, graph->arena, graph->names, values);
}

int32_t qb_graph_add_named(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                           const qb_shape *shape) {
    if (reserve(cx, graph->arena, &graph->values, &graph->cap_values, graph->n_values,
                sizeof *graph->values))
        return -1;
    if (qb_names_put(cx, graph->arena, graph->names, name, graph->n_values)) return -1;
    qb_value *value = &graph->values[graph->n_values];
    *value = (qb_value){.name = name, .dtype = dtype, .q = {.axis = -1}};
    if (shape)
        value->shape = *shape;
    else
        value->shape.rank = -1;
    return graph->n_values++;
}

int32_t qb_graph_add_value(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                           const qb_shape *shape) {
    const char *unique = qb_names_unique(cx, graph->arena, graph->names, name);
    return unique ? qb_graph_add_named(cx, graph, unique, dtype, shape) : -1;
}

void *qb_graph_new_constant(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                            const qb_shape *shape, int32_t *id) {
    qb_desc desc = {.dtype = dtype, .layout = QB_LAYOUT_ROW, .shape = *shape};
    size_t bytes = qb_desc_bytes(&desc);
    if (bytes == SIZE_MAX || !qb_dtype_size(dtype)) {
        char text[128];
        qb_fail(cx, QB_STATUS_INVALID,
                "constant '%s': expected a type and a known shape, got %s %s", name,
                qb_dtype_text(dtype), qb_shape_text(shape, text, sizeof text));
        return NULL;
    }
    void *data = qb_arena_alloc(cx, graph->arena, bytes ? bytes : 1, 1);
    if (!data) return NULL;
    int32_t value = qb_graph_add_value(cx, graph, name, dtype, shape);
    if (value < 0) return NULL;
    graph->values[value].data = data;
    graph->values[value].bytes = bytes;
    *id = value;
    return data;
}

int32_t qb_graph_add_constant(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                              const qb_shape *shape, const void *data) {
    int32_t id;
    void *copy = qb_graph_new_constant(cx, graph, name, dtype, shape, &id);
    if (!copy) return -1;
    if (graph->values[id].bytes) memcpy(copy, data, graph->values[id].bytes);
    return id;
}

/* The lists carry no capacity, so each addition copies; files know their lengths beforehand. */
static qb_status append_id(qb_ctx *cx, qb_arena *arena, int32_t **list, int32_t *n, int32_t id) {
    int32_t *larger = QB_NEW(cx, qb_arena_alloc(cx, arena, (size_t)*n + 1, sizeof *larger));
    if (*n) memcpy(larger, *list, (size_t)*n * sizeof *larger);
    larger[(*n)++] = id;
    *list = larger;
    return QB_OK;
}

qb_status qb_graph_add_input(qb_ctx *cx, qb_graph *graph, int32_t value) {
    return append_id(cx, graph->arena, &graph->inputs, &graph->n_inputs, value);
}

qb_status qb_graph_add_output(qb_ctx *cx, qb_graph *graph, int32_t value) {
    QB_TRY(append_id(cx, graph->arena, &graph->outputs, &graph->n_outputs, value));
    graph->values[value].is_output = true;
    return QB_OK;
}

static void flag_outputs(qb_graph *graph, bool are) {
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] >= 0) graph->values[graph->outputs[i]].is_output = are;
}

void qb_graph_set_outputs(qb_graph *graph, int32_t *values, int32_t n) {
    flag_outputs(graph, false);
    graph->outputs = values;
    graph->n_outputs = n;
    flag_outputs(graph, true);
}

void qb_graph_replace_output(qb_graph *graph, int32_t from, int32_t to) {
    if (from == to || !graph->values[from].is_output) return;
    for (int32_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] == from) graph->outputs[i] = to;
    graph->values[from].is_output = false;
    graph->values[to].is_output = true;
}

int64_t qb_graph_add_symbol(qb_ctx *cx, qb_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->n_symbols; i++)
        if (strcmp(graph->symbols[i], name) == 0) return -2 - (int64_t)i;
    const char *copy = qb_arena_strdup(cx, graph->arena, name);
    if (!copy) return 0;
    const char **list =
        qb_arena_alloc(cx, graph->arena, (size_t)graph->n_symbols + 1, sizeof *list);
    if (!list) return 0;
    if (graph->n_symbols) memcpy(list, graph->symbols, (size_t)graph->n_symbols * sizeof *list);
    list[graph->n_symbols] = copy;
    graph->symbols = list;
    return -2 - (int64_t)graph->n_symbols++;
}

qb_status qb_graph_rename(qb_ctx *cx, qb_graph *graph, int32_t value, const char *name) {
    qb_value *values = graph->values;
    if (strcmp(values[value].name, name) == 0) return QB_OK;
    const char *copy = QB_NEW(cx, qb_arena_strdup(cx, graph->arena, name));
    int32_t holder = qb_names_find(graph->names, name);
    if (holder >= 0) {
        const char *other = QB_NEW(cx, qb_names_unique(cx, graph->arena, graph->names, name));
        QB_TRY(qb_names_put(cx, graph->arena, graph->names, other, holder));
        qb_names_remove(graph->names, name);
        values[holder].name = other;
    }
    QB_TRY(qb_names_put(cx, graph->arena, graph->names, copy, value));
    qb_names_remove(graph->names, values[value].name);
    values[value].name = copy;
    return QB_OK;
}

int32_t qb_graph_add_node(qb_ctx *cx, qb_graph *graph, const struct qb_op *op, const char *name,
                          const int32_t *in, int32_t n_in, const int32_t *out, int32_t n_out) {
    if (reserve(cx, graph->arena, &graph->nodes, &graph->cap_nodes, graph->n_nodes,
                sizeof *graph->nodes))
        return -1;
    qb_node node = {.op = op, .n_in = n_in, .n_out = n_out};
    node.name = name && *name ? qb_arena_strdup(cx, graph->arena, name) : "";
    node.in = qb_arena_pack(cx, graph->arena, (size_t)n_in + (size_t)n_out, sizeof *node.in);
    if (!node.name || !node.in) return -1;
    node.out = node.in + n_in;
    if (n_in) memcpy(node.in, in, (size_t)n_in * sizeof *in);
    if (n_out) memcpy(node.out, out, (size_t)n_out * sizeof *out);
    if (op->attr_size) {
        node.attrs = qb_attrs_new(cx, graph->arena, op, QB_GRAPH_OPSET);
        if (!node.attrs) return -1;
    }
    graph->nodes[graph->n_nodes] = node;
    return graph->n_nodes++;
}

void qb_graph_kill_node(qb_graph *graph, int32_t node) { graph->nodes[node].op = NULL; }

void qb_graph_replace_uses(qb_graph *graph, int32_t from, int32_t to) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        const qb_node *node = &graph->nodes[i];
        for (int32_t k = 0; node->op && k < node->n_in; k++)
            if (node->in[k] == from) node->in[k] = to;
    }
    qb_graph_replace_output(graph, from, to);
}

int32_t qb_graph_find_value(const qb_graph *graph, const char *name) {
    return qb_names_find(graph->names, name);
}

bool qb_graph_is_input(const qb_graph *graph, int32_t value) {
    for (int32_t i = 0; i < graph->n_inputs; i++)
        if (graph->inputs[i] == value) return true;
    return false;
}

qb_dtype qb_graph_input_type(const qb_graph *graph, int32_t i) {
    const qb_value *input = &graph->values[graph->inputs[i]];
    return input->q.n > 0 ? QB_DTYPE_F32 : input->dtype;
}

bool qb_graph_is_output(const qb_graph *graph, int32_t value) {
    return value >= 0 && graph->values[value].is_output;
}

char *qb_node_text(const qb_graph *graph, int32_t node, char *text, size_t n) {
    const qb_node *it = &graph->nodes[node];
    const char *op = it->op ? it->op->name : "(removed)";
    if (*it->name)
        snprintf(text, n, "node %d %s '%.80s'", (int)node, op, it->name);
    else
        snprintf(text, n, "node %d %s", (int)node, op);
    return text;
}
