/* Where accuracy goes: the error of every layer of an integer engine, over a whole data set in
 * memory that does not depend on its size.
 *
 * Three runs of each sample, side by side: the reference engine, the integer engine, and every
 * layer of the integer engine alone, fed with the reference's values. With v the reference's value
 * that a layer writes,
 *   total error  v minus the integer engine's value (dequantized): own and inherited error,
 *   own error    v minus what the layer alone makes of the reference's inputs: the quantization of
 *                its inputs, weights and result, and nothing from the layers before,
 * each as 10 log10(sum v^2 / sum error^2) over all samples. */
#ifndef QB_EVAL_LAYERS_H
#define QB_EVAL_LAYERS_H

#include "eval/eval.h"

/* Measures the layers of `quantized` that compute or hold integers against `reference`, values
 * matched by name, and fills row->layer. Layers that cannot run alone get own_db NaN. A graph
 * without a matching layer leaves the row as it is. `workers`: one-thread contexts side by side.
 * Samples of several shapes: QB_STATUS_MISMATCH. */
qb_status qb_layers_measure(qb_ctx *cx, const qb_candidate *reference,
                            const qb_candidate *quantized, const qb_loader_options *loader,
                            int32_t workers, qb_run_row *row);
#endif
