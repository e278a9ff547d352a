/* Ranges of shapes on a device that needs no GPU: every shape inside runs as an engine built for it
 * alone would, plans read the same weights there, and neither memory nor recordings grow when
 * shapes alternate. */
#include "open_models.h"

#include <pthread.h>
#include <string.h>

#include "base/file.h"
#include "bench_models.h"
#include "engine/file.h"
#include "engine/plans_internal.h"
#include "fake_device.h"
#include "graph/passes.h"
#include "small_graphs.h"

typedef void (*make_model)(qb_ctx *cx, qb_graph **out);

static qb_engine *build(qb_ctx *cx, make_model make, const qb_build_spec *options) {
    qb_graph *graph;
    qb_engine *engine;
    make(cx, &graph);
    assert_ok(cx, qb_engine_build(cx, graph, options, &engine));
    qb_graph_free(graph);
    return engine;
}

static qb_engine *build_ranges(qb_ctx *cx, make_model make, const qb_profile *profiles, int32_t n) {
    const qb_build_spec options = {
        .backends = "cuda,cpu,ref", .threads = 1, .profiles = profiles, .n_profiles = n};
    return build(cx, make, &options);
}

static void same_run(qb_ctx *cx, qb_context *a, qb_context *b, const qb_shape *shape) {
    size_t n, m;
    assert_ok(cx, qb_context_set_shapes(cx, a, shape));
    assert_ok(cx, qb_context_set_shapes(cx, b, shape));
    float *y = open_run(cx, a, 7, &n), *z = open_run(cx, b, 7, &m);
    assert_int_equal(n, m);
    assert_memory_equal(y, z, n * sizeof *y);
    qb_free(y);
    qb_free(z);
}

static void runs_as_a_fixed_one(qb_ctx *cx, make_model make, qb_context *context, qb_shape shape) {
    const qb_build_spec options = {
        .backends = "cuda,cpu,ref", .threads = 1, .input_shapes = &shape};
    qb_engine *fixed = build(cx, make, &options);
    qb_context *other;
    assert_ok(cx, qb_context_create(cx, fixed, &other));
    same_run(cx, context, other, &shape);
    qb_context_free(other);
    qb_engine_free(fixed);
}

static bool is_on_device(const qb_engine *engine) {
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        if (step.on_device) return true;
    }
    return false;
}

static void images_of_any_size(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 4, 4), opt = qb_shape_of(4, 2, 3, 16, 16),
                   max = qb_shape_of(4, 8, 3, 40, 24);
    const qb_profile profile = {&min, &opt, &max};
    const qb_shape inside[] = {opt,
                               min,
                               max,
                               qb_shape_of(4, 1, 3, 5, 24),
                               qb_shape_of(4, 8, 3, 4, 4),
                               qb_shape_of(4, 3, 3, 33, 7)};
    qb_ctx cx;
    qb_context *context;
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_image_model, &profile, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        runs_as_a_fixed_one(&cx, open_image_model, context, inside[i]);
        assert_true(is_on_device(qb_context_engine(context)));
        assert_string_equal(qb_engine_device(qb_context_engine(context)), "fake device, driver 1");
    }
    qb_context_free(context);
    qb_engine_free(engine);
    assert_int_equal(fake_device_blocks, 0);
}

/* The device has no products of matrices: the host runs them, and what stands between them. */
static void sequences_of_any_length_on_the_host(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(3, 1, 1, 16), opt = qb_shape_of(3, 1, 32, 16),
                   max = qb_shape_of(3, 4, 64, 16);
    const qb_profile profile = {&min, &opt, &max};
    qb_ctx cx;
    qb_context *context;
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_sequence_model, &profile, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (int64_t length = 1; length <= 64; length += 9)
        runs_as_a_fixed_one(&cx, open_sequence_model, context,
                            qb_shape_of(3, 1 + length % 4, length, 16));
    assert_false(is_on_device(engine));
    qb_context_free(context);
    qb_engine_free(engine);
    assert_int_equal(fake_device_blocks, 0);
}

static void transpose_and_run(qb_ctx *cx, qb_context *context, qb_shape shape) {
    size_t n;
    assert_ok(cx, qb_context_set_shapes(cx, context, &shape));
    qb_free(open_run(cx, context, 3, &n));
}

/* A few shapes in turn: all is made in the first round, and nothing but runs happens then. */
static void shapes_in_turn_make_nothing_new(void **state) {
    (void)state;
    enum { SHAPES = 12, ROUNDS = 5 };
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 2, 3, 16, 16),
                   max = qb_shape_of(4, 4, 3, 32, 32);
    const qb_profile profile = {&min, &opt, &max};
    qb_ctx cx;
    qb_context *context;
    int allocations = 0, recordings = 0;
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_image_model, &profile, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    const size_t bytes = qb_context_bytes(context);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SHAPES; i++)
            transpose_and_run(&cx, context, qb_shape_of(4, 1 + i % 4, 3, 8 + i, 32 - 2 * i));
        if (round == 0) {
            allocations = fake_device_allocations;
            recordings = fake_device_recordings;
        }
    }
    assert_int_equal(fake_device_allocations, allocations);
    assert_int_equal(fake_device_recordings, recordings);
    assert_int_equal(qb_context_bytes(context), bytes);
    qb_context_free(context);
    qb_engine_free(engine);
}

/* More shapes than plans and recordings are kept, in an order that never hits: the block of the
 * context stays, the weights are there once, and what plans have of their own goes with them. */
static void nothing_grows_when_many_shapes_alternate(void **state) {
    (void)state;
    enum { SHAPES = QB_PLANS_MAX + 9, ROUNDS = 3 };
    const qb_shape min = qb_shape_of(4, 1, 3, 4, 8), opt = qb_shape_of(4, 1, 3, 8, 8),
                   max = qb_shape_of(4, 1, 3, 4 + SHAPES, 8);
    const qb_profile profile = {&min, &opt, &max};
    qb_ctx cx;
    qb_context *context;
    qb_engine_memory before, after;
    int blocks = 0, packs = 0;
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_image_model, &profile, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    const size_t bytes = qb_context_bytes(context);
    qb_engine_memory_of(engine, &before);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SHAPES; i++)
            transpose_and_run(&cx, context, qb_shape_of(4, 1, 3, 4 + i, 8));
        if (round == 0) {
            blocks = fake_device_blocks;
            packs = fake_device_packs;
        }
        assert_int_equal(fake_device_blocks, blocks);
    }
    qb_engine_memory_of(engine, &after);
    assert_int_equal(fake_device_packs, packs);
    assert_int_equal(qb_context_bytes(context), bytes);
    assert_int_equal(after.weights, before.weights);
    assert_int_equal(after.arena, before.arena);
    qb_context_free(context);
    qb_engine_free(engine);
    assert_int_equal(fake_device_blocks, 0);
}

static void all_shapes_read_the_same_weights(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 1, 3, 32, 32),
                   max = qb_shape_of(4, 4, 3, 64, 64);
    const qb_profile profile = {&min, &opt, &max};
    const qb_build_spec options = {.backends = "cuda,cpu,ref", .threads = 1, .input_shapes = &opt};
    qb_ctx cx;
    qb_engine_memory ranges, fixed;
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_image_model, &profile, 1);
    qb_engine *alone = build(&cx, open_image_model, &options);
    qb_engine_memory_of(engine, &ranges);
    qb_engine_memory_of(alone, &fixed);
    assert_int_equal(ranges.weights, fixed.weights);
    assert_true(ranges.arena > fixed.arena); /* for the largest */
    assert_int_equal(ranges.planned, fixed.planned);
    qb_engine_free(alone);
    qb_engine_free(engine);
}

static void same_bytes(qb_ctx *cx, const char *a, const char *b) {
    qb_map x, y;
    assert_ok(cx, qb_map_open(cx, a, &x));
    assert_ok(cx, qb_map_open(cx, b, &y));
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    qb_map_close(&x);
    qb_map_close(&y);
}

static void same_answers(qb_ctx *cx, const qb_engine *a, const qb_engine *b, const qb_shape *shapes,
                         size_t n_shapes) {
    qb_context *before, *after;
    assert_ok(cx, qb_context_create(cx, a, &before));
    assert_ok(cx, qb_context_create(cx, b, &after));
    assert_int_equal(qb_context_bytes(before), qb_context_bytes(after));
    for (size_t i = 0; i < n_shapes; i++) same_run(cx, before, after, &shapes[i]);
    qb_context_free(before);
    qb_context_free(after);
}

/* Saved and loaded in each way: the same answers for every shape, and the same file again. */
static void files_keep_the_profiles(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 2, 3, 16, 16),
                   max = qb_shape_of(4, 4, 3, 24, 32), other = qb_shape_of(4, 1, 3, 48, 48);
    const qb_profile profiles[] = {{&min, &opt, &max}, {&other, &other, &other}};
    const qb_shape shapes[] = {opt, min, max, other, qb_shape_of(4, 3, 3, 9, 31)};
    const size_t n_shapes = sizeof shapes / sizeof *shapes;
    static const qb_engine_origin origins[] = {{.model = "m.onnx", .precision = "fp32"},
                                               {.version_compatible = true},
                                               {.hardware_compatible = true}};
    char folder[QB_TEST_PATH], path[QB_TEST_PATH], again[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "open.qbe");
    qb_test_join(again, folder, "again.qbe");
    for (size_t o = 0; o < sizeof origins / sizeof *origins; o++) {
        qb_ctx cx;
        qb_engine *loaded;
        qb_ctx_init(&cx);
        fake_device_hardware = "fake device";
        fake_device_software = "driver 1";
        qb_engine *engine = build_ranges(&cx, open_image_model, profiles, 2);
        assert_ok(&cx, qb_engine_save(&cx, engine, &origins[o], path));
        assert_ok(&cx, qb_engine_load(&cx, path, &loaded));
        assert_int_equal(qb_engine_n_profiles(loaded), 2);
        same_answers(&cx, engine, loaded, shapes, n_shapes);
        qb_engine_free(loaded);
        assert_ok(&cx, qb_engine_load(&cx, path, &loaded));
        if (o == 0) { /* the others have no times of steps any more */
            assert_ok(&cx, qb_engine_save(&cx, loaded, &origins[o], again));
            qb_engine *once_more;
            assert_ok(&cx, qb_engine_load(&cx, again, &once_more));
            assert_ok(&cx, qb_engine_save(&cx, once_more, &origins[o], path));
            same_bytes(&cx, path, again);
            qb_engine_free(once_more);
        } else { /* chosen anew */
            qb_engine *elsewhere;
            *(o == 1 ? &fake_device_software : &fake_device_hardware) = "another";
            assert_ok(&cx, qb_engine_load(&cx, path, &elsewhere));
            same_answers(&cx, loaded, elsewhere, shapes, n_shapes);
            qb_engine_free(elsewhere);
        }
        qb_engine_free(loaded);
        qb_engine_free(engine);
    }
    fake_device_hardware = "fake device";
    assert_int_equal(fake_device_blocks, 0);
}

/* Even sizes are the corners of the profile; odd ones want scratch that no corner does, more than
 * all that a context has for these. */
#define ODD_SCRATCH ((size_t)1 << 22)
static const qb_shape even_min = {4, {1, 3, 8, 8}}, even_opt = {4, {1, 3, 16, 16}},
                      even_max = {4, {2, 3, 16, 32}}, odd = {4, {1, 3, 9, 17}};

static qb_engine *build_with_odd_scratch(qb_ctx *cx) {
    const qb_profile profile = {&even_min, &even_opt, &even_max};
    fake_device_odd_scratch = ODD_SCRATCH;
    return build_ranges(cx, open_image_model, &profile, 1);
}

static void run_odd(qb_ctx *cx, const qb_engine *engine) {
    qb_context *context;
    qb_engine_memory before, after;
    assert_ok(cx, qb_context_create(cx, engine, &context));
    qb_engine_memory_of(engine, &before);
    transpose_and_run(cx, context, odd);
    qb_engine_memory_of(engine, &after);
    assert_int_equal(after.workspace, before.workspace + ODD_SCRATCH);
    qb_context_free(context);
}

/* New contexts reserve more after a run of a shape that needs more than any corner; the file says
 * what the build did. */
static void what_ran_since_is_not_in_the_file(void **state) {
    (void)state;
    const qb_engine_origin origin = {.precision = "fp32"};
    char folder[QB_TEST_PATH], before[QB_TEST_PATH], after[QB_TEST_PATH];
    qb_ctx cx;
    qb_test_temp_dir(folder);
    qb_test_join(before, folder, "before.qbe");
    qb_test_join(after, folder, "after.qbe");
    qb_ctx_init(&cx);
    qb_engine *engine = build_with_odd_scratch(&cx);
    for (int loaded = 0; loaded < 2; loaded++) {
        assert_ok(&cx, qb_engine_save(&cx, engine, &origin, before));
        run_odd(&cx, engine);
        assert_ok(&cx, qb_engine_save(&cx, engine, &origin, after));
        same_bytes(&cx, before, after);
        qb_engine_free(engine);
        engine = NULL;
        if (!loaded) assert_ok(&cx, qb_engine_load(&cx, after, &engine));
    }
    fake_device_odd_scratch = 0;
}

/* A context whose memory cannot grow keeps all that it had: memory, recordings and answers. */
static void a_turn_that_fails_changes_nothing(void **state) {
    (void)state;
    qb_ctx cx;
    qb_context *context;
    size_t n;
    qb_ctx_init(&cx);
    qb_engine *engine = build_with_odd_scratch(&cx);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    float *before = open_run(&cx, context, 3, &n);
    const size_t bytes = qb_context_bytes(context);
    const int blocks = fake_device_blocks, recordings = fake_device_recordings;
    fake_device_fills_left = 0;
    assert_fails(&cx, qb_context_set_shapes(&cx, context, &odd), QB_STATUS_INTERNAL);
    qb_ctx_clear(&cx);
    fake_device_fills_left = -1;
    assert_int_equal(qb_context_bytes(context), bytes);
    float *after = open_run(&cx, context, 3, &n);
    assert_memory_equal(before, after, n * sizeof *before);
    assert_int_equal(fake_device_recordings, recordings);
    assert_in_range(fake_device_blocks - blocks, 0, 1); /* the plan of the odd sizes may stay */
    transpose_and_run(&cx, context, odd);
    assert_true(qb_context_bytes(context) > bytes);
    qb_free(before);
    qb_free(after);
    qb_context_free(context);
    qb_engine_free(engine);
    fake_device_odd_scratch = 0;
    assert_int_equal(fake_device_blocks, 0);
}

static int compilations_at(qb_ctx *cx, qb_context *context, qb_shape shape) {
    const int before = fake_device_compilations;
    transpose_and_run(cx, context, shape);
    return fake_device_compilations - before;
}

/* What the device compiles for min, opt and max of all profiles is in the file. For other shapes it
 * compiles once, also where their plans have been dropped. */
static void known_shapes_are_not_compiled_again(void **state) {
    (void)state;
    enum { SHAPES = QB_PLANS_MAX + 3 };
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 2, 3, 16, 16),
                   max = qb_shape_of(4, 4, 3, 24, 64), other = qb_shape_of(4, 1, 3, 48, 48);
    const qb_profile profiles[] = {{&min, &opt, &max}, {&other, &other, &other}};
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_context *context;
    qb_engine *loaded;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "open.qbe");
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_image_model, profiles, 2);
    assert_ok(&cx, qb_engine_save(&cx, engine, &(qb_engine_origin){.precision = "fp32"}, path));
    qb_engine_free(engine);
    assert_ok(&cx, qb_engine_load(&cx, path, &loaded));
    assert_ok(&cx, qb_context_create(&cx, loaded, &context));
    assert_int_equal(compilations_at(&cx, context, opt), 0);
    assert_int_equal(compilations_at(&cx, context, min), 0);
    assert_int_equal(compilations_at(&cx, context, max), 0);
    assert_int_equal(compilations_at(&cx, context, other), 0);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < SHAPES; i++) {
            const int n = compilations_at(&cx, context, qb_shape_of(4, 1, 3, 9, 9 + i));
            assert_int_equal(n > 0, round == 0);
        }
    qb_context_free(context);
    qb_engine_free(loaded);
}

/* A timing cache has all of it, too: the second build compiles nothing and gives the same file. */
static void builds_with_the_same_times_give_the_same_file(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 2, 3, 16, 16),
                   max = qb_shape_of(4, 4, 3, 24, 32);
    const qb_profile profile = {&min, &opt, &max};
    char folder[QB_TEST_PATH], path[2][QB_TEST_PATH], cache[QB_TEST_PATH];
    qb_ctx cx;
    qb_test_temp_dir(folder);
    qb_test_join(path[0], folder, "first.qbe");
    qb_test_join(path[1], folder, "second.qbe");
    qb_test_join(cache, folder, "timing.cache");
    qb_ctx_init(&cx);
    const qb_build_spec options = {.backends = "cuda,cpu,ref",
                                   .threads = 1,
                                   .timing_cache = cache,
                                   .profiles = &profile,
                                   .n_profiles = 1};
    for (int i = 0; i < 2; i++) {
        const int before = fake_device_compilations;
        qb_engine *engine = build(&cx, open_image_model, &options);
        assert_int_equal(fake_device_compilations > before, i == 0);
        assert_ok(&cx,
                  qb_engine_save(&cx, engine, &(qb_engine_origin){.precision = "fp32"}, path[i]));
        qb_engine_free(engine);
    }
    same_bytes(&cx, path[0], path[1]);
}

static void outside_is_an_error_and_changes_nothing(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 1, 3, 16, 16),
                   max = qb_shape_of(4, 4, 3, 64, 32);
    const qb_profile profile = {&min, &opt, &max};
    const qb_shape outside = qb_shape_of(4, 5, 3, 8, 8);
    qb_ctx cx;
    qb_context *context;
    size_t n;
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_image_model, &profile, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    transpose_and_run(&cx, context, max);
    float *before = open_run(&cx, context, 3, &n);
    assert_fails(&cx, qb_context_set_shapes(&cx, context, &outside), QB_STATUS_INVALID);
    assert_message(&cx, "input 'image': axis 0: 5 is outside of 1 to 4");
    qb_ctx_clear(&cx);
    float *after = open_run(&cx, context, 3, &n);
    assert_memory_equal(before, after, n * sizeof *before);
    qb_free(before);
    qb_free(after);
    qb_context_free(context);
    qb_engine_free(engine);
}

/* Two devices of the same kind: one file for both, each with its own weights and plans. */
static void a_file_with_ranges_loads_on_any_device(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 1, 3, 16, 16),
                   max = qb_shape_of(4, 4, 3, 64, 32), shape = qb_shape_of(4, 3, 3, 20, 9);
    const qb_profile profile = {&min, &opt, &max};
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_engine *engine[2];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "open.qbe");
    qb_ctx_init(&cx);
    engine[0] = build_ranges(&cx, open_image_model, &profile, 1);
    assert_ok(&cx, qb_engine_save(&cx, engine[0], &(qb_engine_origin){.precision = "fp32"}, path));
    assert_ok(&cx, qb_engine_load_on(&cx, path, 1, &engine[1]));
    same_answers(&cx, engine[0], engine[1], (qb_shape[]){opt, max, shape}, 3);
    for (int i = 0; i < 2; i++) qb_engine_free(engine[i]);
    assert_int_equal(fake_device_blocks, 0);
}

/* ---- attention ---- */

static int32_t count_steps(const qb_engine *engine, const char *op, bool on_device) {
    int32_t n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        n += strcmp(step.op, op) == 0 && step.on_device == on_device;
    }
    return n;
}

static void same_steps(const qb_engine *a, const qb_engine *b) {
    assert_int_equal(qb_engine_n_steps(a), qb_engine_n_steps(b));
    for (int32_t s = 0; s < qb_engine_n_steps(a); s++) {
        qb_step_info x, y;
        qb_engine_step(a, s, &x);
        qb_engine_step(b, s, &y);
        assert_string_equal(x.op, y.op);
        assert_string_equal(x.tactic, y.tactic);
    }
}

/* The plan for the shape is that of an engine for it alone, with one product. */
static void plans_as_a_fixed_one(qb_ctx *cx, const qb_engine *engine, qb_context *context,
                                 const qb_shape *shape) {
    const qb_build_spec options = {
        .backends = "cuda", .float_type = QB_DTYPE_F16, .threads = 1, .input_shapes = shape};
    qb_engine *fixed = build(cx, open_attention_model, &options);
    const qb_engine *plan;
    qb_context *other;
    assert_ok(cx, qb_engine_at(cx, engine, shape, &plan));
    assert_int_equal(count_steps(plan, "MatMul+Add", false), 1);
    assert_int_equal(count_steps(plan, "Attention", true), 1);
    assert_int_equal(count_steps(plan, "Reshape", true), 1); /* nothing to do, on the device */
    same_steps(plan, fixed);
    qb_engine_release(plan);
    assert_ok(cx, qb_context_create(cx, fixed, &other));
    same_run(cx, context, other, shape);
    qb_context_free(other);
    qb_engine_free(fixed);
}

/* Queries, keys and values are one product in each plan, with one weight for all of them, also
 * where a Shape reads the queries while sizes are open, and once a file is loaded. */
static void all_plans_have_one_product(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(3, 1, 1, 16), opt = qb_shape_of(3, 2, 5, 16),
                   max = qb_shape_of(3, 4, 12, 16);
    const qb_profile profiles[] = {{&min, &opt, &max}, {&opt, &max, &max}};
    const qb_shape inside[] = {opt, min, max, qb_shape_of(3, 3, 7, 16)};
    qb_build_spec options = {
        .backends = "cuda", .float_type = QB_DTYPE_F16, .threads = 1, .profiles = profiles};
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_ctx cx;
    qb_engine *loaded;
    qb_context *context;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "open.qbe");
    qb_ctx_init(&cx);
    fake_device_attends = true;
    for (options.n_profiles = 1; options.n_profiles <= 2; options.n_profiles++) {
        qb_engine *engine = build(&cx, open_attention_model, &options);
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
            plans_as_a_fixed_one(&cx, engine, context, &inside[i]);
        qb_context_free(context);
        assert_int_equal(qb_packs_bytes(engine->plans), 0); /* all read what the engine packed */
        assert_ok(&cx, qb_engine_save(&cx, engine, &(qb_engine_origin){.precision = "fp16"}, path));
        assert_ok(&cx, qb_engine_load(&cx, path, &loaded));
        same_answers(&cx, engine, loaded, inside, sizeof inside / sizeof *inside);
        same_steps(engine, loaded);
        qb_engine_free(loaded);
        qb_engine_free(engine);
    }
    assert_int_equal(fake_device_blocks, 0);
}

static int attend_no_more(void **state) {
    (void)state;
    fake_device_attends = false;
    return 0;
}

/* ---- quantized values and f16 ---- */

/* Constants that steps of quantized values read as floats because they run in f16. */
static size_t floats_read(const qb_engine *e) {
    size_t n = 0;
    for (int32_t s = 0; s < e->n_steps; s++) {
        const qb_step *step = &e->steps[s];
        if (step->row < 0 || e->plan->table[0].rows[step->row].precision != QB_DTYPE_F16 ||
            e->plan->dequantized)
            continue;
        for (int32_t i = 0; step->constants && i < step->n_in; i++)
            n += step->constants[i] && step->kernel->problem.in[i].dtype == QB_DTYPE_F32;
    }
    return n;
}

/* Each layer is tried in quantized values and in f16; floats of weights stay for those alone that
 * run in it, and are told as weights. */
static void floats_that_nothing_reads_go(void **state) {
    (void)state;
    enum { BUILDS = 100 };
    int with = 0, without = 0;
    qb_ctx cx;
    qb_graph *floats, *graph;
    qb_ctx_init(&cx);
    floats = run_graph(&cx, RUN_SIDE);
    assert_ok(&cx, qb_optimize(&cx, floats, NULL, NULL));
    assert_ok(&cx, bench_quantize(&cx, floats, &graph));
    qb_graph_free(floats);
    const qb_shape shape = qb_shape_of(4, 2, 3, RUN_SIDE, RUN_SIDE);
    const qb_profile profile = {&shape, &shape, &shape};
    const qb_build_spec options = {.backends = "cuda,cpu,ref",
                                   .float_type = QB_DTYPE_F16,
                                   .threads = 1,
                                   .profiles = &profile,
                                   .n_profiles = 1};
    for (int i = 0; i < BUILDS && (with == 0 || without == 0); i++) { /* each has other times */
        qb_engine *engine;
        assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
        const size_t read = floats_read(engine);
        *(read > 0 ? &with : &without) += 1;
        assert_int_equal(engine->plans->n_floats, read);
        assert_true(qb_packs_bytes(engine->plans) >= read * sizeof(float));
        qb_engine_free(engine);
    }
    assert_true(with > 0 && without > 0);
    qb_graph_free(graph);
    assert_int_equal(fake_device_blocks, 0);
}

/* ---- several threads ---- */

enum { THREADS = 4, TURNS = 40, SIZES = 20 };

typedef struct worker {
    const qb_engine *engine;
    float *const *expected; /* [SIZES] */
    uint64_t seed;
    bool good;
} worker;

static qb_shape size_of(int i) { return qb_shape_of(4, 1 + i % 2, 3, 8 + i, 8); }

static void *hammer(void *user) {
    worker *w = user;
    qb_ctx cx;
    qb_context *context;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_context_create(&cx, w->engine, &context));
    w->good = true;
    for (int t = 0; t < TURNS; t++) {
        const int i = (int)((w->seed * 7 + (uint64_t)t * (w->seed + 1)) % SIZES);
        const qb_shape shape = size_of(i);
        size_t n;
        assert_ok(&cx, qb_context_set_shapes(&cx, context, &shape));
        float *y = open_run(&cx, context, 11, &n);
        w->good = w->good && memcmp(y, w->expected[i], n * sizeof *y) == 0;
        qb_free(y);
    }
    qb_context_free(context);
    return NULL;
}

static void threads_share_the_plans(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), max = qb_shape_of(4, 2, 3, 8 + SIZES, 8);
    const qb_profile profile = {&min, &min, &max};
    qb_ctx cx;
    qb_context *context;
    float *expected[SIZES];
    worker workers[THREADS];
    pthread_t thread[THREADS];
    qb_ctx_init(&cx);
    qb_engine *engine = build_ranges(&cx, open_image_model, &profile, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (int i = 0; i < SIZES; i++) {
        const qb_shape shape = size_of(i);
        size_t n;
        assert_ok(&cx, qb_context_set_shapes(&cx, context, &shape));
        expected[i] = open_run(&cx, context, 11, &n);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.engine = engine, .expected = expected, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&thread[i], NULL, hammer, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_true(workers[i].good);
    }
    for (int i = 0; i < SIZES; i++) qb_free(expected[i]);
    qb_context_free(context);
    qb_engine_free(engine);
}

/* ---- no memory ---- */

static qb_status set_once(qb_ctx *cx, void *user) {
    const qb_shape shape = qb_shape_of(4, 2, 3, 9, 9);
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), max = qb_shape_of(4, 2, 3, 12, 12);
    const qb_profile profile = {&min, &min, &max};
    const qb_build_spec options = {.backends = "cuda,cpu,ref",
                                   .threads = 1,
                                   .profiles = &profile,
                                   .n_profiles = 1,
                                   .first_tactic = true};
    qb_engine *engine;
    qb_context *context;
    QB_TRY(qb_engine_build(cx, user, &options, &engine));
    qb_status status = qb_context_create(cx, engine, &context);
    if (status == QB_OK) {
        status = qb_context_set_shapes(cx, context, &shape);
        qb_context_free(context);
    }
    qb_engine_free(engine);
    return status;
}

static void no_memory_is_an_error_everywhere(void **state) {
    (void)state;
    qb_ctx cx;
    qb_graph *graph;
    qb_ctx_init(&cx);
    open_image_model(&cx, &graph);
    assert_true(qb_test_alloc_sweep(set_once, graph) > 100);
    qb_graph_free(graph);
    assert_int_equal(fake_device_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_any_size),
        cmocka_unit_test(sequences_of_any_length_on_the_host),
        cmocka_unit_test(shapes_in_turn_make_nothing_new),
        cmocka_unit_test(nothing_grows_when_many_shapes_alternate),
        cmocka_unit_test(all_shapes_read_the_same_weights),
        cmocka_unit_test(files_keep_the_profiles),
        cmocka_unit_test(what_ran_since_is_not_in_the_file),
        cmocka_unit_test(a_turn_that_fails_changes_nothing),
        cmocka_unit_test(known_shapes_are_not_compiled_again),
        cmocka_unit_test(builds_with_the_same_times_give_the_same_file),
        cmocka_unit_test(outside_is_an_error_and_changes_nothing),
        cmocka_unit_test(a_file_with_ranges_loads_on_any_device),
        cmocka_unit_test_teardown(all_plans_have_one_product, attend_no_more),
        cmocka_unit_test(floats_that_nothing_reads_go),
        cmocka_unit_test(threads_share_the_plans),
        cmocka_unit_test(no_memory_is_an_error_everywhere),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
