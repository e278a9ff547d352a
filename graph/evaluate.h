/* Running a graph node by node by the operators' definitions, and the part of a graph that cannot
 * run otherwise. */
#ifndef QB_GRAPH_EVALUATE_H
#define QB_GRAPH_EVALUATE_H

#include "graph/graph.h"

/* The value becomes a constant of the tensor's type and shape; the bytes are copied. */
qb_status qb_graph_fix(qb_ctx *cx, qb_graph *graph, int32_t value, const qb_tensor *tensor);

/* Evaluates all nodes of a sorted graph whose inputs are constant: every value becomes one. So all
 * shapes are known in time, those that depend on values, too. Memory is the graph's. Errors name
 * the node; QB_STATUS_UNSUPPORTED where a value would take more than `most` bytes. */
qb_status qb_graph_evaluate(qb_ctx *cx, qb_graph *graph, size_t most);
/* Memory for a value that lasts beyond the graph: whoever evaluates copies of a graph again and
 * again has one for each value, zeroed at first, and frees `data`. */
typedef struct qb_value_memory {
    void *data;
    size_t bytes;
} qb_value_memory;
/* At least so many bytes in `data`; what was there is lost. */
qb_status qb_value_memory_reserve(qb_ctx *cx, qb_value_memory *memory, size_t bytes);
/* One node in the same way; its outputs lie in memory[n_values], or in the graph where that is NULL
 * or the size of an output follows from its result. */
qb_status qb_graph_evaluate_node(qb_ctx *cx, qb_graph *graph, int32_t node, size_t most,
                                 qb_value_memory *memory);

/* A graph in two: what can be planned for these input shapes, and the nodes behind it whose sizes
 * only a run knows (those of NonZero, NonMaxSuppression, Unique, Compress, of TopK with a computed
 * k ...) and what depends on them. */
typedef struct qb_graph_split {
    qb_graph *head;  /* of open shapes; outputs: those of the graph that it has, then what the tail
                        reads */
    qb_graph *tail;  /* inputs: outputs of the head and inputs of the graph, by their names */
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
/* Are a node's outputs within them, in a copy that has the sizes of a run? NULL: nothing is told.
 */
qb_status qb_graph_check_most(qb_ctx *cx, const qb_graph *graph, int32_t node,
                              const qb_shape *most);

#endif
