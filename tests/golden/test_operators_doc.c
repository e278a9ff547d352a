/* docs/operators.md is what the operator table says. QB_UPDATE=1 writes it anew. */
#include "qb_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "graph/fusion.h"
#include "kernels/tactic.h"

/* --- the kernel behind an operator, found by grouping a graph of one node -------------------- */

/* Shapes to try for the data and for the other inputs, constant or not. */
static const qb_shape data_shapes[] = {
    {.rank = 4, .dim = {1, 2, 4, 4}}, {.rank = 2, .dim = {4, 4}}, {.rank = 3, .dim = {1, 1, 1}}};
static const qb_shape other_shapes[] = {
    {.rank = 4, .dim = {1, 2, 4, 4}}, {.rank = 4, .dim = {2, 2, 1, 1}}, {.rank = 2, .dim = {4, 4}},
    {.rank = 1, .dim = {1}},          {.rank = 3, .dim = {1, 1, 1}}, /* RNN, GRU, LSTM */
    {.rank = 3, .dim = {1, 3, 1}},    {.rank = 3, .dim = {1, 4, 1}}};

static const int64_t ones[] = {1, 1};

/* The node with `op` on inputs of floats, or quantized values where it takes no others; pools need
 * a kernel.
 */
static qb_status one_node(qb_ctx *cx, qb_graph *graph, const qb_op *op, const qb_shape *data,
                          const qb_shape *others, bool constant) {
    const qb_dtype type =
        op->types && strcmp(op->types, QB_TYPES_QUANTIZED) == 0 ? QB_DTYPE_U8 : QB_DTYPE_F32;
    static const float weights[32];
    int32_t in[16], n = op->min_in < 2 && op->max_in == INT32_MAX ? 2 : op->min_in, out;
    if (n < 1 || n > 16) return QB_STATUS_UNSUPPORTED;
    for (int32_t i = 0; i < n; i++) {
        in[i] = i > 0 && constant ? qb_graph_add_constant(cx, graph, "w", type, others, weights)
                                  : qb_graph_add_value(cx, graph, "x", type, i > 0 ? others : data);
        if (in[i] < 0) return cx->code;
        if (i == 0 || !constant) QB_TRY(qb_graph_add_input(cx, graph, in[i]));
    }
    out = qb_graph_add_value(cx, graph, "y", QB_DTYPE_NONE, NULL);
    if (out < 0) return cx->code;
    int32_t node = qb_graph_add_node(cx, graph, op, "", in, n, &out, 1);
    if (node < 0) return cx->code;
    for (const qb_attr_desc *a = op->attrs; a && a->name; a++)
        if (strcmp(a->name, "kernel_shape") == 0 && op->weight_input < 0)
            *(qb_ints *)((char *)graph->nodes[node].attrs + a->offset) = (qb_ints){2, ones};
    QB_TRY(qb_graph_add_output(cx, graph, out));
    return qb_graph_infer(cx, graph);
}

/* What the page says of an operator: its kind of problem, and which backends have kernels for it.
 */
static const char *const backends[] = {"dnnl", "cpu"};
enum { N_BACKENDS = 2 };
typedef struct behind {
    qb_kind kind;
    bool has[N_BACKENDS];
} behind;

/* Does the tactic take this very operator? Asked where one kind stands for many of them; what the
 * others take depends on the processor. Images are tried as channel slices, too. */
static bool takes(const qb_tactic *tactic, qb_problem *problem, qb_desc *in) {
    static const bool constant[QB_MAX_INPUTS];
    if (problem->kind != QB_KIND_BINARY && problem->kind != QB_KIND_UNARY) return true;
    if (qb_tactic_takes(tactic, problem, constant)) return true;
    for (int32_t i = 0; i <= problem->n_in; i++) {
        qb_desc *desc = i < problem->n_in ? &in[i] : &problem->out;
        if (desc->shape.rank != 4) return false;
        desc->layout = QB_LAYOUT_NHWC;
        desc->channel_total = 2 * desc->shape.dim[1];
    }
    return qb_tactic_takes(tactic, problem, constant);
}

static void ask_backends(const qb_problem *problem, behind *out) {
    for (int b = 0; b < N_BACKENDS; b++)
        for (const qb_tactic *const *t = qb_tactics(); *t && !out->has[b]; t++) {
            qb_desc in[QB_MAX_INPUTS];
            qb_problem copy = *problem;
            memcpy(in, problem->in, (size_t)problem->n_in * sizeof *in);
            copy.in = in;
            out->has[b] = (*t)->kind == problem->kind && strcmp((*t)->backend, backends[b]) == 0 &&
                          takes(*t, &copy, in);
        }
}

static behind behind_with(const qb_op *op, const qb_shape *data, const qb_shape *others,
                          bool constant) {
    qb_ctx cx;
    qb_graph *graph;
    qb_groups groups;
    behind out = {.kind = QB_KIND_NODE};
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_graph_create(&cx, &graph));
    if (one_node(&cx, graph, op, data, others, constant) == QB_OK &&
        qb_fuse(&cx, graph, &groups) == QB_OK) {
        qb_desc in[QB_MAX_INPUTS];
        qb_problem problem = {.kind = QB_KIND_NODE};
        if (groups.group[0].kind != QB_KIND_NODE)
            assert_ok(&cx, qb_group_problem(&cx, graph, &groups.group[0], in, &problem));
        else if (!qb_node_problem(graph, &graph->nodes[0], in, &problem))
            problem.kind = QB_KIND_NODE;
        out.kind = problem.kind;
        if (out.kind != QB_KIND_NODE) ask_backends(&problem, &out);
        qb_groups_release(&groups);
    }
    qb_graph_free(graph);
    return out;
}

static behind behind_of(const qb_op *op) {
    behind out = {.kind = QB_KIND_NODE};
    for (size_t d = 0; d < sizeof data_shapes / sizeof *data_shapes; d++)
        for (size_t o = 0; o < sizeof other_shapes / sizeof *other_shapes; o++)
            for (int constant = 0; constant < 2 && out.kind == QB_KIND_NODE; constant++)
                out = behind_with(op, &data_shapes[d], &other_shapes[o], constant != 0);
    return out;
}

/* --- the page -------------------------------------------------------------------------------- */

/* CUDA's rows depend on the build and are left out. */
static void add_backends(qb_strbuf *text, const behind *kernels) {
    for (int b = 0; b < N_BACKENDS; b++)
        if (kernels->has[b]) qb_strbuf_addf(text, "%s, ", backends[b]);
    qb_strbuf_add(text, "ref");
}

static void add_row(qb_strbuf *text, const qb_op *op) {
    static const char *const rules[] = {[QB_QRULE_FLOAT] = "runs as written",
                                        [QB_QRULE_COMPUTE] = "integer arithmetic, weight quantized",
                                        [QB_QRULE_SAME_SCALE] = "moves integers",
                                        [QB_QRULE_ELTWISE] = "integers in and out",
                                        [QB_QRULE_LUT] = "integers in and out, by table"};
    const behind kernels = behind_of(op);
    qb_strbuf_addf(text, "| %s | %s | %d+ | %s | ", op->name, *op->domain ? op->domain : "ai.onnx",
                   (int)op->since, op->types ? op->types : "all");
    add_backends(text, &kernels);
    qb_strbuf_addf(text, " | %s | %s |\n",
                   kernels.kind == QB_KIND_NODE ? "-" : qb_kind_text(kernels.kind),
                   rules[op->qrule]);
}

static void write_page(qb_strbuf *text) {
    int32_t n;
    const qb_op *const *ops = qb_ops(&n);
    qb_strbuf_addf(
        text,
        "# Operators\n\n"
        "Generated from `graph/ops.def`; `QB_UPDATE=1` before `ctest -R golden.operators_doc` "
        "writes it\n"
        "anew. %d operators.\n\n"
        "- *Opsets*: the first that is read (files before opset 7 are refused) and all later "
        "ones.\n"
        "- *Types* of the data. All: every float and integer type and bool. f16 and bf16 are "
        "computed\n"
        "  in float and rounded once an operator, in engines where the graph ends or casts (pass\n"
        "  widen-half); f64 is computed in float where sums in double would need a kernel of\n"
        "  their own (convolution, pooling, normalization, softmax, activations, attention).\n"
        "- *Backends* of an engine, in f32 or quantized. `ref` runs everything, in kernels or node "
        "by\n"
        "  node (*kernel* -).\n"
        "- *Quantizable*: what quantization makes of the operator.\n\n"
        "Functions of a model, If with a constant condition and Loop with a constant number of\n"
        "iterations are expanded when the file is read; others run node by node, on the host. "
        "Refused by\n"
        "text, sequences, maps and sparse tensors. Shapes\n"
        "that follow from values (NonZero, NonMaxSuppression, a computed k of TopK) are run behind "
        "the\n"
        "planned part of an engine, on the host.\n\n"
        "| operator | domain | opsets | types | backends | kernel | quantizable |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n",
        (int)n);
    for (int32_t i = 0; i < n; i++) add_row(text, ops[i]);
}

static void the_page_is_current(void **state) {
    (void)state;
    qb_ctx cx;
    qb_strbuf text = {0};
    char path[QB_TEST_PATH];
    char *old;
    size_t size;
    qb_ctx_init(&cx);
    if (!qb_tactic_find("dnnl.conv_f32.packed"))
        qb_test_skip("built without oneDNN: other backends");
    write_page(&text);
    assert_false(text.failed);
    qb_test_source(path, "docs/operators.md");
    if (getenv("QB_UPDATE")) assert_ok(&cx, qb_file_write(&cx, path, text.data, text.size));
    assert_ok(&cx, qb_file_read(&cx, path, (size_t)1 << 20, &old, &size));
    assert_string_equal(old, text.data);
    qb_free(old);
    qb_strbuf_release(&text);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_is_current)};
QB_TEST_MAIN(tests)
