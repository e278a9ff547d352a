/* Whole models on the GPU against the same graphs on the CPU: FP32, FP16 and INT8; the same bytes
 * from run to run and from replays; observers; and what is said where a node falls to the host.
 * Skips without a device. QB_TEST_MODELS (comma separated) replaces the list of models.
 * ctest-timeout: 300 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_models.h"
#include "eval/eval.h"
#include "graph/passes.h"
#include "graph/zoo.h"
#include "kernels/cuda/common/device.h"
#include "kernels/sources.h"
#include "qb_test.h"

#define MODELS "squeezenet1_1,mobilenet_v2,resnet18,yolov5s"
#define WITH_CUDNN "squeezenet1_1"
#define BATCH 2

typedef struct outcome {
    bench_ports ports;
    int64_t n; /* elements of output 0 */
} outcome;

static void need_device(void) {
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
}

/* cuDNN compiles for each problem: one model runs with its plans, the others with qbench's kernels.
 */
static uint32_t sources_without = QB_SOURCE_CUDNN;

/* Times of kernels that one engine finds serve the next. */
static const char *timing_cache(void) {
    static char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    if (!path[0]) {
        qb_test_temp_dir(folder);
        qb_test_join(path, folder, "timing.cache");
    }
    return path;
}

/* INT8 engines are pure: which steps run better in f16 depends on the machine. */
static qb_engine *build(qb_ctx *cx, const qb_graph *graph, const char *backends, qb_dtype type) {
    const qb_build_spec options = {.backends = backends,
                                   .float_type = type,
                                   .batch = BATCH,
                                   .timing_cache = timing_cache(),
                                   .excluded_sources = sources_without,
                                   .no_mixed_precision = true};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    return engine;
}

static void run(qb_ctx *cx, const qb_engine *engine, outcome *o) {
    qb_context *context;
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, bench_ports_new(cx, engine, 5, &o->ports));
    assert_ok(cx, qb_context_run(cx, context, (const void *const *)o->ports.in, o->ports.out));
    o->n = qb_shape_count(&qb_engine_output(engine, 0)->shape);
    qb_context_free(context);
}

/* ||actual - expected|| / ||expected - mean|| */
static double relative_error(const float *actual, const float *expected, int64_t n) {
    double mean = 0, error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)expected[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double e = (double)actual[i] - (double)expected[i], s = (double)expected[i] - mean;
        error += e * e;
        size += s * s;
    }
    return sqrt(error / (size > 0 ? size : 1));
}

static int32_t steps_on_host(const qb_engine *engine) {
    int32_t n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (info.fallback_reason) {
            printf("  on the host: %s '%s': %s\n", info.op, info.name, info.fallback_reason);
            n++;
        }
    }
    return n;
}

/* Attention and LayerNormalization compute in f16 between quantized values, Sigmoid and SiLU take
 * the unit's tanh: their tests hold them to within one step. */
static bool may_be_off_by_one(const qb_graph *graph) {
    static const char *const smooth[] = {"LayerNormalization", "Sigmoid"};
    for (int32_t i = 0; i < graph->n_nodes; i++)
        for (size_t k = 0; k < sizeof smooth / sizeof *smooth; k++)
            if (graph->nodes[i].op && strcmp(graph->nodes[i].op->name, smooth[k]) == 0) return true;
    return false;
}

/* One precision of one model; true when it is as close to the CPU as it should be: within `limit`,
 * or within half of what the CPU's own result is away from `exact` (may be NULL), or as near to
 * `exact`: where quantized values are off by one here and there, quantization errs differently a
 * few layers further, but not more. */
static bool agrees(qb_ctx *cx, const qb_graph *graph, const char *model, const char *precision,
                   qb_dtype type, double limit, const outcome *exact, outcome *cpu) {
    outcome gpu = {0};
    qb_engine *host = build(cx, graph, NULL, QB_DTYPE_F32);
    qb_engine *device = build(cx, graph, "cuda", type);
    run(cx, host, cpu);
    run(cx, device, &gpu);
    assert_int_equal(cpu->n, gpu.n);
    double error = relative_error(gpu.ports.out[0], cpu->ports.out[0], cpu->n);
    bool as_near = false;
    if (exact) {
        double cpu_error = relative_error(cpu->ports.out[0], exact->ports.out[0], cpu->n);
        double gpu_error = relative_error(gpu.ports.out[0], exact->ports.out[0], cpu->n);
        limit = fmax(limit, cpu_error / 2);
        as_near = may_be_off_by_one(graph) && gpu_error <= 1.1 * cpu_error;
        printf("%s %s: to fp32 %.2e, the CPU's %.2e\n", model, precision, gpu_error, cpu_error);
    }
    printf("%s %s: relative error %.2e (limit %.0e), %d steps, %d of them on the host\n", model,
           precision, error, limit, (int)qb_engine_n_steps(device), (int)steps_on_host(device));
    bench_ports_free(&gpu.ports);
    qb_engine_free(host);
    qb_engine_free(device);
    return error <= limit || as_near;
}

/* With steps in f16 where they are faster: about as far from FP32 as pure INT8 is, or nearer. Where
 * that is every layer, nothing else is worth a conversion to quantized values. */
static bool mixed_is_no_worse(qb_ctx *cx, const qb_graph *graph, const char *model,
                              const outcome *exact, const outcome *quantized) {
    const qb_build_spec options = {.backends = "cuda",
                                   .float_type = QB_DTYPE_F16,
                                   .batch = BATCH,
                                   .timing_cache = timing_cache(),
                                   .excluded_sources = sources_without};
    outcome mixed = {0};
    qb_engine *engine;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    run(cx, engine, &mixed);
    int32_t half = 0, in_quantized = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        half += info.f16_reason != NULL;
        in_quantized += info.dtype == QB_DTYPE_S8 || strcmp(info.op, "quantize") == 0;
    }
    assert_true(qb_engine_layers(engine).int8 > 0 || in_quantized == 0);
    double error = relative_error(mixed.ports.out[0], exact->ports.out[0], exact->n);
    double limit =
        1e-2 + 1.2 * relative_error(quantized->ports.out[0], exact->ports.out[0], exact->n);
    printf("%s mixed: %d steps in f16, relative error to fp32 %.2e (limit %.2e)\n", model,
           (int)half, error, limit);
    bench_ports_free(&mixed.ports);
    qb_engine_free(engine);
    return error <= limit;
}

static qb_graph *zoo(qb_ctx *cx, const char *model) {
    qb_graph *graph;
    assert_ok(cx, qb_zoo_build(cx, model, 1, NULL, &graph));
    assert_ok(cx, qb_optimize(cx, graph, NULL, NULL));
    return graph;
}

/* Every model is tried, and all that differ are listed, before the test fails. INT8: quantized
 * values may differ by one where float sums or FP16 steps are involved, which random weights pass
 * on; that must stay well below what quantization itself costs. */
static void models_agree_with_the_cpu(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    qb_ctx_init(&cx);
    const char *list = getenv("QB_TEST_MODELS");
    bool good = true;
    for (const char *at = list ? list : MODELS; *at;) {
        char model[64];
        size_t n = strcspn(at, ",");
        snprintf(model, sizeof model, "%.*s", (int)n, at);
        sources_without = strcmp(model, WITH_CUDNN) == 0 ? 0 : QB_SOURCE_CUDNN;
        at += n + (at[n] == ',');
        qb_graph *graph = zoo(&cx, model), *quantized;
        assert_ok(&cx, bench_quantize(&cx, graph, &quantized));
        outcome exact = {0}, same = {0}, int8 = {0};
        good = agrees(&cx, graph, model, "fp32", QB_DTYPE_F32, 5e-3, NULL, &exact) && good;
        good = agrees(&cx, graph, model, "fp16", QB_DTYPE_F16, 3e-2, NULL, &same) && good;
        good = agrees(&cx, quantized, model, "int8", QB_DTYPE_F16, 1e-2, &exact, &int8) && good;
        good = mixed_is_no_worse(&cx, quantized, model, &exact, &int8) && good;
        bench_ports_free(&exact.ports);
        bench_ports_free(&same.ports);
        bench_ports_free(&int8.ports);
        qb_graph_free(quantized);
        qb_graph_free(graph);
    }
    assert_true(good);
}

static void runs_repeat_bit_for_bit(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = zoo(&cx, "squeezenet1_1"), *quantized;
    assert_ok(&cx, bench_quantize(&cx, graph, &quantized));
    qb_engine *engine = build(&cx, quantized, "cuda", QB_DTYPE_F16);
    outcome first = {0};
    run(&cx, engine, &first);
    qb_context *context;
    bench_ports again = {0};
    double ms[3];
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    assert_ok(&cx, bench_ports_new(&cx, engine, 5, &again));
    for (int i = 0; i < 5; i++) {
        memset(again.out[0], 0xa5, (size_t)first.n * 4);
        assert_ok(&cx, qb_context_run(&cx, context, (const void *const *)again.in, again.out));
        assert_memory_equal(again.out[0], first.ports.out[0], (size_t)first.n * 4);
        assert_ok(&cx, qb_context_replay(&cx, context, 3, ms));
        assert_true(ms[0] > 0 && ms[1] > 0 && ms[2] > 0);
    }
    bench_ports_free(&again);
    bench_ports_free(&first.ports);
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(quantized);
    qb_graph_free(graph);
}

static qb_status count_values(qb_ctx *cx, void *user, int32_t observed, const char *value,
                              const qb_tensor *tensor) {
    (void)cx, (void)observed, (void)value;
    int32_t *n = user;
    assert_non_null(tensor->data);
    const float *data = tensor->data;
    assert_true(tensor->desc.dtype != QB_DTYPE_F32 || isfinite(data[0]));
    ++*n;
    return QB_OK;
}

static void observers_see_every_value(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = zoo(&cx, "squeezenet1_1");
    const qb_build_spec options = {.backends = "cuda", .batch = BATCH, .observable = true};
    qb_engine *engine;
    qb_context *context;
    bench_ports ports = {0};
    int32_t n = 0;
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    assert_ok(&cx, bench_ports_new(&cx, engine, 5, &ports));
    assert_ok(&cx, qb_context_observe(&cx, context, (const void *const *)ports.in, ports.out,
                                      count_values, &n));
    assert_int_equal(n, qb_engine_n_observed(engine));
    bench_ports_free(&ports);
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

/* Seconds: medians over runs of what a profile says of all steps of the device together. */
typedef struct sums {
    double scaled;   /* made to add up to the run */
    double by_marks; /* between marks, less what the marks cost by themselves */
    double alone;    /* each step by itself, as the build timed it */
    double replayed; /* a run among replays, without any mark in it */
} sums;

static double median_of(double *values, int n) {
    qb_latency latency;
    qb_latency_of(values, n, &latency);
    return latency.median;
}

static void profile_and_replay(qb_ctx *cx, const qb_engine *engine, sums *out) {
    enum { RUNS = 21 };
    double ms[RUNS], scaled[RUNS] = {0}, by_marks[RUNS] = {0};
    int32_t n = qb_engine_n_steps(engine);
    qb_context *context;
    bench_ports ports = {0};
    *out = (sums){0};
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, bench_ports_new(cx, engine, 5, &ports));
    for (int run = 0; run < RUNS; run++) {
        double *seconds = calloc((size_t)n, sizeof *seconds);
        qb_profile_raw raw = {.step = calloc((size_t)n, sizeof *raw.step)};
        assert_ok(cx, qb_context_profile_raw(cx, context, (const void *const *)ports.in, ports.out,
                                             seconds, &raw));
        assert_true(raw.marks > 0 && raw.whole > 0);
        for (int32_t s = 0; s < n; s++) {
            qb_step_info info;
            qb_engine_step(engine, s, &info);
            if (info.on_device) scaled[run] += seconds[s];
            by_marks[run] += raw.step[s];
        }
        by_marks[run] -= raw.marks;
        free(raw.step);
        free(seconds);
    }
    for (int32_t s = 0; s < n; s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (info.on_device) out->alone += info.seconds;
    }
    assert_ok(cx, qb_context_replay(cx, context, RUNS, ms));
    out->scaled = median_of(scaled, RUNS);
    out->by_marks = median_of(by_marks, RUNS);
    out->replayed = median_of(ms, RUNS) * 1e-3;
    bench_ports_free(&ports);
    qb_context_free(context);
}

/* The steps' times add up to the whole, within 5 %, by three clocks, of which only the first one is
 * scaled to it. The batch is large: a mark keeps a step from starting while the one before it ends,
 * and in a run of a few images that is a tenth of it and more. */
static void steps_say_what_was_measured(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = zoo(&cx, "resnet50");
    const qb_build_spec options = {.backends = "cuda",
                                   .float_type = QB_DTYPE_F16,
                                   .batch = 128,
                                   .timing_cache = timing_cache(),
                                   .excluded_sources = QB_SOURCE_CUDNN};
    qb_engine *engine;
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_non_null(qb_engine_device(engine));
    int32_t measured = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (!info.on_device || strcmp(info.tactic, "alias") == 0) continue;
        assert_true(info.seconds > 0);
        assert_true(info.n_alternatives > 0);
        measured++;
    }
    assert_true(measured > 0);
    sums t;
    profile_and_replay(&cx, engine, &t);
    printf("steps, us: scaled %.1f, by marks %.1f, alone %.1f; whole %.1f\n", t.scaled * 1e6,
           t.by_marks * 1e6, t.alone * 1e6, t.replayed * 1e6);
    assert_true(fabs(t.scaled - t.replayed) <= 0.05 * t.replayed);
    assert_true(fabs(t.by_marks - t.replayed) <= 0.05 * t.replayed);
    assert_true(fabs(t.alone - t.replayed) <= 0.05 * t.replayed);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

/* The image of vit_b_16's first convolution lies channels last: as tokens it is only seen
 * otherwise. */
static void patches_become_tokens_without_a_copy(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = zoo(&cx, "vit_b_16");
    outcome exact = {0};
    assert_true(agrees(&cx, graph, "vit_b_16", "fp16", QB_DTYPE_F16, 3e-2, NULL, &exact));
    qb_engine *engine = build(&cx, graph, "cuda", QB_DTYPE_F16);
    int32_t transposed = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (!strstr(info.op, "Transpose")) continue;
        assert_string_equal(info.tactic, "alias");
        transposed++;
    }
    assert_int_equal(transposed, 1);
    bench_ports_free(&exact.ports);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

/* A model that normalizes its image itself. */
static qb_graph *normalizing(qb_ctx *cx) {
    static const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
    const qb_shape channels = {.rank = 3, .dim = {3, 1, 1}};
    qb_graph *graph;
    assert_ok(cx, qb_zoo_build(cx, "squeezenet1_1", 1, NULL, &graph));
    const int32_t image = graph->inputs[0];
    const qb_shape shape = graph->values[image].shape;
    const int32_t raw = qb_graph_add_value(cx, graph, "raw", QB_DTYPE_F32, &shape);
    const int32_t centred = qb_graph_add_value(cx, graph, "centred", QB_DTYPE_F32, &shape);
    int32_t sub[] = {raw, qb_graph_add_constant(cx, graph, "mean", QB_DTYPE_F32, &channels, mean)};
    int32_t div[] = {centred,
                     qb_graph_add_constant(cx, graph, "std", QB_DTYPE_F32, &channels, std)};
    graph->inputs[0] = raw;
    assert_true(qb_graph_add_node(cx, graph, qb_op_find("Sub", ""), "sub", sub, 2, &centred, 1) >=
                0);
    assert_true(qb_graph_add_node(cx, graph, qb_op_find("Div", ""), "div", div, 2, &image, 1) >= 0);
    assert_ok(cx, qb_graph_sort(cx, graph));
    assert_ok(cx, qb_optimize(cx, graph, NULL, NULL));
    return graph;
}

/* Mean and deviation are part of the input's conversion: one step from planes of floats to pixels
 * as the first convolution reads them. */
static void an_image_is_normalized_as_it_comes_in(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    qb_ctx_init(&cx);
    qb_graph *graph = normalizing(&cx), *quantized;
    assert_ok(&cx, bench_quantize(&cx, graph, &quantized));
    outcome exact = {0}, half = {0}, int8 = {0};
    assert_true(agrees(&cx, graph, "normalizing", "fp32", QB_DTYPE_F32, 5e-3, NULL, &exact));
    assert_true(agrees(&cx, graph, "normalizing", "fp16", QB_DTYPE_F16, 3e-2, NULL, &half));
    assert_true(agrees(&cx, quantized, "normalizing", "int8", QB_DTYPE_F16, 1e-2, &exact, &int8));
    for (int k = 0; k < 2; k++) {
        qb_engine *engine = build(&cx, k ? quantized : graph, "cuda", QB_DTYPE_F16);
        qb_step_info upload, image, conv;
        qb_engine_step(engine, 0, &upload);
        qb_engine_step(engine, 1, &image);
        qb_engine_step(engine, 2, &conv);
        assert_string_equal(upload.op, "upload");
        assert_string_equal(image.tactic, "cuda.conv_f32.image");
        assert_int_equal(strncmp(conv.op, "Conv+Relu", strlen("Conv+Relu")), 0);
        qb_engine_free(engine);
    }
    bench_ports_free(&exact.ports);
    bench_ports_free(&half.ports);
    bench_ports_free(&int8.ports);
    qb_graph_free(quantized);
    qb_graph_free(graph);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(runs_repeat_bit_for_bit),
    cmocka_unit_test(models_agree_with_the_cpu),
    cmocka_unit_test(observers_see_every_value),
    cmocka_unit_test(steps_say_what_was_measured),
    cmocka_unit_test(patches_become_tokens_without_a_copy),
    cmocka_unit_test(an_image_is_normalized_as_it_comes_in),
};
QB_TEST_MAIN(tests)
