/* What FP16 steps may be off by when an engine with a range runs them, value by value: at the usual
 * shapes, where a library's algorithm was timed, and at others, where it is the library's first
 * choice. Skips without a device. */
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "bench_ranges.h"
#include "graph/op.h"
#include "kernels/cuda/common/device.h"
#include "qb_test.h"

#define SAMPLES 4000 /* values of each result that are computed here, too */

/* Not negative and with 11 bits, so that neither rounding of what goes in nor cancellation hides
 * what sums do. */
static float draw(qb_rng *rng) { return (float)qb_rng_below(rng, 2048) * 0x1p-11f; }

/* One product with a constant: the sum over `depth` of a value of x and one of w, for each value of
 * the result. */
typedef struct product {
    const char *op;
    qb_shape x, w; /* sizes -1 of x are open */
    int64_t depth;
    bench_range range;
    qb_shape other[3];
    /* Where term k of value i of the result lies in x (of the shape) and w. */
    void (*term)(const qb_shape *x, int64_t i, int64_t k, int64_t *at_x, int64_t *at_w);
} product;

enum { DEPTH = 1024, WIDTH = 256, CHANNELS = 64 };

static void matmul_term(const qb_shape *x, int64_t i, int64_t k, int64_t *at_x, int64_t *at_w) {
    (void)x;
    *at_x = i / WIDTH * DEPTH + k;
    *at_w = k * WIDTH + i % WIDTH;
}

/* 3 x 3 without a border. */
static void conv_term(const qb_shape *x, int64_t i, int64_t k, int64_t *at_x, int64_t *at_w) {
    const int64_t h = x->dim[2], w = x->dim[3], out_w = w - 2, plane = (h - 2) * out_w;
    const int64_t image = i / plane / CHANNELS, out = i / plane % CHANNELS;
    const int64_t row = i % plane / out_w + k % 9 / 3, column = i % out_w + k % 3;
    *at_x = ((image * CHANNELS + k / 9) * h + row) * w + column;
    *at_w = out * CHANNELS * 9 + k;
}

#define S(RANK, ...)                                                                               \
    {                                                                                              \
        .rank = RANK, .dim = { __VA_ARGS__ }                                                       \
    }

static const product products[] = {
    {.op = "MatMul",
     .x = S(3, -1, -1, DEPTH),
     .w = S(2, DEPTH, WIDTH),
     .depth = DEPTH,
     .range = {S(3, 1, 1, DEPTH), S(3, 1, 128, DEPTH), S(3, 8, 256, DEPTH)},
     .other = {S(3, 1, 16, DEPTH), S(3, 1, 200, DEPTH), S(3, 3, 77, DEPTH)},
     .term = matmul_term},
    {.op = "Conv",
     .x = S(4, -1, CHANNELS, -1, -1),
     .w = S(4, CHANNELS, CHANNELS, 3, 3),
     .depth = CHANNELS * 9,
     .range = {S(4, 1, CHANNELS, 8, 8), S(4, 8, CHANNELS, 56, 56), S(4, 16, CHANNELS, 64, 64)},
     .other = {S(4, 3, CHANNELS, 14, 14), S(4, 5, CHANNELS, 56, 31), S(4, 1, CHANNELS, 64, 9)},
     .term = conv_term},
};

static qb_graph *make_graph(qb_ctx *cx, const product *p, const float *w) {
    static const char *const symbols[] = {"N", "A", "B"};
    const qb_shape unknown = {.rank = -1};
    qb_graph *graph;
    qb_shape shape = p->x;
    int32_t next = 0;
    assert_ok(cx, qb_graph_create(cx, &graph));
    graph->name = graph->source = p->op;
    graph->opset = QB_GRAPH_OPSET;
    for (int32_t d = 0; d < shape.rank; d++)
        if (shape.dim[d] < 0) shape.dim[d] = qb_graph_add_symbol(cx, graph, symbols[next++]);
    const int32_t in[] = {qb_graph_add_value(cx, graph, "x", QB_DTYPE_F32, &shape),
                          qb_graph_add_constant(cx, graph, "w", QB_DTYPE_F32, &p->w, w)};
    const int32_t y = qb_graph_add_value(cx, graph, "y", QB_DTYPE_NONE, &unknown);
    assert_ok(cx, qb_graph_add_input(cx, graph, in[0]));
    assert_true(qb_graph_add_node(cx, graph, qb_op_find(p->op, ""), p->op, in, 2, &y, 1) >= 0);
    assert_ok(cx, qb_graph_add_output(cx, graph, y));
    assert_ok(cx, qb_graph_infer(cx, graph));
    return graph;
}

/* Factors are exact in FP16 and their products in float. A float sum of n terms that are not
 * negative is off by at most n 2^-23 of itself, in any order, rounded or cut (each of n additions
 * is, by one unit in the last place of a partial sum that is no larger). Storing it with 11 bits
 * adds 2^-11 of it. Sums that are kept in FP16 on their way, as a library may offer, are not within
 * that. */
static double bound(const product *p, double exact) {
    const double sum = (double)p->depth * 0x1p-23;
    return exact * (sum + 0x1p-11 * (1 + sum));
}

static bool is_within(qb_ctx *cx, const product *p, const float *w, qb_context *context,
                      const qb_shape *shape) {
    char text[96];
    double worst = 0;
    qb_rng rng;
    assert_ok(cx, qb_context_set_shapes(cx, context, shape));
    const qb_engine *plan = qb_context_engine(context);
    const int64_t n_in = qb_shape_count(shape),
                  n_out = qb_shape_count(&qb_engine_output(plan, 0)->shape);
    float *x = qb_alloc(cx, (size_t)n_in, sizeof *x), *y = qb_alloc(cx, (size_t)n_out, sizeof *y);
    assert_true(x && y);
    qb_rng_seed(&rng, 8);
    for (int64_t i = 0; i < n_in; i++) x[i] = draw(&rng);
    assert_ok(cx, qb_context_run(cx, context, (const void *[]){x}, (void *[]){y}));
    for (int64_t s = 0; s < SAMPLES; s++) {
        const int64_t i = (int64_t)qb_rng_below(&rng, (uint64_t)n_out);
        double exact = 0;
        for (int64_t k = 0; k < p->depth; k++) {
            int64_t at_x, at_w;
            p->term(shape, i, k, &at_x, &at_w);
            exact += (double)x[at_x] * (double)w[at_w];
        }
        worst = fmax(worst, fabs((double)y[i] - exact) / bound(p, exact));
    }
    for (int32_t s = 0; s < qb_engine_n_steps(plan); s++) {
        qb_step_info info;
        qb_engine_step(plan, s, &info);
        if (info.flops > 0)
            printf("%s at %s: %.3f of the bound, by %s\n", p->op,
                   qb_shape_text(shape, text, sizeof text), worst, info.tactic);
    }
    qb_free(x);
    qb_free(y);
    return worst <= 1;
}

static void sums_keep_to_their_bound_at_every_shape(void **state) {
    (void)state;
    if (qb_cuda_count() == 0) qb_test_skip("no CUDA device on this machine");
    static qb_ctx cx;
    bool good = true;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const product *p = &products[i];
        const qb_build_spec options = {.backends = "cuda", .float_type = QB_DTYPE_F16};
        const int64_t n = qb_shape_count(&p->w);
        float *w = qb_alloc(&cx, (size_t)n, sizeof *w);
        qb_rng rng;
        qb_engine *engine;
        qb_context *context;
        assert_non_null(w);
        qb_rng_seed(&rng, 7);
        for (int64_t k = 0; k < n; k++) w[k] = draw(&rng);
        qb_graph *graph = make_graph(&cx, p, w);
        assert_ok(&cx, bench_build_ranges(&cx, graph, &p->range, 1, options, &engine));
        assert_ok(&cx, qb_context_create(&cx, engine, &context));
        good = is_within(&cx, p, w, context, &p->range.opt) && good;
        good = is_within(&cx, p, w, context, &p->range.min) && good;
        good = is_within(&cx, p, w, context, &p->range.max) && good;
        for (int o = 0; o < 3; o++) good = is_within(&cx, p, w, context, &p->other[o]) && good;
        qb_context_free(context);
        qb_engine_free(engine);
        qb_graph_free(graph);
        qb_free(w);
    }
    assert_true(good);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_keep_to_their_bound_at_every_shape)};

QB_TEST_MAIN(tests)
