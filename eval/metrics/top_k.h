/* Shared by the top-1 and top-5 metrics. */
#ifndef QB_EVAL_METRICS_TOP_K_H
#define QB_EVAL_METRICS_TOP_K_H

#include "eval/eval.h"

/* Percent of the labelled samples whose label is among the first k classes; NaN without labels. */
qb_estimate qb_top_k(const qb_answer *answer, int64_t n, int32_t k);

#endif
