/* ctest-timeout: 300, ctest-labels: plain
 * The optimizer on real models: what it makes of them, and that outputs stay those of the
 * publishers' framework. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/fusion.h"
#include "graph/passes.h"
#include "qb_eval.h"
#include "qb_test.h"

typedef struct expected {
    const char *name;
    int32_t before, after, groups; /* nodes, nodes, fusion groups */
    int32_t sets;                  /* test data sets to run */
    int64_t items;                 /* of a batch; 0: all */
} expected;

static const expected models[] = {
    {"ad01_toycar", 28, 19, 10, 1, 8},
    {"kws_dscnn", 32, 22, 13, 1, 8},
    {"mnist", 12, 8, 6, 10, 0},
    {"resnet8_cifar10", 30, 23, 13, 1, 8},
    {"squeezenet1.1", 66, 66, 40, 1, 2},
    {"str_ww", 19, 15, 11, 1, 8},
    {"super_resolution_core", 8, 8, 5, 1, 0},
    {"ultraface_rfb_320", 126, 125, 87, 1, 0},
    {"vww_96", 85, 58, 31, 1, 4},
};

static void path_of(char path[QB_TEST_PATH], const char *fmt, ...) {
    char name[QB_TEST_PATH];
    va_list args;
    va_start(args, fmt);
    vsnprintf(name, sizeof name, fmt, args);
    va_end(args);
    qb_test_need_shared(path, name);
}

/* The first items of a batch only: the reference evaluation is slow. */
static void shorten(qb_tensor *t, int64_t items) {
    if (items && t->desc.shape.rank > 0 && t->desc.shape.dim[0] > items)
        t->desc.shape.dim[0] = items;
}

static void check_outputs(qb_ctx *cx, const qb_graph *before, const qb_graph *after,
                          const expected *model, int32_t set) {
    char path[QB_TEST_PATH];
    qb_tensor input, wanted;
    path_of(path, "models/testdata/%s/test_data_set_%d/input_0.pb", model->name, (int)set);
    assert_ok(cx, qb_onnx_load_tensor(cx, path, &input, NULL));
    shorten(&input, model->items);
    qb_eval plain, optimized;
    assert_ok(cx, qb_eval_run(cx, before, &input, &plain));
    assert_ok(cx, qb_eval_run(cx, after, &input, &optimized));
    for (int32_t i = 0; i < before->n_outputs; i++) {
        path_of(path, "models/testdata/%s/test_data_set_%d/output_%d.pb", model->name, (int)set,
                (int)i);
        assert_ok(cx, qb_onnx_load_tensor(cx, path, &wanted, NULL));
        shorten(&wanted, model->items);
        qb_tensor a = qb_eval_output(&plain, i), b = qb_eval_output(&optimized, i);
        double moved = qb_eval_error(&b, &a), off = qb_eval_error(&b, &wanted);
        if (!(moved <= 1e-5) || !(off <= 1e-4))
            fail_msg("%s, set %d, output %d: %g from the original, %g from the test data",
                     model->name, (int)set, (int)i, moved, off);
        qb_free(wanted.data);
    }
    qb_eval_release(&plain);
    qb_eval_release(&optimized);
    qb_free(input.data);
}

static void check_model(const expected *model) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    path_of(path, "models/%s.onnx", model->name);
    qb_graph *before, *after;
    qb_optimize_report report;
    qb_groups groups;
    assert_ok(&cx, qb_onnx_load(&cx, path, &before));
    assert_ok(&cx, qb_graph_clone(&cx, before, &after));
    assert_ok(&cx, qb_optimize(&cx, after, NULL, &report));
    assert_ok(&cx, qb_fuse(&cx, after, &groups));
    print_message("%s: %d nodes -> %d nodes, %d groups\n", model->name, (int)report.nodes_before,
                  (int)report.nodes_after, (int)groups.n);
    assert_int_equal(report.nodes_before, model->before);
    assert_int_equal(report.nodes_after, model->after);
    assert_int_equal(groups.n, model->groups);
    qb_groups_release(&groups);
    for (int32_t set = 0; set < model->sets; set++) check_outputs(&cx, before, after, model, set);
    qb_graph_free(before);
    qb_graph_free(after);
}

static void real_models_shrink_and_keep_their_outputs(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_model(&models[i]);
}

/* What another tool quantized is already optimized: nothing may move across its scales. */
static void quantized_models_stay_as_they_are(void **state) {
    (void)state;
    static const char *const names[] = {"resnet8_cifar10_ort_qdq_minmax",
                                        "squeezenet1.1_ort_qdq_entropy"};
    for (int i = 0; i < 2; i++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        char path[QB_TEST_PATH], *before, *after;
        path_of(path, "models/%s.onnx", names[i]);
        qb_graph *graph;
        assert_ok(&cx, qb_onnx_load(&cx, path, &graph));
        assert_ok(&cx, qb_graph_text(&cx, graph, &before));
        assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
        assert_ok(&cx, qb_graph_text(&cx, graph, &after));
        assert_string_equal(after, before);
        qb_free(before);
        qb_free(after);
        qb_graph_free(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_models_shrink_and_keep_their_outputs),
        cmocka_unit_test(quantized_models_stay_as_they_are),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
