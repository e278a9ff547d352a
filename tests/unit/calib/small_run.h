/* A small data set and a small model, for tests that run calibration. */
#ifndef SMALL_RUN_H
#define SMALL_RUN_H

#include "calib/calib.h"
#include "graph/op.h"
#include "qb_test.h"

#define RUN_IMAGES 21
#define RUN_SIDE 8

/* Writes an HDF5 data set of seeded RGB images with labels; `path` (QB_TEST_PATH) is where. */
void run_images(char *path);
/* The same, open. */
qb_dataset *run_dataset(qb_ctx *cx);
/* Pixel values that run_dataset wrote: RUN_IMAGES x RUN_SIDE x RUN_SIDE x 3. */
void run_pixels(uint8_t *pixel);
qb_loader_options run_loader(const qb_dataset *dataset, int32_t batch, int32_t threads);

/* Conv + Relu, Conv + Add + Relu, MaxPool, Flatten, Gemm, Softmax on [N, 3, side, side]. */
qb_graph *run_graph(qb_ctx *cx, int64_t side);
/* The convolutions of it alone, as far as the pool; `batch` 0: N is open. */
qb_graph *run_convs(qb_ctx *cx, int64_t batch);
/* ids s64 [N, L] -> Gather in a table of 16 rows of 8, plus shift f32 [N, L, 8], MatMul, Relu: L
 * and N are open. */
qb_graph *run_tokens(qb_ctx *cx);
/* Values that are made of others: Concat (with one value twice, and of a Concat), Transpose,
 * Identity, Reshape. */
qb_graph *run_unions(qb_ctx *cx, int64_t side);
/* A graph of one operator behind the input. */
qb_graph *run_unary(qb_ctx *cx, const char *op);

#endif
