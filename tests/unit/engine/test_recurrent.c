/* Recurrent layers in engines: kernels against eval with all attributes and any of the outputs; the
 * same bits for any threads, neighbours and engine files; ranges of shapes; what is refused. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "engine/file.h"
#include "engine/profiles.h"
#include "graph/op.h"

enum { INPUTS = 10, HIDDEN = 37, MOST = 12 * 9 * 2 * HIDDEN };

/* A layer over x [steps, batch, INPUTS] (or batch first), and what it is given. */
typedef struct layer {
    const char *op, *direction;
    int64_t steps, batch; /* -1: open */
    bool batch_first, bias, lengths, states, peepholes;
    const char *attr; /* set to 1; NULL */
    float clip;
    bool outputs[3];
    const char *activation; /* of all gates; NULL: the usual ones */
} layer;

typedef struct fixture {
    qb_ctx cx;
    qb_graph *graph;
} fixture;

typedef struct answer {
    float out[3][MOST];
    int32_t n_observed;
    char tactic[64];
} answer;

static void fill(uint64_t seed, float *data, int64_t n, float spread) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (int64_t i = 0; i < n; i++) data[i] = spread * (float)qb_rng_normal(&rng);
}

static int32_t constant(fixture *f, const char *name, qb_shape shape, float spread) {
    const int64_t n = qb_shape_count(&shape);
    float *data = qb_alloc(&f->cx, (size_t)n, sizeof *data);
    assert_non_null(data);
    fill((uint64_t)n + (uint64_t)name[0], data, n, spread);
    const int32_t id = qb_graph_add_constant(&f->cx, f->graph, name, QB_DTYPE_F32, &shape, data);
    qb_free(data);
    assert_true(id >= 0);
    return id;
}

static int32_t input(fixture *f, const char *name, qb_dtype dtype, qb_shape shape) {
    static const char *const symbols[] = {"A", "B"};
    for (int32_t d = 0; d < shape.rank; d++)
        if (shape.dim[d] < 0) shape.dim[d] = qb_graph_add_symbol(&f->cx, f->graph, symbols[d]);
    const int32_t id = qb_graph_add_value(&f->cx, f->graph, name, dtype, &shape);
    assert_ok(&f->cx, qb_graph_add_input(&f->cx, f->graph, id));
    return id;
}

static void *field(const qb_node *node, const char *attr) {
    const qb_attr_desc *desc = node->op->attrs;
    while (desc->name && strcmp(desc->name, attr) != 0) desc++;
    assert_non_null(desc->name);
    return (char *)node->attrs + desc->offset;
}

static void set_activations(fixture *f, const qb_node *node, const char *name, int64_t directions) {
    const int32_t each = strcmp(node->op->name, "LSTM") == 0  ? 3
                         : strcmp(node->op->name, "GRU") == 0 ? 2
                                                              : 1;
    const int32_t n = each * (int32_t)directions;
    const char **names = qb_arena_alloc(&f->cx, f->graph->arena, (size_t)n, sizeof *names);
    assert_non_null(names);
    for (int32_t i = 0; i < n; i++) names[i] = name;
    *(qb_strings *)field(node, "activations") = (qb_strings){n, names};
}

static void make(fixture *f, const layer *l) {
    const bool lstm = strcmp(l->op, "LSTM") == 0;
    const int64_t gates = lstm ? 4 : strcmp(l->op, "GRU") == 0 ? 3 : 1;
    const int ways = strcmp(l->direction, "bidirectional") == 0 ? 2 : 1;
    const int rows = (int)gates * HIDDEN, batch = (int)l->batch;
    const qb_shape state =
        l->batch_first ? qb_shape_of(3, batch, ways, HIDDEN) : qb_shape_of(3, ways, batch, HIDDEN);
    const float spread = 1 / sqrtf(HIDDEN);
    const qb_shape unknown = {.rank = -1};
    int32_t in[8], out[3];
    qb_ctx_init(&f->cx);
    assert_ok(&f->cx, qb_graph_create(&f->cx, &f->graph));
    f->graph->name = f->graph->source = "layer";
    f->graph->opset = QB_GRAPH_OPSET;
    for (int i = 0; i < 8; i++) in[i] = -1;
    in[0] = input(f, "x", QB_DTYPE_F32,
                  l->batch_first ? qb_shape_of(3, batch, (int)l->steps, INPUTS)
                                 : qb_shape_of(3, (int)l->steps, batch, INPUTS));
    in[1] = constant(f, "w", qb_shape_of(3, ways, rows, INPUTS), 0.4f);
    in[2] = constant(f, "r", qb_shape_of(3, ways, rows, HIDDEN), spread);
    if (l->bias) in[3] = constant(f, "b", qb_shape_of(2, ways, 2 * rows), 0.5f);
    if (l->lengths) in[4] = input(f, "lengths", QB_DTYPE_S32, qb_shape_of(1, batch));
    if (l->states) in[5] = constant(f, "h", state, 0.5f);
    if (l->states && lstm) in[6] = constant(f, "c", state, 0.5f);
    if (l->peepholes) in[7] = constant(f, "p", qb_shape_of(2, ways, 3 * HIDDEN), 0.5f);
    const int n_out = lstm ? 3 : 2;
    static const char *const names[] = {"y", "y_h", "y_c"};
    for (int i = 0; i < n_out; i++)
        out[i] = l->outputs[i]
                     ? qb_graph_add_value(&f->cx, f->graph, names[i], QB_DTYPE_NONE, &unknown)
                     : -1;
    const int32_t id = qb_graph_add_node(&f->cx, f->graph, qb_op_find(l->op, ""), "layer", in,
                                         lstm ? 8 : 6, out, n_out);
    assert_true(id >= 0);
    const qb_node *node = &f->graph->nodes[id];
    *(const char **)field(node, "direction") = l->direction;
    *(int64_t *)field(node, "layout") = l->batch_first;
    *(float *)field(node, "clip") = l->clip;
    if (l->attr) *(int64_t *)field(node, l->attr) = 1;
    if (l->activation) set_activations(f, node, l->activation, ways);
    for (int i = 0; i < n_out; i++)
        if (l->outputs[i]) assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, out[i]));
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
}

static void give_up(fixture *f, qb_engine *engine) {
    qb_engine_free(engine);
    qb_graph_free(f->graph);
}

static qb_engine *build(fixture *f, const char *backends, int threads) {
    const qb_build_spec options = {.backends = backends, .threads = threads, .observable = true};
    qb_engine *engine;
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &engine));
    return engine;
}

static qb_status count(qb_ctx *cx, void *user, int32_t observed, const char *value,
                       const qb_tensor *tensor) {
    (void)cx, (void)observed, (void)value, (void)tensor;
    ++*(int32_t *)user;
    return QB_OK;
}

/* Runs on `x` of the seed, where items have lengths 0, 1, 2 ... as far as there are steps. */
static void run(fixture *f, const qb_engine *engine, const layer *l, const float *x, answer *a) {
    int32_t lengths[16];
    const void *inputs[] = {x, lengths};
    void *outputs[3];
    int n = 0;
    qb_context *context;
    memset(a, 0, sizeof *a);
    for (int i = 0; i < l->batch; i++) lengths[i] = i % ((int)l->steps + 1);
    for (int i = 0; i < 3; i++)
        if (l->outputs[i]) outputs[n++] = a->out[i];
    assert_ok(&f->cx, qb_context_create(&f->cx, engine, &context));
    assert_ok(&f->cx, qb_context_observe(&f->cx, context, inputs, outputs, count, &a->n_observed));
    qb_context_free(context);
    for (int32_t i = 0; i < qb_engine_n_steps(engine); i++) {
        qb_step_info info;
        qb_engine_step(engine, i, &info);
        if (strcmp(info.op, l->op) == 0) strcpy(a->tactic, info.tactic);
    }
}

static void assert_close(const answer *a, const answer *b) {
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < MOST; i++) /* eval sums in double; with Relu states grow */
            if (!(fabsf(a->out[k][i] - b->out[k][i]) <= 1e-5f * (1 + fabsf(a->out[k][i]))))
                fail_msg("output %d, element %d: expected %g, got %g", k, i, (double)a->out[k][i],
                         (double)b->out[k][i]);
}

/* A layer of each kind by number: one attribute after another in all combinations that matter. */
static layer numbered(int i) {
    static const char *const ops[] = {"LSTM", "GRU", "RNN"};
    static const char *const directions[] = {"forward", "reverse", "bidirectional"};
    const bool lstm = i % 3 == 0, gru = i % 3 == 1;
    layer l = {.op = ops[i % 3],
               .direction = directions[i / 3 % 3],
               .steps = 1 + i % 5,
               .batch = 1 + i * 7 % 9,
               .batch_first = i / 2 % 2,
               .bias = i % 4 != 0,
               .lengths = i / 3 % 2,
               .states = i / 4 % 2,
               .peepholes = lstm && i / 6 % 2,
               .clip = i % 5 == 0 ? 0.8f : 0,
               .outputs = {i % 7 != 0, i % 5 != 1, lstm && i % 4 != 2},
               .activation = i % 11 == 0 ? "relu" : NULL};
    if (lstm && i / 9 % 2) l.attr = "input_forget";
    if (gru && i / 9 % 2) l.attr = "linear_before_reset";
    return l;
}

static void kernels_compute_what_eval_does(void **state) {
    (void)state;
    static const char *const backends[] = {NULL, "cpu,ref"};
    static float x[INPUTS * 5 * 9];
    static answer expected, first, got;
    fill(1, x, INPUTS * 5 * 9, 1);
    for (int i = 0; i < 72; i++) {
        const layer l = numbered(i);
        const bool idle = !l.outputs[0] && !l.outputs[1] && !l.outputs[2]; /* has no step */
        fixture f;
        make(&f, &l);
        qb_engine *engine = build(&f, "ref", 1);
        run(&f, engine, &l, x, &expected);
        assert_string_equal(expected.tactic, idle ? "" : "node");
        qb_engine_free(engine);
        for (int threads = 1; threads <= 3; threads++) {
            engine = build(&f, backends[i % 2], threads);
            run(&f, engine, &l, x, &got);
            assert_memory_equal(got.tactic, idle ? "" : "cpu.recurrent", idle ? 1 : 13);
            assert_int_equal(got.n_observed, expected.n_observed);
            assert_close(&expected, &got);
            if (threads == 1) first = got;
            assert_memory_equal(&first, &got, sizeof got);
            qb_engine_free(engine);
        }
        qb_graph_free(f.graph);
    }
}

/* Item `b` of a batch of 9, alone: the same bits. */
static void an_item_does_not_see_its_neighbours(void **state) {
    (void)state;
    static float x[INPUTS * 12 * 9], alone_x[INPUTS * 12];
    static answer all, alone;
    static const char *const ops[] = {"LSTM", "GRU", "RNN"};
    fill(2, x, INPUTS * 12 * 9, 1);
    for (int o = 0; o < 3; o++) {
        layer l = {.op = ops[o],
                   .direction = "bidirectional",
                   .steps = 12,
                   .batch = 9,
                   .bias = true,
                   .outputs = {true}};
        fixture f;
        make(&f, &l);
        qb_engine *engine = build(&f, NULL, 2);
        run(&f, engine, &l, x, &all);
        give_up(&f, engine);
        l.batch = 1;
        make(&f, &l);
        engine = build(&f, NULL, 1);
        for (int b = 0; b < 9; b++) {
            for (int t = 0; t < 12; t++)
                memcpy(alone_x + t * INPUTS, x + (t * 9 + b) * INPUTS, INPUTS * sizeof *x);
            run(&f, engine, &l, alone_x, &alone);
            for (int row = 0; row < 12 * 2; row++)
                assert_memory_equal(alone.out[0] + row * HIDDEN,
                                    all.out[0] + (row * 9 + b) * HIDDEN, HIDDEN * sizeof *x);
        }
        give_up(&f, engine);
    }
}

static void a_loaded_engine_gives_the_same_bits(void **state) {
    (void)state;
    static float x[INPUTS * 5 * 9];
    static answer built, loaded;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "layer.qbe");
    fill(3, x, INPUTS * 5 * 9, 1);
    for (int i = 0; i < 12; i++) {
        const layer l = numbered(i);
        const qb_engine_origin origin = {.model = "layer.onnx", .precision = "fp32"};
        fixture f;
        qb_engine *again;
        make(&f, &l);
        qb_engine *engine = build(&f, NULL, 2);
        assert_ok(&f.cx, qb_engine_save(&f.cx, engine, &origin, path));
        assert_ok(&f.cx, qb_engine_load(&f.cx, path, &again));
        run(&f, engine, &l, x, &built);
        run(&f, again, &l, x, &loaded);
        assert_memory_equal(&built, &loaded, sizeof built);
        qb_engine_free(again);
        give_up(&f, engine);
    }
}

static void shapes_may_stay_open(void **state) {
    (void)state;
    static float x[INPUTS * 12 * 9], y[MOST];
    static answer fixed;
    static const int64_t sizes[][2] = {{12, 9}, {1, 1}, {7, 4}};
    layer l = {.op = "GRU",
               .direction = "bidirectional",
               .steps = -1,
               .batch = -1,
               .bias = true,
               .outputs = {true}};
    const qb_shape low = qb_shape_of(3, 1, 1, INPUTS), usual = qb_shape_of(3, 5, 2, INPUTS);
    const qb_shape high = qb_shape_of(3, 12, 9, INPUTS);
    const qb_profile profile = {&low, &usual, &high};
    const qb_build_spec options = {.profiles = &profile, .n_profiles = 1, .threads = 2};
    fixture f, g;
    qb_engine *engine;
    qb_context *context;
    fill(4, x, INPUTS * 12 * 9, 1);
    make(&f, &l);
    assert_ok(&f.cx, qb_engine_build(&f.cx, f.graph, &options, &engine));
    assert_ok(&f.cx, qb_context_create(&f.cx, engine, &context));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const qb_shape shape = qb_shape_of(3, (int)sizes[i][0], (int)sizes[i][1], INPUTS);
        const void *inputs[] = {x};
        void *outputs[] = {y};
        assert_ok(&f.cx, qb_context_set_shapes(&f.cx, context, &shape));
        assert_ok(&f.cx, qb_context_run(&f.cx, context, inputs, outputs));
        l.steps = sizes[i][0];
        l.batch = sizes[i][1];
        make(&g, &l);
        qb_engine *one = build(&g, NULL, 1);
        run(&g, one, &l, x, &fixed);
        assert_memory_equal(fixed.out[0], y, (size_t)(l.steps * l.batch * 2 * HIDDEN) * sizeof *y);
        give_up(&g, one);
    }
    qb_context_free(context);
    give_up(&f, engine);
}

/* Between Q/DQ nodes: quantized values come in as dequantized values, and results become quantized
 * values behind the layer. */
static void neighbours_may_be_codes(void **state) {
    (void)state;
    static float x[INPUTS * 4 * 3];
    static answer expected, got;
    static const float scale[] = {0.03f, 0.01f};
    static const int32_t zero[] = {100, 128};
    const layer l = {.op = "LSTM",
                     .direction = "reverse",
                     .steps = 4,
                     .batch = 3,
                     .bias = true,
                     .outputs = {true, true, true}};
    fixture f;
    fill(6, x, INPUTS * 4 * 3, 1);
    make(&f, &l);
    for (int i = 0; i < 2; i++) {
        const int32_t value = qb_graph_find_value(f.graph, i == 0 ? "x" : "y");
        f.graph->values[value].q = (qb_qparams){QB_DTYPE_U8, -1, 1, &scale[i], &zero[i]};
    }
    qb_engine *engine = build(&f, "ref", 1);
    run(&f, engine, &l, x, &expected);
    qb_engine_free(engine);
    engine = build(&f, NULL, 2);
    run(&f, engine, &l, x, &got);
    assert_memory_equal(got.tactic, "cpu.recurrent", 13);
    assert_int_equal(got.n_observed, expected.n_observed);
    for (int i = 0; i < 4 * 3 * HIDDEN; i++) { /* a code apart where rounding decides */
        const float codes = got.out[0][i] / scale[1], apart = got.out[0][i] - expected.out[0][i];
        assert_true(fabsf(codes - roundf(codes)) < 1e-3f);
        assert_true(fabsf(apart) < 1.01f * scale[1]);
    }
    for (int k = 1; k < 3; k++)
        for (int i = 0; i < 3 * HIDDEN; i++)
            assert_true(fabsf(got.out[k][i] - expected.out[k][i]) < 1e-5f);
    give_up(&f, engine);
}

/* Functions without a kernel are eval's. */
static void other_activations_run_all_the_same(void **state) {
    (void)state;
    static float x[INPUTS * 3 * 2];
    static answer expected, got;
    const layer l = {.op = "LSTM",
                     .direction = "forward",
                     .steps = 3,
                     .batch = 2,
                     .outputs = {true, true, true},
                     .activation = "Softsign"};
    fixture f;
    fill(5, x, INPUTS * 3 * 2, 1);
    make(&f, &l);
    qb_engine *engine = build(&f, "ref", 1);
    run(&f, engine, &l, x, &expected);
    qb_engine_free(engine);
    engine = build(&f, NULL, 2);
    run(&f, engine, &l, x, &got);
    assert_string_equal(got.tactic, "node");
    assert_memory_equal(&expected, &got, sizeof got);
    give_up(&f, engine);
}

static void lengths_beyond_the_steps_are_refused(void **state) {
    (void)state;
    static float x[INPUTS * 3 * 2], y[3 * 2 * HIDDEN];
    const layer l = {.op = "RNN",
                     .direction = "forward",
                     .steps = 3,
                     .batch = 2,
                     .lengths = true,
                     .outputs = {true}};
    const int32_t lengths[] = {3, 4};
    const void *inputs[] = {x, lengths};
    void *outputs[] = {y};
    fixture f;
    qb_context *context;
    make(&f, &l);
    qb_engine *engine = build(&f, NULL, 1);
    assert_ok(&f.cx, qb_context_create(&f.cx, engine, &context));
    assert_int_equal(qb_context_run(&f.cx, context, inputs, outputs), QB_STATUS_INVALID);
    assert_non_null(strstr(f.cx.message, "sequence_lens: expected 0 to 3, got 4"));
    qb_context_free(context);
    give_up(&f, engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_compute_what_eval_does),
        cmocka_unit_test(an_item_does_not_see_its_neighbours),
        cmocka_unit_test(a_loaded_engine_gives_the_same_bits),
        cmocka_unit_test(shapes_may_stay_open),
        cmocka_unit_test(neighbours_may_be_codes),
        cmocka_unit_test(other_activations_run_all_the_same),
        cmocka_unit_test(lengths_beyond_the_steps_are_refused),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
