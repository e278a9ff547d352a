/* Engines with profiles: every shape inside runs as an engine built for it alone would. */
#include "open_models.h"

#include <string.h>

#include "base/file.h"
#include "engine/file.h"
#include "engine/plans_internal.h"

typedef void (*make_model)(qb_ctx *cx, qb_graph **out);

static qb_engine *build(qb_ctx *cx, make_model make, const char *backends,
                        const qb_profile *profiles, int32_t n) {
    qb_graph *graph;
    qb_engine *engine;
    make(cx, &graph);
    const qb_build_spec options = {
        .backends = backends, .threads = 2, .profiles = profiles, .n_profiles = n};
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    qb_graph_free(graph);
    return engine;
}

static qb_engine *build_fixed(qb_ctx *cx, make_model make, const char *backends, qb_shape shape) {
    qb_graph *graph;
    qb_engine *engine;
    make(cx, &graph);
    const qb_build_spec options = {.backends = backends, .threads = 2, .input_shapes = &shape};
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    qb_graph_free(graph);
    return engine;
}

static void runs_as_a_fixed_one(qb_ctx *cx, make_model make, const char *backends,
                                qb_context *context, qb_shape shape) {
    qb_engine *fixed = build_fixed(cx, make, backends, shape);
    qb_context *other;
    size_t n, m;
    assert_ok(cx, qb_context_create(cx, fixed, &other));
    assert_ok(cx, qb_context_set_shapes(cx, context, &shape));
    float *y = open_run(cx, context, 7, &n), *z = open_run(cx, other, 7, &m);
    assert_int_equal(n, m);
    assert_memory_equal(y, z, n * sizeof *y);
    qb_free(y);
    qb_free(z);
    qb_context_free(other);
    qb_engine_free(fixed);
}

static const char *const backends[] = {NULL, "cpu,ref", "ref"};
#define N_BACKENDS (int)(sizeof backends / sizeof *backends)

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
    for (int b = 0; b < N_BACKENDS; b++) {
        qb_ctx cx;
        qb_context *context;
        qb_ctx_init(&cx);
        qb_engine *engine = build(&cx, open_image_model, backends[b], &profile, 1);
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
            runs_as_a_fixed_one(&cx, open_image_model, backends[b], context, inside[i]);
        qb_context_free(context);
        qb_engine_free(engine);
    }
}

static void sequences_of_any_length(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(3, 1, 1, 16), opt = qb_shape_of(3, 1, 32, 16),
                   max = qb_shape_of(3, 4, 128, 16);
    const qb_profile profile = {&min, &opt, &max};
    for (int b = 0; b < N_BACKENDS; b++) {
        qb_ctx cx;
        qb_context *context;
        qb_ctx_init(&cx);
        qb_engine *engine = build(&cx, open_sequence_model, backends[b], &profile, 1);
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        for (int64_t length = 1; length <= 128; length += 17)
            runs_as_a_fixed_one(&cx, open_sequence_model, backends[b], context,
                                qb_shape_of(3, 1 + length % 4, length, 16));
        qb_context_free(context);
        qb_engine_free(engine);
    }
}

/* From one row to several there is a step more: inputs that a step goes without stay left out. */
static void plans_of_other_steps_take_turns(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(3, 1, 1, 16), max = qb_shape_of(3, 2, 9, 16);
    const qb_shape turns[] = {min, max, qb_shape_of(3, 2, 1, 16), qb_shape_of(3, 1, 5, 16), min};
    const qb_profile profile = {&min, &min, &max};
    for (int b = 0; b < N_BACKENDS; b++) {
        qb_ctx cx;
        qb_context *context;
        qb_ctx_init(&cx);
        qb_engine *engine = build(&cx, open_products_model, backends[b], &profile, 1);
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
            runs_as_a_fixed_one(&cx, open_products_model, backends[b], context, turns[i]);
        qb_context_free(context);
        qb_engine_free(engine);
    }
}

/* More shapes than plans are kept, in an order that never hits the cache, then again and again: the
 * context stays as large as it was made, and the weights are packed once. */
static void nothing_grows_when_shapes_alternate(void **state) {
    (void)state;
    enum { SHAPES = QB_PLANS_MAX + 9, ROUNDS = 6 };
    const qb_shape min = qb_shape_of(3, 1, 1, 16), opt = qb_shape_of(3, 1, 16, 16),
                   max = qb_shape_of(3, 2, SHAPES, 16);
    const qb_profile profile = {&min, &opt, &max};
    qb_ctx cx;
    qb_context *context;
    qb_engine_memory before, after;
    float *first[SHAPES];
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, open_sequence_model, "cpu,ref", &profile, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    const size_t bytes = qb_context_bytes(context);
    qb_engine_memory_of(engine, &before);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SHAPES; i++) {
            const qb_shape shape = qb_shape_of(3, 1 + i % 2, 1 + i, 16);
            size_t n;
            assert_ok(&cx, qb_context_set_shapes(&cx, context, &shape));
            float *y = open_run(&cx, context, (uint64_t)i, &n);
            if (round == 0) {
                first[i] = y;
                continue;
            }
            assert_memory_equal(y, first[i], n * sizeof *y);
            qb_free(y);
        }
    }
    qb_engine_memory_of(engine, &after);
    assert_int_equal(qb_context_bytes(context), bytes);
    assert_int_equal(after.weights, before.weights);
    assert_int_equal(after.arena, before.arena);
    assert_int_equal(qb_engine_n_plans(engine), QB_PLANS_MAX);
    for (int i = 0; i < SHAPES; i++) qb_free(first[i]);
    qb_context_free(context);
    qb_engine_free(engine);
}

static void all_shapes_read_the_same_weights(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 1, 3, 32, 32),
                   max = qb_shape_of(4, 4, 3, 64, 64);
    const qb_profile profile = {&min, &opt, &max};
    qb_ctx cx;
    qb_engine_memory ranges, fixed;
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, open_image_model, "cpu,ref", &profile, 1);
    qb_engine *alone = build_fixed(&cx, open_image_model, "cpu,ref", opt);
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

/* Saved and loaded in each way: the same answers for every shape, and the same file again. */
static void files_keep_the_profiles(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(3, 1, 1, 16), opt = qb_shape_of(3, 2, 24, 16),
                   max = qb_shape_of(3, 4, 64, 16), other = qb_shape_of(3, 1, 100, 16);
    const qb_profile profiles[] = {{&min, &opt, &max}, {&other, &other, &other}};
    const qb_shape shapes[] = {opt, min, max, other, qb_shape_of(3, 3, 7, 16)};
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
        qb_context *before, *after;
        qb_ctx_init(&cx);
        qb_engine *engine = build(&cx, open_sequence_model, NULL, profiles, 2);
        assert_ok(&cx, qb_engine_save(&cx, engine, &origins[o], path));
        assert_ok(&cx, qb_engine_load(&cx, path, &loaded));
        assert_ok(&cx, qb_engine_save(&cx, loaded, &origins[o], again));
        same_bytes(&cx, path, again);
        assert_int_equal(qb_engine_n_profiles(loaded), 2);
        assert_true(qb_shape_equal(&qb_engine_profile(loaded, 0)->max[0], &max));
        assert_ok(&cx, qb_context_create(&cx, engine, &before));
        assert_ok(&cx, qb_context_create(&cx, loaded, &after));
        assert_int_equal(qb_context_bytes(before), qb_context_bytes(after));
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            size_t n, m;
            assert_ok(&cx, qb_context_set_shapes(&cx, before, &shapes[i]));
            assert_ok(&cx, qb_context_set_shapes(&cx, after, &shapes[i]));
            float *y = open_run(&cx, before, 3, &n), *z = open_run(&cx, after, 3, &m);
            assert_int_equal(n, m);
            assert_memory_equal(y, z, n * sizeof *y);
            qb_free(y);
            qb_free(z);
        }
        qb_context_free(before);
        qb_context_free(after);
        qb_engine_free(loaded);
        qb_engine_free(engine);
    }
}

static void refuses(qb_ctx *cx, qb_context *context, qb_shape shape, const char *why) {
    const qb_engine *before = qb_context_engine(context);
    assert_fails(cx, qb_context_set_shapes(cx, context, &shape), QB_STATUS_INVALID);
    assert_message(cx, why);
    assert_ptr_equal(qb_context_engine(context), before);
    qb_ctx_clear(cx);
}

static void outside_is_an_error_with_axis_value_and_range(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 1, 3, 16, 16),
                   max = qb_shape_of(4, 4, 3, 64, 32), large = qb_shape_of(4, 1, 3, 128, 128);
    const qb_profile profiles[] = {{&min, &opt, &max}, {&large, &large, &large}};
    qb_ctx cx;
    qb_context *context;
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, open_image_model, "cpu,ref", profiles, 1);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    refuses(&cx, context, qb_shape_of(4, 5, 3, 8, 8),
            "input 'image': axis 0: 5 is outside of 1 to 4");
    refuses(&cx, context, qb_shape_of(4, 1, 3, 7, 8),
            "input 'image': axis 2: 7 is outside of 8 to 64");
    refuses(&cx, context, qb_shape_of(4, 1, 3, 8, 33),
            "input 'image': axis 3: 33 is outside of 8 to 32");
    refuses(&cx, context, qb_shape_of(4, 1, 4, 8, 8),
            "input 'image': axis 1: 4 is outside of 3 to 3");
    refuses(&cx, context, qb_shape_of(3, 1, 3, 8), "input 'image': expected 4 dimensions, got 3");
    qb_context_free(context);
    qb_engine_free(engine);
    engine = build(&cx, open_image_model, "cpu,ref", profiles, 2);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    assert_ok(&cx, qb_context_set_shapes(&cx, context, &large));
    refuses(&cx, context, qb_shape_of(4, 1, 3, 100, 100),
            "axis 2: 100 is outside of 8 to 64 (profile 0); input 'image': axis 2: 100 is outside "
            "of 128 to 128 (profile 1)");
    const qb_engine *plan = NULL;
    assert_fails(&cx, qb_engine_at_profile(&cx, engine, 0, &large, &plan), QB_STATUS_INVALID);
    assert_null(plan);
    qb_ctx_clear(&cx);
    assert_ok(&cx, qb_engine_at_profile(&cx, engine, 1, &large, &plan));
    qb_engine_release(plan);
    qb_context_free(context);
    qb_engine_free(engine);
}

/* Which profile's tactics a plan has. */
static void served_by(qb_ctx *cx, const qb_engine *engine, int32_t asked, qb_shape shape,
                      int32_t expected) {
    const qb_engine *plan;
    assert_ok(cx, qb_engine_at_profile(cx, engine, asked, &shape, &plan));
    assert_int_equal(plan->use.profile, expected);
    assert_true(qb_shape_equal(&qb_engine_input(plan, 0)->shape, &shape));
    qb_engine_release(plan);
}

/* The one that is tuned for just these shapes, else the one of the fewest, wherever they stand. */
static void the_profile_that_fits_best_serves(void **state) {
    (void)state;
    const qb_shape tiny = qb_shape_of(4, 1, 3, 8, 8), usual = qb_shape_of(4, 1, 3, 16, 16),
                   wide = qb_shape_of(4, 8, 3, 64, 64), batch = qb_shape_of(4, 4, 3, 16, 16),
                   inner = qb_shape_of(4, 4, 3, 32, 32);
    const qb_profile profiles[] = {{&tiny, &usual, &wide},
                                   {&tiny, &batch, &wide},
                                   {&usual, &usual, &inner},
                                   {&inner, &inner, &inner}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, open_image_model, "cpu,ref", profiles, 4);
    served_by(&cx, engine, -1, usual, 0); /* opt of 0 and of 2 */
    served_by(&cx, engine, -1, batch, 1); /* opt of 1, though 2 is tighter */
    served_by(&cx, engine, -1, inner, 3); /* opt of 3, though inside of all */
    served_by(&cx, engine, -1, qb_shape_of(4, 2, 3, 16, 20), 2); /* inside of 0, 1 and 2 */
    served_by(&cx, engine, -1, tiny, 0);                         /* 0 and 1 are equally wide */
    served_by(&cx, engine, 0, inner, 0);                         /* as asked */
    served_by(&cx, engine, 2, usual, 2);
    served_by(&cx, engine, -1, inner, 3); /* not the plan made for 0 */
    qb_engine_free(engine);
}

static void profiles_that_make_no_sense_are_refused(void **state) {
    (void)state;
    const qb_shape small = qb_shape_of(4, 1, 3, 8, 8), large = qb_shape_of(4, 4, 3, 64, 32),
                   flat = qb_shape_of(3, 1, 3, 8), wrong = qb_shape_of(4, 1, 5, 8, 8);
    const qb_profile bad[] = {
        {&large, &small, &large}, {&small, &large, &small}, {&flat, &small, &large}};
    const qb_profile other = {&wrong, &wrong, &wrong};
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine = NULL;
    qb_ctx_init(&cx);
    open_image_model(&cx, &graph);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const qb_build_spec options = {.profiles = &bad[i], .n_profiles = 1};
        assert_fails(&cx, qb_engine_build(&cx, graph, &options, &engine), QB_STATUS_INVALID);
        assert_message(&cx, "profile 0: input 'image': expected min <= opt <= max, got");
        qb_ctx_clear(&cx);
    }
    const qb_build_spec options = {.profiles = &other, .n_profiles = 1};
    assert_fails(&cx, qb_engine_build(&cx, graph, &options, &engine), QB_STATUS_INVALID);
    assert_message(&cx, "input 'image': dimension 1: the model has 3, got 5");
    assert_null(engine);
    qb_graph_free(graph);
}

static void tactics_are_timed_at_the_usual_shapes(void **state) {
    (void)state;
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), opt = qb_shape_of(4, 1, 3, 24, 24),
                   max = qb_shape_of(4, 2, 3, 32, 32);
    const qb_profile profile = {&min, &opt, &max};
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    const qb_engine *plan;
    qb_ctx_init(&cx);
    open_image_model(&cx, &graph);
    const qb_build_spec options = {
        .threads = 2, .profiles = &profile, .n_profiles = 1, .time_tactics = true};
    assert_ok(&cx, qb_engine_build(&cx, graph, &options, &engine));
    assert_ok(&cx, qb_engine_at(&cx, engine, &max, &plan));
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info usual, largest;
        qb_engine_step(engine, s, &usual);
        if (usual.flops == 0) continue;
        qb_engine_step(plan, s, &largest);
        assert_string_equal(usual.tactic, largest.tactic);
    }
    qb_engine_release(plan);
    qb_engine_free(engine);
    qb_graph_free(graph);
}

static qb_status set_once(qb_ctx *cx, void *user) {
    const qb_shape shape = qb_shape_of(4, 2, 3, 9, 9);
    const qb_shape min = qb_shape_of(4, 1, 3, 8, 8), max = qb_shape_of(4, 2, 3, 12, 12);
    const qb_profile profile = {&min, &min, &max};
    const qb_build_spec options = {
        .backends = "cpu,ref", .threads = 1, .profiles = &profile, .n_profiles = 1};
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
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_any_size),
        cmocka_unit_test(sequences_of_any_length),
        cmocka_unit_test(plans_of_other_steps_take_turns),
        cmocka_unit_test(nothing_grows_when_shapes_alternate),
        cmocka_unit_test(all_shapes_read_the_same_weights),
        cmocka_unit_test(files_keep_the_profiles),
        cmocka_unit_test(outside_is_an_error_with_axis_value_and_range),
        cmocka_unit_test(the_profile_that_fits_best_serves),
        cmocka_unit_test(profiles_that_make_no_sense_are_refused),
        cmocka_unit_test(tactics_are_timed_at_the_usual_shapes),
        cmocka_unit_test(no_memory_is_an_error_everywhere),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
