/* Graphs of one node from text, for the tests of infer and upgrade.
 *
 * Inputs, separated by blanks: "f32:N,3,8,8" (N, M, K are symbols, ? is unknown, "f32:" is a
 * scalar, "f32:*" has no known rank), "=1,-2" a constant list of int64, "=f32:0.5,2" a constant
 * list of a type, "-" left out. Attributes: "axis=1 pads=0,0,1,1 mode=edge". */
#ifndef QB_OP_TEXT_H
#define QB_OP_TEXT_H

#include "qb_test.h"

#include "graph/op.h"

/* A new graph with the one node (index 0); fails the test when the text is wrong. Attributes that
 * are not given hold the defaults of opset `version`. */
qb_graph *graph_of(const char *op, const char *inputs, const char *attrs, int32_t n_out,
                   int32_t version);
/* "N,3,8,8" as above into text[n]. */
char *dims_text(const qb_shape *shape, char *text, size_t n);
/* Runs all nodes in order through infer and eval; every input must be constant. */
qb_status evaluate_graph(qb_ctx *cx, qb_graph *graph);
/* Makes value `id` a constant float tensor 0, 1, 2, ... of the given shape. */
void count_up(qb_graph *graph, int32_t id, qb_shape shape);

#endif
