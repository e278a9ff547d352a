/* f16 and bf16 inside a graph become f32: processors have kernels, calibration and quantization for
 * that, and a GPU's engine chooses its own precision. Graph inputs and outputs keep their types,
 * and a Cast that the model itself has to 16 bits still rounds. */
#include <string.h>

#include "graph/passes_internal.h"

typedef struct widener {
    qb_rewrite rw;
    int32_t *wide; /* by value: the f32 value that holds the same numbers, -1: none yet */
    size_t capacity;
    int32_t known; /* values that `wide` has an entry for */
} widener;

static bool is_half(const qb_graph *graph, int32_t value) {
    return value >= 0 && qb_dtype_is_half(graph->values[value].dtype);
}

static qb_status note(widener *w, int32_t value, int32_t wide) {
    const int32_t n = w->rw.graph->n_values;
    QB_TRY(qb_grow(w->rw.cx, &w->wide, &w->capacity, (size_t)n, sizeof *w->wide));
    while (w->known < n) w->wide[w->known++] = -1;
    w->wide[value] = wide;
    return QB_OK;
}

/* A new value with a Cast from `from`. */
static qb_status cast(widener *w, int32_t from, qb_dtype dtype, const char *suffix, int32_t *out) {
    qb_rewrite *rw = &w->rw;
    QB_TRY(qb_rewrite_value(rw, from, suffix, &rw->graph->values[from].shape, out));
    rw->graph->values[*out].dtype = dtype;
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Cast", ""), &from, 1, *out));
    return qb_node_set_int(rw, rw->graph->n_nodes - 1, "to", qb_dtype_to_onnx(dtype));
}

static qb_status widen_input(widener *w, int32_t node, int32_t i) {
    const int32_t value = w->rw.graph->nodes[node].in[i];
    int32_t wide = value < w->known ? w->wide[value] : -1;
    if (wide < 0) {
        QB_TRY(cast(w, value, QB_DTYPE_F32, "_f32", &wide));
        QB_TRY(note(w, value, wide));
    }
    w->rw.graph->nodes[node].in[i] = wide;
    w->rw.n_changes++;
    return QB_OK;
}

/* The node writes f32; whoever still wants 16 bits reads a Cast of it. Inner values keep their
 * names in f32, outputs of the graph in 16 bits. */
static qb_status widen_output(widener *w, int32_t node, int32_t i) {
    qb_graph *graph = w->rw.graph;
    const int32_t value = graph->nodes[node].out[i];
    const qb_dtype dtype = graph->values[value].dtype;
    const bool leaves = qb_graph_is_output(graph, value);
    int32_t wide = value, narrow = value;
    if (leaves) {
        QB_TRY(qb_rewrite_value(&w->rw, value, "_f32", &graph->values[value].shape, &wide));
        graph->nodes[node].out[i] = wide;
        QB_TRY(qb_rewrite_append(&w->rw, qb_op_find("Cast", ""), &wide, 1, narrow));
        QB_TRY(qb_node_set_int(&w->rw, graph->n_nodes - 1, "to", qb_dtype_to_onnx(dtype)));
    } else {
        const int32_t before = graph->n_nodes;
        QB_TRY(cast(w, value, dtype, "_half", &narrow));
        qb_graph_replace_uses(graph, value, narrow);
        graph->nodes[before].in[0] = value;
    }
    graph->values[wide].dtype = QB_DTYPE_F32;
    w->rw.n_changes++;
    return note(w, narrow, wide);
}

/* An attribute says the type of the outputs, whatever the inputs are. */
static bool says_type(const qb_node *node) {
    static const char *const names[] = {"to", "dtype", "output_dtype", "output_datatype"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (qb_attr_int(node, names[i], 0) != 0) return true;
    return qb_node_is(node, "ConstantOfShape");
}

static bool is_copy_to_f32(const qb_node *node) {
    return qb_node_is(node, "Cast") && qb_attr_int(node, "to", 0) == qb_dtype_to_onnx(QB_DTYPE_F32);
}

static qb_status widen(widener *w, int32_t node) {
    qb_graph *graph = w->rw.graph;
    const qb_node *n = &graph->nodes[node];
    if (!n->op || n->op->of_plugin || qb_node_is(n, "BitCast")) return QB_OK;
    const int32_t n_in = n->n_in, n_out = n->n_out;
    const bool like = qb_node_is(n, "CastLike"); /* its second input is there for its type alone */
    const bool keeps_outputs = says_type(n) || like;
    const bool follows = is_copy_to_f32(n); /* only where there is f32 to copy */
    for (int32_t i = 0; i < (like ? 1 : n_in); i++) {
        const int32_t value = graph->nodes[node].in[i];
        if (!is_half(graph, value) || (follows && (value >= w->known || w->wide[value] < 0)))
            continue;
        QB_TRY(widen_input(w, node, i));
    }
    for (int32_t i = 0; i < n_out && !keeps_outputs; i++)
        if (is_half(graph, graph->nodes[node].out[i])) QB_TRY(widen_output(w, node, i));
    return QB_OK;
}

static qb_status run(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    widener w = {.rw = {.cx = cx, .graph = graph}};
    const int32_t n = graph->n_nodes;
    qb_status status = QB_OK;
    for (int32_t i = 0; i < n && status == QB_OK; i++) status = widen(&w, i);
    if (status == QB_OK && w.rw.unsorted) status = qb_graph_sort(cx, graph);
    qb_free(w.wide);
    *n_changes = w.rw.n_changes;
    return status;
}

const qb_pass qb_pass_widen_half = {
    "widen-half", "computes f16 and bf16 in f32, which has kernels and can be quantized", run};
