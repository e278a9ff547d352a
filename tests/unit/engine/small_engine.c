#include "small_engine.h"

#include "base/rng.h"
#include "graph/op.h"

static int32_t constant(small_engine *f, const char *name, qb_shape shape, uint64_t seed) {
    float data[4096];
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (int64_t i = 0; i < qb_shape_count(&shape); i++)
        data[i] = (float)(qb_rng_uniform(&rng) - 0.5);
    return qb_graph_add_constant(&f->cx, f->graph, name, QB_DTYPE_F32, &shape, data);
}

static int32_t node(small_engine *f, const char *op, const char *name, const int32_t *in,
                    int32_t n) {
    const qb_shape unknown = {.rank = -1};
    int32_t out = qb_graph_add_value(&f->cx, f->graph, name, QB_DTYPE_NONE, &unknown);
    const int32_t id =
        qb_graph_add_node(&f->cx, f->graph, qb_op_find(op, ""), name, in, n, &out, 1);
    assert_true(id >= 0);
    return out;
}

/* Conv (weights larger than what is always kept), Relu, MatMul with a constant. */
static void make_graph(small_engine *f) {
    const qb_shape image = qb_shape_of(4, 2, 8, 6, 6);
    assert_ok(&f->cx, qb_graph_create(&f->cx, &f->graph));
    f->graph->name = f->graph->source = "small";
    f->graph->opset = QB_GRAPH_OPSET;
    const int32_t x = qb_graph_add_value(&f->cx, f->graph, "x", QB_DTYPE_F32, &image);
    assert_ok(&f->cx, qb_graph_add_input(&f->cx, f->graph, x));
    const int32_t w = constant(f, "w", qb_shape_of(4, 16, 8, 3, 3), 1);
    const int32_t conv = node(f, "Conv", "conv", (int32_t[]){x, w}, 2);
    const int32_t relu = node(f, "Relu", "relu", &conv, 1);
    const int32_t pool = node(f, "GlobalAveragePool", "pool", &relu, 1);
    const int32_t flat = node(f, "Flatten", "flat", &pool, 1);
    const int32_t m = constant(f, "m", qb_shape_of(2, 16, 5), 2);
    const int32_t y = node(f, "MatMul", "y", (int32_t[]){flat, m}, 2);
    assert_ok(&f->cx, qb_graph_add_output(&f->cx, f->graph, y));
    assert_ok(&f->cx, qb_graph_infer(&f->cx, f->graph));
}

void small_engine_make(small_engine *f, const char *backends) {
    *f = (small_engine){0};
    qb_ctx_init(&f->cx);
    make_graph(f);
    const qb_build_spec options = {.backends = backends, .threads = 2};
    assert_ok(&f->cx, qb_engine_build(&f->cx, f->graph, &options, &f->engine));
    qb_test_temp_dir(f->folder);
    qb_test_join(f->path, f->folder, "small.qbe");
}

void small_engine_release(small_engine *f) {
    qb_engine_free(f->engine);
    qb_graph_free(f->graph);
}

void small_engine_input(uint64_t seed, float *x) {
    qb_rng rng;
    qb_rng_seed(&rng, seed);
    for (int i = 0; i < SMALL_INPUTS; i++) x[i] = (float)qb_rng_normal(&rng);
}
