/* Commands on several devices: the runs of `data doctor`, and `bench` with ranges of shapes. On
 * devices that need no GPU. */
#include "qb_test.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/bench/devices.h"
#include "cli/data/check.h"
#include "cli/settings/shape_flags.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "eval/bench.h"
#include "fake_device.h"
#include "open_models.h"
#include "small_run.h"

static atomic_int launches[FAKE_DEVICES];

static qb_status count(qb_ctx *cx, int32_t device) {
    (void)cx;
    atomic_fetch_add(&launches[device], 1);
    return QB_OK;
}

/* Neither of two devices can do all of the work before the other one has begun. */
static qb_status wait_for_both(qb_ctx *cx, int32_t device) {
    const double start = qb_now();
    QB_TRY(count(cx, device));
    while (!atomic_load(&launches[1]) || !atomic_load(&launches[2])) {
        if (qb_now() - start > 60)
            return qb_fail(cx, QB_STATUS_CHECK, "device %d works alone", (int)device);
        usleep(100);
    }
    return QB_OK;
}

static void begin(qb_status (*on_launch)(qb_ctx *, int32_t)) {
    for (int i = 0; i < FAKE_DEVICES; i++) atomic_store(&launches[i], 0);
    fake_device_on_launch = on_launch;
}

/* ---- data doctor ---- */

static qb_status examine(qb_ctx *cx, qb_project_flags flags, json_t **findings) {
    char folder[QB_TEST_PATH], model[QB_TEST_PATH], data[QB_TEST_PATH];
    const qb_common common = {0};
    qb_project project = {0};
    qb_diagnosis diagnosis = {.common = &common};
    qb_graph *graph = run_graph(cx, RUN_SIDE);
    qb_status status = QB_OK;
    run_images(data);
    qb_test_temp_dir(folder);
    qb_test_join(model, folder, "model.onnx");
    assert_ok(cx, qb_onnx_save(cx, graph, model));
    qb_graph_free(graph);
    graph = NULL;
    flags.model = model;
    flags.data = data;
    QB_GO(qb_project_open(cx, &common, &flags, true, &project));
    QB_GO(qb_stage_load(cx, &project, NULL, &graph, NULL));
    QB_GO(qb_data_examine(cx, &project, graph, NULL, true, &diagnosis));
    *findings = qb_diagnosis_take(&diagnosis);
out:
    qb_diagnosis_release(&diagnosis);
    qb_graph_free(graph);
    qb_project_close(&project);
    return status;
}

/* Every sample that is run is run on the devices that were asked for. */
static void the_doctor_runs_on_the_devices(void **state) {
    (void)state;
    qb_ctx cx;
    json_t *found = NULL;
    qb_ctx_init(&cx);
    begin(wait_for_both);
    assert_ok(&cx,
              examine(&cx, (qb_project_flags){.build = {.providers = "cuda,cpu", .devices = "1,2"}},
                      &found));
    bool ranges = false, scored = false;
    for (size_t i = 0; i < json_array_size(found); i++) {
        const json_t *finding = json_array_get(found, i);
        const char *check = json_string_value(json_object_get(finding, "check"));
        const char *text = json_string_value(json_object_get(finding, "text"));
        assert_null(strstr(text, "cannot be"));
        ranges = ranges || strcmp(check, "ranges") == 0;
        scored = scored || (strcmp(check, "preprocess") == 0 && strstr(text, "top-1"));
    }
    assert_true(ranges && scored);
    assert_int_equal(atomic_load(&launches[0]), 0);
    assert_true(atomic_load(&launches[1]) > 0 && atomic_load(&launches[2]) > 0);
    json_decref(found);
}

static void devices_without_a_provider_are_refused(void **state) {
    (void)state;
    qb_ctx cx;
    json_t *found = NULL;
    qb_ctx_init(&cx);
    assert_fails(&cx, examine(&cx, (qb_project_flags){.build = {.devices = "1,2"}}, &found),
                 QB_STATUS_USAGE);
    assert_message(&cx, "--devices chooses among GPUs, and nothing here runs on one");
    assert_null(found);
}

/* ---- bench ---- */

static qb_engine *build_ranges(qb_ctx *cx) {
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 1, 3, 16, 16),
                   max = qb_shape_of(4, 2, 3, 24, 24);
    const qb_profile profile = {&min, &opt, &max};
    const qb_build_spec options = {
        .backends = "cuda,cpu,ref", .threads = 1, .profiles = &profile, .n_profiles = 1};
    qb_graph *graph;
    qb_engine *engine;
    open_image_model(cx, &graph);
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    qb_graph_free(graph);
    return engine;
}

/* Each device runs its own plan for the sizes, from a file or from the first engine. */
static void bench(qb_ctx *cx, const char *path, const char *shapes) {
    static const float image[2 * 3 * 24 * 24];
    enum { DEVICES = 3, STREAMS = 2 };
    qb_bench_devices devices = {.at = {DEVICES, {0, 1, 2}}};
    const qb_engine *plan;
    qb_bench result;
    int of_stream[DEVICES * STREAMS] = {0};
    qb_engine *engine = build_ranges(cx);
    if (path) assert_ok(cx, qb_engine_save(cx, engine, &(qb_engine_origin){0}, path));
    assert_ok(cx, qb_bench_devices_load(cx, engine, path, &devices));
    assert_ok(cx, qb_shapes_plan(cx, engine, shapes, -1, &plan));
    assert_ok(cx, qb_bench_devices_plan(cx, shapes, -1, &devices));
    for (int i = 1; i < DEVICES; i++)
        assert_true(qb_shape_equal(&qb_engine_input(devices.plan[i], 0)->shape,
                                   &qb_engine_input(plan, 0)->shape));
    begin(count);
    const qb_bench_options options = {.streams = STREAMS,
                                      .others = devices.plan + 1,
                                      .n_others = DEVICES - 1,
                                      .min_runs = 3,
                                      .warmup_ms = 1};
    assert_ok(cx, qb_bench_run(cx, plan, (const void *[]){image}, &options, &result));
    for (int64_t i = 0; i < result.n; i++) of_stream[result.query[i].stream]++;
    for (int i = 0; i < DEVICES * STREAMS; i++) assert_true(of_stream[i] >= 3);
    for (int i = 0; i < DEVICES; i++) assert_true(atomic_load(&launches[i]) > 0);
    qb_bench_release(&result);
    qb_engine_release(plan);
    qb_bench_devices_release(&devices);
    qb_engine_free(engine);
    assert_int_equal(fake_device_blocks, 0);
}

static void bench_takes_ranges_on_several_devices(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "open.qbe");
    bench(&cx, NULL, NULL);
    bench(&cx, path, "image:2x3x9x17");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_doctor_runs_on_the_devices),
        cmocka_unit_test(devices_without_a_provider_are_refused),
        cmocka_unit_test(bench_takes_ranges_on_several_devices),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
