/* The quantizer: optimized float graph + calibration table -> quantized graph. Runs no model. */
#ifndef QB_QUANT_QUANT_H
#define QB_QUANT_QUANT_H

#include "calib/table.h"
#include "graph/graph.h"
#include "quant/target.h"
#include "quant/weight_range.h"

typedef struct qb_quant_options {
    const char *method;        /* which of the table's methods; NULL: its first */
    const qb_target *target;   /* whom the result is for; NULL: qbench's own engines */
    qb_act_scheme activations; /* without a target, which has its own */
    bool missing_stays_float;  /* tensors without a range stay float instead of being an error */
    bool per_tensor_weights;   /* default: per output channel */
    const qb_weight_range *weights; /* how far their quantized values reach; NULL: minmax */
    const char *const
        *keep_float; /* NULL-terminated node names (globs) left in float; may be NULL */
    const char *const *float_values; /* NULL-terminated names of values: the groups that make them
                                        are left in float; may be NULL */
    const char *const
        *activations_16;       /* NULL-terminated names of values (globs) that are held in 16 bits
                                  instead of 8, by Q/DQ nodes behind them; may be NULL */
    const qb_graph *unrounded; /* of a recovered graph: the same before rounding, whose weights and
                                  biases layers take that stay float; may be NULL */
} qb_quant_options;

typedef struct qb_quant_report {
    int32_t quantized, kept_float; /* compute groups */
    int32_t held;       /* compute groups that the model itself has in integers, by its Q/DQ */
    int32_t tensors;    /* activations with parameters */
    int32_t tensors_16; /* activations in 16 bits */
} qb_quant_report;

/* What the graph holds in quantized values already, by Q/DQ of training or of another tool, stays
 * as it is, bit for bit; layers of floats that read such values become integer ones, too.
 *
 * Activations get parameters only where a consumer gains by them; values that never reach memory
 * (inside fusion groups) get none. Missing statistics for a needed tensor is QB_STATUS_MISMATCH
 * naming it. */
qb_status qb_quantize(qb_ctx *cx, const qb_graph *graph, const qb_table *table,
                      const qb_quant_options *options, qb_graph **out, qb_quant_report *report);

/* Scale and zero point of a range; zero is always representable exactly. Sources, for b bits (8 or
 * 16): S = (hi - lo) / (2^b - 1), Z = round(qmin - lo / S) for affine; S = max(|lo|, |hi|) /
 * (2^(b-1) - 1) for symmetric. An empty or all-zero range gives scale 1. */
void qb_affine_params(qb_range range, qb_act_scheme scheme, int bits, float *scale, int32_t *zero);
#endif
