/* Samples held back: statistics come from the others, and these judge what was made of them. `auto`
 * keeps its choice by tensor or gives it up for a single method that way. */
#ifndef QB_CALIB_HOLDOUT_H
#define QB_CALIB_HOLDOUT_H

#include "calib/calib.h"

#define QB_HOLDOUT_EVERY 5 /* of so many samples one is held back */

/* Of every `every` samples of a data set the last one; none when `every` is below 2. */
static inline bool qb_is_held_back(int64_t index, int64_t every) {
    return every > 1 && index % every == every - 1;
}

/* What the network's output is worth with each method's ranges, against the float graph. */
typedef struct qb_method_scores {
    int64_t samples;
    double sqnr_db[QB_TABLE_METHODS], agreement[QB_TABLE_METHODS]; /* percent; sqnr_db NaN: the
                                                                      output holds NaN */
    double *err_square; /* [methods x samples] squared error of each; the receiver frees it */
} qb_method_scores;

/* Measures all methods of `table` on the samples that `options` hold back, on its devices. */
typedef qb_status (*qb_score_methods_fn)(qb_ctx *cx, const void *user, const qb_graph *graph,
                                         const qb_table *table, const qb_calib_options *options,
                                         qb_method_scores *out);

typedef struct qb_holdout_item {
    char method[QB_METHOD_TEXT]; /* as the table spells it */
    double sqnr_db,
        agreement; /* of the output, against the float graph; percent, NaN: no classes */
} qb_holdout_item;

typedef struct qb_holdout {
    int32_t n; /* the table's methods, in its order; 0: nothing was held back */
    qb_holdout_item item[QB_TABLE_METHODS];
    int32_t best;    /* auto, or the method of highest SQNR that surely beats it */
    int64_t samples; /* scored */
} qb_holdout;

/* Calibrates once more with each fifth sample held back and scores all methods on those, so that
 * the table does not know them. Method number `automatic` of `table` stays unless another's squared
 * error is less by more than twice the standard error of that difference, sample against sample: a
 * few images must not decide by chance. Then that method's ranges become auto's in `table`. Fewer
 * than ten samples: a warning, and out->n is 0. `options` are those that `table` was made by,
 * methods included. The result does not depend on batch or threads. */
qb_status qb_calib_hold_out(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                            int32_t automatic, qb_score_methods_fn score, const void *user,
                            qb_table *table, qb_holdout *out);
#endif
