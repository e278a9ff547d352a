/* From quantized graphs back to real ones. */
#ifndef QB_GRAPH_DEQUANTIZE_H
#define QB_GRAPH_DEQUANTIZE_H

#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The real values scale (q - zero) of a quantized constant, row-major, into real[elements]. */
void qb_value_reals(const qb_value *value, float *real);

/* Has it a value in codes? */
bool qb_graph_is_quantized(const qb_graph *graph);

/* A copy in which no value is quantized: constants hold their real values, activations are not
 * rounded any more. QB_STATUS_UNSUPPORTED where nodes work on integers by themselves (Q/DQ that was
 * not folded, ConvInteger ...). */
qb_status qb_graph_dequantize(qb_ctx *cx, const qb_graph *graph, qb_graph **out);

#ifdef __cplusplus
}
#endif
#endif
