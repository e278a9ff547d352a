/* Real models on their test vectors: FP32 outputs agree with onnxruntime's to 1e-4 of the output's
 * range, by the optimized graph on the default kernels and on the reference kernels.
 * ctest-timeout: 300 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "engine/engine.h"
#include "graph/passes.h"
#include "qb_test.h"

#define PORTS_MAX 8

typedef struct vectors {
    qb_tensor tensor[PORTS_MAX];
    int32_t n;
} vectors;

static void vectors_release(vectors *v) {
    for (int32_t i = 0; i < v->n; i++) qb_free(v->tensor[i].data);
    v->n = 0;
}

/* folder/KIND_0.pb, folder/KIND_1.pb, ... */
static void vectors_load(qb_ctx *cx, const char *folder, const char *kind, vectors *out) {
    out->n = 0;
    for (; out->n < PORTS_MAX; out->n++) {
        char path[QB_TEST_PATH];
        snprintf(path, sizeof path, "%s/%s_%d.pb", folder, kind, out->n);
        if (!qb_path_exists(path)) break;
        assert_ok(cx, qb_onnx_load_tensor(cx, path, &out->tensor[out->n], NULL));
    }
    assert_true(out->n > 0);
}

/* The largest difference as a share of the expected output's range. */
static double range_error(const float *actual, const float *expected, int64_t n) {
    double low = expected[0], high = expected[0], worst = 0;
    for (int64_t i = 0; i < n; i++) {
        low = fmin(low, expected[i]);
        high = fmax(high, expected[i]);
        const double error = fabs((double)actual[i] - (double)expected[i]);
        worst = isnan(error) ? INFINITY : fmax(worst, error);
    }
    return worst / (high > low ? high - low : 1);
}

static void check_outputs(qb_ctx *cx, const qb_engine *engine, const vectors *in,
                          const vectors *expected, const char *what) {
    qb_context *context;
    assert_ok(cx, qb_context_create(cx, engine, &context));
    const void *inputs[PORTS_MAX];
    void *outputs[PORTS_MAX];
    assert_int_equal(qb_engine_n_inputs(engine), in->n);
    assert_int_equal(qb_engine_n_outputs(engine), expected->n);
    for (int32_t i = 0; i < in->n; i++) inputs[i] = in->tensor[i].data;
    for (int32_t i = 0; i < expected->n; i++) {
        outputs[i] = qb_alloc_aligned(cx, 1, qb_desc_bytes(qb_engine_output(engine, i)));
        assert_non_null(outputs[i]);
    }
    assert_ok(cx, qb_context_run(cx, context, inputs, outputs));
    for (int32_t i = 0; i < expected->n; i++) {
        const qb_tensor *t = &expected->tensor[i];
        assert_true(qb_shape_equal(&qb_engine_output(engine, i)->shape, &t->desc.shape));
        const double error = range_error(outputs[i], t->data, qb_shape_count(&t->desc.shape));
        printf("%s: output %d: error %.2e of the range\n", what, i, error);
        assert_true(error <= 1e-4);
        qb_free(outputs[i]);
    }
    qb_context_free(context);
}

static void check_set(qb_ctx *cx, const qb_graph *graph, const char *folder, const char *backends) {
    vectors in, expected;
    vectors_load(cx, folder, "input", &in);
    vectors_load(cx, folder, "output", &expected);
    qb_shape shapes[PORTS_MAX];
    for (int32_t i = 0; i < in.n; i++) shapes[i] = in.tensor[i].desc.shape;
    const qb_build_spec options = {.backends = backends, .input_shapes = shapes, .threads = 2};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    check_outputs(cx, engine, &in, &expected, folder);
    qb_engine_free(engine);
    vectors_release(&in);
    vectors_release(&expected);
}

/* All test_data_set_K of a model; at least one. */
static void check_files(const char *model, const char *data, const char *backends) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH], file[160];
    qb_test_need_shared(path, model);
    qb_graph *graph;
    assert_ok(&cx, qb_onnx_load(&cx, path, &graph));
    assert_ok(&cx, qb_optimize(&cx, graph, NULL, NULL));
    int sets = 0;
    for (;; sets++) {
        snprintf(file, sizeof file, "%s/test_data_set_%d", data, sets);
        if (!qb_test_shared(path, file)) break;
        check_set(&cx, graph, path, backends);
    }
    assert_true(sets > 0);
    qb_graph_free(graph);
}

static void check_model(const char *name, const char *backends) {
    char model[128], data[128];
    snprintf(model, sizeof model, "models/%s.onnx", name);
    snprintf(data, sizeof data, "models/testdata/%s", name);
    check_files(model, data, backends);
}

/* Whole graphs of opset 9 whose weights are computed; by the default kernels alone. */
#define LIGHT(name)                                                                                \
    static void name##_matches(void **state) {                                                     \
        (void)state;                                                                               \
        check_files("onnx-light/" #name "/model.onnx", "onnx-light/" #name, NULL);                 \
    }
LIGHT(light_squeezenet)
LIGHT(light_resnet50)
LIGHT(light_densenet121)

#define MODEL(identifier, name)                                                                    \
    static void identifier##_matches(void **state) {                                               \
        (void)state;                                                                               \
        check_model(name, NULL);                                                                   \
    }                                                                                              \
    static void identifier##_matches_on_reference_kernels(void **state) {                          \
        (void)state;                                                                               \
        check_model(name, "ref");                                                                  \
    }
MODEL(squeezenet, "squeezenet1.1")
MODEL(resnet8, "resnet8_cifar10")
MODEL(vww, "vww_96")
MODEL(kws, "kws_dscnn")
MODEL(str_ww, "str_ww")
MODEL(ad01, "ad01_toycar")
MODEL(mnist, "mnist")
MODEL(ultraface, "ultraface_rfb_320")
MODEL(super_resolution, "super_resolution_core")

#define BOTH(identifier)                                                                           \
    cmocka_unit_test(identifier##_matches),                                                        \
        cmocka_unit_test(identifier##_matches_on_reference_kernels)

static const struct CMUnitTest tests[] = {
    BOTH(squeezenet),
    BOTH(resnet8),
    BOTH(vww),
    BOTH(kws),
    BOTH(str_ww),
    BOTH(ad01),
    BOTH(mnist),
    BOTH(ultraface),
    BOTH(super_resolution),
    cmocka_unit_test(light_squeezenet_matches),
    cmocka_unit_test(light_resnet50_matches),
    cmocka_unit_test(light_densenet121_matches),
};
QB_TEST_MAIN(tests)
