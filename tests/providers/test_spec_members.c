/* Every member of a build spec changes the engine that is built of it, on devices that need no GPU.
 */
#include "qb_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "bench_models.h"
#include "build_graph.h"
#include "engine/profiles.h"
#include "fake_device.h"
#include "kernels/sources.h"

#define SIDE 18

static const qb_shape small = {4, {1, 3, SIDE, SIDE}}, large = {4, {2, 3, SIDE, SIDE}};
static const qb_shape beyond = {4, {3, 3, SIDE, SIDE}};
static const qb_profile profile = {&small, &small, &large};
static char cache[QB_TEST_PATH];

/* All members in their order: with a new one this does not compile, and a row below is missing. */
static const qb_build_spec none = {
    NULL, 0, QB_DTYPE_NONE, false, false, 0,     NULL,  0,     0,     NULL, 0,
    NULL, 0, false,         NULL,  NULL,  false, false, false, false, NULL, false};

typedef enum network { FLOATS, QUANTIZED, MIXING } network;

typedef struct member {
    const char *name;
    network network;
    qb_build_spec without, with;
} member;

#define ON_GPU .backends = "cuda,ref", .input_shapes = &small, .threads = 1
static const member members[] = {
    {"backends", FLOATS, {.input_shapes = &small}, {.input_shapes = &small, .backends = "ref"}},
    {"device", FLOATS, {ON_GPU}, {ON_GPU, .device = FAKE_DEVICES - 1}},
    {"float_type", FLOATS, {ON_GPU}, {ON_GPU, .float_type = QB_DTYPE_F16}},
    {"tf32",
     FLOATS,
     {ON_GPU, .timing_cache = cache},
     {ON_GPU, .timing_cache = cache, .tf32 = true}},
    {"no_mixed_precision",
     QUANTIZED,
     {ON_GPU, .float_type = QB_DTYPE_F16},
     {ON_GPU, .float_type = QB_DTYPE_F16, .no_mixed_precision = true}},
    {"excluded_sources", FLOATS, {ON_GPU}, {ON_GPU, .excluded_sources = QB_SOURCE_CUDNN}},
    {"timing_cache", FLOATS, {ON_GPU}, {ON_GPU, .timing_cache = cache}},
    {"workspace_limit", FLOATS, {ON_GPU}, {ON_GPU, .workspace_limit = 64}},
    {"threads", FLOATS, {.input_shapes = &small}, {.input_shapes = &small, .threads = 3}},
    {"input_shapes", FLOATS, {.input_shapes = &small}, {.input_shapes = &large}},
    {"batch", FLOATS, {.threads = 1}, {.threads = 1, .batch = 2}},
    {"profiles", FLOATS, {.threads = 1}, {.threads = 1, .profiles = &profile, .n_profiles = 1}},
    {"any_shapes",
     FLOATS,
     {.threads = 1, .profiles = &profile, .n_profiles = 1},
     {.threads = 1, .profiles = &profile, .n_profiles = 1, .any_shapes = true}},
    {"plan", FLOATS, {.input_shapes = &small}, {.input_shapes = &small, .plan = "nowhere.json"}},
    {"like", FLOATS, {.backends = "ref,cpu", .input_shapes = &small}, {.like = NULL}},
    {"time_tactics",
     FLOATS,
     {.backends = "ref,cpu", .input_shapes = &small},
     {.backends = "ref,cpu", .input_shapes = &small, .time_tactics = true}},
    {"first_tactic", FLOATS, {ON_GPU}, {ON_GPU, .first_tactic = true}},
    {"observable", QUANTIZED, {ON_GPU}, {ON_GPU, .observable = true}},
    {"check", FLOATS, {.input_shapes = &small}, {.input_shapes = &small, .check = true}},
    {"max_sizes", FLOATS, {.input_shapes = &small}, {.input_shapes = &small, .max_sizes = "y=1"}},
    {"items_apart",
     MIXING,
     {.input_shapes = &large},
     {.input_shapes = &large, .items_apart = true}},
};

/* conv, Relu, MaxPool, conv, whose output is of odd width; or what mixes the items of a batch. */
static qb_graph *make_network(network which) {
    maker m;
    qb_graph *graph;
    maker_init(&m, 7);
    const int32_t x = make_input(&m, "x", DIMS(-1, 3, SIDE, SIDE));
    if (which == MIXING) {
        make_output(&m, NODE(&m, "Softmax", "y", x));
        set_int(&m, "axis", 0);
    } else {
        const int32_t c = NODE(&m, "Conv", "c", x, make_random(&m, "cw", DIMS(8, 3, 3, 3)));
        SET_INTS(&m, "pads", 1, 1, 1, 1);
        const int32_t p = NODE(&m, "MaxPool", "p", NODE(&m, "Relu", "r", c));
        SET_INTS(&m, "kernel_shape", 3, 3);
        SET_INTS(&m, "strides", 2, 2);
        SET_INTS(&m, "pads", 1, 1, 1, 1);
        make_output(&m, NODE(&m, "Conv", "y", p, make_random(&m, "yw", DIMS(4, 8, 3, 3))));
    }
    if (which == QUANTIZED)
        assert_ok(&m.cx, bench_quantize(&m.cx, m.graph, &graph));
    else
        assert_ok(&m.cx, qb_graph_clone(&m.cx, m.graph, &graph));
    maker_release(&m);
    return graph;
}

static bool takes(const qb_engine *engine, const qb_shape *shape) {
    const qb_engine *plan = NULL;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const qb_status status = qb_engine_at(&cx, engine, shape, &plan);
    qb_engine_release(plan);
    return status == QB_OK && plan;
}

/* What an engine is, and what its build left in the cache. */
static void tell(const qb_engine *engine, qb_strbuf *out) {
    char shape[128], *text;
    size_t size;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_strbuf_addf(out, "%s, %d threads, %d profiles, %s\n",
                   qb_engine_device(engine) ? qb_engine_device(engine) : "host",
                   qb_engine_threads(engine), qb_engine_n_profiles(engine),
                   qb_shape_text(&qb_engine_input(engine, 0)->shape, shape, sizeof shape));
    for (int32_t s = 0; s < qb_engine_n_steps(engine); s++) {
        qb_step_info step;
        qb_engine_step(engine, s, &step);
        qb_strbuf_addf(out, "%s %s %s%s\n", step.op, step.tactic, qb_dtype_text(step.dtype),
                       step.seconds > 0 ? " timed" : "");
    }
    if (qb_engine_n_profiles(engine) > 0)
        qb_strbuf_add(out, takes(engine, &beyond) ? "any shapes\n" : "shapes of its profiles\n");
    if (qb_file_read(&cx, cache, (size_t)1 << 20, &text, &size) == QB_OK) {
        qb_strbuf_add(out, strstr(text, ";tf32") ? "cache of tf32" : "cache");
        qb_free(text);
    }
}

static char *build(const qb_graph *graph, const qb_build_spec *spec) {
    qb_strbuf out = {0};
    qb_engine *engine;
    qb_ctx cx;
    qb_ctx_init(&cx);
    (void)remove(cache);
    const qb_status status = qb_engine_build(&cx, graph, spec, &engine);
    if (status == QB_OK)
        tell(engine, &out);
    else
        qb_strbuf_addf(&out, "refused: %s", cx.message);
    if (status == QB_OK) qb_engine_free(engine);
    return out.data;
}

/* A library's convolution is the fastest, and quantized ones are no faster than in f16. */
static double seconds(const char *tactic, bool alone) {
    (void)alone;
    return strstr(tactic, ".cudnn") ? 1e-3 : 2e-3;
}

/* What a build finds by timing, another one takes over without. */
static char *build_like_timed(const qb_graph *graph, const qb_build_spec *without) {
    qb_build_spec spec = *without;
    qb_engine *timed;
    qb_ctx cx;
    qb_ctx_init(&cx);
    spec.time_tactics = true;
    assert_ok(&cx, qb_engine_build(&cx, graph, &spec, &timed));
    spec.time_tactics = false;
    spec.like = timed;
    char *text = build(graph, &spec);
    qb_engine_free(timed);
    return text;
}

static void every_member_changes_the_engine(void **state) {
    (void)state;
    char folder[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(cache, folder, "timing.cache");
    fake_device_is_there = fake_device_has_library = true;
    fake_device_last_hardware = "another device";
    fake_device_odd_scratch = 4096;
    fake_device_seconds = seconds;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const member *m = &members[i];
        qb_graph *graph = make_network(m->network);
        fake_planted_tactic = m->with.check ? PLANTED_RESULTS : PLANTED_NONE;
        fake_device_fuses = m->with.observable; /* it would be an advantage of quantized steps */
        char *before = build(graph, &m->without), *again = build(graph, &m->without),
             *after = strcmp(m->name, "like") == 0 ? build_like_timed(graph, &m->without)
                                                   : build(graph, &m->with);
        assert_string_equal(before, again); /* chance would change anything */
        if (strncmp(before, "refused", 7) == 0) fail_msg("%s: %s", m->name, before);
        if (strcmp(before, after) == 0) fail_msg("%s changes nothing:\n%s", m->name, before);
        free(before);
        free(again);
        free(after);
        qb_graph_free(graph);
    }
}

static void no_spec_is_an_empty_one(void **state) {
    (void)state;
    qb_graph *graph = make_network(FLOATS);
    char *empty = build(graph, &none), *missing = build(graph, NULL);
    assert_string_equal(empty, missing);
    free(empty);
    free(missing);
    qb_graph_free(graph);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_member_changes_the_engine),
    cmocka_unit_test(no_spec_is_an_empty_one),
};

QB_TEST_MAIN(tests)
