/* Fusion groups: the nodes that run as one step. The quantizer and the engine use the same
 * grouping, so a value that never reaches memory gets no scale.
 *
 * A value inside a group has its users in the group, is no graph output, is not marked `kept` and
 * carries no quantization parameters of its own. A group runs where its last node stands. What
 * becomes a group:
 *
 *   CONV, MATMUL     anchor [+ bias, MATMUL only] [+ residual] [activation], or with `act_first`
 *                    anchor [activation] + residual; the residual has the output's shape
 *                    (a rounding in front of the residual: none, qb_fuse_rounded_sums makes it)
 *   CONV_TRANSPOSE, BINARY   anchor [activation]
 *   SOFTMAX          alone, or with Where(IsNaN(s), 0, s)
 *   UNARY, POOL, CONCAT   alone
 *   CHAIN            none: qb_fuse_chains makes them of the others
 *   STRIDED_COPY     none: qb_fuse_views makes them of the others
 *   ATTENTION        none: the same, of a NODE whose heads lie in views
 *   CONV_POOL        none: an engine joins a CONV and the MaxPool that alone reads it
 *   NODE             the rest: computed biases of convolutions, a Gemm whose C is no constant row,
 * types other than f32 and quantized ones, per-channel activations ...
 *
 * x * Sigmoid(x) counts as one activation. */
#ifndef QB_GRAPH_FUSION_H
#define QB_GRAPH_FUSION_H

#include "graph/op.h"
#include "kernels/problem.h"

#define QB_GROUP_NODES 16

typedef struct qb_group {
    qb_kind kind;
    int32_t n_nodes;
    int32_t node[QB_GROUP_NODES]; /* node indices in order; node[0] is the anchor */
    int32_t n_in;
    int32_t *in; /* value ids in the order of qb_kind, -1 for absent ones (CONV and MATMUL: always
                    four, CONV_TRANSPOSE three); NODE: the node's own inputs */
    int32_t out; /* the value that reaches memory; NODE: the first output */
    qb_act act;
    bool act_first;
    qb_rounding rounding;      /* CONV, MATMUL: quantized values of an inner value */
    bool swaps_a, swaps_b;     /* MATMUL: an operand lies with its last two dimensions swapped */
    const qb_chain *chain;     /* CHAIN; in the arena of the groups */
    const qb_strided *strided; /* STRIDED_COPY; the same */
    const qb_attention *views; /* ATTENTION; the same */
} qb_group;

typedef struct qb_groups {
    int32_t n;
    qb_group *group; /* in execution order; every node is in exactly one group */
    qb_arena *arena;
} qb_groups;

qb_status qb_fuse(qb_ctx *cx, const qb_graph *graph, qb_groups *out);
void qb_groups_release(qb_groups *groups);

/* One group as a graph of its own: its inputs that are not constant are the graph's, and so are all
 * outputs of its last node. Constants are copied. UNSUPPORTED for a group without such an input. */
qb_status qb_group_extract(qb_ctx *cx, const qb_graph *graph, const qb_group *group,
                           qb_graph **out);

/* Does whoever asks have a kernel for it? */
typedef bool (*qb_chain_filter)(const void *user, const qb_problem *problem);
/* Which inputs of such a problem are constants: weight and bias of a sum that is rounded before
 * (qb_fuse_rounded_sums); of others none is known to be one. */
const bool *qb_filter_constants(const qb_problem *problem);

/* Data and result of operators that only move elements get one form, quantized values where one of
 * both has them, with an Identity that converts before or behind; a Split becomes a Slice for each
 * part. Weights in quantized values become floats where their layer cannot compute with integers,
 * and so do all constants that other nodes compute with; what follows from constants alone is
 * computed (as much as QB_FOLD_LIMIT allows, once more). A group normalization in three nodes
 * becomes one, and a Concat that begins with all of another one begins with its result. The results
 * are the same. Shapes must be known. */
qb_status qb_finalize_moves(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* Convolutions and products whose quantized result is alone read by an Add become one group with it
 * wherever `accept` takes its problem: the result is rounded inside (qb_problem.rounding), so that
 * the sum is the same. Files of tools that quantize each operator for itself have a Q/DQ pair
 * there. Behind qb_fuse and in front of qb_fuse_chains. Shapes must be known. */
qb_status qb_fuse_rounded_sums(qb_ctx *cx, const qb_graph *graph, qb_chain_filter accept,
                               const void *user, qb_groups *groups);

/* Elementwise operators that follow each other become one group of kind CHAIN wherever `accept`
 * takes its problem: nodes with a function (qb_op_kernel.function) and groups BINARY and UNARY that
 * have the shape of the last one's result and are read by others of the chain alone. Quantized
 * values between them are rounded inside, so that the results are the same. A node without a kernel
 * of its own is a chain even when it is alone. Behind qb_fuse: what lies inside is gone. Shapes
 * must be known. `tables`: kernels look up what is computed of one 8-bit value alone, so such a
 * chain takes in nothing that would make it one of several values. */
qb_status qb_fuse_chains(qb_ctx *cx, const qb_graph *graph, qb_chain_filter accept,
                         const void *user, bool tables, qb_groups *groups);

/* Operators that only move elements (QB_TRAIT_VIEW, qb_op.strided), each read by the next alone,
 * become one group of kind STRIDED_COPY wherever they are one copy (qb_strided_compose) and
 * `accept` takes its problem. Several that read one that moves, too, each read what that one reads.
 * A product takes over the transposition of an operand that it alone reads, an attention whatever
 * copies make its heads and move those of its result. Behind qb_fuse. Shapes must be known. */
qb_status qb_fuse_views(qb_ctx *cx, const qb_graph *graph, qb_chain_filter accept, const void *user,
                        qb_groups *groups);

/* The elements of input 0 that a group of one node, or of kind STRIDED_COPY, moves to its result;
 * false: it does anything else. */
bool qb_group_strided(const qb_graph *graph, const qb_group *group, qb_strided *out);

/* Is it a depthwise convolution of one pixel on a model's own image, which is what the optimizer
 * makes of its normalization? That stays in floats: it prepares what is quantized. */
bool qb_group_prepares_image(const qb_graph *graph, const qb_group *group);

/* Marks as kept the values inside CONV groups, but for those that Relu and Clip read: what an
 * engine holds in memory that fuses a convolution with nothing but its clamp, as onnxruntime does.
 * Marks what the groups write, too: where shapes are open less can be fused than once they are
 * known, and these values are to be there all the same. */
qb_status qb_keep_inner(qb_ctx *cx, qb_graph *graph);

/* Products of 8-bit integers with a cast, dynamic scales and a bias behind them, each read by the
 * next alone, become one MatMulIntegerToFloat. What vanishes is as below. Shapes must be known. */
qb_status qb_fuse_integers(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);
/* Convolutions of 8-bit integers behind a cast, and Q/DQ pairs of 16 bits, become operators on
 * floats. Shapes must be known. */
qb_status qb_fuse_floats(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* ScatterND of known indices that count through a box becomes the updates with padding around them
 * where the box is, and the data elsewhere (Pad and Where); the updates alone where the box is all
 * of the data. */
qb_status qb_fuse_boxes(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* Two constant terms that are added to a value with views before and behind the second one become
 * one of the value's shape, of at most 2^22 elements: sums are rounded in another order. What
 * vanishes is as below. */
qb_status qb_fuse_terms(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* Concat(x[k:], x[:k]) along an axis becomes a Pad that wraps around, several of them one. For
 * engines: other readers of ONNX take a Pad that removes and wraps another way. What vanishes is as
 * below. */
qb_status qb_fuse_rolls(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* RMS normalization written as squares, a mean and a root becomes RMSNormalization. For engines:
 * the operator is of opset 23. What vanishes is as below. */
qb_status qb_fuse_rms_norms(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* The same, and group normalization written with InstanceNormalization between Reshapes becomes
 * GroupNormalization, with factors and terms of channels behind it. What vanishes is as below. */
qb_status qb_fuse_norms(qb_ctx *cx, qb_graph *graph, int32_t *n_changes);

/* Attention written as MatMul, Softmax and MatMul, with what splits and joins heads around them,
 * becomes one Attention node wherever `accept` takes its problem (as qb_node_problem poses it). For
 * engines that have a kernel for it: the values inside are gone, so that nobody can observe them.
 * Those that are marked `kept` or carry parameters of their own stay, and so does the pattern
 * around them. Shapes must be known. */
typedef bool (*qb_problem_filter)(const void *user, const qb_problem *problem);
qb_status qb_fuse_attention(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                            int32_t *n_changes);

/* TopK of floats becomes the places of the first elements and a GatherElements of what lies there,
 * and a MaxPool that tells places becomes two, one of which tells them alone, where `accept` takes
 * the problem of the places. Shapes must be known. */
qb_status qb_fuse_order(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                        int32_t *n_changes);

/* Resize of floats, where `accept` does not take its problem, and AffineGrid become products with
 * constants: both are linear in their data. Shapes must be known. */
qb_status qb_fuse_linear(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                         int32_t *n_changes);

/* Where queries, keys and values of an Attention are each a product of one value with a constant
 * weight [and a bias], they become one product with a Split behind it, if `accept` takes the
 * Attention's problem of views of that product. What vanishes is as above. */
qb_status qb_fuse_products(qb_ctx *cx, qb_graph *graph, qb_problem_filter accept, const void *user,
                           int32_t *n_changes);
/* The same in a graph whose shapes may be open, wherever it is done in `bound`, which is the graph
 * with known shapes and with its attention fused: products are found by the names of what they
 * make. Whoever reads these beside the attention goes on doing so. */
qb_status qb_fuse_products_as(qb_ctx *cx, qb_graph *graph, const qb_graph *bound,
                              qb_problem_filter accept, const void *user, int32_t *n_changes);

/* The kernel problem of a group in a graph whose shapes are known; `in` (QB_MAX_INPUTS entries)
 * becomes problem->in. Layouts are ROW, a bias is [n], and integer data beside a float weight count
 * as f32 (the caller converts them). Not for NODE. */
qb_status qb_group_problem(qb_ctx *cx, const qb_graph *graph, const qb_group *group, qb_desc *in,
                           qb_problem *problem);

/* The problem that a node of a group of kind NODE poses, where it is one of the kinds behind COPY:
 * the first problem->n_in inputs of the node, its only output, layouts ROW. RECURRENT has all
 * outputs of the node, and is in dequantized values whatever the graph's quantized values are.
 * False when it is none. `in` as above. Shapes must be known. */
bool qb_node_problem(const qb_graph *graph, const qb_node *node, qb_desc *in, qb_problem *problem);
#endif
