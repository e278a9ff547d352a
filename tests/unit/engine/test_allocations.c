/* Running allocates nothing once every step has run: what operators without a kernel work in stays
 * with the context. */
#include "small_engine.h"

#include <string.h>

#include "graph/op.h"

/* One node as a whole model; its inputs and outputs live as long as the case. */
typedef struct node_case {
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    void *in[2], *out[2];
} node_case;

static int32_t add_value(node_case *c, const char *name, qb_dtype dtype, qb_shape shape) {
    return qb_graph_add_value(&c->cx, c->graph, name, dtype, &shape);
}

/* `constants`: how many of the inputs are constants of ones, from the end. */
static void make(node_case *c, const char *op, qb_dtype dtype, const qb_shape *shape, int n_in,
                 int constants, int n_out) {
    static const char *const names[] = {"a", "b", "y", "z"};
    static const int64_t ones[4] = {1, 1, 1, 1};
    int32_t in[2], out[2];
    *c = (node_case){0};
    qb_ctx_init(&c->cx);
    assert_ok(&c->cx, qb_graph_create(&c->cx, &c->graph));
    c->graph->name = c->graph->source = op;
    c->graph->opset = QB_GRAPH_OPSET;
    for (int i = 0; i < n_in; i++) {
        if (i >= n_in - constants) {
            in[i] =
                qb_graph_add_constant(&c->cx, c->graph, names[i], QB_DTYPE_S64, &shape[i], ones);
            continue;
        }
        in[i] = add_value(c, names[i], dtype, shape[i]);
        assert_ok(&c->cx, qb_graph_add_input(&c->cx, c->graph, in[i]));
    }
    for (int i = 0; i < n_out; i++)
        out[i] = add_value(c, names[2 + i], QB_DTYPE_NONE, (qb_shape){.rank = -1});
    assert_true(qb_graph_add_node(&c->cx, c->graph, qb_op_find(op, ""), op, in, n_in, out, n_out) >=
                0);
    for (int i = 0; i < n_out; i++)
        assert_ok(&c->cx, qb_graph_add_output(&c->cx, c->graph, out[i]));
    assert_ok(&c->cx, qb_graph_infer(&c->cx, c->graph));
    const qb_build_spec options = {.threads = 1};
    assert_ok(&c->cx, qb_engine_build(&c->cx, c->graph, &options, &c->engine));
    assert_ok(&c->cx, qb_context_create(&c->cx, c->engine, &c->context));
    for (int i = 0; i < n_in - constants; i++)
        c->in[i] = qb_alloc_aligned(&c->cx, qb_desc_bytes(qb_engine_input(c->engine, i)), 1);
    for (int i = 0; i < n_out; i++)
        c->out[i] = qb_alloc_aligned(&c->cx, qb_desc_bytes(qb_engine_output(c->engine, i)), 1);
}

static void release(node_case *c) {
    for (int i = 0; i < 2; i++) {
        qb_free(c->in[i]);
        qb_free(c->out[i]);
    }
    qb_context_free(c->context);
    qb_engine_free(c->engine);
    qb_graph_free(c->graph);
}

static qb_status run(node_case *c) {
    const void *inputs[2] = {c->in[0], c->in[1]};
    return qb_context_run(&c->cx, c->context, inputs, c->out);
}

/* The first run allocates exactly when `works_aside`, later ones never do. */
static void allocates_once(node_case *c, bool works_aside) {
    c->cx.fail_alloc_at = 1000000;
    assert_ok(&c->cx, run(c));
    assert_int_equal(c->cx.fail_alloc_at < 1000000, works_aside);
    for (int i = 0; i < 3; i++) {
        c->cx.fail_alloc_at = 1; /* the next allocation fails */
        assert_ok(&c->cx, run(c));
        assert_int_equal(c->cx.fail_alloc_at, 1);
    }
    c->cx.fail_alloc_at = 0;
    release(c);
}

static void halves_are_widened_in_the_contexts_memory(void **state) {
    (void)state;
    node_case c;
    const qb_shape shape[] = {qb_shape_of(2, 3, 50)};
    make(&c, "Softmax", QB_DTYPE_F16, shape, 1, 0, 1);
    allocates_once(&c, true);
    make(&c, "Softmax", QB_DTYPE_BF16, shape, 1, 0, 1);
    allocates_once(&c, true);
}

static void so_do_operators_that_work_aside(void **state) {
    (void)state;
    node_case c;
    const qb_shape topk[] = {qb_shape_of(2, 4, 300), qb_shape_of(1, 1)};
    make(&c, "TopK", QB_DTYPE_F64, topk, 2, 1, 2);
    allocates_once(&c, true);
    const qb_shape product[] = {qb_shape_of(2, 4, 9), qb_shape_of(2, 9, 5)};
    make(&c, "MatMulInteger", QB_DTYPE_U8, product, 2, 0, 1);
    allocates_once(&c, true);
    make(&c, "MatMul", QB_DTYPE_F64, product, 2, 0, 1);
    allocates_once(&c, true);
}

static void operators_that_need_nothing_never_allocate(void **state) {
    (void)state;
    node_case c;
    const qb_shape shape[] = {qb_shape_of(2, 3, 50)};
    make(&c, "Floor", QB_DTYPE_F32, shape, 1, 0, 1);
    allocates_once(&c, false);
}

static void kernels_allocate_nothing(const char *backends) {
    static float x[SMALL_INPUTS], y[SMALL_OUTPUTS];
    small_engine f;
    qb_context *context;
    const void *inputs[] = {x};
    void *outputs[] = {y};
    small_engine_make(&f, backends);
    small_engine_input(1, x);
    assert_ok(&f.cx, qb_context_create(&f.cx, f.engine, &context));
    for (int i = 0; i < 3; i++) {
        f.cx.fail_alloc_at = 1;
        assert_ok(&f.cx, qb_context_run(&f.cx, context, inputs, outputs));
        assert_int_equal(f.cx.fail_alloc_at, 1);
    }
    f.cx.fail_alloc_at = 0;
    qb_context_free(context);
    small_engine_release(&f);
}

static void steps_with_kernels_allocate_nothing(void **state) {
    (void)state;
#ifdef QB_HAVE_DNNL
    kernels_allocate_nothing("cpu,dnnl,ref");
    kernels_allocate_nothing("dnnl,ref");
#endif
    kernels_allocate_nothing("ref");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(halves_are_widened_in_the_contexts_memory),
    cmocka_unit_test(so_do_operators_that_work_aside),
    cmocka_unit_test(operators_that_need_nothing_never_allocate),
    cmocka_unit_test(steps_with_kernels_allocate_nothing),
};
QB_TEST_MAIN(tests)
