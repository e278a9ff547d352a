/* mAP and F1 of a model whose scores are known, by hand. */
#include <math.h>

#include "base/file.h"
#include "eval/eval.h"
#include "qb_test.h"

static const char truth[] =
    "{\"images\": [{\"id\": 1, \"file_name\": \"a.png\", \"width\": 4, \"height\": 4},"
    " {\"id\": 2, \"file_name\": \"b.png\", \"width\": 4, \"height\": 4},"
    " {\"id\": 3, \"file_name\": \"c.png\", \"width\": 4, \"height\": 4}],"
    " \"categories\": [{\"id\": 5, \"name\": \"cat\"}, {\"id\": 7, \"name\": \"dog\"}],"
    " \"annotations\": ["
    " {\"id\": 1, \"image_id\": 1, \"category_id\": 5, \"bbox\": [0, 0, 1, 1]},"
    " {\"id\": 2, \"image_id\": 1, \"category_id\": 7, \"bbox\": [0, 0, 1, 1]},"
    " {\"id\": 3, \"image_id\": 3, \"category_id\": 5, \"bbox\": [0, 0, 1, 1]}]}";

static void map_and_f1(void **state) {
    (void)state;
    qb_ctx cx;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "truth.json");
    assert_ok(&cx, qb_file_write(&cx, path, truth, sizeof truth - 1));
    qb_dataset *dataset;
    assert_ok(&cx, qb_dataset_open(&cx, path, NULL, &dataset));
    qb_graph *graph;
    const qb_shape shape = qb_shape_of(2, 1, 2);
    assert_ok(&cx, qb_graph_create(&cx, &graph));
    const int32_t y = qb_graph_add_value(&cx, graph, "y", QB_DTYPE_F32, &shape);
    assert_ok(&cx, qb_graph_add_output(&cx, graph, y));
    const qb_loader_options loader = {.dataset = dataset};
    qb_task_settings settings;
    qb_task_settings_default(&settings);
    const qb_task_data data = {
        .settings = &settings, .loader = &loader, .graph = graph, .n_engines = 2};
    const qb_task *task = qb_task_guess(&cx, &data);
    assert_non_null(task);
    assert_string_equal(task->name, "multilabel");
    void *opened;
    assert_ok(&cx, task->open(&cx, &data, &opened));
    /* The first engine: cats 0.9, 0.8, 0.3 of which the first and the last are some. */
    const float score[2][3][2] = {{{0.9F, 0.7F}, {0.8F, 0.1F}, {0.3F, 0.1F}},
                                  {{0.9F, 0.1F}, {0.3F, 0.1F}, {0.8F, 0.1F}}};
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < 3; i++) {
            const qb_tensor out = qb_tensor_of(QB_DTYPE_F32, shape, (void *)(uintptr_t)score[e][i]);
            assert_ok(&cx, task->outputs(&cx, opened, e, i, &out, 1));
        }
    qb_run *run;
    assert_ok(&cx, qb_run_create(&cx, 2, &run));
    assert_ok(&cx, task->finish(&cx, opened, run));
    const double cat = (1 + 2.0 / 3) / 2;
    assert_float_equal(qb_run_metric_find(&run->row[0], "map")->value, 50 * (cat + 1), 1e-9);
    assert_float_equal(qb_run_metric_find(&run->row[0], "f1")->value, 200.0 * 2 / (3 + 3), 1e-9);
    /* The second: both cats first; dogs all alike, one of three. */
    assert_float_equal(qb_run_metric_find(&run->row[1], "map")->value, 50 * (1 + 1.0 / 3), 1e-9);
    assert_float_equal(run->row[1].drop, 50 * (cat + 1) - 50 * (1 + 1.0 / 3), 1e-9);
    assert_int_equal(run->row[0].n_per_class, 2);
    assert_string_equal(run->row[0].per_class[1].name, "dog");
    assert_int_equal(run->row[0].per_class[0].n, 2);
    qb_run_free(run);
    task->close(opened);
    qb_task_settings_release(&settings);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(map_and_f1)};
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
