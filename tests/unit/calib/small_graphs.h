/* Small models for the images of small_run.h, and of other inputs. */
#ifndef SMALL_GRAPHS_H
#define SMALL_GRAPHS_H

#include "graph/op.h"

#define RUN_SIDE 8 /* of those images */

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
