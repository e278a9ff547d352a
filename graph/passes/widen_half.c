/* f16 and bf16 inside a graph become f32: processors have kernels, calibration and quantization for
 * that, and a GPU's engine chooses its own precision. Graph inputs and outputs keep their types,
 * and a Cast that the model itself has to 16 bits still rounds. */
#include <string.h>

#include "graph/graph_internal.h"
#include "graph/passes_internal.h"
#include "kernels/ref.h"

typedef struct widener {
    qb_rewrite rw;
    int32_t *twin; /* by value: what holds the same numbers in the other width; -1: none yet */
    qb_dtype *f16; /* by value: the type it had; NONE: it still has it */
    bool *leaves;  /* by value: an output of the graph */
} widener;

static bool is_16bit_float(const qb_graph *graph, int32_t value) {
    return value >= 0 && qb_dtype_is_16bit_float(graph->values[value].dtype);
}

/* A new value with a Cast from `from`. */
static qb_status cast(widener *w, int32_t from, qb_dtype dtype, const char *suffix, int32_t *out) {
    qb_rewrite *rw = &w->rw;
    QB_TRY(qb_rewrite_value(rw, from, suffix, &rw->graph->values[from].shape, out));
    rw->graph->values[*out].dtype = dtype;
    QB_TRY(qb_rewrite_append(rw, qb_op_find("Cast", ""), &from, 1, *out));
    return qb_node_set_int(rw, rw->graph->n_nodes - 1, "to", qb_dtype_to_onnx(dtype));
}

/* The same numbers in f32. */
static qb_status widen_constant(widener *w, int32_t value, int32_t *out) {
    qb_graph *graph = w->rw.graph;
    const qb_value f16 = graph->values[value];
    qb_arena *arena = graph->arena;
    const char *name = qb_arena_format(w->rw.cx, arena, "%s_f32", f16.name);
    float *wide =
        name ? qb_graph_new_constant(w->rw.cx, graph, name, QB_DTYPE_F32, &f16.shape, out) : NULL;
    if (!wide) return w->rw.cx->code;
    for (int64_t i = 0, n = qb_shape_count(&f16.shape); i < n; i++)
        wide[i] = (float)qb_number_get(f16.dtype, f16.data, i);
    return QB_OK;
}

static qb_status make_twin(widener *w, int32_t value, qb_dtype dtype, int32_t *out) {
    if (dtype == QB_DTYPE_F32 && w->rw.graph->values[value].data)
        return widen_constant(w, value, out);
    return cast(w, value, dtype, dtype == QB_DTYPE_F32 ? "_f32" : "_half", out);
}

/* The node reads the other width of its input i, which is made once. */
static qb_status read_twin(widener *w, int32_t node, int32_t i, qb_dtype dtype) {
    const int32_t value = w->rw.graph->nodes[node].in[i];
    if (w->twin[value] < 0) QB_TRY(make_twin(w, value, dtype, &w->twin[value]));
    w->rw.graph->nodes[node].in[i] = w->twin[value];
    return QB_OK;
}

/* Nodes come after those that make their inputs, so that is settled what these are. */
static qb_status widen_input(widener *w, int32_t node, int32_t i, bool as_is, bool follows) {
    const qb_graph *graph = w->rw.graph;
    const int32_t value = graph->nodes[node].in[i];
    if (value < 0) return QB_OK;
    if (w->f16[value] != QB_DTYPE_NONE) {
        w->rw.n_changes += !as_is;
        return as_is ? read_twin(w, node, i, w->f16[value]) : QB_OK;
    }
    if (!is_16bit_float(graph, value) || as_is || (follows && w->twin[value] < 0)) return QB_OK;
    w->rw.n_changes++;
    return read_twin(w, node, i, QB_DTYPE_F32);
}

/* The node writes f32; whoever still wants 16 bits reads a Cast of it. Inner values keep their
 * names in f32, outputs of the graph in 16 bits. */
static qb_status widen_output(widener *w, int32_t node, int32_t i) {
    qb_graph *graph = w->rw.graph;
    const int32_t value = graph->nodes[node].out[i];
    const qb_dtype dtype = graph->values[value].dtype;
    int32_t wide;
    w->rw.n_changes++;
    if (!w->leaves[value]) {
        w->f16[value] = dtype;
        graph->values[value].dtype = QB_DTYPE_F32;
        return QB_OK;
    }
    QB_TRY(qb_rewrite_value(&w->rw, value, "_f32", &graph->values[value].shape, &wide));
    graph->values[wide].dtype = QB_DTYPE_F32;
    graph->nodes[node].out[i] = wide;
    w->twin[value] = wide;
    QB_TRY(qb_rewrite_append(&w->rw, qb_op_find("Cast", ""), &wide, 1, value));
    return qb_node_set_int(&w->rw, graph->n_nodes - 1, "to", qb_dtype_to_onnx(dtype));
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
    if (!n->op) return QB_OK;
    const int32_t n_in = n->n_in, n_out = n->n_out;
    const bool as_is = n->op->of_plugin || qb_node_is(n, "BitCast");
    const bool like = qb_node_is(n, "CastLike"); /* its second input is there for its type alone */
    const bool keeps_outputs = as_is || says_type(n) || like;
    const bool follows = is_copy_to_f32(n); /* only where there is f32 to copy */
    for (int32_t i = 0; i < n_in; i++)
        QB_TRY(widen_input(w, node, i, as_is || (like && i > 0), follows));
    for (int32_t i = 0; i < n_out && !keeps_outputs; i++)
        if (is_16bit_float(graph, graph->nodes[node].out[i])) QB_TRY(widen_output(w, node, i));
    return QB_OK;
}

static qb_status run(qb_ctx *cx, qb_graph *graph, int32_t *n_changes) {
    widener w = {.rw = {.cx = cx, .graph = graph}};
    const int32_t n = graph->n_nodes, n_values = graph->n_values;
    qb_status status = QB_OK;
    QB_GO_NEW(cx, w.twin = qb_alloc(cx, (size_t)n_values, sizeof *w.twin));
    QB_GO_NEW(cx, w.f16 = qb_alloc(cx, (size_t)n_values, sizeof *w.f16));
    QB_GO_NEW(cx, w.leaves = qb_alloc(cx, (size_t)n_values, sizeof *w.leaves));
    for (int32_t i = 0; i < n_values; i++) w.twin[i] = -1;
    for (int32_t i = 0; i < graph->n_outputs; i++) w.leaves[graph->outputs[i]] = true;
    for (int32_t i = 0; i < n; i++) QB_GO(widen(&w, i));
    if (w.rw.unsorted) QB_GO(qb_graph_sort(cx, graph));
    *n_changes = w.rw.n_changes;
out:
    qb_rewrite_release(&w.rw);
    QB_FREE_ALL(w.twin, w.f16, w.leaves);
    return status;
}

const qb_pass qb_pass_widen_half = {
    "widen-half", "computes f16 and bf16 in f32, which has kernels and can be quantized",
    .run = run};
