/* Tactics that were nearly as fast alone are tried inside the recorded run, and stay where all of
 * it is faster; builds with the same timings decide the same. On a device that needs no GPU, whose
 * clock is the test's. */
#include "qb_test.h"

#include <string.h>

#include "base/file.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "fake_device.h"
#include "graph/op.h"

#define CONVS 6
#define SHAPE qb_shape_of(4, 1, 4, 8, 8)

static double dependent_in_a_run; /* seconds of a launch */
static int launches;

/* Alone, the early tactic is a tenth slower. */
static double seconds(const char *tactic, bool alone) {
    launches++;
    if (strcmp(tactic, "cuda.fake_conv") == 0) return 10e-6;
    if (strcmp(tactic, "cuda.fake_conv_dependent") == 0) return alone ? 11e-6 : dependent_in_a_run;
    return 1e-6;
}

typedef struct fixture {
    qb_ctx cx;
    qb_graph *graph;
    char folder[QB_TEST_PATH], cache[QB_TEST_PATH], path[2][QB_TEST_PATH];
} fixture;

/* Convolutions one after the other; the batch is open. */
static void make_graph(qb_ctx *cx, qb_graph **out) {
    float weight[4 * 4 * 3 * 3];
    qb_graph *g;
    assert_ok(cx, qb_graph_create(cx, &g));
    qb_shape shape = SHAPE, filter = qb_shape_of(4, 4, 4, 3, 3);
    shape.dim[0] = qb_graph_add_symbol(cx, g, "N");
    int32_t x = qb_graph_add_value(cx, g, "x", QB_DTYPE_F32, &shape);
    assert_ok(cx, qb_graph_add_input(cx, g, x));
    for (int i = 0; i < CONVS; i++) {
        char name[2][16];
        snprintf(name[0], sizeof name[0], "w%d", i);
        snprintf(name[1], sizeof name[1], "y%d", i);
        for (size_t k = 0; k < sizeof weight / sizeof *weight; k++)
            weight[k] = 0.01f * (float)((k * 7 + (size_t)i) % 11) - 0.04f;
        const int32_t in[2] = {
            x, qb_graph_add_constant(cx, g, name[0], QB_DTYPE_F32, &filter, weight)};
        x = qb_graph_add_value(cx, g, name[1], QB_DTYPE_F32, &(qb_shape){.rank = -1});
        const int32_t node =
            qb_graph_add_node(cx, g, qb_op_find("Conv", ""), name[1], in, 2, &x, 1);
        assert_true(node >= 0);
        int64_t *pads = qb_arena_alloc(cx, g->arena, 4, sizeof *pads);
        for (int p = 0; p < 4; p++) pads[p] = 1;
        for (const qb_attr_desc *d = g->nodes[node].op->attrs; d->name; d++)
            if (strcmp(d->name, "pads") == 0)
                *(qb_ints *)(void *)((char *)g->nodes[node].attrs + d->offset) = (qb_ints){4, pads};
    }
    assert_ok(cx, qb_graph_add_output(cx, g, x));
    assert_ok(cx, qb_graph_infer(cx, g));
    *out = g;
}

static void open_fixture(fixture *f, double early) {
    qb_ctx_init(&f->cx);
    fake_device_is_there = fake_device_has_dependent_launch = true;
    fake_device_seconds = seconds;
    dependent_in_a_run = early;
    qb_test_temp_dir(f->folder);
    qb_test_join(f->cache, f->folder, "timing.cache");
    qb_test_join(f->path[0], f->folder, "one.qbe");
    qb_test_join(f->path[1], f->folder, "two.qbe");
    make_graph(&f->cx, &f->graph);
}

static void close_fixture(fixture *f) {
    qb_graph_free(f->graph);
    fake_device_seconds = NULL;
    fake_device_has_dependent_launch = false;
    assert_int_equal(fake_device_blocks, 0);
}

static qb_engine *build(fixture *f, const qb_build_spec *how) {
    qb_build_spec options = *how;
    qb_engine *engine;
    options.backends = "cuda,cpu,ref";
    options.threads = 1;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &engine));
    return engine;
}

/* Steps by the early tactic; each of them says why, and what it took alone. */
static int32_t count_dependent(const qb_engine *engine) {
    int32_t n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        const bool early = strcmp(step.tactic, "cuda.fake_conv_dependent") == 0;
        assert_int_equal(early, step.tactic_reason != NULL);
        if (!early) continue;
        assert_non_null(strstr(step.tactic_reason, "0.0"));
        assert_non_null(strstr(step.tactic_reason, " ms < 0.0"));
        assert_true(step.seconds > 10.9e-6 && step.seconds < 11.1e-6);
        assert_int_equal(step.n_alternatives, 2);
        n++;
    }
    return n;
}

static void run(fixture *f, const qb_engine *engine, float y[256]) {
    float x[256];
    qb_context *context;
    for (int i = 0; i < 256; i++) x[i] = (float)(i % 17) - 8;
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    assert_ok(&f->cx, qb_context_run(&f->cx, context, (const void *[]){x}, (void *[]){y}));
    qb_context_free(context);
}

static void what_gains_in_a_run_replaces_what_is_faster_alone(void **state) {
    (void)state;
    fixture f;
    float first[256], second[256];
    qb_engine *loaded;
    open_fixture(&f, 10e-6);
    qb_engine *as_chosen = build(&f, &(qb_build_spec){0});
    assert_int_equal(count_dependent(as_chosen), 0); /* no faster */
    run(&f, as_chosen, first);
    dependent_in_a_run = 6e-6;
    qb_engine *engine = build(&f, &(qb_build_spec){0});
    assert_int_equal(count_dependent(engine), CONVS);
    run(&f, engine, second);
    assert_memory_equal(first, second, sizeof first);
    assert_ok(&f.cx, qb_engine_save(&f.cx, engine, &(qb_engine_origin){0}, f.path[0]));
    assert_ok(&f.cx, qb_engine_load(&f.cx, f.path[0], &loaded));
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info a, b;
        qb_engine_step(engine, s, &a);
        qb_engine_step(loaded, s, &b);
        assert_string_equal(a.tactic, b.tactic);
    }
    run(&f, loaded, second);
    assert_memory_equal(first, second, sizeof first);
    qb_engine_free(loaded);
    qb_engine_free(engine);
    qb_engine_free(as_chosen);
    close_fixture(&f);
}

static void same_bytes(fixture *f) {
    char *text[2];
    size_t n[2];
    for (int i = 0; i < 2; i++)
        assert_ok(&f->cx, qb_file_read(&f->cx, f->path[i], (size_t)1 << 26, &text[i], &n[i]));
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(text[0], text[1], n[0]);
    qb_free(text[0]);
    qb_free(text[1]);
}

/* With a timing cache nothing is launched, whatever the clock would say now. */
static void the_same_timings_decide_the_same(void **state) {
    (void)state;
    for (int early = 0; early < 2; early++) {
        fixture f;
        open_fixture(&f, early ? 6e-6 : 12e-6);
        const qb_build_spec options = {.timing_cache = f.cache};
        qb_engine *engine[2] = {build(&f, &options), NULL};
        dependent_in_a_run = early ? 12e-6 : 6e-6;
        launches = 0;
        engine[1] = build(&f, &options);
        assert_int_equal(launches, 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(count_dependent(engine[i]), early ? CONVS : 0);
            assert_ok(&f.cx, qb_engine_save(&f.cx, engine[i], &(qb_engine_origin){0}, f.path[i]));
            qb_engine_free(engine[i]);
        }
        same_bytes(&f);
        close_fixture(&f);
    }
}

/* The plans of other shapes follow what was decided at the usual ones. */
static void ranges_of_shapes_follow(void **state) {
    (void)state;
    fixture f;
    qb_shape shape[3] = {SHAPE, SHAPE, SHAPE};
    for (int i = 0; i < 3; i++) shape[i].dim[0] = i + 1;
    const qb_profile profile = {&shape[0], &shape[1], &shape[2]};
    open_fixture(&f, 6e-6);
    qb_engine *engine = build(&f, &(qb_build_spec){.profiles = &profile, .n_profiles = 1});
    assert_int_equal(count_dependent(engine), CONVS);
    for (int i = 0; i < 3; i++) {
        const qb_engine *plan;
        int32_t n = 0;
        assert_ok(&f.cx, qb_engine_at(&f.cx, engine, &shape[i], &plan));
        for (int32_t s = 0; s < qb_engine_n_steps(plan); s++) {
            qb_step_info step;
            qb_engine_step(plan, s, &step);
            n += strcmp(step.tactic, "cuda.fake_conv_dependent") == 0;
        }
        assert_int_equal(n, CONVS);
        qb_engine_release(plan);
    }
    qb_engine_free(engine);
    close_fixture(&f);
}

/* What is far behind alone, or whose gain nobody could measure, is not tried. */
static double far_behind(const char *tactic, bool alone) {
    launches++;
    if (strcmp(tactic, "cuda.fake_conv_dependent") == 0) return alone ? 15e-6 : 1e-6;
    return 10e-6;
}

static void what_is_far_behind_is_not_tried(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, 0);
    fake_device_seconds = far_behind;
    const int recordings = fake_device_recordings;
    qb_engine *engine = build(&f, &(qb_build_spec){0});
    assert_int_equal(count_dependent(engine), 0);
    print_message("%d recordings\n", fake_device_recordings - recordings);
    assert_true(fake_device_recordings - recordings <= 4); /* of two tactics and copies alone */
    qb_engine_free(engine);
    close_fixture(&f);
}

/* A tactic for another layout is chosen with the reorders that it forces, not by its own time. */
static double reorder_seconds;
static double in_another_layout(const char *tactic, bool alone) {
    (void)alone;
    if (strcmp(tactic, "cuda.fake_copy") == 0) return reorder_seconds;
    return strcmp(tactic, "cuda.fake_conv_dependent") == 0 ? 5e-6 : 10e-6;
}

static int32_t count(const qb_engine *engine, const char *tactic) {
    int32_t n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        n += strcmp(step.tactic, tactic) == 0;
    }
    return n;
}

static void reorders_count(void **state) {
    (void)state;
    static const double costly = 6e-6, cheap = 4e-6;
    float first[256], second[256];
    fixture f;
    open_fixture(&f, 0);
    fake_device_dependent_is_nhwc = true;
    fake_device_seconds = in_another_layout;
    reorder_seconds = costly;
    qb_engine *engine = build(&f, &(qb_build_spec){0});
    assert_int_equal(count(engine, "cuda.fake_conv"), CONVS);
    run(&f, engine, first);
    qb_engine_free(engine);
    reorder_seconds = cheap;
    engine = build(&f, &(qb_build_spec){0});
    assert_int_equal(count(engine, "cuda.fake_conv_dependent"), CONVS);
    run(&f, engine, second);
    assert_memory_equal(first, second, sizeof first);
    qb_engine_free(engine);
    fake_device_dependent_is_nhwc = false;
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_gains_in_a_run_replaces_what_is_faster_alone),
        cmocka_unit_test(the_same_timings_decide_the_same),
        cmocka_unit_test(ranges_of_shapes_follow),
        cmocka_unit_test(what_is_far_behind_is_not_tried),
        cmocka_unit_test(reorders_count),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
