/* Engines with profiles of small transformers: a BERT with open batch and length, a vision
 * transformer with open batch. Every shape inside runs as an engine built for it alone would, and
 * turning from shape to shape allocates nothing once each has run. */
#include "qb_test.h"

#include <string.h>

#include "engine/profiles.h"
#include "graph/passes.h"
#include "graph/zoo/zoo_internal.h"

#define INPUTS_MAX 2

enum { WIDTH = 32, HEADS = 4, LAYERS = 2, WORDS = 50, POSITIONS = 64, PATCH = 8, SIDE = 32 };

/* ---- models ---- */

static int32_t encoder_layer(qb_zoo *z, const char *name, int32_t x, int32_t mask) {
    int32_t y = qb_zoo_attention(z, qb_zoo_name(z, "%s.attention", name), x, HEADS, mask);
    y = qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add_1", name), y, x);
    x = qb_zoo_layer_norm(z, qb_zoo_name(z, "%s.ln_1", name), y, 1e-6);
    y = qb_zoo_mlp(z, qb_zoo_name(z, "%s.first", name), qb_zoo_name(z, "%s.second", name), x,
                   4 * WIDTH);
    y = qb_zoo_binary(z, "Add", qb_zoo_name(z, "%s.add_2", name), y, x);
    return qb_zoo_layer_norm(z, qb_zoo_name(z, "%s.ln_2", name), y, 1e-6);
}

static int32_t encoder(qb_zoo *z, int32_t x, int32_t mask) {
    for (int i = 0; i < LAYERS; i++) x = encoder_layer(z, qb_zoo_name(z, "layer.%d", i), x, mask);
    return x;
}

/* Tokens [N, length] and what is added to the scores of each, [N, 1, 1, length]. */
static int32_t build_bert(qb_zoo *z, int64_t batch) {
    const int64_t length = qb_graph_add_symbol(z->cx, z->graph, "length");
    const qb_shape tokens = qb_shape_of(2, batch, length),
                   scores = qb_shape_of(4, batch, 1, 1, length);
    const int32_t ids = qb_zoo_input(z, "input_ids", QB_DTYPE_S64, &tokens);
    const int32_t mask = qb_zoo_input(z, "mask", QB_DTYPE_F32, &scores);
    const int32_t words = qb_zoo_normal(z, "words", qb_shape_of(2, WORDS, WIDTH), 1);
    const int32_t places = qb_zoo_normal(z, "positions", qb_shape_of(2, POSITIONS, WIDTH), 1);
    const int32_t sizes = qb_zoo_node(z, "Shape", "sizes", &ids, 1);
    const int32_t last =
        qb_zoo_binary(z, "Gather", "length", sizes, qb_zoo_ints(z, "axis", (int64_t[]){1}, 1));
    const int32_t first = qb_zoo_ints(z, "first", (int64_t[]){0}, 1);
    const int32_t cut = qb_zoo_node(z, "Slice", "places", (int32_t[]){places, first, last}, 3);
    const int32_t embedded = qb_zoo_binary(z, "Gather", "embedded", words, ids);
    return encoder(z, qb_zoo_binary(z, "Add", "embeddings", embedded, cut), mask);
}

static int32_t build_vit(qb_zoo *z, int64_t batch) {
    const qb_shape image = qb_shape_of(4, batch, 3, SIDE, SIDE);
    const int32_t in[3] = {
        qb_zoo_input(z, "image", QB_DTYPE_F32, &image),
        qb_zoo_normal(z, "patch.weight", qb_shape_of(4, WIDTH, 3, PATCH, PATCH), 0.1),
        qb_zoo_normal(z, "patch.bias", qb_shape_of(1, WIDTH), 0.1)};
    int32_t x = qb_zoo_conv_node(z, "patch", in, 3, (qb_zoo_conv){WIDTH, PATCH, PATCH, 0, 1});
    x = qb_zoo_reshape(z, "patches", x, (const int64_t[3]){0, WIDTH, -1}, 3);
    x = encoder(z, qb_zoo_transpose(z, "tokens", x, (const int64_t[3]){0, 2, 1}, 3), -1);
    return qb_zoo_dense(z, "head", qb_zoo_select(z, "class", x, 1, 0), 10, 1);
}

typedef struct model {
    int32_t (*build)(qb_zoo *z, int64_t batch);
    int32_t n_inputs;
    qb_shape min[INPUTS_MAX], opt[INPUTS_MAX], max[INPUTS_MAX];
} model;

static void make(qb_ctx *cx, const model *m, qb_graph **out) {
    qb_zoo z = {.cx = cx};
    qb_rng_seed(&z.rng, 3);
    assert_ok(cx, qb_graph_create(cx, &z.graph));
    const int32_t y = m->build(&z, qb_graph_add_symbol(cx, z.graph, "N"));
    assert_true(y >= 0);
    assert_ok(cx, qb_graph_add_output(cx, z.graph, y));
    assert_ok(cx, qb_graph_infer(cx, z.graph));
    assert_ok(cx, qb_optimize(cx, z.graph, NULL, NULL));
    *out = z.graph;
}

static void tokens(int64_t batch, int64_t length, qb_shape shapes[INPUTS_MAX]) {
    shapes[0] = qb_shape_of(2, batch, length);
    shapes[1] = qb_shape_of(4, batch, 1, 1, length);
}

static model bert(void) {
    model m = {.build = build_bert, .n_inputs = 2};
    tokens(1, 1, m.min);
    tokens(2, 16, m.opt);
    tokens(4, 48, m.max);
    return m;
}

static model vit(void) {
    return (model){.build = build_vit,
                   .n_inputs = 1,
                   .min = {qb_shape_of(4, 1, 3, SIDE, SIDE)},
                   .opt = {qb_shape_of(4, 4, 3, SIDE, SIDE)},
                   .max = {qb_shape_of(4, 9, 3, SIDE, SIDE)}};
}

/* ---- engines ---- */

static qb_engine *build(qb_ctx *cx, const model *m, const qb_shape *fixed) {
    const qb_profile profile = {m->min, m->opt, m->max};
    const qb_build_spec options = {.threads = 2,
                                   .input_shapes = fixed,
                                   .profiles = fixed ? NULL : &profile,
                                   .n_profiles = fixed ? 0 : 1};
    qb_graph *graph;
    qb_engine *engine;
    make(cx, m, &graph);
    assert_ok(cx, qb_engine_build(cx, graph, &options, &engine));
    qb_graph_free(graph);
    return engine;
}

/* Token numbers, normal numbers elsewhere; the same for the same size. */
static void fill(const qb_desc *desc, void *data) {
    const int64_t n = qb_shape_count(&desc->shape);
    qb_rng rng;
    qb_rng_seed(&rng, 9);
    for (int64_t i = 0; i < n; i++)
        if (desc->dtype == QB_DTYPE_S64)
            ((int64_t *)data)[i] = (int64_t)qb_rng_below(&rng, WORDS);
        else
            ((float *)data)[i] = (float)qb_rng_normal(&rng);
}

/* Runs at the shapes of now; *y is the output, new memory of another context's account. */
static qb_status run(qb_ctx *cx, qb_context *context, float **y, size_t *bytes) {
    static qb_ctx memory;
    const qb_engine *plan = qb_context_engine(context);
    void *in[INPUTS_MAX] = {NULL};
    qb_ctx_init(&memory);
    for (int32_t i = 0; i < qb_engine_n_inputs(plan); i++) {
        in[i] = qb_alloc_aligned(&memory, qb_desc_bytes(qb_engine_input(plan, i)), 1);
        assert_non_null(in[i]);
        fill(qb_engine_input(plan, i), in[i]);
    }
    *bytes = qb_desc_bytes(qb_engine_output(plan, 0));
    *y = qb_alloc_aligned(&memory, *bytes, 1);
    assert_non_null(*y);
    const qb_status status =
        qb_context_run(cx, context, (const void *const *)in, (void *const *)(void *)y);
    for (int i = 0; i < INPUTS_MAX; i++) qb_free(in[i]);
    return status;
}

static void runs_as_a_fixed_one(qb_ctx *cx, const model *m, qb_context *context,
                                const qb_shape *shapes) {
    qb_engine *fixed = build(cx, m, shapes);
    qb_context *other;
    float *y, *z;
    size_t n, k;
    assert_ok(cx, qb_context_create(cx, fixed, &other));
    assert_ok(cx, qb_context_set_shapes(cx, context, shapes));
    assert_ok(cx, run(cx, context, &y, &n));
    assert_ok(cx, run(cx, other, &z, &k));
    assert_int_equal(n, k);
    assert_memory_equal(y, z, n);
    qb_free(y);
    qb_free(z);
    qb_context_free(other);
    qb_engine_free(fixed);
}

/* ---- tests ---- */

static void bert_runs_at_any_batch_and_length(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{2, 16}, {1, 1}, {4, 48}, {3, 7}, {1, 48}, {4, 1}, {2, 33}};
    const model m = bert();
    qb_ctx cx;
    qb_context *context;
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, &m, NULL);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        qb_shape shapes[INPUTS_MAX];
        tokens(sizes[i][0], sizes[i][1], shapes);
        runs_as_a_fixed_one(&cx, &m, context, shapes);
    }
    qb_context_free(context);
    qb_engine_free(engine);
}

static void vit_runs_at_any_batch(void **state) {
    (void)state;
    const model m = vit();
    qb_ctx cx;
    qb_context *context;
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, &m, NULL);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (int64_t n = 9; n >= 1; n -= 2) {
        const qb_shape shape = qb_shape_of(4, n, 3, SIDE, SIDE);
        runs_as_a_fixed_one(&cx, &m, context, &shape);
    }
    qb_context_free(context);
    qb_engine_free(engine);
}

static void refuses(qb_ctx *cx, qb_context *context, const qb_shape *shapes, const char *why) {
    const qb_engine *before = qb_context_engine(context);
    assert_fails(cx, qb_context_set_shapes(cx, context, shapes), QB_STATUS_INVALID);
    assert_message(cx, why);
    assert_ptr_equal(qb_context_engine(context), before);
    qb_ctx_clear(cx);
}

static void outside_names_axis_value_and_range(void **state) {
    (void)state;
    const model models[] = {bert(), vit()};
    qb_shape shapes[INPUTS_MAX];
    qb_ctx cx;
    qb_context *context;
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, &models[0], NULL);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    tokens(5, 16, shapes);
    refuses(&cx, context, shapes, "input 'input_ids': axis 0: 5 is outside of 1 to 4");
    tokens(1, 49, shapes);
    refuses(&cx, context, shapes, "input 'input_ids': axis 1: 49 is outside of 1 to 48");
    shapes[0] = qb_shape_of(2, 1, 48);
    refuses(&cx, context, shapes, "input 'mask': axis 3: 49 is outside of 1 to 48");
    qb_context_free(context);
    qb_engine_free(engine);
    engine = build(&cx, &models[1], NULL);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    shapes[0] = qb_shape_of(4, 10, 3, SIDE, SIDE);
    refuses(&cx, context, shapes, "input 'image': axis 0: 10 is outside of 1 to 9");
    shapes[0] = qb_shape_of(4, 1, 3, SIDE, SIDE + 1);
    refuses(&cx, context, shapes, "input 'image': axis 3: 33 is outside of 32 to 32");
    qb_context_free(context);
    qb_engine_free(engine);
}

/* A hundred turns between five shapes: where the first round made all there is to make, the next
 * allocation would fail. */
static void turns_allocate_nothing(void **state) {
    (void)state;
    enum { SHAPES = 5, TURNS = 100 };
    const model m = bert();
    qb_ctx cx;
    qb_context *context;
    qb_engine_memory before, after;
    float *first[SHAPES];
    size_t bytes = 0;
    qb_ctx_init(&cx);
    qb_engine *engine = build(&cx, &m, NULL);
    assert_ok(&cx, qb_context_create(&cx, engine, &context));
    for (int turn = 0; turn < SHAPES + TURNS; turn++) {
        const int k = turn % SHAPES;
        qb_shape shapes[INPUTS_MAX];
        float *y;
        size_t n;
        tokens(1 + k % 4, 1 + 11 * k, shapes);
        if (turn == SHAPES) {
            bytes = qb_context_bytes(context);
            qb_engine_memory_of(engine, &before);
        }
        cx.fail_alloc_at = turn < SHAPES ? 0 : 1;
        assert_ok(&cx, qb_context_set_shapes(&cx, context, shapes));
        assert_ok(&cx, run(&cx, context, &y, &n));
        if (turn < SHAPES) {
            first[k] = y;
            continue;
        }
        assert_memory_equal(y, first[k], n);
        qb_free(y);
    }
    cx.fail_alloc_at = 0;
    qb_engine_memory_of(engine, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(qb_context_bytes(context), bytes);
    for (int i = 0; i < SHAPES; i++) qb_free(first[i]);
    qb_context_free(context);
    qb_engine_free(engine);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bert_runs_at_any_batch_and_length), cmocka_unit_test(vit_runs_at_any_batch),
    cmocka_unit_test(outside_names_axis_value_and_range), cmocka_unit_test(turns_allocate_nothing)};

QB_TEST_MAIN(tests)
