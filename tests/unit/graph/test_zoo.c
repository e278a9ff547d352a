#include "graph/zoo.h"

#include "build_graph.h"
#include "graph/passes.h"

static qb_graph *build(qb_ctx *cx, const char *name, uint64_t seed) {
    qb_graph *graph = NULL;
    assert_ok(cx, qb_zoo_build(cx, name, seed, NULL, &graph));
    return graph;
}

static void the_seed_decides(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char dir[QB_TEST_PATH], path[3][QB_TEST_PATH];
    qb_test_temp_dir(dir);
    qb_hash hash[3];
    for (int i = 0; i < 3; i++) {
        qb_graph *graph = build(&cx, "squeezenet1_1", i < 2 ? 7 : 8), *loaded;
        qb_test_join(path[i], dir, i == 0 ? "a.onnx" : i == 1 ? "b.onnx" : "c.onnx");
        assert_ok(&cx, qb_onnx_save(&cx, graph, path[i]));
        assert_ok(&cx, qb_onnx_load(&cx, path[i], &loaded));
        hash[i] = loaded->hash;
        assert_int_equal(count_trained(loaded), count_trained(graph));
        assert_int_equal(loaded->values[loaded->inputs[0]].shape.dim[2], 224);
        qb_graph_free(loaded);
        qb_graph_free(graph);
    }
    assert_true(qb_hash_equal(hash[0], hash[1]));
    assert_false(qb_hash_equal(hash[0], hash[2]));
}

static void optimized_models_compute_the_same(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const char *const names[] = {"resnet18", "mobilenet_v2"};
    for (int i = 0; i < 2; i++) {
        qb_graph *graph, *after;
        qb_zoo_options options = {.side = 64, .batch = "batch"};
        assert_ok(&cx, qb_zoo_build(&cx, names[i], 3, &options, &graph));
        assert_string_equal(graph->symbols[0], "batch");
        qb_optimize_report report;
        assert_ok(&cx, qb_graph_clone(&cx, graph, &after));
        assert_ok(&cx, qb_optimize(&cx, after, NULL, &report));
        assert_int_equal(count_op(after, "BatchNormalization"), 0);
        assert_int_equal(report.nodes_before - report.nodes_after,
                         count_op(graph, "BatchNormalization"));
        maker m = {.graph = NULL};
        qb_ctx_init(&m.cx);
        qb_rng_seed(&m.rng, 1);
        assert_same_results(&m, graph, after, 1e-4);
        qb_graph_free(after);
        qb_graph_free(graph);
    }
}

static void unknown_models_and_sizes_are_refused(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph;
    assert_fails(&cx, qb_zoo_build(&cx, "resnet51", 1, NULL, &graph), QB_STATUS_NOTFOUND);
    assert_message(&cx, "resnet51");
    assert_fails(&cx, qb_zoo_build(&cx, "resnet18", 1, &(qb_zoo_options){.side = -1}, &graph),
                 QB_STATUS_INVALID);
    qb_ctx_init(&cx);
    cx.fail_alloc_at = 300; /* in the middle of the build */
    assert_fails(&cx, qb_zoo_build(&cx, "squeezenet1_1", 1, NULL, &graph), QB_STATUS_NOMEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(optimized_models_compute_the_same),
        cmocka_unit_test(unknown_models_and_sizes_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
