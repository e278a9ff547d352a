/* Nodes whose sizes come with the data, in groups that can be planned once those sizes are there.
 *
 * A node is late where its own sizes are not known from its inputs' sizes (NonZero, Compress,
 * NonMaxSuppression ...): it runs by its definition. All other nodes that depend on the values of
 * the same late nodes are a group. Their sizes follow from those of the values that the group
 * reads, so that an engine can be planned for them. A node that brings together values which depend
 * on different ones is a group by itself: some of them may be empty. */
#ifndef QB_GRAPH_LATE_GROUPS_H
#define QB_GRAPH_LATE_GROUPS_H

#include "graph/graph.h"

typedef struct qb_late_group {
    int32_t *node; /* [n_nodes] its own, in the graph's order */
    int32_t *with; /* [n_with] others that compute sizes from sizes: a graph of the group has them,
                      too */
    int32_t *in;   /* [n_in] values that these read of others */
    int32_t *out;  /* [n_out] values of its own nodes that others read, or that the graph gives */
    int32_t n_nodes, n_with, n_in, n_out;
} qb_late_group;

typedef struct qb_late_step {
    int32_t node;  /* late; -1: a group */
    int32_t group; /* -1: a node */
} qb_late_step;

typedef struct qb_late_groups {
    qb_arena *arena;
    qb_late_step *step; /* [n_steps] in an order in which all can run */
    qb_late_group *group;
    int32_t n_steps, n_groups;
} qb_late_groups;

/* Of a swept graph without quantization whose inputs have known shapes. All nodes are late where
 * there are so many sizes that to tell them apart would take too much memory. */
qb_status qb_late_groups_find(qb_ctx *cx, const qb_graph *graph, qb_late_groups **out);
void qb_late_groups_free(qb_late_groups *groups); /* accepts NULL */

/* How much a group does for the sizes of now. */
typedef struct qb_late_extent {
    bool known;      /* all sizes follow, and no value is empty */
    double work;     /* multiplications, as by qb_node_work */
    double elements; /* of all inputs and outputs of its nodes */
    size_t largest;  /* bytes of its largest value */
} qb_late_extent;
/* `graph`: a copy of the one that was grouped, in which the values that the group reads have their
 * shapes, and data where they are late. Sets the shapes of the group's own values. */
qb_late_extent qb_late_group_measure(qb_ctx *cx, qb_graph *graph, const qb_late_group *group);

/* The group as a graph whose inputs have open dimensions. It shares the constants of `graph`, the
 * one that was grouped, or that with quantization, which must outlive it. Types and ranks of inputs
 * are those in `now`, a copy of it; inputs and outputs are in the group's order. Inputs whose
 * producer is in it are left out. */
qb_status qb_late_group_graph(qb_ctx *cx, const qb_graph *graph, const qb_late_group *group,
                              const qb_graph *now, qb_graph **out);
#endif
