/* Sizes that only a run knows: what comes before is planned, the rest runs behind it, node by node
 * or in groups, and the outputs have what is there, then zeros. */
#include "qb_test.h"

#include <math.h>
#include <string.h>

#include "engine/file.h"
#include "engine/file/file_internal.h"
#include "engine/run/tail_internal.h"
#include "graph/dequantize.h"
#include "graph/op.h"

enum { N = 6 };

typedef struct fixture {
    qb_ctx cx;
    qb_graph *graph;
    qb_engine *engine;
    qb_context *context;
} fixture;

static int32_t node(fixture *f, const char *op, const char *name, const int32_t *in, int32_t n) {
    const qb_shape unknown = {.rank = -1};
    int32_t out = qb_graph_add_value(&f->cx, f->graph, name, QB_DTYPE_NONE, &unknown);
    assert_true(qb_graph_add_node(&f->cx, f->graph, qb_op_find(op, ""), name, in, n, &out, 1) >= 0);
    return out;
}

static void build(fixture *f) {
    const qb_build_spec spec = {.threads = 1};
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &spec, &f->engine));
    assert_ok(&f->cx, qb_context_create(&f->cx, f->engine, &f->context));
}

static int32_t start(fixture *f, int64_t n) {
    const qb_shape shape = qb_shape_of(1, n);
    *f = (fixture){0};
    qb_ctx_init(&f->cx);
    assert_ok(&f->cx, qb_graph_create(&f->cx, &f->graph));
    f->graph->name = f->graph->source = "tail";
    f->graph->opset = QB_GRAPH_OPSET;
    const int32_t x = qb_graph_add_value(&f->cx, f->graph, "x", QB_DTYPE_F32, &shape);
    assert_ok(&f->cx, qb_graph_add_input(&f->cx, f->graph, x));
    return x;
}

static void release(fixture *f) {
    qb_context_free(f->context);
    qb_engine_free(f->engine);
    qb_graph_free(f->graph);
}

static int64_t rows_of(const fixture *f, int32_t output) {
    const qb_shape shape = qb_context_output_shape(f->context, output);
    return shape.dim[shape.rank - 1];
}

/* y = relu(x) is planned; where it is not zero comes with the data. */
static void nonzero_of_a_planned_value(void **state) {
    (void)state;
    fixture f;
    const int32_t x = start(&f, N), y = node(&f, "Relu", "y", &x, 1);
    const int32_t where = node(&f, "NonZero", "where", &y, 1);
    assert_ok(&f.cx, qb_graph_add_output(&f.cx, f.graph, where));
    assert_ok(&f.cx, qb_graph_add_output(&f.cx, f.graph, y));
    build(&f);
    assert_int_equal(qb_engine_n_outputs(f.engine), 2);
    assert_string_equal(qb_engine_output_name(f.engine, 0), "where");
    const qb_shape most = qb_shape_of(2, 1, N), planned = qb_shape_of(1, N);
    assert_true(qb_shape_equal(&qb_engine_output(f.engine, 0)->shape, &most));
    assert_true(qb_shape_equal(&qb_engine_output(f.engine, 1)->shape, &planned));
    assert_true(qb_engine_n_steps(f.engine) >= 1);
    const float input[2][N] = {{-1, 2, 0, 3, -4, 5}, {-1, -1, -1, 7, -1, -1}};
    const int64_t expected[2][N] = {{1, 3, 5, 0, 0, 0}, {3, 0, 0, 0, 0, 0}};
    const int64_t found[2] = {3, 1};
    for (int run = 0; run < 2; run++) {
        int64_t index[N] = {9, 9, 9, 9, 9, 9};
        float relu[N];
        const void *in[] = {input[run]};
        void *out[] = {index, relu};
        assert_ok(&f.cx, qb_context_run(&f.cx, f.context, in, out));
        assert_memory_equal(index, expected[run], sizeof index);
        assert_int_equal(rows_of(&f, 0), found[run]);
        assert_true(qb_context_late_seconds(f.context) > 0);
        for (int i = 0; i < N; i++) assert_true(relu[i] == (input[run][i] > 0 ? input[run][i] : 0));
        void *none[] = {NULL, relu};
        assert_ok(&f.cx, qb_context_run(&f.cx, f.context, in, none));
    }
    release(&f);
}

/* Three boxes, the second of which overlaps the first; others in the next run, where none does.
 * What is chosen for the output's size is what the output has. */
static void boxes_are_those_that_were_counted(void **state) {
    (void)state;
    enum { BOXES = 3 };
    const qb_shape three = qb_shape_of(1, 3), one = qb_shape_of(1, 1);
    const qb_shape classes = qb_shape_of(3, 1, 1, BOXES);
    const int64_t sizes[3] = {1, BOXES, 4}, most = BOXES;
    const float scores[BOXES] = {0.9F, 0.8F, 0.7F}, half = 0.5F;
    const float input[2][BOXES * 4] = {{0, 0, 2, 2, 0, 0, 2, 1.9F, 5, 5, 6, 6},
                                       {0, 0, 1, 1, 2, 2, 3, 3, 5, 5, 6, 6}};
    const int64_t expected[2][BOXES * 3] = {{0, 0, 0, 0, 0, 2, 0, 0, 0},
                                            {0, 0, 0, 0, 0, 1, 0, 0, 2}};
    fixture f;
    const int32_t x = start(&f, BOXES * 4);
    const int32_t to = qb_graph_add_constant(&f.cx, f.graph, "to", QB_DTYPE_S64, &three, sizes);
    const int32_t boxes = node(&f, "Reshape", "boxes", (int32_t[]){x, to}, 2);
    const int32_t in[] = {
        boxes, qb_graph_add_constant(&f.cx, f.graph, "s", QB_DTYPE_F32, &classes, scores),
        qb_graph_add_constant(&f.cx, f.graph, "most", QB_DTYPE_S64, &one, &most),
        qb_graph_add_constant(&f.cx, f.graph, "iou", QB_DTYPE_F32, &one, &half)};
    assert_ok(&f.cx,
              qb_graph_add_output(&f.cx, f.graph, node(&f, "NonMaxSuppression", "chosen", in, 4)));
    build(&f);
    for (int run = 0; run < 2; run++) {
        int64_t out[BOXES * 3];
        assert_ok(&f.cx,
                  qb_context_run(&f.cx, f.context, (const void *[]){input[run]}, (void *[]){out}));
        assert_int_equal(qb_context_output_shape(f.context, 0).dim[0], run == 0 ? 2 : 3);
        assert_memory_equal(out, expected[run], sizeof out);
    }
    release(&f);
}

/* Compress, and a sum of it and of a value of the same unknown size: all in the tail. */
static void what_depends_on_it_follows(void **state) {
    (void)state;
    fixture f;
    const qb_shape one = qb_shape_of(1, 1);
    const float half = 0.5F;
    const int32_t x = start(&f, N);
    const int32_t limit = qb_graph_add_constant(&f.cx, f.graph, "h", QB_DTYPE_F32, &one, &half);
    const int32_t mask = node(&f, "Greater", "mask", (int32_t[]){x, limit}, 2);
    const int32_t kept = node(&f, "Compress", "kept", (int32_t[]){x, mask}, 2);
    const int32_t twice = node(&f, "Add", "twice", (int32_t[]){kept, kept}, 2);
    assert_ok(&f.cx, qb_graph_add_output(&f.cx, f.graph, twice));
    build(&f);
    const float input[N] = {0, 1, 0.25F, 2, 3, 0.5F};
    float out[N];
    const void *in[] = {input};
    void *outs[] = {out};
    assert_ok(&f.cx, qb_context_run(&f.cx, f.context, in, outs));
    assert_int_equal(rows_of(&f, 0), 3);
    const float expected[N] = {2, 4, 6, 0, 0, 0};
    assert_memory_equal(out, expected, sizeof out);
    /* Nothing is left: an empty output. */
    const float none[N] = {0};
    in[0] = none;
    assert_ok(&f.cx, qb_context_run(&f.cx, f.context, in, outs));
    assert_int_equal(rows_of(&f, 0), 0);
    assert_true(out[0] == 0);
    release(&f);
}

/* A product with as many rows as the data say is large enough for an engine of its own, for each
 * number of rows that comes. */
static void large_nodes_run_in_kernels(void **state) {
    (void)state;
    enum { ROWS = 600, K = 64, COLUMNS = 48 };
    static float weight[K * COLUMNS], input[ROWS], out[ROWS * COLUMNS];
    fixture f;
    const qb_shape shape = qb_shape_of(2, (int64_t)K, (int64_t)COLUMNS),
                   wide = qb_shape_of(2, (int64_t)1, (int64_t)K);
    const qb_shape tall = qb_shape_of(1, (int64_t)2);
    const float ones[K] = {0}, none = 0;
    const int64_t column[2] = {-1, 1};
    for (int i = 0; i < K * COLUMNS; i++) weight[i] = (float)(i * 37 % 101 - 50) / 64;
    const int32_t x = start(&f, ROWS);
    const qb_shape one = qb_shape_of(1, (int64_t)1);
    const int32_t limit = qb_graph_add_constant(&f.cx, f.graph, "h", QB_DTYPE_F32, &one, &none);
    const int32_t mask = node(&f, "Greater", "mask", (int32_t[]){x, limit}, 2);
    const int32_t kept = node(&f, "Compress", "kept", (int32_t[]){x, mask}, 2);
    const int32_t to = qb_graph_add_constant(&f.cx, f.graph, "to", QB_DTYPE_S64, &tall, column);
    const int32_t rows = node(&f, "Reshape", "rows", (int32_t[]){kept, to}, 2);
    const int32_t zeros = qb_graph_add_constant(&f.cx, f.graph, "o", QB_DTYPE_F32, &wide, ones);
    const int32_t spread = node(&f, "Add", "spread", (int32_t[]){rows, zeros}, 2);
    const int32_t w = qb_graph_add_constant(&f.cx, f.graph, "w", QB_DTYPE_F32, &shape, weight);
    assert_ok(&f.cx, qb_graph_add_output(&f.cx, f.graph,
                                         node(&f, "MatMul", "y", (int32_t[]){spread, w}, 2)));
    build(&f);
    for (int run = 0; run < 3; run++) {
        const int n = run == 1 ? 411 : ROWS; /* shapes change, and come back */
        for (int i = 0; i < ROWS; i++) input[i] = i < n ? 1 + (float)(i % 7) : -1;
        const void *in[] = {input};
        void *outs[] = {out};
        assert_ok(&f.cx, qb_context_run(&f.cx, f.context, in, outs));
        assert_int_equal(qb_context_output_shape(f.context, 0).dim[0], n);
        for (int i = 0; i < n * COLUMNS; i++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += weight[k * COLUMNS + i % COLUMNS];
            assert_true(fabsf(out[i] - sum * input[i / COLUMNS]) < 1e-4F);
        }
        for (int i = n * COLUMNS; i < ROWS * COLUMNS; i++) assert_true(out[i] == 0);
    }
    release(&f);
}

/* ---- groups ---------------------------------------------------------------------------------- */

enum { EXPERTS = 3, ROWS = 96, WIDTH = 64, INNER = 128 };
#define MADE_STEP 0.25F

/* Each row goes through the products of the expert whose number `g` has for it, or through none. */
static void make_experts(fixture *f) {
    static const float nothing[ROWS * WIDTH];
    static float weight[WIDTH * INNER];
    const qb_shape wide = qb_shape_of(2, (int64_t)ROWS, (int64_t)WIDTH), one = qb_shape_of(1, 1);
    const qb_shape up = qb_shape_of(2, (int64_t)WIDTH, (int64_t)INNER);
    const qb_shape down = qb_shape_of(2, (int64_t)INNER, (int64_t)WIDTH);
    const int64_t all = -1, sizes[2] = {ROWS, WIDTH};
    const qb_shape two = qb_shape_of(1, 2);
    const int32_t flat = start(f, ROWS * WIDTH);
    const int32_t g = qb_graph_add_value(&f->cx, f->graph, "g", QB_DTYPE_F32,
                                         &(qb_shape){.rank = 1, .dim = {ROWS}});
    assert_ok(&f->cx, qb_graph_add_input(&f->cx, f->graph, g));
#define CONSTANT(name, type, shape, data)                                                          \
    qb_graph_add_constant(&f->cx, f->graph, name, QB_DTYPE_##type, shape, data)
#define NODE(op, name, ...)                                                                        \
    node(f, op, name, (int32_t[]){__VA_ARGS__}, (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / 4))
    const int32_t x = NODE("Reshape", "x2", flat, CONSTANT("sizes", S64, &two, sizes));
    const int32_t line = CONSTANT("line", S64, &one, &all);
    int32_t sum = CONSTANT("start", F32, &wide, nothing);
    for (int e = 0; e < EXPERTS; e++) {
        const float number = (float)e;
        for (int i = 0; i < WIDTH * INNER; i++) weight[i] = (float)((i + e) * 37 % 101 - 50) / 99;
        const int32_t chosen = NODE("Equal", "chosen", g, CONSTANT("number", F32, &one, &number));
        const int32_t at = NODE("NonZero", "at", chosen);
        const int32_t data = NODE("Gather", "data", x, NODE("Reshape", "rows", at, line));
        const int32_t kept =
            NODE("Relu", "kept", NODE("MatMul", "wide", data, CONSTANT("up", F32, &up, weight)));
        const int32_t made = NODE("MatMul", "made", kept, CONSTANT("down", F32, &down, weight));
        sum = NODE("ScatterND", "sum", sum, NODE("Transpose", "place", at), made);
    }
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, NODE("Add", "y", sum, x)));
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
#undef CONSTANT
#undef NODE
}

typedef struct feed {
    float x[ROWS * WIDTH], g[ROWS], y[ROWS * WIDTH];
} feed;

/* `first` rows for the first expert, `second` for the second, `third` for the third. */
static void draw(feed *f, const int *rows) {
    for (int i = 0; i < ROWS * WIDTH; i++) f->x[i] = (float)((i + rows[0]) * 53 % 97 - 48) / 48;
    for (int i = 0, e = 0, n = 0; i < ROWS; i++, n++) {
        while (e < EXPERTS && n == rows[e]) e++, n = 0;
        f->g[(i * 37) % ROWS] = e < EXPERTS ? (float)e : -1;
    }
}

/* The graph's inputs are constants: those of the feed. */
static void fix_inputs(fixture *f, qb_graph *graph, const feed *from) {
    const float *data[] = {from->x, from->g};
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        const qb_value *value = &graph->values[graph->inputs[i]];
        const qb_tensor tensor =
            qb_tensor_of(value->dtype, value->shape, (void *)(uintptr_t)data[i]);
        assert_ok(&f->cx, qb_graph_fix(&f->cx, graph, graph->inputs[i], &tensor));
    }
}

static void run_definitions(fixture *f, feed *to) {
    qb_graph *graph;
    assert_ok(&f->cx, qb_graph_clone(&f->cx, f->graph, &graph));
    fix_inputs(f, graph, to);
    assert_ok(&f->cx, qb_graph_evaluate(&f->cx, graph, SIZE_MAX));
    memcpy(to->y, graph->values[graph->outputs[0]].data, sizeof to->y);
    qb_graph_free(graph);
}

static void experts_take_what_comes(void **state) {
    (void)state;
    enum { FEEDS = 6 };
    static const int rows[FEEDS][EXPERTS] = {{32, 32, 32}, {96, 0, 0},  {1, 1, 1},
                                             {0, 0, 0},    {5, 60, 20}, {40, 16, 40}};
    static const int32_t engines[FEEDS] = {3, 1, 1, 0, 3, 3};
    static feed feeds[FEEDS];
    static float got[2][FEEDS][ROWS * WIDTH];
    fixture f;
    make_experts(&f);
    for (int i = 0; i < FEEDS; i++) {
        draw(&feeds[i], rows[i]);
        run_definitions(&f, &feeds[i]);
    }
    for (int backwards = 0; backwards < 2; backwards++) {
        const qb_build_spec spec = {.threads = 2};
        assert_ok(&f.cx, qb_engine_build(&f.cx, f.graph, &spec, &f.engine));
        assert_ok(&f.cx, qb_context_create(&f.cx, f.engine, &f.context));
        for (int run = 0; run < 2 * FEEDS; run++) {
            const int i = backwards ? FEEDS - 1 - run % FEEDS : run % FEEDS;
            const void *in[] = {feeds[i].x, feeds[i].g};
            float *out = got[backwards][i];
            memset(out, 0xff, sizeof got[0][0]);
            assert_ok(&f.cx, qb_context_run(&f.cx, f.context, in, (void *[]){out}));
            assert_int_equal(qb_context_late_engines(f.context), engines[i]);
            for (int k = 0; k < ROWS * WIDTH; k++)
                assert_true(fabsf(out[k] - feeds[i].y[k]) < 1e-3F);
        }
        qb_context_free(f.context);
        qb_engine_free(f.engine);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]); /* whatever came before */
    qb_graph_free(f.graph);
}

static void quantize(fixture *f, int32_t id, qb_dtype dtype, float step, int32_t zero_point) {
    qb_value *value = &f->graph->values[id];
    float *scale = qb_arena_alloc(&f->cx, f->graph->arena, 1, sizeof *scale);
    int32_t *zero = qb_arena_alloc(&f->cx, f->graph->arena, 1, sizeof *zero);
    *scale = step;
    *zero = zero_point;
    value->dtype = dtype;
    value->q = (qb_qparams){.n = 1, .dtype = dtype, .axis = -1, .scale = scale, .zero = zero};
}

static void quantize_weight(fixture *f, int32_t id) {
    qb_value *value = &f->graph->values[id];
    const int64_t n = qb_shape_count(&value->shape);
    int8_t *integers = qb_arena_alloc(&f->cx, f->graph->arena, (size_t)n, 1);
    for (int64_t i = 0; i < n; i++)
        integers[i] = (int8_t)lrintf(((const float *)value->data)[i] * 100);
    value->data = integers;
    value->bytes = (size_t)n;
    quantize(f, id, QB_DTYPE_S8, 0.01F, 0);
}

/* Products of quantized values; the sum of what they make stays in float. */
static void quantize_experts(fixture *f) {
    quantize(f, f->graph->inputs[0], QB_DTYPE_U8, 1 / 100.0F, 128);
    for (int32_t i = 0; i < f->graph->n_nodes; i++) {
        const qb_node *it = &f->graph->nodes[i];
        const char *op = it->op->name;
        const bool is_product = strcmp(op, "MatMul") == 0;
        if (is_product) quantize_weight(f, it->in[1]);
        if (it->out[0] == qb_graph_find_value(f->graph, "x2") || strcmp(op, "Gather") == 0)
            quantize(f, it->out[0], QB_DTYPE_U8, 1 / 100.0F, 128);
        else if (strcmp(op, "Relu") == 0)
            quantize(f, it->out[0], QB_DTYPE_U8, 0.05F, 0);
        else if (is_product && strncmp(f->graph->values[it->out[0]].name, "made", 4) == 0)
            quantize(f, it->out[0], QB_DTYPE_U8, MADE_STEP, 120);
    }
}

/* The definitions, each result rounded as the graph says. */
static void run_rounded(fixture *f, feed *to) {
    qb_graph *floats;
    assert_ok(&f->cx, qb_graph_dequantize(&f->cx, f->graph, &floats));
    fix_inputs(f, floats, to);
    for (int32_t i = 0; i < floats->n_nodes; i++) {
        assert_ok(&f->cx, qb_graph_evaluate_node(&f->cx, floats, i, SIZE_MAX, NULL));
        qb_node_round(f->graph, i, floats);
    }
    memcpy(to->y, floats->values[floats->outputs[0]].data, sizeof to->y);
    qb_graph_free(floats);
}

/* Integers in kernels and by definition: up to a step where a sum lies between two. */
static void quantized_experts_are_rounded(void **state) {
    (void)state;
    enum { FEEDS = 3 };
    static const int rows[FEEDS][EXPERTS] = {{32, 40, 24}, {90, 2, 0}, {1, 1, 1}};
    static feed to;
    static float out[ROWS * WIDTH], of_file[ROWS * WIDTH];
    const qb_build_spec spec = {.threads = 2};
    const qb_engine_origin origin = {0};
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    fixture f, file = {0};
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.qbe");
    qb_ctx_init(&file.cx);
    make_experts(&f);
    quantize_experts(&f);
    assert_ok(&f.cx, qb_engine_build(&f.cx, f.graph, &spec, &f.engine));
    assert_ok(&f.cx, qb_context_create(&f.cx, f.engine, &f.context));
    assert_ok(&f.cx, qb_engine_save(&f.cx, f.engine, &origin, path));
    assert_ok(&file.cx, qb_engine_load(&file.cx, path, &file.engine));
    assert_ok(&file.cx, qb_context_create(&file.cx, file.engine, &file.context));
    for (int i = 0; i < FEEDS; i++) {
        int other = 0;
        draw(&to, rows[i]);
        for (int k = 0; k < ROWS * WIDTH; k++) to.x[k] = (float)lrintf(to.x[k] * 100) / 100;
        run_rounded(&f, &to);
        assert_ok(&f.cx,
                  qb_context_run(&f.cx, f.context, (const void *[]){to.x, to.g}, (void *[]){out}));
        for (int k = 0; k < ROWS * WIDTH; k++) {
            assert_true(fabsf(out[k] - to.y[k]) < MADE_STEP * 1.01F);
            other += fabsf(out[k] - to.y[k]) > 1e-4F;
        }
        assert_true(other < ROWS * WIDTH / 100);
        assert_ok(&file.cx, qb_context_run(&file.cx, file.context, (const void *[]){to.x, to.g},
                                           (void *[]){of_file}));
        assert_memory_equal(out, of_file, sizeof out);
    }
    release(&file);
    release(&f);
}

/* Values may ask for any size: what is made of it is refused by name, and not in a run. */
static void sizes_that_nothing_bounds_are_refused(void **state) {
    (void)state;
    fixture f;
    const qb_build_spec spec = {.threads = 1};
    const int32_t x = start(&f, N), size = node(&f, "ArgMax", "size", &x, 1);
    const int32_t zeros = node(&f, "ConstantOfShape", "zeros", &size, 1);
    assert_ok(&f.cx, qb_graph_add_output(&f.cx, f.graph, node(&f, "Cos", "ones", &zeros, 1)));
    assert_ok(&f.cx, qb_graph_infer(&f.cx, f.graph));
    assert_fails(&f.cx, qb_engine_build(&f.cx, f.graph, &spec, &f.engine), QB_STATUS_UNSUPPORTED);
    assert_message(&f.cx, "add --max-size ones=?, with your largest size for each ?");
    release(&f);
}

/* where = NonZero(Relu(x)), kept = Compress(x, x > 0.5), and an output of the planned part. */
static void save_one(fixture *f, const char *path, const qb_engine_origin *origin) {
    const qb_shape one = qb_shape_of(1, 1);
    const float half = 0.5F;
    const int32_t x = start(f, N), y = node(f, "Relu", "y", &x, 1);
    const int32_t limit = qb_graph_add_constant(&f->cx, f->graph, "h", QB_DTYPE_F32, &one, &half);
    const int32_t mask = node(f, "Greater", "mask", (int32_t[]){x, limit}, 2);
    const int32_t where = node(f, "NonZero", "where", &y, 1);
    const int32_t kept = node(f, "Compress", "kept", (int32_t[]){x, mask}, 2);
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, kept));
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, y));
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, where));
    build(f);
    assert_ok(&f->cx, qb_engine_save(&f->cx, f->engine, origin, path));
}

static void engine_files_have_it(void **state) {
    (void)state;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.qbe");
    for (int compatible = 0; compatible < 2; compatible++) {
        const qb_engine_origin origin = {.hardware_compatible = compatible == 1};
        fixture f;
        save_one(&f, path, &origin);
        qb_context_free(f.context);
        qb_engine_free(f.engine);
        f.context = NULL;
        f.engine = NULL;
        assert_ok(&f.cx, qb_engine_load(&f.cx, path, &f.engine));
        assert_ok(&f.cx, qb_context_create(&f.cx, f.engine, &f.context));
        assert_int_equal(qb_engine_n_outputs(f.engine), 3);
        assert_string_equal(qb_engine_output_name(f.engine, 0), "kept");
        assert_string_equal(qb_engine_output_name(f.engine, 1), "y");
        const qb_shape most = qb_shape_of(2, 1, N);
        assert_true(qb_shape_equal(&qb_engine_output(f.engine, 2)->shape, &most));
        const float input[N] = {-1, 2, 0.25F, 3, -4, 5};
        float kept[N], relu[N];
        int64_t where[N];
        const void *in[] = {input};
        void *out[] = {kept, relu, where};
        assert_ok(&f.cx, qb_context_run(&f.cx, f.context, in, out));
        assert_int_equal(rows_of(&f, 0), 3);
        assert_int_equal(rows_of(&f, 2), 4);
        assert_memory_equal(kept, ((float[N]){2, 3, 5}), sizeof kept);
        assert_memory_equal(where, ((int64_t[N]){1, 2, 3, 5}), sizeof where);
        for (int i = 0; i < N; i++) assert_true(relu[i] == (input[i] > 0 ? input[i] : 0));
        release(&f);
    }
}

/* Right hashes, another tail: each kind of damage is refused with a message. */
static void forged_tails_are_refused(void **state) {
    (void)state;
    fixture f;
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "x.qbe");
    save_one(&f, path, &(qb_engine_origin){0});
    qb_strbuf tail = {0};
    assert_ok(&f.cx, qb_file_tail_put(&f.cx, f.engine, &tail));
    qb_context_free(f.context); /* it runs the tail */
    f.context = NULL;
    qb_tail_free(f.engine->tail);
    f.engine->tail = NULL;
    for (size_t i = 0; i < tail.size; i++) {
        char *bytes = test_malloc(tail.size);
        memcpy(bytes, tail.data, tail.size);
        bytes[i] = (char)(bytes[i] ^ 0x55);
        if (qb_file_tail_get(&f.cx, "x", bytes, tail.size, f.engine) != QB_OK) {
            assert_true(f.cx.message[0] != '\0');
            assert_null(f.engine->tail);
        }
        qb_tail_free(f.engine->tail);
        f.engine->tail = NULL;
        qb_ctx_clear(&f.cx);
        if (i > 0) /* cut short */
            assert_fails(&f.cx, qb_file_tail_get(&f.cx, "x", tail.data, i, f.engine),
                         QB_STATUS_FORMAT);
        qb_ctx_clear(&f.cx);
        test_free(bytes);
    }
    const struct {
        size_t at;
        int32_t value;
        const char *says;
    } cases[] = {{0, -1, "ends too early"},
                 {0, 0, "no outputs"},
                 {4, 4, "largest sizes that are no text"},
                 {0, 1 << 30, "ends too early"},
                 {4, 1 << 30, "ends too early"},
                 {8, 3, "an output that is not there"},
                 {8, -3, "an output that is not there"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes = test_malloc(tail.size);
        memcpy(bytes, tail.data, tail.size);
        memcpy(bytes + cases[i].at, &cases[i].value, sizeof cases[i].value);
        assert_fails(&f.cx, qb_file_tail_get(&f.cx, "x", bytes, tail.size, f.engine),
                     QB_STATUS_FORMAT);
        assert_message(&f.cx, cases[i].says);
        qb_ctx_clear(&f.cx);
        test_free(bytes);
    }
    qb_strbuf_release(&tail);
    release(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nonzero_of_a_planned_value),
                                       cmocka_unit_test(boxes_are_those_that_were_counted),
                                       cmocka_unit_test(what_depends_on_it_follows),
                                       cmocka_unit_test(large_nodes_run_in_kernels),
                                       cmocka_unit_test(experts_take_what_comes),
                                       cmocka_unit_test(quantized_experts_are_rounded),
                                       cmocka_unit_test(sizes_that_nothing_bounds_are_refused),
                                       cmocka_unit_test(engine_files_have_it),
                                       cmocka_unit_test(forged_tails_are_refused)};
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
