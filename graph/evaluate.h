/* Running a graph node by node by the operators' definitions, and the part of a graph that cannot
 * run otherwise. */
#ifndef QB_GRAPH_EVALUATE_H
#define QB_GRAPH_EVALUATE_H

#include "graph/graph.h"

/* The value becomes a constant of the tensor's type and shape; the bytes are copied. */
qb_status qb_graph_fix(qb_ctx *cx, qb_graph *graph, int32_t value, const qb_tensor *tensor);

/* May run a node instead of its definition: all inputs have data, all outputs memory. *done stays
 * false where it leaves the node to the definition. */
typedef struct qb_node_runner {
    qb_status (*run)(qb_ctx *cx, void *user, const qb_graph *graph, int32_t node,
                     const qb_tensor *in, const qb_tensor *out, bool *done);
    void *user;
} qb_node_runner;

/* Evaluates all nodes of a sorted graph whose inputs are constant: every value becomes one. So all
 * shapes are known in time, those that depend on values, too. Memory is the graph's. Errors name
 * the node; QB_STATUS_UNSUPPORTED where a value would take more than `most` bytes. `runner` NULL:
 * everything by the definitions. */
qb_status qb_graph_evaluate(qb_ctx *cx, qb_graph *graph, size_t most, const qb_node_runner *runner);

/* The node alone, of a swept graph, which must outlive it: it shares the constants; other inputs,
 * of the tensors' types and shapes, are inputs of *out, in their order and each once. */
qb_status qb_graph_isolate(qb_ctx *cx, const qb_graph *graph, int32_t node, const qb_tensor *in,
                           qb_graph **out);

/* A graph in two: what can be planned for these input shapes, and the nodes behind it whose sizes
 * only a run knows (those of NonZero, NonMaxSuppression, Unique, Compress, of TopK with a computed
 * k ...) and what depends on them. */
typedef struct qb_graph_split {
    qb_graph *head; /* of open shapes; outputs: those of the graph that it has, then what the tail
                       reads */
    qb_graph *tail; /* without quantization; inputs: outputs of the head and inputs of the graph, by
                       their names */
    int32_t *output; /* [n_outputs of the graph] number among the head's outputs, or -1 - number
                        among the tail's */
} qb_graph_split;
/* *out is zeroed where all sizes are known or the shapes do not fit (which is then for
 * qb_graph_bind to tell). `graph` must outlive the parts. */
qb_status qb_graph_split_at_sizes(qb_ctx *cx, const qb_graph *graph, const qb_shape *input_shapes,
                                  qb_graph_split *out);
void qb_graph_split_release(qb_graph_split *split); /* accepts zeroed */

/* Largest shapes of a tail's outputs, from those of its inputs: operators tell theirs
 * (qb_op.bound), others are inferred from the largest inputs; where nothing tells, as many elements
 * as the largest input has. What values make as large as they like, and what is made of it, stays
 * open. Sets the shapes of `tail` and leaves them there. most[n_values] (NULL: none): what somebody
 * knows of values, rank -1 where nothing, counts instead. */
qb_status qb_graph_bound(qb_ctx *cx, qb_graph *tail, const qb_shape *most);

/* most[n_values] from "NAME=N,NAME=AxBxC": N is the size of the one dimension of the value that is
 * open, or its elements where their number is open. QB_STATUS_USAGE for a value whose size is known
 * and for what cannot be read. */
qb_status qb_graph_parse_most(qb_ctx *cx, const qb_graph *graph, const char *text, qb_shape *most);

#endif
