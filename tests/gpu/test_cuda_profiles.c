/* Ranges of shapes on the GPU: batch, image size and sequence length, in FP16 and INT8. Each shape
 * runs as an engine does that was built for it alone (the usual one to the bit: it has the same
 * kernels); files keep the ranges; device memory stays as it is when shapes alternate; and INT8
 * engines keep the steps that run in FP16. Skips without a device. QB_TEST_MODELS (comma separated)
 * leaves out cases of other models.
 * ctest-timeout: 600 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bench_models.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "graph/passes.h"
#include "graph/zoo.h"
#include "kernels/cuda/device.h"
#include "qb_test.h"

#define INPUTS_MAX 3 /* all of the same shape */
#define PROFILES_MAX 2
#define SHAPES_MAX 6

typedef struct test_case {
    const char *model;
    bool int8, sides; /* sides: height and width are open, too */
    int32_t n_profiles;
    qb_shape min[PROFILES_MAX], opt[PROFILES_MAX], max[PROFILES_MAX];
    qb_shape other[SHAPES_MAX]; /* rank 0: no more */
    qb_shape outside;
    const char *why; /* what is said of it */
} test_case;

#define S(RANK, ...)                                                                               \
    {                                                                                              \
        .rank = RANK, .dim = { __VA_ARGS__ }                                                       \
    }

static const test_case cases[] = {
    {.model = "resnet18",
     .n_profiles = 1,
     .min = {S(4, 1, 3, 224, 224)},
     .opt = {S(4, 8, 3, 224, 224)},
     .max = {S(4, 32, 3, 224, 224)},
     .other = {S(4, 3, 3, 224, 224), S(4, 17, 3, 224, 224)},
     .outside = S(4, 33, 3, 224, 224),
     .why = "input 'image': axis 0: 33 is outside of 1 to 32"},
    {.model = "squeezenet1_1",
     .sides = true,
     .n_profiles = 2,
     .min = {S(4, 1, 3, 64, 64), S(4, 32, 3, 224, 224)},
     .opt = {S(4, 4, 3, 224, 224), S(4, 64, 3, 224, 224)},
     .max = {S(4, 8, 3, 320, 320), S(4, 128, 3, 224, 224)},
     .other = {S(4, 2, 3, 97, 200), S(4, 7, 3, 320, 64), S(4, 100, 3, 224, 224)},
     .outside = S(4, 9, 3, 224, 300),
     .why = "input 'image': axis 0: 9 is outside of 1 to 8 (profile 0); input 'image': axis 0: 9 "
            "is outside of 32 to 128 (profile 1)"},
    {.model = "resnet18",
     .int8 = true,
     .n_profiles = 1,
     .min = {S(4, 1, 3, 224, 224)},
     .opt = {S(4, 8, 3, 224, 224)},
     .max = {S(4, 32, 3, 224, 224)},
     .other = {S(4, 3, 3, 224, 224), S(4, 17, 3, 224, 224)},
     .outside = S(4, 8, 3, 225, 224),
     .why = "input 'image': axis 2: 225 is outside of 224 to 224"},
    {.model = "squeezenet1_1",
     .int8 = true,
     .sides = true,
     .n_profiles = 1,
     .min = {S(4, 1, 3, 64, 64)},
     .opt = {S(4, 4, 3, 224, 224)},
     .max = {S(4, 8, 3, 320, 320)},
     .other = {S(4, 2, 3, 97, 200), S(4, 8, 3, 224, 224)},
     .outside = S(4, 1, 3, 64, 321),
     .why = "input 'image': axis 3: 321 is outside of 64 to 320"},
    {.model = "yolov5s",
     .sides = true,
     .n_profiles = 1,
     .min = {S(4, 1, 3, 320, 320)},
     .opt = {S(4, 1, 3, 640, 640)},
     .max = {S(4, 4, 3, 640, 640)},
     .other = {S(4, 2, 3, 480, 352), S(4, 1, 3, 640, 384)},
     .outside = S(4, 1, 3, 256, 640),
     .why = "input 'image': axis 2: 256 is outside of 320 to 640"},
    {.model = "bert_base",
     .n_profiles = 1,
     .min = {S(2, 1, 8)},
     .opt = {S(2, 1, 128)},
     .max = {S(2, 8, 256)},
     .other = {S(2, 3, 77), S(2, 8, 16), S(2, 1, 200)},
     .outside = S(2, 1, 257),
     .why = "input 'input_ids': axis 1: 257 is outside of 8 to 256"},
};

static void need_device(void) {
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
}

static bool is_wanted(const char *model) {
    const char *list = getenv("QB_TEST_MODELS");
    return !list || strstr(list, model);
}

/* Height and width of the image become symbols. */
static void open_sides(qb_ctx *cx, qb_graph *graph) {
    static const char *const names[] = {"height", "width"};
    for (int i = 0; i < 2; i++) {
        const int64_t symbol = qb_graph_add_symbol(cx, graph, names[i]);
        assert_true(symbol < 0);
        graph->values[graph->inputs[0]].shape.dim[2 + i] = symbol;
    }
    assert_ok(cx, qb_graph_infer(cx, graph));
}

static qb_graph *load(qb_ctx *cx, const test_case *c) {
    qb_graph *graph, *quantized;
    assert_ok(cx, qb_zoo_build(cx, c->model, 1, NULL, &graph));
    assert_ok(cx, qb_optimize(cx, graph, NULL, NULL));
    if (c->int8) {
        assert_ok(cx, bench_quantize(cx, graph, &quantized));
        qb_graph_free(graph);
        graph = quantized;
    }
    if (c->sides) open_sides(cx, graph);
    return graph;
}

/* A shape for every input. */
typedef struct shapes {
    qb_shape of[INPUTS_MAX];
} shapes;

static shapes all(const qb_shape *shape) {
    shapes s;
    for (int i = 0; i < INPUTS_MAX; i++) s.of[i] = *shape;
    return s;
}

/* INT8 without FP16 steps: which ones those are depends on the shape. */
static qb_engine_options options_for(const test_case *c, const char *cache) {
    return (qb_engine_options){.backends = "cuda",
                               .float_type = QB_DTYPE_F16,
                               .no_mixing = c->int8,
                               .timing_cache = cache};
}

static qb_engine *build_ranges(qb_ctx *cx, const test_case *c, const qb_graph *graph,
                               qb_engine_options options) {
    qb_profile profiles[PROFILES_MAX];
    shapes bounds[PROFILES_MAX][3];
    qb_engine *engine;
    assert_true(graph->n_inputs <= INPUTS_MAX);
    for (int32_t p = 0; p < c->n_profiles; p++) {
        bounds[p][0] = all(&c->min[p]);
        bounds[p][1] = all(&c->opt[p]);
        bounds[p][2] = all(&c->max[p]);
        profiles[p] = (qb_profile){bounds[p][0].of, bounds[p][1].of, bounds[p][2].of};
    }
    options.profiles = profiles;
    options.n_profiles = c->n_profiles;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    return engine;
}

static qb_engine *build_fixed(qb_ctx *cx, const qb_graph *graph, qb_engine_options options,
                              const qb_shape *shape) {
    const shapes inputs = all(shape);
    qb_engine *engine;
    options.input_shapes = inputs.of;
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    return engine;
}

static void run_at(qb_ctx *cx, qb_context *context, const qb_shape *shape, bench_ports *ports) {
    const shapes inputs = all(shape);
    assert_ok(cx, qb_context_set_shapes(cx, context, inputs.of));
    assert_ok(cx, bench_ports_new(cx, qb_context_engine(context), 5, ports));
    assert_ok(cx, qb_context_run(cx, context, (const void *const *)ports->in, ports->out));
}

static double relative_error(const float *actual, const float *expected, int64_t n) {
    double mean = 0, error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) mean += (double)expected[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double e = (double)actual[i] - (double)expected[i], s = (double)expected[i] - mean;
        error += e * e;
        size += s * s;
    }
    return sqrt(error / (size > 0 ? size : 1));
}

/* How many steps with arithmetic run by another tactic. */
static int32_t different_steps(const qb_engine *a, const qb_engine *b) {
    int32_t n = 0;
    assert_int_equal(qb_engine_n_outputs(a), qb_engine_n_outputs(b));
    for (int32_t s = 0; s < qb_engine_n_steps(a); s++) {
        qb_step_info x, y = {.tactic = ""};
        qb_engine_step(a, s, &x);
        if (s < qb_engine_n_steps(b)) qb_engine_step(b, s, &y);
        n += strcmp(x.tactic, y.tactic) != 0;
    }
    return n;
}

/* FP16 rounds sums of another order otherwise (a library's algorithms differ, too): a few units in
 * the last of its 11 bits, which layers pass on. Codes are the same with the same tactics, off by
 * one at most with others. */
#define LIMIT_FP16 1e-2
#define LIMIT_INT8 5e-2

/* The shape in the engine with ranges, against an engine of its own. */
static bool agrees(qb_ctx *cx, const test_case *c, const qb_graph *graph, qb_engine_options options,
                   qb_context *context, const qb_shape *shape, bool usual) {
    char text[96];
    bench_ports x = {0}, y = {0};
    qb_context *other;
    qb_engine *fixed = build_fixed(cx, graph, options, shape);
    assert_ok(cx, qb_context_create(cx, fixed, &other));
    run_at(cx, context, shape, &x);
    run_at(cx, other, shape, &y);
    const int64_t n = qb_shape_count(&qb_engine_output(fixed, 0)->shape);
    const double error = relative_error(x.out[0], y.out[0], n);
    const int32_t different = different_steps(qb_context_engine(context), fixed);
    const bool exact = different == 0 && (usual || c->int8);
    const double limit = exact ? 0 : c->int8 ? LIMIT_INT8 : LIMIT_FP16;
    printf("  %s: relative error %.2e (limit %.0e), %d of %d steps by another tactic\n",
           qb_shape_text(shape, text, sizeof text), error, limit, (int)different,
           (int)qb_engine_n_steps(fixed));
    bench_ports_free(&x);
    bench_ports_free(&y);
    qb_context_free(other);
    qb_engine_free(fixed);
    return error <= limit && !(usual && different > 0);
}

static bool outside_is_refused(qb_ctx *cx, const test_case *c, qb_context *context) {
    const qb_engine *before = qb_context_engine(context);
    const shapes inputs = all(&c->outside);
    assert_fails(cx, qb_context_set_shapes(cx, context, inputs.of), QB_STATUS_INVALID);
    const bool good = strstr(cx->message, c->why) && qb_context_engine(context) == before;
    if (!good) printf("  outside: %s\n", cx->message);
    qb_ctx_clear(cx);
    return good;
}

/* Loaded, the engine gives the same bytes for every shape. */
static bool files_agree(qb_ctx *cx, const test_case *c, const qb_engine *engine, const char *path,
                        qb_context *context) {
    const qb_engine_origin origin = {.model = c->model, .precision = c->int8 ? "int8" : "fp16"};
    qb_engine *loaded;
    qb_context *after;
    bool good = true;
    assert_ok(cx, qb_engine_save(cx, engine, &origin, path));
    const double start = qb_now();
    assert_ok(cx, qb_engine_load(cx, path, &loaded));
    printf("  loaded in %.1f ms\n", (qb_now() - start) * 1e3);
    assert_ok(cx, qb_context_create(cx, loaded, &after));
    for (int32_t i = 0; i < 2 + SHAPES_MAX; i++) {
        const qb_shape *shape = i == 0 ? &c->opt[0] : i == 1 ? &c->max[0] : &c->other[i - 2];
        bench_ports x = {0}, y = {0};
        if (shape->rank == 0) break;
        run_at(cx, context, shape, &x);
        run_at(cx, after, shape, &y);
        good = good && memcmp(x.out[0], y.out[0],
                              qb_desc_bytes(qb_engine_output(qb_context_engine(after), 0))) == 0;
        bench_ports_free(&x);
        bench_ports_free(&y);
    }
    if (!good) printf("  a loaded engine computes something else\n");
    qb_context_free(after);
    qb_engine_free(loaded);
    return good;
}

static bool try_case(qb_ctx *cx, const test_case *c, const char *folder) {
    char cache[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_context *context;
    bool good = true;
    qb_test_join(cache, folder, "timing.cache");
    qb_test_join(path, folder, "ranges.qbe");
    qb_graph *graph = load(cx, c);
    const qb_engine_options options = options_for(c, cache);
    const double start = qb_now();
    qb_engine *engine = build_ranges(cx, c, graph, options);
    printf("%s %s: built in %.2f s\n", c->model, c->int8 ? "int8" : "fp16", qb_now() - start);
    assert_ok(cx, qb_context_create(cx, engine, &context));
    good = agrees(cx, c, graph, options, context, &c->opt[0], true) && good;
    for (int32_t p = 0; p < c->n_profiles; p++) {
        good = agrees(cx, c, graph, options, context, &c->min[p], false) && good;
        if (p > 0) good = agrees(cx, c, graph, options, context, &c->opt[p], false) && good;
        good = agrees(cx, c, graph, options, context, &c->max[p], false) && good;
    }
    for (int32_t i = 0; i < SHAPES_MAX && c->other[i].rank > 0; i++)
        good = agrees(cx, c, graph, options, context, &c->other[i], false) && good;
    good = outside_is_refused(cx, c, context) && good;
    good = files_agree(cx, c, engine, path, context) && good;
    qb_context_free(context);
    qb_engine_free(engine);
    qb_graph_free(graph);
    return good;
}

/* All cases are tried before the test fails. */
static void every_shape_runs_as_in_an_engine_of_its_own(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    char folder[QB_TEST_PATH];
    bool good = true;
    qb_ctx_init(&cx);
    qb_test_temp_dir(folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (is_wanted(cases[i].model)) good = try_case(&cx, &cases[i], folder) && good;
    assert_true(good);
}

/* ---- memory ---- */

static const test_case small = {.model = "squeezenet1_1",
                                .sides = true,
                                .n_profiles = 1,
                                .min = {S(4, 1, 3, 64, 64)},
                                .opt = {S(4, 2, 3, 96, 96)},
                                .max = {S(4, 4, 3, 128, 128)}};

static size_t left_after(qb_ctx *cx, qb_context *context, int n_shapes, int turns) {
    size_t left;
    for (int i = 0; i < turns; i++) {
        const int k = i % n_shapes;
        const qb_shape shape = qb_shape_of(4, 1 + k % 4, 3, 64 + k, 128 - k);
        bench_ports ports = {0};
        run_at(cx, context, &shape, &ports);
        bench_ports_free(&ports);
    }
    assert_ok(cx, qb_cuda_memory_left(cx, &left));
    return left;
}

/* Ten shapes are all kept, fifty are not: recordings and plans are made again and again. */
static void memory_stays_when_shapes_alternate(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    static const int numbers[] = {10, 50};
    qb_ctx_init(&cx);
    qb_graph *graph = load(&cx, &small);
    qb_engine *engine = build_ranges(&cx, &small, graph, options_for(&small, NULL));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        qb_context *context;
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        const size_t bytes = qb_context_bytes(context);
        const size_t before = left_after(&cx, context, numbers[i], 2 * numbers[i]);
        for (int round = 0; round < 3; round++) {
            const double start = qb_now();
            const size_t after = left_after(&cx, context, numbers[i], 50);
            printf("%d shapes, 50 turns in %.3g s: %zd bytes more on the device\n", numbers[i],
                   qb_now() - start, (ssize_t)(before - after));
            assert_true(after >= before);
        }
        assert_int_equal(qb_context_bytes(context), bytes);
        qb_context_free(context);
    }
    qb_engine_free(engine);
    qb_graph_free(graph);
}

/* ---- INT8 with FP16 steps ---- */

static bool is_half(const qb_engine *engine, const char *output) {
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (strcmp(info.output, output) == 0 && info.half) return true;
    }
    return false;
}

static int32_t same_halves(const qb_engine *usual, const qb_engine *plan) {
    int32_t n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(usual); s++) {
        qb_step_info info;
        qb_engine_step(usual, s, &info);
        if (!info.half) continue;
        assert_true(is_half(plan, info.output));
        n++;
    }
    return n;
}

static double error_to_exact(qb_ctx *cx, const qb_graph *exact, qb_context *context,
                             const qb_shape *shape) {
    const qb_engine_options options = {.backends = "cuda"};
    bench_ports x = {0}, y = {0};
    qb_context *other;
    qb_engine *engine = build_fixed(cx, exact, options, shape);
    assert_ok(cx, qb_context_create(cx, engine, &other));
    run_at(cx, context, shape, &x);
    run_at(cx, other, shape, &y);
    const double error =
        relative_error(x.out[0], y.out[0], qb_shape_count(&qb_engine_output(engine, 0)->shape));
    bench_ports_free(&x);
    bench_ports_free(&y);
    qb_context_free(other);
    qb_engine_free(engine);
    return error;
}

/* What is decided at the usual shapes holds for the others, and they are no further from FP32. */
static void mixed_precision_is_that_of_the_usual_shapes(void **state) {
    (void)state;
    need_device();
    static qb_ctx cx;
    static const char *const models[] = {"mobilenet_v2", "squeezenet1_1"};
    const qb_shape min = S(4, 1, 3, 224, 224), opt = S(4, 1, 3, 224, 224),
                   max = S(4, 8, 3, 224, 224);
    qb_ctx_init(&cx);
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        test_case c = {
            .model = models[m], .n_profiles = 1, .min = {min}, .opt = {opt}, .max = {max}};
        qb_graph *exact = load(&cx, &c);
        c.int8 = true;
        qb_graph *graph = load(&cx, &c);
        qb_engine_options options = {.backends = "cuda", .float_type = QB_DTYPE_F16};
        qb_engine *mixed = build_ranges(&cx, &c, graph, options);
        options.no_mixing = true;
        qb_engine *pure = build_ranges(&cx, &c, graph, options);
        qb_context *a, *b;
        assert_ok(&cx, qb_context_create(&cx, mixed, &a));
        assert_ok(&cx, qb_context_create(&cx, pure, &b));
        const double limit = 1e-2 + 1.2 * error_to_exact(&cx, exact, b, &max);
        const double error = error_to_exact(&cx, exact, a, &max);
        const qb_layer_counts n = qb_engine_layers(mixed),
                              k = qb_engine_layers(qb_context_engine(a));
        printf("%s: %d steps in f16 of %d in int8, relative error to fp32 %.2e (limit %.2e)\n",
               models[m], (int)same_halves(mixed, qb_context_engine(a)), (int)n.int8, error, limit);
        assert_int_equal(n.int8, k.int8);
        assert_int_equal(n.fp16, k.fp16);
        assert_true(error <= limit);
        qb_context_free(a);
        qb_context_free(b);
        qb_engine_free(mixed);
        qb_engine_free(pure);
        qb_graph_free(graph);
        qb_graph_free(exact);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_shape_runs_as_in_an_engine_of_its_own),
    cmocka_unit_test(memory_stays_when_shapes_alternate),
    cmocka_unit_test(mixed_precision_is_that_of_the_usual_shapes)};

int main(void) {
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
