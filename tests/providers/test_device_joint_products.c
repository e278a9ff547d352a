/* A convolution and the max pool behind it as one step of a device, on one that needs no GPU: where
 * that is faster, nobody else reads what is between, and nobody watches; the same quantized values
 * come out.
 */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "bench_models.h"
#include "build_graph.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "fake_device.h"
#include "open_models.h"

#define SIDE 18
#define JOINED "Conv+Relu+MaxPool"

typedef struct fixture {
    qb_ctx cx;
    qb_graph *graph; /* in quantized values */
    char cache[QB_TEST_PATH], file[QB_TEST_PATH];
} fixture;

static int32_t conv(maker *m, const char *name, int32_t x, int channels, int filters) {
    char weight[16], bias[16];
    snprintf(weight, sizeof weight, "%s.w", name);
    snprintf(bias, sizeof bias, "%s.b", name);
    int32_t y = NODE(m, "Conv", name, x, make_random(m, weight, DIMS(filters, channels, 3, 3)),
                     make_random(m, bias, DIMS(filters)));
    SET_INTS(m, "pads", 1, 1, 1, 1);
    return y;
}

static int32_t max_pool(maker *m, const char *name, int32_t x) {
    int32_t y = NODE(m, "MaxPool", name, x);
    SET_INTS(m, "kernel_shape", 3, 3);
    SET_INTS(m, "strides", 2, 2);
    SET_INTS(m, "pads", 1, 1, 1, 1);
    return y;
}

/* conv, Relu, MaxPool, conv, Relu, MaxPool, conv; `shared`: the first Relu is read once more. */
static void open_fixture(fixture *f, bool shared) {
    char folder[QB_TEST_PATH];
    maker m;
    maker_init(&m, 7);
    qb_ctx_init(&f->cx);
    qb_test_temp_dir(folder);
    qb_test_join(f->cache, folder, "timing.cache");
    qb_test_join(f->file, folder, "joined.qbe");
    int32_t x = make_input(&m, "x", DIMS(-1, 3, SIDE, SIDE));
    int32_t r1 = NODE(&m, "Relu", "r1", conv(&m, "c1", x, 3, 8));
    int32_t r2 = NODE(&m, "Relu", "r2", conv(&m, "c2", max_pool(&m, "p1", r1), 8, 8));
    int32_t y = conv(&m, "y", max_pool(&m, "p2", r2), 8, 4);
    if (shared) {
        const int32_t mean = NODE(&m, "GlobalAveragePool", "mean", conv(&m, "z", r1, 8, 4));
        y = NODE(&m, "Add", "sum", y, mean);
    }
    make_output(&m, y);
    assert_ok(&m.cx, bench_quantize(&m.cx, m.graph, &f->graph));
    maker_release(&m);
    fake_device_is_there = fake_device_fuses = true;
}

static void close_fixture(fixture *f) {
    fake_device_fuses = false;
    qb_graph_free(f->graph);
}

static qb_engine *build(fixture *f, qb_build_spec options) {
    qb_engine *engine;
    options.backends = "cuda";
    options.threads = 1;
    options.timing_cache = f->cache;
    if (options.n_profiles == 0) options.batch = 2;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &engine));
    return engine;
}

/* Steps that are a convolution with its pool, which all say why, beginning as `why`. */
static int n_fused_parts(const qb_engine *engine, const char *why) {
    int n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        const bool joined = strcmp(info.op, JOINED) == 0;
        assert_int_equal(info.fuse_reason != NULL, joined);
        n += joined;
        if (!joined) continue;
        assert_string_equal(info.tactic, "cuda.fake_conv_pool");
        assert_memory_equal(info.fuse_reason, why, strlen(why));
    }
    return n;
}

static float *run(fixture *f, const qb_engine *engine, size_t *n) {
    qb_context *context;
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    float *y = open_run(&f->cx, context, 3, n);
    qb_context_free(context);
    return y;
}

static void assert_same_run(fixture *f, const qb_engine *a, const qb_engine *b) {
    size_t n, m;
    float *y = run(f, a, &n), *z = run(f, b, &m);
    assert_int_equal(n, m);
    assert_true(n > 0);
    assert_memory_equal(y, z, n * sizeof *y);
    qb_free(y);
    qb_free(z);
}

/* Times of problems of that kind in the cache, "microseconds TAB tactic TAB problem", times
 * `factor`. */
static void change_times(fixture *f, const char *kind, double factor) {
    char *text, *end;
    size_t size;
    int changed = 0;
    qb_strbuf out = {0};
    assert_ok(&f->cx, qb_file_read(&f->cx, f->cache, (size_t)1 << 20, &text, &size));
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = '\0';
        const double time = strtod(line, &end);
        const bool meant = end != line && strstr(end, kind);
        if (meant)
            qb_strbuf_addf(&out, "%.3f%s\n", time * factor, end);
        else
            qb_strbuf_addf(&out, "%s\n", line);
        changed += meant;
    }
    assert_true(changed > 0 && !out.failed);
    assert_ok(&f->cx, qb_file_write(&f->cx, f->cache, out.data, strlen(out.data)));
    qb_strbuf_release(&out);
    qb_free(text);
}

static void only_where_it_is_faster(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, false);
    qb_engine_free(build(&f, (qb_build_spec){0})); /* fills the cache */
    change_times(&f, "\tconv_pool;", 1e-3);
    qb_engine *joined = build(&f, (qb_build_spec){0});
    assert_int_equal(n_fused_parts(joined, "with its pool "), 2);
    change_times(&f, "\tconv_pool;", 1e6);
    qb_engine *apart = build(&f, (qb_build_spec){0});
    assert_int_equal(n_fused_parts(apart, ""), 0);
    assert_int_equal(qb_engine_n_steps(apart), qb_engine_n_steps(joined) + 2);
    assert_same_run(&f, joined, apart);
    fake_device_fuses = false; /* no tactic for it */
    qb_engine *none = build(&f, (qb_build_spec){0});
    assert_int_equal(n_fused_parts(none, ""), 0);
    qb_engine_free(joined);
    qb_engine_free(apart);
    qb_engine_free(none);
    close_fixture(&f);
}

/* What another step reads is written all the same; an engine to be watched writes everything. */
static void what_is_seen_stays(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, true);
    qb_engine_free(build(&f, (qb_build_spec){0}));
    change_times(&f, "\tconv_pool;", 1e-3);
    qb_engine *shared = build(&f, (qb_build_spec){0});
    qb_engine *watched = build(&f, (qb_build_spec){.observable = true});
    qb_engine *untimed = build(&f, (qb_build_spec){.first_tactic = true});
    assert_int_equal(n_fused_parts(shared, "with its pool "), 1);
    assert_int_equal(n_fused_parts(watched, ""), 0);
    assert_int_equal(n_fused_parts(untimed, ""), 0);
    assert_same_run(&f, shared, watched);
    qb_engine_free(shared);
    qb_engine_free(watched);
    qb_engine_free(untimed);
    close_fixture(&f);
}

/* A file says what was joined, whatever would be faster where it is read. */
static void files_keep_what_was_joined(void **state) {
    (void)state;
    fixture f;
    qb_engine *loaded;
    const qb_engine_origin origin = {
        .model = "small.onnx", .precision = "int8", .options = "--providers=cuda"};
    open_fixture(&f, true);
    qb_engine_free(build(&f, (qb_build_spec){0}));
    change_times(&f, "\tconv_pool;", 1e-3);
    qb_engine *built = build(&f, (qb_build_spec){0});
    assert_ok(&f.cx, qb_engine_save(&f.cx, built, &origin, f.file));
    assert_ok(&f.cx, qb_engine_load(&f.cx, f.file, &loaded));
    assert_int_equal(n_fused_parts(loaded, "with its pool "), 1);
    assert_same_run(&f, built, loaded);
    qb_engine_free(built);
    qb_engine_free(loaded);
    close_fixture(&f);
}

/* At other shapes, as at the usual ones. */
static void ranges_keep_what_was_joined(void **state) {
    (void)state;
    const qb_shape least = qb_shape_of(4, 1, 3, SIDE, SIDE),
                   most = qb_shape_of(4, 5, 3, SIDE, SIDE);
    const qb_profile profile = {.min = &least, .opt = &most, .max = &most};
    const qb_build_spec options = {.profiles = &profile, .n_profiles = 1};
    fixture f;
    const qb_engine *plan;
    open_fixture(&f, false);
    qb_engine_free(build(&f, options));
    change_times(&f, "\tconv_pool;", 1e-3);
    qb_engine *joined = build(&f, options);
    assert_int_equal(n_fused_parts(joined, "with its pool "), 2);
    assert_ok(&f.cx, qb_engine_at(&f.cx, joined, &least, &plan));
    assert_int_equal(n_fused_parts(plan, "with its pool "), 2);
    qb_engine_release(plan);
    qb_engine_free(joined);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_where_it_is_faster),
        cmocka_unit_test(what_is_seen_stays),
        cmocka_unit_test(files_keep_what_was_joined),
        cmocka_unit_test(ranges_keep_what_was_joined),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
