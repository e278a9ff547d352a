/* Which of a calibration's methods serves the network best: each one's quantized graph against the
 * float one, by the noise in the output. */
#ifndef QB_EVAL_BAKEOFF_H
#define QB_EVAL_BAKEOFF_H

#include "calib/calib.h"
#include "eval/eval.h"
#include "quant/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_bakeoff_item {
    char method[QB_METHOD_TEXT]; /* as the table spells it */
    double sqnr_db, agreement;   /* of the output, against the float graph; percent */
} qb_bakeoff_item;

typedef struct qb_bakeoff {
    int32_t n; /* the table's methods, in its order; 0: there was none */
    qb_bakeoff_item item[QB_TABLE_METHODS];
    int32_t best;    /* the standing method, or the one of highest SQNR that surely beats it */
    int64_t samples; /* scored */
} qb_bakeoff;

/* Scores all methods of `table` on the samples that are held back of the data set (see
 * calib/holdout.h) by the calibration with these options, so that the table does not know them, and
 * on its devices. The method number `standing` is the best one unless another's squared error is
 * less by more than twice the standard error of that difference, sample against sample: a few
 * images must not decide by chance. `quant` as for qb_quantize, its method is ignored. The result
 * does not depend on batch or threads. */
qb_status qb_bakeoff_run(qb_ctx *cx, const qb_graph *graph, const qb_table *table,
                         const qb_quant_options *quant, const qb_calib_options *calibration,
                         int32_t standing, qb_bakeoff *out);

#ifdef __cplusplus
}
#endif
#endif
