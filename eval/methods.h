/* Which of a calibration's methods serves the network best: each one's quantized graph against the
 * float one, by the noise in the output. */
#ifndef QB_EVAL_METHODS_H
#define QB_EVAL_METHODS_H

#include "calib/holdout.h"
#include "quant/quant.h"
#include "quant/recover/recover.h"

/* A qb_score_methods_fn for qb_calib_hold_out; `quant`: const qb_quant_options, whose method is
 * ignored. */
qb_status qb_score_methods(qb_ctx *cx, const void *quant, const qb_graph *graph,
                           const qb_table *table, const qb_calib_options *options,
                           qb_method_scores *out);
/* A qb_score_graph_fn for qb_recover. */
qb_status qb_score_graph(qb_ctx *cx, const qb_graph *reference, const qb_graph *quantized,
                         const qb_calib_options *options, qb_graph_score *out);
#endif
