/* Engine files of a device: what is loaded runs as what was saved; another device or driver is
 * refused; the same timings give the same bytes. On a device that needs no GPU. */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "engine/file.h"
#include "eval/bench.h"
#include "fake_device.h"
#include "open_models.h"
#include "plugin_graph.h"

#define IMAGE (3 * 32 * 32)
#define SCORES 10

typedef struct files {
    qb_ctx cx;
    qb_graph *graph;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], other[QB_TEST_PATH], cache[QB_TEST_PATH];
} files;

/* `gate`: with a plugin that only the CPU runs. */
static void open_files(files *f, bool gate) {
    qb_ctx_init(&f->cx);
    fake_device_is_there = true;
    fake_device_hardware = "fake device";
    fake_device_software = "driver 1";
    qb_test_temp_dir(f->folder);
    qb_test_join(f->path, f->folder, "small.qbe");
    qb_test_join(f->other, f->folder, "other.qbe");
    qb_test_join(f->cache, f->folder, "timing.cache");
    if (gate) assert_ok(&f->cx, plugin_graph_load(&f->cx, "gate"));
    assert_ok(&f->cx, plugin_graph_gate(&f->cx, !gate, &f->graph));
}

static void close_files(files *f) {
    qb_graph_free(f->graph);
    qb_plugins_release(f->cx.plugins);
}

static qb_engine *build(files *f, const char *timing_cache) {
    const qb_build_spec options = {
        .backends = "cuda,cpu,ref", .threads = 1, .timing_cache = timing_cache};
    qb_engine *engine;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &engine));
    return engine;
}

static void save(files *f, const qb_engine *engine, const char *path, bool version, bool hardware) {
    const qb_engine_origin origin = {.model = "small.onnx",
                                     .precision = "fp32",
                                     .options = "--providers=cuda,cpu",
                                     .version_compatible = version,
                                     .hardware_compatible = hardware};
    assert_ok(&f->cx, qb_engine_save(&f->cx, engine, &origin, path));
}

static void run(files *f, const qb_engine *engine, float scores[SCORES]) {
    float image[IMAGE];
    qb_rng rng;
    qb_context *context;
    qb_rng_seed(&rng, 5);
    for (size_t i = 0; i < IMAGE; i++) image[i] = (float)qb_rng_normal(&rng);
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    assert_ok(&f->cx, qb_context_run(&f->cx, context, (const void *[]){image}, (void *[]){scores}));
    qb_context_free(context);
}

static void same_steps(const qb_engine *a, const qb_engine *b) {
    assert_int_equal(qb_engine_n_steps(a), qb_engine_n_steps(b));
    for (int32_t s = 0; s < qb_engine_n_steps(a); s++) {
        qb_step_info x, y;
        qb_engine_step(a, s, &x);
        qb_engine_step(b, s, &y);
        assert_string_equal(x.tactic, y.tactic);
        assert_string_equal(x.name, y.name);
        assert_int_equal(x.on_device, y.on_device);
    }
}

static void a_loaded_engine_runs_as_the_saved_one(void **state) {
    (void)state;
    for (int gate = 0; gate < 2; gate++) {
        files f;
        float before[SCORES], after[SCORES];
        qb_engine *loaded;
        qb_engine_memory built, again;
        open_files(&f, gate);
        qb_engine *engine = build(&f, NULL);
        save(&f, engine, f.path, false, false);
        assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
        same_steps(engine, loaded);
        assert_string_equal(qb_engine_device(loaded), "fake device, driver 1");
        qb_engine_memory_of(engine, &built);
        qb_engine_memory_of(loaded, &again);
        assert_memory_equal(&built, &again, sizeof built);
        run(&f, engine, before);
        run(&f, loaded, after);
        assert_memory_equal(before, after, sizeof before);
        qb_engine_free(loaded);
        qb_engine_free(engine);
        close_files(&f);
    }
}

/* Loading packs nothing and brings all weights to the device in one piece. */
static void loading_takes_one_block(void **state) {
    (void)state;
    files f;
    qb_engine *loaded;
    open_files(&f, false);
    qb_engine *engine = build(&f, NULL);
    save(&f, engine, f.path, false, false);
    const int before = fake_device_allocations;
    assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
    assert_int_equal(fake_device_allocations - before, 1);
    qb_engine_free(loaded);
    qb_engine_free(engine);
    close_files(&f);
}

static void check_refused(files *f, const char *built, const char *here, const char *way_out) {
    qb_engine *loaded = NULL;
    assert_fails(&f->cx, qb_engine_load(&f->cx, f->path, &loaded), QB_STATUS_MISMATCH);
    assert_message(&f->cx, built);
    assert_message(&f->cx, here);
    assert_message(&f->cx, "'qbench build --model small.onnx --precision fp32 "
                           "--providers=cuda,cpu --saveEngine=");
    assert_message(&f->cx, way_out);
    assert_null(loaded);
    qb_ctx_clear(&f->cx);
}

static void another_device_is_refused_with_both_sides(void **state) {
    (void)state;
    files f;
    char *tags;
    open_files(&f, false);
    qb_engine *engine = build(&f, NULL);
    save(&f, engine, f.path, false, false);
    qb_engine_free(engine);
    fake_device_hardware = "faster device";
    check_refused(&f, "for 'fake device", "on 'faster device", "with --hardware-compatible");
    fake_device_hardware = "fake device";
    fake_device_software = "driver 2";
    check_refused(&f, "(driver 1", "(driver 2", "with --version-compatible");
    fake_device_is_there = false;
    check_refused(&f, "for 'fake device", "on 'no device is plugged in", "--hardware-compatible");
    assert_ok(&f.cx, qb_engine_file_tags(&f.cx, f.path, &tags)); /* also without the device */
    assert_non_null(strstr(tags, "\"device\": \"fake device\""));
    assert_non_null(strstr(tags, "\"driver\": \"driver 1\""));
    qb_free(tags);
    close_files(&f);
}

/* Kernels are chosen for the device that is there, from the weights as the model has them. */
static void compatible_files_load_elsewhere(void **state) {
    (void)state;
    files f;
    float before[SCORES], after[SCORES];
    qb_engine *loaded;
    open_files(&f, true);
    qb_engine *engine = build(&f, NULL);
    run(&f, engine, before);
    save(&f, engine, f.path, true, true);
    qb_engine_free(engine);
    for (int other = 0; other < 2; other++) {
        fake_device_hardware = other ? "faster device" : "fake device";
        fake_device_software = other ? "driver 2" : "driver 1";
        assert_ok(&f.cx, qb_engine_load(&f.cx, f.path, &loaded));
        run(&f, loaded, after);
        assert_memory_equal(before, after, sizeof before);
        qb_engine_free(loaded);
    }
    fake_device_is_there = false;
    assert_fails(&f.cx, qb_engine_load(&f.cx, f.path, &loaded), QB_STATUS_UNSUPPORTED);
    assert_message(&f.cx, "no device is plugged in");
    close_files(&f);
}

static void same_bytes(files *f, const char *a, const char *b) {
    char *x, *y;
    size_t n, m;
    assert_ok(&f->cx, qb_file_read(&f->cx, a, (size_t)1 << 26, &x, &n));
    assert_ok(&f->cx, qb_file_read(&f->cx, b, (size_t)1 << 26, &y, &m));
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    qb_free(x);
    qb_free(y);
}

/* The device's clock never says the same twice: what is equal comes from the cache. */
static void the_same_timings_give_the_same_bytes(void **state) {
    (void)state;
    files f;
    open_files(&f, true);
    qb_engine *first = build(&f, f.cache), *second = build(&f, f.cache);
    save(&f, first, f.path, false, false);
    save(&f, second, f.other, false, false);
    same_bytes(&f, f.path, f.other);
    qb_engine_free(first);
    qb_engine_free(second);
    close_files(&f);
}

/* Takes the engine. */
static void every_flip_is_refused(files *f, qb_engine *engine) {
    char *bytes;
    size_t size;
    qb_engine *loaded = NULL;
    save(f, engine, f->path, false, false);
    qb_engine_free(engine);
    assert_ok(&f->cx, qb_file_read(&f->cx, f->path, (size_t)1 << 26, &bytes, &size));
    FILE *stream = fopen(f->path, "r+b");
    assert_non_null(stream);
    setvbuf(stream, NULL, _IONBF, 0);
    for (size_t i = 0; i < size; i++) {
        const int changed = (unsigned char)bytes[i] ^ 1 << i % 8;
        assert_int_equal(fseek(stream, (long)i, SEEK_SET), 0);
        assert_int_equal(fputc(changed, stream), changed);
        assert_fails(&f->cx, qb_engine_load(&f->cx, f->path, &loaded), QB_STATUS_FORMAT);
        qb_ctx_clear(&f->cx);
        assert_int_equal(fseek(stream, (long)i, SEEK_SET), 0);
        assert_int_equal(fputc((unsigned char)bytes[i], stream), (unsigned char)bytes[i]);
    }
    print_message("%zu bytes, each with one bit flipped: all refused\n", size);
    assert_int_equal(ftruncate(fileno(stream), (off_t)size - 1), 0);
    assert_fails(&f->cx, qb_engine_load(&f->cx, f->path, &loaded), QB_STATUS_FORMAT);
    qb_ctx_clear(&f->cx);
    assert_int_equal(fclose(stream), 0);
    assert_null(loaded);
    qb_free(bytes);
}

/* Of one set of sizes, and with ranges of them. */
static void damage_is_noticed(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 4, 4), opt = qb_shape_of(4, 1, 3, 8, 8),
                   max = qb_shape_of(4, 2, 3, 8, 8);
    const qb_profile profile = {&min, &opt, &max};
    const qb_build_spec options = {
        .backends = "cuda,cpu,ref", .threads = 1, .profiles = &profile, .n_profiles = 1};
    files f;
    qb_graph *graph;
    qb_engine *engine;
    open_files(&f, false);
    every_flip_is_refused(&f, build(&f, NULL));
    open_image_model(&f.cx, &graph);
    assert_ok(&f.cx, qb_engine_build(&f.cx, graph, &options, &engine));
    qb_graph_free(graph);
    every_flip_is_refused(&f, engine);
    close_files(&f);
}

/* Two devices of the same kind: one file for both, each with its own weights. */
static void a_file_loads_on_any_of_the_devices(void **state) {
    (void)state;
    files f;
    float first[SCORES], second[SCORES];
    qb_engine *loaded = NULL;
    open_files(&f, true);
    qb_engine *engine = build(&f, NULL);
    save(&f, engine, f.path, false, false);
    assert_ok(&f.cx, qb_engine_load_on(&f.cx, f.path, 1, &loaded));
    run(&f, engine, first);
    run(&f, loaded, second);
    assert_memory_equal(first, second, sizeof first);
    run(&f, engine, first); /* back on the other one */
    assert_memory_equal(first, second, sizeof first);
    qb_engine_free(engine);
    qb_engine_free(loaded);
    loaded = NULL;
    assert_fails(&f.cx, qb_engine_load_on(&f.cx, f.path, FAKE_DEVICES, &loaded),
                 QB_STATUS_MISMATCH);
    assert_message(&f.cx, "expected 0 to 2, got 3");
    assert_null(loaded);
    close_files(&f);
}

/* Streams are dealt out to the devices, each with its own context. */
static void streams_run_on_all_devices(void **state) {
    (void)state;
    files f;
    float image[IMAGE] = {0};
    qb_engine *second;
    qb_bench bench;
    int64_t of_stream[4] = {0};
    open_files(&f, true);
    qb_engine *first = build(&f, NULL);
    save(&f, first, f.path, false, false);
    assert_ok(&f.cx, qb_engine_load_on(&f.cx, f.path, 1, &second));
    const qb_engine *const other = second;
    const qb_bench_options options = {
        .streams = 2, .others = &other, .n_others = 1, .min_runs = 5, .warmup_ms = 1};
    assert_ok(&f.cx, qb_bench_run(&f.cx, first, (const void *[]){image}, &options, &bench));
    assert_true(bench.on_device);
    for (int64_t i = 0; i < bench.n; i++) of_stream[bench.query[i].stream]++;
    for (int i = 0; i < 4; i++) assert_true(of_stream[i] >= 5);
    qb_bench_release(&bench);
    qb_engine_free(second);
    qb_engine_free(first);
    close_files(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_engine_runs_as_the_saved_one),
        cmocka_unit_test(loading_takes_one_block),
        cmocka_unit_test(another_device_is_refused_with_both_sides),
        cmocka_unit_test(compatible_files_load_elsewhere),
        cmocka_unit_test(the_same_timings_give_the_same_bytes),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(a_file_loads_on_any_of_the_devices),
        cmocka_unit_test(streams_run_on_all_devices),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
