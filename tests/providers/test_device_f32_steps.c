/* Numbers beyond f16 in engines of f16: the steps that make or read them are in f32, by what
 * calibration saw, by scales and by weights; a plan keeps that. On a device that needs no GPU. */
#include <math.h>
#include <string.h>

#include "../unit/graph/build_graph.h"
#include "base/file.h"
#include "bench_models.h"
#include "engine/engine_internal.h"
#include "engine/file.h"
#include "engine/plan/plan_internal.h"
#include "fake_device.h"
#include "graph/dequantize.h"

enum { SIDE = 14, CHANNELS = 4 };

static const qb_build_spec f16 = {.backends = "cuda,cpu,ref",
                                  .float_type = QB_DTYPE_F16,
                                  .threads = 1,
                                  .no_mixed_precision = true};

static int32_t conv(maker *m, const char *name, int32_t x, int32_t channels, double scale) {
    char weight[32];
    snprintf(weight, sizeof weight, "%s_w", name);
    return NODE(m, "Conv", name, x,
                make_uniform(m, weight, DIMS(CHANNELS, channels, 3, 3), -scale, scale));
}

/* x -> a, whose numbers are large -> view of it -> b, c: small again. */
static void make_large(maker *m, bool view) {
    maker_init(m, 5);
    int32_t x = make_input(m, "x", DIMS(1, CHANNELS, SIDE, SIDE));
    x = NODE(m, "Relu", "a", conv(m, "a_conv", x, CHANNELS, 6e4));
    if (view) x = NODE(m, "Reshape", "seen", x, INTS(m, "to", 1, CHANNELS, 8, 18));
    x = NODE(m, "Relu", "b", conv(m, "b_conv", x, CHANNELS, 1e-6));
    make_output(m, NODE(m, "Relu", "c", conv(m, "c_conv", x, CHANNELS, 1)));
}

static qb_value *value(maker *m, const char *name) {
    const int32_t id = qb_graph_find_value(m->graph, name);
    assert_true(id >= 0);
    return &m->graph->values[id];
}

static qb_engine *build(maker *m, const qb_build_spec *spec) {
    qb_engine *engine;
    assert_ok(&m->cx, qb_engine_build(&m->cx, m->graph, spec, &engine));
    return engine;
}

/* Computes the step of this value in f32, and is it told why? */
static bool is_f32(const qb_engine *engine, const char *output) {
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (strcmp(info.output, output) != 0 || strcmp(info.tactic, "cuda.fake_conv") != 0)
            continue;
        const bool f32 = info.dtype == QB_DTYPE_F32;
        assert_true(f32 == (info.fallback_reason != NULL));
        if (f32) assert_non_null(strstr(info.fallback_reason, ", f16 ends at 65504"));
        return f32;
    }
    fail_msg("no convolution makes %s on the device", output);
    return false;
}

/* Relative to the largest result of f32. */
static double difference(maker *m, const qb_engine *engine) {
    const qb_build_spec f32 = {.backends = "ref", .threads = 1};
    qb_engine *reference = build(m, &f32);
    const qb_engine *const both[2] = {engine, reference};
    bench_ports ports[2];
    double worst = 0, largest = 0;
    for (int i = 0; i < 2; i++) {
        qb_context *context;
        assert_ok(&m->cx, bench_ports_new(&m->cx, both[i], 3, &ports[i]));
        assert_ok(&m->cx, qb_context_create(&m->cx, both[i], &context));
        assert_ok(&m->cx,
                  qb_context_run(&m->cx, context, (const void *const *)ports[i].in, ports[i].out));
        qb_context_free(context);
    }
    const float *a = ports[0].out[0], *b = ports[1].out[0];
    const int64_t n = qb_shape_count(&qb_engine_output(reference, 0)->shape);
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, isfinite(a[i]) ? fabs((double)a[i] - (double)b[i]) : (double)INFINITY);
        largest = fmax(largest, fabs((double)b[i]));
    }
    for (int i = 0; i < 2; i++) bench_ports_free(&ports[i]);
    qb_engine_free(reference);
    return worst / largest;
}

static void what_calibration_saw_decides(void **state) {
    (void)state;
    for (int view = 0; view < 2; view++) {
        maker m;
        make_large(&m, view);
        qb_engine *engine = build(&m, &f16);
        assert_false(is_f32(engine, "a")); /* nothing is known */
        assert_true(difference(&m, engine) > 0.1);
        qb_engine_free(engine);
        value(&m, "a")->largest = 65504;
        engine = build(&m, &f16);
        assert_false(is_f32(engine, "b")); /* they fit */
        qb_engine_free(engine);
        value(&m, "a")->largest = 5e6f;
        engine = build(&m, &f16);
        assert_true(is_f32(engine, "a") && is_f32(engine, "b"));
        assert_false(is_f32(engine, "c"));
        assert_true(difference(&m, engine) < 0.01);
        qb_engine_free(engine);
        maker_release(&m);
    }
}

static void weights_decide(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        maker m;
        maker_init(&m, 6);
        int32_t x = make_input(&m, "x", DIMS(1, CHANNELS, SIDE, SIDE));
        x = NODE(&m, "Relu", "a", conv(&m, "a_conv", x, CHANNELS, large ? 1e6 : 6e4));
        make_output(&m, NODE(&m, "Relu", "b", conv(&m, "b_conv", x, CHANNELS, 1)));
        qb_engine *engine = build(&m, &f16);
        assert_int_equal(is_f32(engine, "a"), large);
        assert_false(is_f32(engine, "b"));
        qb_engine_free(engine);
        maker_release(&m);
    }
}

static char *save(maker *m, const qb_engine *engine, const char *path, size_t *n) {
    char *bytes;
    const qb_engine_origin origin = {.precision = "fp16"};
    assert_ok(&m->cx, qb_engine_save(&m->cx, engine, &origin, path));
    assert_ok(&m->cx, qb_file_read(&m->cx, path, (size_t)1 << 24, &bytes, n));
    return bytes;
}

typedef void check_fn(maker *m, const qb_engine *engine);

/* The range of `large` is known when the engine is tuned alone; file and plan say what it said. */
static void keep(maker *m, const char *large, check_fn *check) {
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], plan[QB_TEST_PATH], *text, *bytes[2];
    size_t n[2];
    qb_build_spec again = f16;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "a.qbe");
    qb_test_join(plan, folder, "a.json");
    value(m, large)->largest = 5e6f;
    qb_engine *engine = build(m, &f16), *loaded;
    check(m, engine);
    bytes[0] = save(m, engine, path, &n[0]);
    assert_ok(&m->cx, qb_engine_load(&m->cx, path, &loaded));
    check(m, loaded);
    qb_engine_free(loaded);
    assert_ok(&m->cx, qb_engine_file_plan(&m->cx, path, &text));
    assert_ok(&m->cx, qb_file_write(&m->cx, plan, text, strlen(text)));
    qb_free(text);
    value(m, large)->largest = 0;
    again.like = engine;
    qb_engine *like = build(m, &again);
    check(m, like);
    qb_engine_free(like);
    qb_engine_free(engine);
    again.like = NULL;
    again.plan = plan;
    engine = build(m, &again);
    bytes[1] = save(m, engine, path, &n[1]);
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    qb_engine_free(engine);
    qb_free(bytes[0]);
    qb_free(bytes[1]);
}

static void a_and_b_are_f32(maker *m, const qb_engine *engine) {
    assert_true(is_f32(engine, "a") && is_f32(engine, "b") && !is_f32(engine, "c"));
    assert_true(difference(m, engine) < 0.01);
}

static void plans_and_files_keep_it(void **state) {
    (void)state;
    for (int view = 0; view < 2; view++) {
        maker m;
        make_large(&m, view);
        keep(&m, "a", a_and_b_are_f32);
        maker_release(&m);
    }
}

/* The one float of a product of quantized values is its result. */
static void result_is_f32(maker *m, const qb_engine *engine) {
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (!strstr(info.op, "Conv") || strcmp(info.output, "b") != 0) continue;
        assert_true(info.on_device && info.dtype != QB_DTYPE_F32);
        assert_int_equal(engine->layouts[engine->steps[s].out[0]].desc.dtype, QB_DTYPE_F32);
        (void)m;
        return;
    }
    fail_msg("no convolution makes b");
}

static void products_of_quantized_values_keep_it(void **state) {
    (void)state;
    maker m;
    qb_graph *quantized;
    maker_init(&m, 8);
    int32_t x = make_input(&m, "x", DIMS(1, CHANNELS, SIDE, SIDE));
    x = NODE(&m, "Relu", "a", conv(&m, "a_conv", x, CHANNELS, 1));
    make_output(&m, NODE(&m, "Relu", "b", conv(&m, "b_conv", x, CHANNELS, 1)));
    assert_ok(&m.cx, bench_quantize(&m.cx, m.graph, &quantized));
    maker_replace(&m, quantized);
    keep(&m, "b", result_is_f32);
    maker_release(&m);
}

/* They stay for their range: factors may be rounded to as many digits as f16 has. */
static void steps_kept_for_their_range_may_be_tf32(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], cache[QB_TEST_PATH], *text;
    size_t n;
    qb_test_temp_dir(folder);
    qb_test_join(cache, folder, "timing.cache");
    for (int large = 0; large < 2; large++) {
        maker m;
        qb_build_spec spec = f16;
        spec.timing_cache = cache;
        make_large(&m, false);
        if (large) value(&m, "a")->largest = 5e6f;
        qb_engine_free(build(&m, &spec));
        assert_ok(&m.cx, qb_file_read(&m.cx, cache, (size_t)1 << 24, &text, &n));
        assert_true((strstr(text, ";tf32") != NULL) == large);
        qb_free(text);
        maker_release(&m);
    }
}

/* What a scale can tell is beyond f16: no step of it is in f16, however fast that were, and neither
 * is the whole network. */
static void scales_decide(void **state) {
    (void)state;
    int fits = 0;
    for (int large = 0; large < 2; large++)
        for (int i = 0; i < 40; i++) {
            maker m;
            qb_graph *quantized;
            maker_init(&m, 7);
            int32_t x = make_input(&m, "x", DIMS(1, CHANNELS, SIDE, SIDE));
            x = NODE(&m, "Relu", "a", conv(&m, "a_conv", x, CHANNELS, large ? 6e4 : 6));
            x = NODE(&m, "Relu", "b", conv(&m, "b_conv", x, CHANNELS, large ? 6e-4 : 6));
            make_output(&m, NODE(&m, "Relu", "c", conv(&m, "c_conv", x, CHANNELS, 1e-3)));
            assert_ok(&m.cx, bench_quantize(&m.cx, m.graph, &quantized));
            maker_replace(&m, quantized);
            assert_true((qb_value_reach(value(&m, "a")) > 65504) == large);
            const qb_build_spec spec = {
                .backends = "cuda,cpu,ref", .float_type = QB_DTYPE_F16, .threads = 1};
            qb_engine *engine = build(&m, &spec);
            for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
                qb_step_info info;
                qb_engine_step(engine, s, &info);
                if (strcmp(info.output, "a") != 0 || info.dtype != QB_DTYPE_F16) continue;
                assert_false(large);
                fits++;
            }
            qb_engine_free(engine);
            maker_release(&m);
        }
    assert_true(fits > 0); /* or nothing was tried */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_calibration_saw_decides),
        cmocka_unit_test(weights_decide),
        cmocka_unit_test(plans_and_files_keep_it),
        cmocka_unit_test(products_of_quantized_values_keep_it),
        cmocka_unit_test(steps_kept_for_their_range_may_be_tf32),
        cmocka_unit_test(scales_decide),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
