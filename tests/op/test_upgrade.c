/* Forms of older opsets, rewritten on import: they compute what their own opset says. */
#include "op_text.h"

#include <string.h>

#include "graph/graph_internal.h"

/* Rewrites the node as the reader does and leaves the data (value 0) as 0, 1, 2, ... of `shape`. */
static qb_graph *upgraded(const char *op, const char *inputs, const char *attrs, int32_t n_out,
                          int32_t version, qb_shape shape) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = graph_of(op, inputs, attrs, n_out, version);
    assert_non_null(graph->nodes[0].op->upgrade);
    assert_ok(&cx, graph->nodes[0].op->upgrade(&cx, graph, 0, version));
    for (int32_t i = 0; i < graph->n_nodes; i++) /* nothing of the old form is left */
        for (const qb_attr_desc *d = graph->nodes[i].op->attrs; d && d->name; d++)
            if (d->import_only) assert_true(qb_attr_is_default(d, graph->nodes[i].attrs));
    count_up(graph, 0, shape);
    graph->n_inputs = 0; /* it is a constant now */
    return graph;
}

static void expect_output(qb_graph *graph, int32_t output, const char *dims, const float *expected,
                          float tolerance) {
    qb_ctx cx;
    char text[128];
    qb_ctx_init(&cx);
    if (output == 0) {
        assert_ok(&cx, qb_graph_sort(&cx, graph));
        assert_ok(&cx, qb_graph_verify(&cx, graph));
        assert_ok(&cx, evaluate_graph(&cx, graph));
    }
    const qb_value *value = &graph->values[graph->outputs[output]];
    assert_string_equal(dims_text(&value->shape, text, sizeof text), dims);
    assert_floats((const float *)value->data, expected, (size_t)qb_shape_count(&value->shape), 0,
                  tolerance);
}

static void expect(qb_graph *graph, const char *dims, const float *expected) {
    expect_output(graph, 0, dims, expected, 1e-6f);
    qb_graph_free(graph);
}

static void clip_bounds_become_inputs(void **state) {
    (void)state;
    qb_graph *graph = upgraded("Clip", "f32:4", "min=1 max=2", 1, 6, qb_shape_of(1, 4));
    assert_int_equal(graph->nodes[0].n_in, 3);
    expect(graph, "4", (float[]){1, 1, 2, 2});
    graph = upgraded("Clip", "f32:4", "max=1.5", 1, 6, qb_shape_of(1, 4));
    assert_int_equal(graph->nodes[0].in[1], -1); /* no lower bound */
    expect(graph, "4", (float[]){0, 1, 1.5f, 1.5f});
}

static void axes_become_inputs(void **state) {
    (void)state;
    expect(upgraded("Squeeze", "f32:1,3,1", "axes=0", 1, 11, qb_shape_of(3, 1, 3, 1)), "3,1",
           (float[]){0, 1, 2});
    expect(upgraded("Squeeze", "f32:1,3,1", "", 1, 11, qb_shape_of(3, 1, 3, 1)), "3",
           (float[]){0, 1, 2});
    expect(upgraded("Unsqueeze", "f32:3", "axes=0,2", 1, 11, qb_shape_of(1, 3)), "1,3,1",
           (float[]){0, 1, 2});
    expect(upgraded("ReduceMean", "f32:2,3", "axes=1 keepdims=0", 1, 13, qb_shape_of(2, 2, 3)), "2",
           (float[]){1, 4});
    expect(upgraded("ReduceSum", "f32:2,3", "axes=0", 1, 11, qb_shape_of(2, 2, 3)), "1,3",
           (float[]){3, 5, 7});
}

static void pads_become_inputs(void **state) {
    (void)state;
    expect(upgraded("Pad", "f32:3", "pads=1,2 value=9", 1, 2, qb_shape_of(1, 3)), "6",
           (float[]){9, 0, 1, 2, 9, 9});
    expect(upgraded("Pad", "f32:3", "pads=2,1 mode=reflect", 1, 2, qb_shape_of(1, 3)), "6",
           (float[]){2, 1, 0, 1, 2, 1});
}

static void slice_bounds_become_inputs(void **state) {
    (void)state;
    expect(upgraded("Slice", "f32:2,4", "starts=1 ends=-1 axes=1", 1, 1, qb_shape_of(2, 2, 4)),
           "2,2", (float[]){1, 2, 5, 6});
    expect(upgraded("Slice", "f32:2,4", "starts=1,2 ends=2,9", 1, 1, qb_shape_of(2, 2, 4)), "1,2",
           (float[]){6, 7});
}

static void split_sizes_become_an_input(void **state) {
    (void)state;
    qb_graph *graph = upgraded("Split", "f32:3", "split=1,2", 2, 11, qb_shape_of(1, 3));
    expect_output(graph, 0, "1", (float[]){0}, 0);
    expect_output(graph, 1, "2", (float[]){1, 2}, 0);
    qb_graph_free(graph);
    graph = upgraded("Split", "f32:4", "", 2, 13, qb_shape_of(1, 4));
    assert_int_equal(qb_attr_int(&graph->nodes[0], "num_outputs", -1), 2);
    expect_output(graph, 0, "2", (float[]){0, 1}, 0);
    expect_output(graph, 1, "2", (float[]){2, 3}, 0);
    qb_graph_free(graph);
}

/* exp(0..3) / sum: what four elements 0, 1, 2, 3 (or any four in a row) give. */
static const float row4[] = {0.0320586033f, 0.0871443187f, 0.236882818f, 0.643914260f};
static const float row2[] = {0.268941421f, 0.731058579f};

static void old_softmax_sees_a_matrix(void **state) {
    (void)state;
    float expected[8];
    memcpy(expected, row4, sizeof row4);
    memcpy(expected + 4, row4, sizeof row4);
    /* axis 1 by default, known and unknown rank alike */
    expect(upgraded("Softmax", "f32:2,2,2", "", 1, 11, qb_shape_of(3, 2, 2, 2)), "2,2,2", expected);
    expect(upgraded("Softmax", "f32:*", "", 1, 11, qb_shape_of(3, 2, 2, 2)), "2,2,2", expected);
    /* axis 0: one row */
    expect(upgraded("Softmax", "f32:2,2", "axis=0", 1, 11, qb_shape_of(2, 2, 2)), "2,2", row4);
    /* dimensions of 1 behind the axis, or none: no other node is needed */
    qb_graph *graph = upgraded("Softmax", "f32:1,4,1", "", 1, 11, qb_shape_of(3, 1, 4, 1));
    assert_int_equal(graph->n_nodes, 1);
    expect(graph, "1,4,1", row4);
    graph = upgraded("Softmax", "f32:N,2", "", 1, 9, qb_shape_of(2, 1, 2));
    assert_int_equal(graph->n_nodes, 1);
    assert_int_equal(qb_attr_int(&graph->nodes[0], "axis", 0), -1);
    expect(graph, "1,2", row2);
}

static void new_softmax_keeps_its_axis(void **state) {
    (void)state;
    qb_graph *graph = upgraded("Softmax", "f32:1,2,1", "axis=1", 1, 13, qb_shape_of(3, 1, 2, 1));
    assert_int_equal(graph->n_nodes, 1);
    expect(graph, "1,2,1", row2);
}

static void old_resize_looks_at_the_floor(void **state) {
    (void)state;
    expect(upgraded("Resize", "f32:1,3 =f32:1,1.7", "", 1, 10, qb_shape_of(2, 1, 3)), "1,5",
           (float[]){0, 0, 1, 1, 2});
    expect(upgraded("Resize", "f32:1,3 =f32:1,2", "mode=linear", 1, 10, qb_shape_of(2, 1, 3)),
           "1,6", (float[]){0, 0.5f, 1, 1.5f, 2, 2});
}

static void upsample_becomes_resize(void **state) {
    (void)state;
    qb_graph *graph = upgraded("Upsample", "f32:1,2", "scales=1,2", 1, 7, qb_shape_of(2, 1, 2));
    assert_string_equal(graph->nodes[0].op->name, "Resize");
    expect(graph, "1,4", (float[]){0, 0, 1, 1});
    expect(upgraded("Upsample", "f32:1,2 =f32:1,3", "mode=linear", 1, 9, qb_shape_of(2, 1, 2)),
           "1,6", (float[]){0, 1.0f / 3, 2.0f / 3, 1, 1, 1});
}

static void statistics_of_batch_normalization_are_dropped(void **state) {
    (void)state;
    qb_graph *graph =
        upgraded("BatchNormalization", "f32:1,2 =f32:2,1 =f32:1,0 =f32:0,1 =f32:0.99999,0.99999",
                 "epsilon=1e-5", 3, 7, qb_shape_of(2, 1, 2));
    assert_int_equal(graph->nodes[0].n_out, 1);
    qb_graph_set_outputs(graph, graph->outputs, 1);
    expect(graph, "1,2", (float[]){1, 0});
}

static qb_status upgrade_all(qb_ctx *cx, void *user) {
    static const char *const forms[][3] = {{"Clip", "f32:4", "min=1 max=2"},
                                           {"Pad", "f32:3", "pads=1,2 value=9"},
                                           {"Slice", "f32:2,4", "starts=1 ends=-1 axes=1"},
                                           {"Softmax", "f32:2,2,2", ""},
                                           {"Upsample", "f32:1,2", "scales=1,2"}};
    (void)user;
    qb_status status = QB_OK;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && status == QB_OK; i++) {
        qb_graph *graph = graph_of(forms[i][0], forms[i][1], forms[i][2], 1, 7);
        status = graph->nodes[0].op->upgrade(cx, graph, 0, 7);
        qb_graph_free(graph);
    }
    return status;
}

static void running_out_of_memory_is_reported(void **state) {
    (void)state;
    assert_true(qb_test_alloc_sweep(upgrade_all, NULL) >= 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(clip_bounds_become_inputs),
    cmocka_unit_test(axes_become_inputs),
    cmocka_unit_test(pads_become_inputs),
    cmocka_unit_test(slice_bounds_become_inputs),
    cmocka_unit_test(split_sizes_become_an_input),
    cmocka_unit_test(old_softmax_sees_a_matrix),
    cmocka_unit_test(new_softmax_keeps_its_axis),
    cmocka_unit_test(old_resize_looks_at_the_floor),
    cmocka_unit_test(upsample_becomes_resize),
    cmocka_unit_test(statistics_of_batch_normalization_are_dropped),
    cmocka_unit_test(running_out_of_memory_is_reported),
};
QB_TEST_MAIN(tests)
