/* Ranges of shapes of INT8 engines on the GPU where FP16 is faster: for some of the steps, which
 * then run in FP16 at every shape, and for the whole, which then is the FP16 engine at every shape.
 * Which of both it is, the timing cache says: the test changes times in it. Skips without a device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "bench_ranges.h"
#include "engine/file.h"
#include "graph/dequantize.h"
#include "kernels/cuda/common/device.h"
#include "kernels/sources.h"
#include "qb_test.h"

#define CACHE_MAX ((size_t)64 << 20)
#define IMAGES(N)                                                                                  \
    {                                                                                              \
        .rank = 4, .dim = { N, 3, 224, 224 }                                                       \
    }

/* Of resnet18: the convolutions that read the first stage's maps, at the usual batch. */
#define FIRST_STAGE "conv;u8:"
#define FIRST_STAGE_MAPS ":8x64x56x56:"
/* The INT8 engine in the race against the FP16 one. */
#define RACER "engine.mixed"

static const bench_range range = {IMAGES(1), IMAGES(8), IMAGES(32)};
static const qb_shape shapes[] = {IMAGES(8), IMAGES(1), IMAGES(3), IMAGES(32)};
#define N_SHAPES (int)(sizeof shapes / sizeof *shapes)

typedef struct fixture {
    qb_ctx cx;
    qb_graph *graph; /* in INT8 */
    qb_build_spec options;
    char cache[QB_TEST_PATH], file[QB_TEST_PATH];
} fixture;

/* Own kernels alone: each of their results is the same in any batch. */
static void open_fixture(fixture *f) {
    char folder[QB_TEST_PATH];
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
    qb_ctx_init(&f->cx);
    qb_test_temp_dir(folder);
    qb_test_join(f->cache, folder, "timing.cache");
    qb_test_join(f->file, folder, "ranges.qbe");
    f->options = (qb_build_spec){.backends = "cuda",
                                 .float_type = QB_DTYPE_F16,
                                 .excluded_sources = QB_SOURCES_ALL,
                                 .timing_cache = f->cache};
    assert_ok(&f->cx, bench_range_model(&f->cx, "resnet18", true, false, &f->graph));
}

/* ---- the cache ---- */

typedef struct change {
    const char *what, *also; /* texts of the lines whose times change */
    double factor;
} change;

/* Lines are "microseconds TAB tactic TAB problem"; see engine/timings.h. */
static int change_line(qb_strbuf *out, const char *line, const change *c) {
    char *end;
    const double time = strtod(line, &end);
    const bool meant = end != line && *end == '\t' && strstr(end, c->what) && strstr(end, c->also);
    if (meant)
        qb_strbuf_addf(out, "%.3f%s\n", time * c->factor, end);
    else
        qb_strbuf_addf(out, "%s\n", line);
    return meant;
}

static void change_times(fixture *f, change c) {
    char *text;
    size_t size;
    int changed = 0;
    qb_strbuf out = {0};
    assert_ok(&f->cx, qb_file_read(&f->cx, f->cache, CACHE_MAX, &text, &size));
    for (char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next) *next++ = '\0';
        changed += change_line(&out, line, &c);
    }
    assert_false(out.failed);
    assert_true(changed > 0);
    assert_ok(&f->cx, qb_file_write(&f->cx, f->cache, out.data, strlen(out.data)));
    qb_strbuf_release(&out);
    qb_free(text);
}

/* ---- engines ---- */

static qb_engine *build(fixture *f, const qb_graph *graph) {
    qb_engine *engine;
    assert_ok(&f->cx, bench_build_ranges(&f->cx, graph, &range, 1, f->options, &engine));
    return engine;
}

/* A build whose decisions, and the times that they come from, are in the cache then. */
static void fill_cache(fixture *f) { qb_engine_free(build(f, f->graph)); }

/* The engine whose first stage is in FP16. */
static qb_engine *build_mixed(fixture *f) {
    fill_cache(f);
    change_times(f, (change){FIRST_STAGE, FIRST_STAGE_MAPS, 100});
    fill_cache(f); /* the race of this one */
    change_times(f, (change){RACER, "", 1e-3});
    return build(f, f->graph);
}

static bool is_16bit_float(const qb_engine *engine, const char *output) {
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info info;
        qb_engine_step(engine, s, &info);
        if (strcmp(info.output, output) == 0 && info.f16_reason) return true;
    }
    return false;
}

static int32_t same_halves(const qb_engine *usual, const qb_engine *plan) {
    int32_t n = 0;
    for (int32_t s = 0; s < qb_engine_n_steps(usual); s++) {
        qb_step_info info;
        qb_engine_step(usual, s, &info);
        if (!info.f16_reason) continue;
        assert_true(is_16bit_float(plan, info.output));
        n++;
    }
    return n;
}

/* Both give the same bytes at this shape. */
static void same_results(qb_ctx *cx, qb_context *a, qb_context *b, const qb_shape *shape) {
    bench_ports x = {0}, y = {0};
    assert_ok(cx, bench_run_at(cx, a, shape, &x));
    assert_ok(cx, bench_run_at(cx, b, shape, &y));
    assert_memory_equal(x.out[0], y.out[0],
                        qb_desc_bytes(qb_engine_output(qb_context_engine(a), 0)));
    bench_ports_free(&x);
    bench_ports_free(&y);
}

/* So they do at every shape. */
static void same_everywhere(qb_ctx *cx, const qb_engine *a, const qb_engine *b) {
    qb_context *x, *y;
    assert_ok(cx, qb_context_create(cx, a, &x));
    assert_ok(cx, qb_context_create(cx, b, &y));
    for (int i = 0; i < N_SHAPES; i++) same_results(cx, x, y, &shapes[i]);
    qb_context_free(x);
    qb_context_free(y);
}

static void loads_the_same(fixture *f, const qb_engine *engine) {
    const qb_engine_origin origin = {.model = "resnet18", .precision = "int8"};
    qb_engine *loaded;
    assert_ok(&f->cx, qb_engine_save(&f->cx, engine, &origin, f->file));
    assert_ok(&f->cx, qb_engine_load(&f->cx, f->file, &loaded));
    same_everywhere(&f->cx, engine, loaded);
    qb_engine_free(loaded);
}

/* An image has the same scores in every batch. What is FP16 as a whole says so of the usual shapes
 * alone. */
static void items_do_not_depend_on_the_batch(fixture *f, const qb_engine *engine) {
    const bool mixes = qb_engine_layers(engine).int8 > 0;
    qb_context *a, *b;
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &a));
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &b));
    for (int i = 0; i < N_SHAPES; i++) {
        bench_ports all = {0}, some = {0};
        assert_ok(&f->cx, bench_run_at(&f->cx, a, &range.max, &all));
        assert_ok(&f->cx, bench_run_at(&f->cx, b, &shapes[i], &some));
        if (mixes)
            assert_int_equal(same_halves(engine, qb_context_engine(b)),
                             same_halves(engine, engine));
        assert_memory_equal(all.out[0], some.out[0],
                            qb_desc_bytes(qb_engine_output(qb_context_engine(b), 0)));
        bench_ports_free(&all);
        bench_ports_free(&some);
    }
    qb_context_free(a);
    qb_context_free(b);
}

/* ---- tests ---- */

static void steps_in_fp16_are_so_at_every_shape(void **state) {
    (void)state;
    static fixture f;
    qb_engine *fixed;
    qb_context *a, *b;
    open_fixture(&f);
    qb_engine *engine = build_mixed(&f);
    const qb_layer_counts n = qb_engine_layers(engine);
    printf("%d layers in INT8, %d in FP16\n", (int)n.int8, (int)n.fp16);
    assert_true(n.int8 > 0 && n.fp16 > 0 && same_halves(engine, engine) > 0);
    items_do_not_depend_on_the_batch(&f, engine);
    loads_the_same(&f, engine);
    assert_ok(&f.cx, bench_build_at(&f.cx, f.graph, &range.opt, f.options, &fixed));
    assert_ok(&f.cx, qb_context_create(&f.cx, engine, &a));
    assert_ok(&f.cx, qb_context_create(&f.cx, fixed, &b));
    same_results(&f.cx, a, b, &range.opt);
    qb_context_free(a);
    qb_context_free(b);
    qb_engine_free(fixed);
    qb_engine_free(engine);
    qb_graph_free(f.graph);
}

static void where_fp16_wins_it_is_the_fp16_engine(void **state) {
    (void)state;
    static fixture f;
    qb_graph *exact;
    open_fixture(&f);
    fill_cache(&f);
    change_times(&f, (change){RACER, "", 1e3});
    qb_engine *engine = build(&f, f.graph);
    const qb_layer_counts n = qb_engine_layers(engine);
    printf("%d layers in INT8, %d in FP16\n", (int)n.int8, (int)n.fp16);
    assert_true(n.int8 == 0 && n.fp16 > 0);
    assert_ok(&f.cx, qb_graph_dequantize(&f.cx, f.graph, &exact));
    qb_engine *half = build(&f, exact);
    same_everywhere(&f.cx, engine, half);
    items_do_not_depend_on_the_batch(&f, engine);
    loads_the_same(&f, engine);
    qb_engine_free(half);
    qb_engine_free(engine);
    qb_graph_free(exact);
    qb_graph_free(f.graph);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(steps_in_fp16_are_so_at_every_shape),
                                          cmocka_unit_test(where_fp16_wins_it_is_the_fp16_engine)};

QB_TEST_MAIN(tests)
