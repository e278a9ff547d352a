/* qb_graph_parse_most (--max-size) on any text, for a graph with values of all kinds: of open
 * sizes, of an open number of sizes, of known ones, constants; and what qb_graph_bound makes of
 * what was told. */
#include <stdlib.h>
#include <string.h>

#include "graph/evaluate.h"
#include "graph/op.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

static int32_t value(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                     qb_shape shape) {
    const int32_t id = qb_graph_add_value(cx, graph, name, dtype, &shape);
    check(id >= 0);
    return id;
}

static void node(qb_ctx *cx, qb_graph *graph, const char *op, int32_t in, int32_t out) {
    check(qb_graph_add_node(cx, graph, qb_op_find(op, ""), "", &in, 1, &out, 1) >= 0);
}

/* x 2x3 -> places 2x?, kept ? (and what follows: twice, ?), any: not even its rank is known. */
static qb_graph *make(qb_ctx *cx) {
    const float two = 2;
    const qb_shape open = {.rank = 1, .dim = {-1}}, unknown = {.rank = -1};
    const qb_shape scalar = {.rank = 0};
    qb_graph *graph;
    check(qb_graph_create(cx, &graph) == QB_OK);
    graph->opset = QB_GRAPH_OPSET;
    const int32_t x = value(cx, graph, "x", QB_DTYPE_F32, qb_shape_of(2, 2, 3));
    const int32_t any = value(cx, graph, "any,=", QB_DTYPE_F32, unknown);
    check(qb_graph_add_input(cx, graph, x) == QB_OK && qb_graph_add_input(cx, graph, any) == QB_OK);
    check(qb_graph_add_constant(cx, graph, "two", QB_DTYPE_F32, &scalar, &two) >= 0);
    const int32_t places = value(cx, graph, "places", QB_DTYPE_S64, qb_shape_of(2, 2, -1));
    const int32_t kept = value(cx, graph, "kept", QB_DTYPE_F32, open);
    const int32_t twice = value(cx, graph, "twice", QB_DTYPE_F32, open);
    node(cx, graph, "NonZero", x, places);
    node(cx, graph, "Unique", x, kept);
    node(cx, graph, "Neg", kept, twice);
    check(qb_graph_add_output(cx, graph, places) == QB_OK);
    check(qb_graph_add_output(cx, graph, twice) == QB_OK);
    return graph;
}

/* What is told keeps to what is known. */
static void check_told(const qb_graph *graph, const qb_shape *most) {
    for (int32_t v = 0; v < graph->n_values; v++) {
        const qb_shape *open = &graph->values[v].shape, *told = &most[v];
        if (told->rank == -1) continue;
        check(told->rank >= 1 && told->rank <= QB_MAX_RANK);
        check(!graph->values[v].data && !qb_shape_known(open));
        check(open->rank < 0 || open->rank == told->rank);
        for (int32_t d = 0; d < told->rank; d++) {
            check(told->dim[d] >= 0);
            check(open->rank < 0 || open->dim[d] < 0 || open->dim[d] == told->dim[d]);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    qb_shape most[16];
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    qb_ctx_init(&cx);
    qb_graph *graph = make(&cx);
    check(graph->n_values <= (int32_t)(sizeof most / sizeof *most));
    const qb_status status = qb_graph_parse_most(&cx, graph, text, most);
    check(status == cx.code && (status == QB_OK || (status == QB_STATUS_USAGE && cx.message[0])));
    if (status == QB_OK) {
        check_told(graph, most);
        check(qb_graph_bound(&cx, graph, most) == QB_OK || cx.message[0]);
        check(cx.code != QB_STATUS_INTERNAL);
    }
    qb_graph_free(graph);
    free(text);
    return 0;
}
