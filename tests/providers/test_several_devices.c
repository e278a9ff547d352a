/* Calibration and evaluation on several devices: the same result on one, two and three; cut off,
 * and with one that fails. On devices that need no GPU. */
#include "qb_test.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "fake_device.h"
#include "small_run.h"
#include "stream/stream.h"

#define BYTES_MAX ((size_t)1 << 26)

static const qb_devices on_one = {0}, on_two = {2, {0, 1}}, on_three = {3, {2, 0, 1}};

/* ---- what happens at a launch ---- */

static atomic_int launches[FAKE_DEVICES];
static int awaited; /* devices that must have launched something before any goes on */

static int busy_devices(void) {
    int n = 0;
    for (int i = 0; i < FAKE_DEVICES; i++) n += atomic_load(&launches[i]) > 0;
    return n;
}

/* No device can do all of the work before the others have begun. */
static qb_status wait_for_all(qb_ctx *cx, int32_t device) {
    const double start = qb_now();
    atomic_fetch_add(&launches[device], 1);
    while (busy_devices() < awaited) {
        if (qb_now() - start > 60)
            return qb_fail(cx, QB_STATUS_CHECK, "%d devices of %d at work", busy_devices(),
                           awaited);
        usleep(100);
    }
    return QB_OK;
}

static qb_status fail_on_device_1(qb_ctx *cx, int32_t device) {
    QB_TRY(wait_for_all(cx, device));
    if (device != 1 || atomic_load(&launches[1]) < 5) return QB_OK;
    return qb_fail(cx, QB_STATUS_INTERNAL, "the device was lost");
}

static const char *checkpoint; /* its file */

static qb_status die_half_way(qb_ctx *cx, int32_t device) {
    (void)cx;
    (void)device;
    static atomic_int n;
    if (atomic_fetch_add(&n, 1) > 25 && qb_path_exists(checkpoint)) raise(SIGKILL);
    return QB_OK;
}

static void begin(qb_status (*on_launch)(qb_ctx *, int32_t), int devices) {
    for (int i = 0; i < FAKE_DEVICES; i++) atomic_store(&launches[i], 0);
    awaited = devices;
    fake_device_is_there = true;
    fake_device_last_hardware = NULL;
    fake_device_on_launch = on_launch;
}

/* ---- calibration ---- */

static qb_status calibrate(qb_ctx *cx, const qb_calib_options *how, int64_t batch, qb_table **out) {
    qb_method_choice choice[2];
    assert_ok(cx, qb_method_parse(cx, "minmax", &choice[0]));
    assert_ok(cx, qb_method_parse(cx, "moving-average", &choice[1]));
    qb_dataset *dataset = run_dataset(cx);
    qb_graph *graph = run_convs(cx, batch);
    qb_calib_options options = *how;
    options.methods = choice;
    options.n_methods = 2;
    options.spec.backends = "cuda,ref";
    options.workers = 2;
    options.loader = run_loader(dataset, 1, 2);
    qb_status status = qb_calibrate(cx, graph, &options, out);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
    return status;
}

typedef struct bytes {
    char *data;
    size_t n;
} bytes;

static bytes bytes_of(qb_ctx *cx, qb_table *table) {
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    bytes b;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.calib.h5");
    assert_ok(cx, qb_table_save(cx, table, path));
    assert_ok(cx, qb_file_read(cx, path, BYTES_MAX, &b.data, &b.n));
    qb_table_free(table);
    return b;
}

static bytes calibrated(qb_ctx *cx, const qb_calib_options *how, int64_t batch) {
    qb_table *table;
    assert_ok(cx, calibrate(cx, how, batch, &table));
    assert_int_equal(table->samples, RUN_IMAGES);
    return bytes_of(cx, table);
}

static void check_same(bytes expected, bytes got) {
    assert_int_equal(got.n, expected.n);
    assert_memory_equal(got.data, expected.data, expected.n);
    qb_free(got.data);
}

/* One sample a run and many; with observers on the device and, by channel, on the host. */
static void calibration_gives_the_same_bytes(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        qb_calib_options how = {.devices = on_one, .per_channel = per_channel};
        begin(NULL, 0);
        const bytes expected = calibrated(&cx, &how, 1);
        check_same(expected, calibrated(&cx, &how, 0));
        how.devices = on_two;
        check_same(expected, calibrated(&cx, &how, 0));
        begin(wait_for_all, 2);
        check_same(expected, calibrated(&cx, &how, 1));
        assert_int_equal(launches[2], 0);
        how.devices = on_three;
        begin(wait_for_all, 3);
        check_same(expected, calibrated(&cx, &how, 1));
        qb_free(expected.data);
    }
}

static void calibration_goes_on_after_it_was_killed(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    int how_it_ended;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.part");
    qb_calib_options how = {.devices = on_three, .checkpoint = path};
    checkpoint = path;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        qb_table *table;
        begin(die_half_way, 0);
        (void)calibrate(&cx, &how, 1, &table);
        _exit(0); /* it should not come to this */
    }
    assert_int_equal(waitpid(child, &how_it_ended, 0), child);
    assert_true(WIFSIGNALED(how_it_ended) && WTERMSIG(how_it_ended) == SIGKILL);
    begin(NULL, 0);
    how = (qb_calib_options){.devices = on_one};
    const bytes expected = calibrated(&cx, &how, 1);
    how = (qb_calib_options){.devices = on_two, .checkpoint = path, .resume = true};
    check_same(expected, calibrated(&cx, &how, 1));
    qb_free(expected.data);
}

static void a_device_that_fails_is_named(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_table *table = NULL;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.part");
    qb_calib_options how = {.devices = on_three, .checkpoint = path, .checkpoint_s = 1e9};
    begin(fail_on_device_1, 3);
    assert_fails(&cx, calibrate(&cx, &how, 1, &table), QB_STATUS_INTERNAL);
    assert_message(&cx, "device 1: ");
    assert_message(&cx, "the device was lost");
    assert_null(table);
    assert_false(qb_path_exists(path));
}

/* ---- evaluation ---- */

/* What two models say of each sample. */
typedef struct answers {
    float value[2][RUN_IMAGES][4];
    atomic_int workers; /* that came with their first sample */
    atomic_bool here[FAKE_DEVICES];
    int expected;
} answers;

static qb_status answer(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    answers *a = user;
    const double start = qb_now();
    if (!atomic_exchange(&a->here[sample->worker], true)) atomic_fetch_add(&a->workers, 1);
    while (atomic_load(&a->workers) < a->expected && qb_now() - start < 60) usleep(100);
    for (int e = 0; e < 2; e++)
        QB_TRY(qb_context_run(cx, sample->context[e], sample->inputs,
                              (void *[]){a->value[e][sample->index]}));
    return QB_OK;
}

/* By the host, and by the devices with steps of the host between. */
static qb_status evaluate(qb_ctx *cx, const qb_devices *devices, answers *out) {
    qb_dataset *dataset = run_dataset(cx);
    qb_graph *graph = run_graph(cx, RUN_SIDE);
    const qb_stream_model model[] = {
        {.graph = graph, .spec.backends = "ref", .devices = *devices},
        {.graph = graph, .spec.backends = "cuda,ref", .devices = *devices, .name = "fp32"}};
    const qb_loader_options loader = run_loader(dataset, 1, 2);
    *out = (answers){.expected = qb_devices_count(devices)};
    const qb_stream_options options = {.model = model,
                                       .n_models = 2,
                                       .loader = &loader,
                                       .workers = out->expected,
                                       .sample = answer,
                                       .user = out};
    qb_stream_result result;
    qb_status status = qb_stream(cx, &options, &result);
    qb_graph_free(graph);
    qb_dataset_close(dataset);
    return status;
}

static qb_status count(qb_ctx *cx, int32_t device) {
    (void)cx;
    atomic_fetch_add(&launches[device], 1);
    return QB_OK;
}

static int engines_in(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        n += strncmp(entry->d_name, "qbench-engine-", 14) == 0;
    closedir(dir);
    return n;
}

/* Each device runs the same engine, beside one of the host, and the files between are gone. */
static void evaluation_gives_the_same_answers(void **state) {
    (void)state;
    char folder[QB_TEST_PATH];
    qb_ctx cx;
    answers expected, got;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    setenv("TMPDIR", folder, 1);
    begin(NULL, 0);
    assert_ok(&cx, evaluate(&cx, &on_one, &expected));
    assert_floats(expected.value[1][0], expected.value[0][0], RUN_IMAGES * 4, 1e-5f, 1e-6f);
    for (int n = 2; n <= 3; n++) {
        begin(count, 0);
        assert_ok(&cx, evaluate(&cx, n == 2 ? &on_two : &on_three, &got));
        assert_int_equal(busy_devices(), n);
        assert_memory_equal(got.value, expected.value, sizeof got.value);
    }
    assert_int_equal(engines_in(folder), 0);
    unsetenv("TMPDIR");
}

static void devices_that_differ_are_refused(void **state) {
    (void)state;
    static const qb_devices absent = {2, {0, FAKE_DEVICES}};
    qb_ctx cx;
    qb_table *table = NULL;
    answers got;
    qb_ctx_init(&cx);
    qb_calib_options how = {.devices = on_three};
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        begin(NULL, 0);
        fake_device_last_hardware = "odd device";
        how.per_channel = per_channel;
        assert_fails(&cx, calibrate(&cx, &how, 1, &table), QB_STATUS_MISMATCH);
        assert_message(&cx, "2 is 'odd device (driver 1)', 0 is 'fake device (driver 1)'");
        qb_ctx_clear(&cx);
    }
    assert_fails(&cx, evaluate(&cx, &on_three, &got), QB_STATUS_MISMATCH);
    assert_message(&cx, "2 is 'odd device (driver 1)', 0 is 'fake device (driver 1)'");
    qb_ctx_clear(&cx);
    assert_fails(&cx, evaluate(&cx, &absent, &got), QB_STATUS_INVALID);
    assert_message(&cx, "device 3: fake device: expected 0 to 2, got 3");
    assert_null(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calibration_gives_the_same_bytes),
        cmocka_unit_test(calibration_goes_on_after_it_was_killed),
        cmocka_unit_test(a_device_that_fails_is_named),
        cmocka_unit_test(evaluation_gives_the_same_answers),
        cmocka_unit_test(devices_that_differ_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
