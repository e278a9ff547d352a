/* From quantized graphs back to float ones. */
#ifndef QB_GRAPH_DEQUANTIZE_H
#define QB_GRAPH_DEQUANTIZE_H

#include "graph/graph.h"

/* The dequantized values scale (q - zero) of a quantized constant, row-major, into f32[elements].
 */
void qb_value_dequantized(const qb_value *value, float *f32);

/* Results of a node in `floats`, a copy without quantization whose values have data, become what
 * the integers of `graph` can stand for. */
void qb_node_round(const qb_graph *graph, int32_t node, const qb_graph *floats);

/* The largest magnitude that the value may have: what was seen of it, and where it is quantized
 * what its scale can tell. 0: not known. */
float qb_value_reach(const qb_value *value);

/* Has it a value in quantized values? */
bool qb_graph_is_quantized(const qb_graph *graph);

/* A copy in which no value is quantized: constants hold their dequantized values, activations are
 * not rounded any more. QB_STATUS_UNSUPPORTED where nodes work on integers by themselves (Q/DQ that
 * was not folded, ConvInteger ...). */
qb_status qb_graph_dequantize(qb_ctx *cx, const qb_graph *graph, qb_graph **out);
#endif
