/* Ranges of shapes on the GPU: batch, image size and sequence length, in FP16 and INT8. Each shape
 * runs as an engine does that was built for it alone: the usual ones to the bit, for they have the
 * same kernels; INT8 by own kernels always. Files keep the ranges, and device memory stays as it is
 * when shapes alternate. Skips without a device. QB_TEST_MODELS (comma separated) leaves out cases
 * of other models.
 * ctest-timeout: 600 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "bench_ranges.h"
#include "engine/file.h"
#include "kernels/cuda/common/device.h"
#include "kernels/sources.h"
#include "qb_test.h"

#define SHAPES_MAX 6

typedef struct test_case {
    const char *model;
    bool int8, sides; /* sides: height and width are open, too */
    uint32_t without; /* sources of tactics: cuDNN would compile for minutes */
    int32_t n_ranges;
    bench_range range[BENCH_PROFILES_MAX];
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
     .n_ranges = 1,
     .range = {{S(4, 1, 3, 224, 224), S(4, 8, 3, 224, 224), S(4, 32, 3, 224, 224)}},
     .other = {S(4, 3, 3, 224, 224), S(4, 17, 3, 224, 224)},
     .outside = S(4, 33, 3, 224, 224),
     .why = "input 'image': axis 0: 33 is outside of 1 to 32"},
    {.model = "squeezenet1_1",
     .sides = true,
     .without = QB_SOURCE_CUDNN,
     .n_ranges = 2,
     .range = {{S(4, 1, 3, 64, 64), S(4, 4, 3, 224, 224), S(4, 8, 3, 320, 320)},
               {S(4, 32, 3, 224, 224), S(4, 64, 3, 224, 224), S(4, 128, 3, 224, 224)}},
     .other = {S(4, 2, 3, 97, 200), S(4, 7, 3, 320, 64), S(4, 100, 3, 224, 224)},
     .outside = S(4, 9, 3, 224, 300),
     .why = "input 'image': axis 0: 9 is outside of 1 to 8 (profile 0); input 'image': axis 0: 9 "
            "is outside of 32 to 128 (profile 1)"},
    {.model = "resnet18",
     .int8 = true,
     .n_ranges = 1,
     .range = {{S(4, 1, 3, 224, 224), S(4, 8, 3, 224, 224), S(4, 32, 3, 224, 224)}},
     .other = {S(4, 3, 3, 224, 224), S(4, 17, 3, 224, 224)},
     .outside = S(4, 8, 3, 225, 224),
     .why = "input 'image': axis 2: 225 is outside of 224 to 224"},
    {.model = "squeezenet1_1",
     .int8 = true,
     .sides = true,
     .n_ranges = 1,
     .range = {{S(4, 1, 3, 64, 64), S(4, 4, 3, 224, 224), S(4, 8, 3, 320, 320)}},
     .other = {S(4, 2, 3, 97, 200), S(4, 8, 3, 224, 224)},
     .outside = S(4, 1, 3, 64, 321),
     .why = "input 'image': axis 3: 321 is outside of 64 to 320"},
    {.model = "yolov5s",
     .sides = true,
     .without = QB_SOURCE_CUDNN,
     .n_ranges = 1,
     .range = {{S(4, 1, 3, 320, 320), S(4, 1, 3, 640, 640), S(4, 4, 3, 640, 640)}},
     .other = {S(4, 2, 3, 480, 352), S(4, 1, 3, 640, 384)},
     .outside = S(4, 1, 3, 256, 640),
     .why = "input 'image': axis 2: 256 is outside of 320 to 640"},
    {.model = "bert_base",
     .n_ranges = 1,
     .range = {{S(2, 1, 8), S(2, 1, 128), S(2, 8, 256)}},
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

/* INT8 by own kernels alone, which are exact (cuDNN's may round a tie otherwise), and without FP16
 * steps: which ones those are depends on the shape. */
static qb_build_spec options_for(const test_case *c, const char *cache) {
    return (qb_build_spec){.backends = "cuda",
                           .float_type = QB_DTYPE_F16,
                           .no_mixed_precision = c->int8,
                           .excluded_sources = c->int8 ? QB_SOURCES_ALL : c->without,
                           .timing_cache = cache};
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

/* By how much more the outputs move than the inputs do, in FP32 on the host: what the layers make
 * of an error that is as small as the rounding of FP16. Whole numbers do not move, and count as 1.
 */
static double gain_of(qb_ctx *cx, const qb_graph *graph, const qb_shape *shape) {
    bench_ports plain = {0}, moved = {0};
    qb_engine *engine;
    qb_context *context;
    qb_rng rng;
    double gain = 1;
    qb_rng_seed(&rng, 1);
    assert_ok(cx, bench_build_at(cx, graph, shape, (qb_build_spec){0}, &engine));
    assert_ok(cx, qb_context_create(cx, engine, &context));
    assert_ok(cx, bench_run_at(cx, context, shape, &plain));
    assert_ok(cx, bench_run_at(cx, context, shape, &moved));
    const qb_desc *in = qb_engine_input(qb_context_engine(context), 0);
    const int64_t n_in = qb_shape_count(&in->shape);
    const int64_t n_out = qb_shape_count(&qb_engine_output(qb_context_engine(context), 0)->shape);
    if (in->dtype == QB_DTYPE_F32) {
        float *x = moved.in[0];
        for (int64_t i = 0; i < n_in; i++)
            x[i] *= 1 + 0x1p-10f * (2 * (float)qb_rng_uniform(&rng) - 1);
        assert_ok(cx, qb_context_run(cx, context, (const void *const *)moved.in, moved.out));
        gain = relative_error(moved.out[0], plain.out[0], n_out) /
               relative_error(moved.in[0], plain.in[0], n_in);
    }
    bench_ports_free(&plain);
    bench_ports_free(&moved);
    qb_context_free(context);
    qb_engine_free(engine);
    return fmax(gain, 1);
}

/* How far two runs in FP16 may be apart. Sums are in float, whose rounding (2^-24 of each term)
 * does not show beside that of a result that is stored with 11 bits: a step adds an error evenly
 * spread over one unit in the last place, so sqrt(1/12) 2^-10 = 2.8e-4 of a value at most in the
 * root of the mean square (values fill their power of two, where the unit is 2^-10 of its lower
 * end). Where a kernel sums in another order, the last bit falls otherwise. Were the errors of all
 * stores in both engines independent, the squares of 2 n of them would add up. What the network
 * makes of one depends on where it is made: it is passed on with all of the network's gain g by the
 * first step and as it is by the last, and where each step has the same part in g, the mean of the
 * squares of what is left of g behind a step is (g^2 - 1) / ln g^2. */
static double fp16_limit(const qb_engine *engine, double gain) {
    const double squares = gain > 1 ? (gain * gain - 1) / (2 * log(gain)) : 1;
    return sqrt(2.0 * qb_engine_n_steps(engine) / 12 * squares) * 0x1p-10;
}

/* The shape in the engine with ranges, against an engine of its own. */
static bool agrees(qb_ctx *cx, const test_case *c, const qb_graph *graph, qb_build_spec options,
                   qb_context *context, const qb_shape *shape, bool usual) {
    char text[96];
    bench_ports x = {0}, y = {0};
    qb_context *other;
    qb_engine *fixed;
    assert_ok(cx, bench_build_at(cx, graph, shape, options, &fixed));
    assert_ok(cx, qb_context_create(cx, fixed, &other));
    assert_ok(cx, bench_run_at(cx, context, shape, &x));
    assert_ok(cx, bench_run_at(cx, other, shape, &y));
    const int64_t n = qb_shape_count(&qb_engine_output(fixed, 0)->shape);
    const double error = relative_error(x.out[0], y.out[0], n);
    const int32_t different = different_steps(qb_context_engine(context), fixed);
    const bool exact = usual || c->int8;
    const double limit = exact ? 0 : fp16_limit(fixed, gain_of(cx, graph, shape));
    printf("  %s: relative error %.2e (limit %.1e), %d of %d steps by another tactic\n",
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
    const bench_shapes inputs = bench_shapes_of(&c->outside);
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
        const bench_range *r = &c->range[0];
        const qb_shape *shape = i == 0 ? &r->opt : i == 1 ? &r->max : &c->other[i - 2];
        bench_ports x = {0}, y = {0};
        if (shape->rank == 0) break;
        assert_ok(cx, bench_run_at(cx, context, shape, &x));
        assert_ok(cx, bench_run_at(cx, after, shape, &y));
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
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
    bool good = true;
    qb_test_join(cache, folder, "timing.cache");
    qb_test_join(path, folder, "ranges.qbe");
    assert_ok(cx, bench_range_model(cx, c->model, c->int8, c->sides, &graph));
    const qb_build_spec options = options_for(c, cache);
    const double start = qb_now();
    assert_ok(cx, bench_build_ranges(cx, graph, c->range, c->n_ranges, options, &engine));
    printf("%s %s: built in %.2f s\n", c->model, c->int8 ? "int8" : "fp16", qb_now() - start);
    assert_ok(cx, qb_context_create(cx, engine, &context));
    for (int32_t p = 0; p < c->n_ranges; p++) {
        const bench_range *r = &c->range[p];
        good = agrees(cx, c, graph, options, context, &r->opt, true) && good;
        good = agrees(cx, c, graph, options, context, &r->min, false) && good;
        good = agrees(cx, c, graph, options, context, &r->max, false) && good;
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

static size_t left_after(qb_ctx *cx, qb_context *context, int n_shapes, int turns) {
    size_t left;
    for (int i = 0; i < turns; i++) {
        const int k = i % n_shapes;
        const qb_shape shape = qb_shape_of(4, 1 + k % 4, 3, 64 + k, 128 - k);
        bench_ports ports = {0};
        assert_ok(cx, bench_run_at(cx, context, &shape, &ports));
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
    const bench_range range = {S(4, 1, 3, 64, 64), S(4, 2, 3, 96, 96), S(4, 4, 3, 128, 128)};
    const qb_build_spec options = {
        .backends = "cuda", .float_type = QB_DTYPE_F16, .excluded_sources = QB_SOURCE_CUDNN};
    qb_graph *graph;
    qb_engine *engine;
    qb_ctx_init(&cx);
    assert_ok(&cx, bench_range_model(&cx, "squeezenet1_1", false, true, &graph));
    assert_ok(&cx, bench_build_ranges(&cx, graph, &range, 1, options, &engine));
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_shape_runs_as_in_an_engine_of_its_own),
    cmocka_unit_test(memory_stays_when_shapes_alternate)};

int main(void) {
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
