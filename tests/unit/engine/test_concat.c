/* Concats of Concats along the channels: what lies in its place of the inner one is put into the
 * outer one once more where it is a part of that as well. t = 2 x, of a convolution. */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "graph/op.h"

enum { CHANNELS = 3, PIXELS = 4, PART = CHANNELS * PIXELS, MOST = 8 };

static int32_t node(qb_ctx *cx, qb_graph *graph, const char *op, const int32_t *in, int32_t n) {
    const qb_shape unknown = {.rank = -1};
    int32_t out = qb_graph_add_value(cx, graph, "v", QB_DTYPE_NONE, &unknown);
    const int32_t id = qb_graph_add_node(cx, graph, qb_op_find(op, ""), op, in, n, &out, 1);
    assert_true(id >= 0);
    if (strcmp(op, "Concat") == 0) ((qb_axis_attrs *)graph->nodes[id].attrs)->axis = 1;
    return out;
}

/* `text`: parts t, x, and Concats of them in brackets. */
static int32_t concat(qb_ctx *cx, qb_graph *graph, int32_t x, int32_t t, const char **text) {
    int32_t in[MOST], n = 0;
    for (++*text; **text != ')'; ++*text)
        in[n++] = **text == '(' ? concat(cx, graph, x, t, text) : **text == 't' ? t : x;
    return node(cx, graph, "Concat", in, n);
}

static void run(const char *text, const char *backends, float *y) {
    static const float weight[CHANNELS * CHANNELS] = {2, 0, 0, 0, 2, 0, 0, 0, 2};
    const qb_shape image = qb_shape_of(4, 1, CHANNELS, 2, 2), w = qb_shape_of(4, 3, 3, 1, 1);
    const qb_build_spec options = {.backends = backends, .threads = 1};
    float data[PART];
    const void *inputs[] = {data};
    void *outputs[] = {y};
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int i = 0; i < PART; i++) data[i] = (float)(i + 1);
    assert_ok(&cx, qb_graph_create(&cx, &graph));
    graph->opset = QB_GRAPH_OPSET;
    int32_t in[2] = {qb_graph_add_value(&cx, graph, "x", QB_DTYPE_F32, &image),
                     qb_graph_add_constant(&cx, graph, "w", QB_DTYPE_F32, &w, weight)};
    assert_ok(&cx, qb_graph_add_input(&cx, graph, in[0]));
    const int32_t t = node(&cx, graph, "Conv", in, 2);
    const int32_t whole = concat(&cx, graph, in[0], t, &text);
    assert_ok(&cx, qb_graph_add_output(&cx, graph, node(&cx, graph, "Relu", &whole, 1)));
    assert_ok(&cx, qb_graph_infer(&cx, graph));
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    assert_ok(&cx, qb_context_run(&cx, context, inputs, outputs));
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static void parts_may_come_again(void **state) {
    (void)state;
    static const char *const texts[] = {"((tx)t)",    "(t(tx))",  "((tt)t)",
                                        "((tx)(tx))", "((xt)tx)", "(((tx)t)t)"};
    static const char *const backends[] = {"ref", "cpu", "dnnl,ref", NULL};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
        for (int b = 0; b < 4; b++) {
            float y[MOST * PART] = {0};
            int at = 0;
            run(texts[k], backends[b], y);
            for (const char *c = texts[k]; *c; c++)
                for (int i = 0; (*c == 't' || *c == 'x') && i < PART; i++, at++)
                    if (y[at] != (float)((*c == 't' ? 2 : 1) * (i + 1)))
                        fail_msg("%s, %s: element %d is %g", texts[k],
                                 backends[b] ? backends[b] : "all", at, (double)y[at]);
        }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(parts_may_come_again)};
QB_TEST_MAIN(tests)
