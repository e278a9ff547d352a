/* The layers of a graph by their channels: nodes that multiply data by a constant weight (Conv,
 * ConvTranspose, Gemm, MatMul), seen alike whatever the order of the weight's elements. For whoever
 * changes weights and biases without changing what the graph is. */
#ifndef QB_GRAPH_LAYER_H
#define QB_GRAPH_LAYER_H

#include "graph/op.h"

/* Element (group g, output channel o of it, input channel i of it, tap k) of the weight is number
 * g group_stride + o out_stride + i in_stride + k. */
typedef struct qb_layer {
    int32_t node;
    qb_kind kind;                /* CONV, CONV_TRANSPOSE or MATMUL */
    int64_t groups, n_out, n_in; /* n_out and n_in: channels of a group */
    int64_t taps;                /* of the window; 1 for a product */
    int64_t group_stride, out_stride, in_stride;
    int32_t data_axis, out_axis; /* of the channels, in data and result */
    const float *weight;
    int32_t bias_node, bias_input; /* where a constant bias [channels] is added: the layer itself,
                                      or the Add that alone reads it; -1: there is none */
    bool takes_bias;               /* an input for one can be added to the layer */
} qb_layer;

/* False when the node is no layer of that kind: weight or bias unknown or quantized, data
 * transposed, scalars beside the product. */
bool qb_layer_of(const qb_graph *graph, const qb_uses *uses, int32_t node, qb_layer *out);
/* The same of a quantized layer: `weight` is NULL. */
bool qb_layer_of_quantized(const qb_graph *graph, const qb_uses *uses, int32_t node, qb_layer *out);
/* Number of its output and input channels, all groups together. */
static inline int64_t qb_layer_outputs(const qb_layer *l) { return l->groups * l->n_out; }
static inline int64_t qb_layer_inputs(const qb_layer *l) { return l->groups * l->n_in; }

/* The node that writes the value of this name; -1. */
int32_t qb_graph_writer(const qb_graph *graph, const char *name);
/* Input `input` of the node becomes a new constant (copied) like the one that it is, for this node
 * alone. */
qb_status qb_graph_replace_constant(qb_ctx *cx, qb_graph *graph, int32_t node, int32_t input,
                                    const void *data);
/* weight[.., o, i, ..] *= out[o] / in[i]; the bias goes with the outputs. Either may be NULL. */
qb_status qb_layer_scale(qb_ctx *cx, qb_graph *graph, const qb_layer *layer, const double *out,
                         const double *in);
/* The bias [channels] takes these values, where there is none it is added; UNSUPPORTED where the
 * layer can have none. */
qb_status qb_layer_set_bias(qb_ctx *cx, qb_graph *graph, const qb_layer *layer, const float *bias);
/* The bias as it is, zeros where there is none. */
void qb_layer_bias(const qb_graph *graph, const qb_layer *layer, float *bias);
#endif
