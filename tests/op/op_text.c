#include "op_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph_internal.h"
#include "kernels/ref.h"

#define TEXT_MAX 256

static const char symbols[] = "NMK";

static int64_t dim_of(const char *text) {
    const char *symbol = strchr(symbols, *text);
    if (*text == '?') return -1;
    return symbol ? -2 - (symbol - symbols) : strtoll(text, NULL, 10);
}

static qb_dtype type_of(const char *text, size_t n) {
    for (int i = 0; i < QB_DTYPE_COUNT; i++)
        if (strlen(qb_dtype_text((qb_dtype)i)) == n &&
            strncmp(qb_dtype_text((qb_dtype)i), text, n) == 0)
            return (qb_dtype)i;
    fail_msg("no type in '%s'", text);
    return QB_DTYPE_NONE;
}

static qb_shape shape_of(const char *text) {
    qb_shape shape = {.rank = 0};
    if (*text == '*') shape.rank = -1;
    while (*text && *text != '*') {
        shape.dim[shape.rank++] = dim_of(text);
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return shape;
}

static int32_t add_input(qb_ctx *cx, qb_graph *graph, const char *text) {
    if (strcmp(text, "-") == 0) return -1;
    bool constant = *text == '=';
    if (constant) text++;
    const char *colon = strchr(text, ':');
    qb_dtype dtype = colon ? type_of(text, (size_t)(colon - text)) : QB_DTYPE_S64;
    if (colon) text = colon + 1;
    if (!constant) {
        qb_shape shape = shape_of(text);
        int32_t id = qb_graph_add_value(cx, graph, "x", dtype, &shape);
        assert_true(id >= 0);
        assert_ok(cx, qb_graph_add_input(cx, graph, id));
        return id;
    }
    char data[64 * 8];
    qb_shape list = {.rank = 1};
    for (int64_t n = 0; *text; n++) {
        char *end;
        qb_number_put(dtype, data, n, strtod(text, &end));
        text = *end == ',' ? end + 1 : end;
        list.dim[0] = n + 1;
    }
    return qb_graph_add_constant(cx, graph, "list", dtype, &list, data);
}

static void set_attr(qb_ctx *cx, qb_graph *graph, char *text) {
    char *value = strchr(text, '=');
    assert_non_null(value);
    *value++ = '\0';
    const qb_attr_desc *desc = qb_attr_find(graph->nodes[0].op, text);
    if (!desc) fail_msg("%s has no attribute %s", graph->nodes[0].op->name, text);
    void *field = (char *)graph->nodes[0].attrs + desc->offset;
    int32_t n = 1;
    for (const char *c = value; *c; c++) n += *c == ',';
    int64_t *ints = qb_arena_alloc(cx, graph->arena, (size_t)n, sizeof *ints);
    float *floats = qb_arena_alloc(cx, graph->arena, (size_t)n, sizeof *floats);
    char *next = value;
    for (int32_t i = 0; i < n; i++) {
        ints[i] = strtoll(next, NULL, 10);
        floats[i] = strtof(next, NULL);
        next += strcspn(next, ",");
        next += *next == ',';
    }
    switch (desc->type) {
    case QB_ATTR_INT: *(int64_t *)field = ints[0]; break;
    case QB_ATTR_FLOAT: *(float *)field = floats[0]; break;
    case QB_ATTR_STRING: *(const char **)field = qb_arena_strdup(cx, graph->arena, value); break;
    case QB_ATTR_INTS: *(qb_ints *)field = (qb_ints){n, ints}; break;
    case QB_ATTR_FLOATS: *(qb_floats *)field = (qb_floats){n, floats}; break;
    case QB_ATTR_STRINGS:
    case QB_ATTR_TENSOR: fail_msg("attribute %s is no number", text);
    }
}

qb_graph *graph_of(const char *op, const char *inputs, const char *attrs, int32_t n_out,
                   int32_t version) {
    qb_ctx cx;
    qb_graph *graph;
    char text[TEXT_MAX], *rest = text;
    int32_t in[16], out[16], n_in = 0;
    qb_shape unknown = {.rank = -1};
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_graph_create(&cx, &graph));
    for (int i = 0; symbols[i]; i++) qb_graph_add_symbol(&cx, graph, (char[]){symbols[i], 0});
    snprintf(text, sizeof text, "%s", inputs);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word) in[n_in++] = add_input(&cx, graph, word);
    for (int32_t i = 0; i < n_out; i++) {
        out[i] = qb_graph_add_value(&cx, graph, "y", QB_DTYPE_NONE, &unknown);
        assert_ok(&cx, qb_graph_add_output(&cx, graph, out[i]));
    }
    const qb_op *found = qb_op_find(op, "");
    if (!found) fail_msg("no operator %s", op);
    assert_int_equal(qb_graph_add_node(&cx, graph, found, "", in, n_in, out, n_out), 0);
    if (found->attr_size) graph->nodes[0].attrs = qb_attrs_new(&cx, graph->arena, found, version);
    snprintf(text, sizeof text, "%s", attrs);
    rest = text;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word) set_attr(&cx, graph, word);
    return graph;
}

char *dims_text(const qb_shape *shape, char *text, size_t n) {
    size_t used = 0;
    text[0] = '\0';
    if (shape->rank < 0) snprintf(text, n, "*");
    for (int32_t d = 0; d < shape->rank && used < n; d++) {
        int64_t dim = shape->dim[d];
        const char *comma = d ? "," : "";
        int more = dim <= -2   ? snprintf(text + used, n - used, "%s%c", comma, symbols[-2 - dim])
                   : dim == -1 ? snprintf(text + used, n - used, "%s?", comma)
                               : snprintf(text + used, n - used, "%s%lld", comma, (long long)dim);
        used += (size_t)more;
    }
    return text;
}

void count_up(qb_graph *graph, int32_t id, qb_shape shape) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    int64_t n = qb_shape_count(&shape);
    float *data = qb_arena_alloc(&cx, graph->arena, (size_t)n, sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)i;
    graph->values[id].dtype = QB_DTYPE_F32;
    graph->values[id].shape = shape;
    graph->values[id].data = data;
    graph->values[id].bytes = (size_t)n * sizeof *data;
}

static qb_status evaluate_node(qb_ctx *cx, qb_graph *graph, int32_t index) {
    const qb_node *node = &graph->nodes[index];
    qb_tensor in[16] = {0}, out[16] = {0};
    QB_TRY(qb_infer_node(cx, graph, index));
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0) continue;
        const qb_value *value = &graph->values[node->in[i]];
        assert_non_null(value->data);
        in[i] = qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)value->data);
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        qb_value *value = &graph->values[node->out[i]];
        assert_true(qb_shape_known(&value->shape));
        out[i] = qb_tensor_of(value->dtype, value->shape, NULL);
        value->bytes = qb_desc_bytes(&out[i].desc);
        value->data = out[i].data = qb_arena_alloc(cx, graph->arena, value->bytes, 1);
        if (!out[i].data) return cx->code;
    }
    return node->op->eval(cx, node, in, out);
}

qb_status evaluate_graph(qb_ctx *cx, qb_graph *graph) {
    QB_TRY(qb_graph_sort(cx, graph));
    for (int32_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i].op) QB_TRY(evaluate_node(cx, graph, i));
    return QB_OK;
}
