/* Calibration and evaluation on two GPUs give what one gives. Skips with fewer than two.
 * ctest-timeout: 180 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "kernels/cuda/common/device.h"
#include "small_run.h"
#include "stream/stream.h"

static const qb_devices on_second = {1, {1}}, on_both = {2, {0, 1}};

static void need_two(void) {
    if (qb_cuda_count() < 2) qb_test_skip("fewer than two CUDA devices on this machine");
}

static void calibrated(qb_ctx *cx, const qb_devices *devices, int64_t batch, char **data,
                       size_t *n) {
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_method_choice choice;
    qb_table *table;
    qb_dataset *dataset = run_dataset(cx);
    qb_graph *graph = run_convs(cx, batch);
    assert_ok(cx, qb_method_parse(cx, "moving-average", &choice));
    const qb_calib_options options = {.methods = &choice,
                                      .n_methods = 1,
                                      .spec.backends = "cuda",
                                      .devices = *devices,
                                      .loader = run_loader(dataset, 1, 2)};
    assert_ok(cx, qb_calibrate(cx, graph, &options, &table));
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.calib.h5");
    assert_ok(cx, qb_table_save(cx, table, path));
    assert_ok(cx, qb_file_read(cx, path, (size_t)1 << 26, data, n));
    qb_table_free(table);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

static void calibration_gives_the_same_bytes(void **state) {
    (void)state;
    qb_ctx cx;
    char *expected, *got;
    size_t n, m;
    qb_ctx_init(&cx);
    need_two();
    calibrated(&cx, &(qb_devices){0}, 0, &expected, &n);
    for (int i = 0; i < 4; i++) { /* many samples a run, and one */
        calibrated(&cx, i % 2 ? &on_both : &on_second, i / 2, &got, &m);
        assert_int_equal(m, n);
        assert_memory_equal(got, expected, n);
        qb_free(got);
    }
    qb_free(expected);
}

typedef float answers[RUN_IMAGES][4];

static qb_status answer(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    return qb_context_run(cx, sample->context[0], sample->inputs,
                          (void *[]){((float(*)[4])user)[sample->index]});
}

static void evaluate(qb_ctx *cx, const qb_devices *devices, const char *cache, answers out) {
    qb_dataset *dataset = run_dataset(cx);
    qb_graph *graph = run_graph(cx, RUN_SIDE);
    const qb_stream_model model = {
        .graph = graph, .spec = {.backends = "cuda", .timing_cache = cache}, .devices = *devices};
    const qb_loader_options loader = run_loader(dataset, 1, 2);
    const qb_stream_options options = {.model = &model,
                                       .n_models = 1,
                                       .loader = &loader,
                                       .workers = 6,
                                       .sample = answer,
                                       .user = out};
    qb_stream_result result;
    assert_ok(cx, qb_stream(cx, &options, &result));
    qb_graph_free(graph);
    qb_dataset_close(dataset);
}

/* With the same kernels: those that were fastest the first time. */
static void evaluation_gives_the_same_answers(void **state) {
    (void)state;
    qb_ctx cx;
    char folder[QB_TEST_PATH], cache[QB_TEST_PATH];
    answers expected, got;
    qb_ctx_init(&cx);
    need_two();
    qb_test_temp_dir(folder);
    qb_test_join(cache, folder, "timing.cache");
    evaluate(&cx, &(qb_devices){0}, cache, expected);
    evaluate(&cx, &on_second, cache, got);
    assert_memory_equal(got, expected, sizeof got);
    evaluate(&cx, &on_both, cache, got);
    assert_memory_equal(got, expected, sizeof got);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(calibration_gives_the_same_bytes),
    cmocka_unit_test(evaluation_gives_the_same_answers),
};

QB_TEST_MAIN(tests)
