#include "small_run.h"

#include <hdf5.h>
#include <stdlib.h>

#include "base/rng.h"

#define PIXELS ((size_t)RUN_IMAGES * RUN_SIDE * RUN_SIDE * 3)

void run_pixels(uint8_t *pixel) {
    qb_rng rng;
    qb_rng_seed(&rng, 77);
    for (size_t i = 0; i < PIXELS; i++) pixel[i] = (uint8_t)qb_rng_below(&rng, 256);
}

static void write_set(hid_t file, const char *name, int rank, const hsize_t *dims,
                      const uint8_t *data) {
    hid_t space = H5Screate_simple(rank, dims, NULL);
    hid_t set = H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

void run_images(char *path) {
    char folder[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "images.h5");
    uint8_t *pixel = malloc(PIXELS), label[RUN_IMAGES];
    run_pixels(pixel);
    for (int i = 0; i < RUN_IMAGES; i++) label[i] = (uint8_t)(i % 4);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    const hsize_t dims[4] = {RUN_IMAGES, RUN_SIDE, RUN_SIDE, 3};
    write_set(file, "images", 4, dims, pixel);
    write_set(file, "labels", 1, dims, label);
    H5Fclose(file);
    free(pixel);
}

qb_dataset *run_dataset(qb_ctx *cx) {
    char path[QB_TEST_PATH];
    qb_dataset *dataset;
    run_images(path);
    assert_ok(cx, qb_dataset_open(cx, path, &(qb_dataset_options){0}, &dataset));
    return dataset;
}

qb_loader_options run_loader(const qb_dataset *dataset, int32_t batch, int32_t threads) {
    qb_loader_options options = {.dataset = dataset,
                                 .height = RUN_SIDE,
                                 .width = RUN_SIDE,
                                 .batch = batch,
                                 .threads = threads,
                                 .prefetch = 2};
    qb_preprocess_default(&options.preprocess);
    return options;
}

static int32_t add(qb_ctx *cx, qb_graph *graph, const char *op, const char *name, const int32_t *in,
                   int32_t n_in) {
    const qb_shape unknown = {.rank = -1};
    int32_t out = qb_graph_add_value(cx, graph, name, QB_DTYPE_NONE, &unknown);
    assert_true(out >= 0);
    assert_true(qb_graph_add_node(cx, graph, qb_op_find(op, ""), name, in, n_in, &out, 1) >= 0);
    return out;
}

#define ADD(op, name, ...)                                                                         \
    add(cx, graph, (op), (name), (int32_t[]){__VA_ARGS__},                                         \
        (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))

static int32_t random_constant(qb_ctx *cx, qb_graph *graph, const char *name, qb_shape shape,
                               double size) {
    qb_rng rng;
    qb_rng_seed(&rng, (uint64_t)name[0] * 256 + (uint64_t)name[1]);
    const int64_t n = qb_shape_count(&shape);
    float *data = malloc((size_t)n * sizeof *data);
    for (int64_t i = 0; i < n; i++) data[i] = (float)(qb_rng_normal(&rng) * size);
    int32_t id = qb_graph_add_constant(cx, graph, name, QB_DTYPE_F32, &shape, data);
    free(data);
    return id;
}

static int32_t add_named_input(qb_ctx *cx, qb_graph *graph, const char *name, qb_dtype dtype,
                               qb_shape shape) {
    int32_t id = qb_graph_add_value(cx, graph, name, dtype, &shape);
    assert_ok(cx, qb_graph_add_input(cx, graph, id));
    return id;
}

static int32_t add_input(qb_ctx *cx, qb_graph *graph, int64_t side) {
    const qb_shape shape = {4, {qb_graph_add_symbol(cx, graph, "N"), 3, side, side}};
    return add_named_input(cx, graph, "image", QB_DTYPE_F32, shape);
}

static qb_graph *finish(qb_ctx *cx, qb_graph *graph, int32_t output) {
    assert_ok(cx, qb_graph_add_output(cx, graph, output));
    assert_ok(cx, qb_graph_infer(cx, graph));
    graph->hash = qb_hash_bytes("small", 5);
    return graph;
}

/* Down to a value a channel. */
static int32_t add_convs(qb_ctx *cx, qb_graph *graph, int32_t x) {
    int32_t w1 = random_constant(cx, graph, "w1", qb_shape_of(4, 8, 3, 3, 3), 0.01);
    int32_t b1 = random_constant(cx, graph, "b1", qb_shape_of(1, 8), 0.5);
    int32_t w2 = random_constant(cx, graph, "w2", qb_shape_of(4, 8, 8, 1, 1), 0.3);
    int32_t a = ADD("Relu", "a", ADD("Conv", "c1", x, w1, b1));
    int32_t r = ADD("Relu", "r", ADD("Add", "s", ADD("Conv", "c2", a, w2), a));
    return ADD("GlobalMaxPool", "p", r);
}

qb_graph *run_graph(qb_ctx *cx, int64_t side) {
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    int32_t f = ADD("Flatten", "f", add_convs(cx, graph, add_input(cx, graph, side)));
    int32_t wd = random_constant(cx, graph, "wd", qb_shape_of(2, 8, 4), 0.3);
    return finish(cx, graph, ADD("Softmax", "y", ADD("Gemm", "logits", f, wd)));
}

qb_graph *run_convs(qb_ctx *cx, int64_t batch) {
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    const int64_t n = batch > 0 ? batch : qb_graph_add_symbol(cx, graph, "N");
    const qb_shape shape = {4, {n, 3, RUN_SIDE, RUN_SIDE}};
    int32_t x = add_named_input(cx, graph, "image", QB_DTYPE_F32, shape);
    return finish(cx, graph, add_convs(cx, graph, x));
}

qb_graph *run_tokens(qb_ctx *cx) {
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    const int64_t n = qb_graph_add_symbol(cx, graph, "N"), l = qb_graph_add_symbol(cx, graph, "L");
    int32_t ids = add_named_input(cx, graph, "ids", QB_DTYPE_S64, (qb_shape){2, {n, l}});
    int32_t shift = add_named_input(cx, graph, "shift", QB_DTYPE_F32, (qb_shape){3, {n, l, 8}});
    int32_t rows = random_constant(cx, graph, "rows", qb_shape_of(2, 16, 8), 1);
    int32_t wd = random_constant(cx, graph, "wd", qb_shape_of(2, 8, 4), 0.3);
    int32_t sum = ADD("Add", "sum", ADD("Gather", "found", rows, ids), shift);
    return finish(cx, graph, ADD("Relu", "y", ADD("MatMul", "m", sum, wd)));
}

qb_graph *run_unions(qb_ctx *cx, int64_t side) {
    static const int64_t flat[] = {0, -1};
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    int32_t x = add_input(cx, graph, side);
    int32_t w1 = random_constant(cx, graph, "w1", qb_shape_of(4, 4, 3, 1, 1), 0.01);
    int32_t w2 = random_constant(cx, graph, "w2", qb_shape_of(4, 2, 3, 1, 1), 0.01);
    int32_t a = ADD("Relu", "a", ADD("Conv", "c1", x, w1)), b = ADD("Conv", "b", x, w2);
    int32_t joined = ADD("Concat", "joined", a, b, a);
    qb_axis_attrs *axis = graph->nodes[graph->n_nodes - 1].attrs;
    axis->axis = 1;
    int32_t more = ADD("Concat", "more", joined, x);
    axis = graph->nodes[graph->n_nodes - 1].attrs;
    axis->axis = 1;
    const qb_shape two = qb_shape_of(1, 2);
    int32_t form = qb_graph_add_constant(cx, graph, "form", QB_DTYPE_S64, &two, flat);
    int32_t transposed = ADD("Transpose", "turned", more);
    int32_t long_one = ADD("Reshape", "long", ADD("Identity", "same", transposed), form);
    return finish(cx, graph, ADD("Softmax", "y", long_one));
}

qb_graph *run_unary(qb_ctx *cx, const char *op) {
    qb_graph *graph;
    assert_ok(cx, qb_graph_create(cx, &graph));
    int32_t x = add_input(cx, graph, RUN_SIDE);
    return finish(cx, graph, ADD(op, "y", x));
}
