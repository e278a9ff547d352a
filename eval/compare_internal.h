/* The parts of qb_compare; each fills its share of the record. */
#ifndef QB_EVAL_COMPARE_INTERNAL_H
#define QB_EVAL_COMPARE_INTERNAL_H

#include "eval/accuracy.h"

/* Metrics, pairs, classes and the worst samples of every row (scoring.c). */
qb_status qb_score_fill(qb_ctx *cx, const qb_compare_options *options, const qb_answers *answers,
                        qb_run *run);
/* Thumbnails of run->shown (thumbnails.c), at most `pixels` on a side. */
qb_status qb_thumbnails_fill(qb_ctx *cx, const qb_dataset *dataset, int32_t pixels, qb_run *run);
/* Latency of every row, and throughput at the batches asked for (timing.c). */
qb_status qb_timing_fill(qb_ctx *cx, const qb_compare_options *options, qb_run *run);
/* What `threads` threads of this machine reach (ceilings.c). */
qb_status qb_ceilings_measure(qb_ctx *cx, int threads, qb_ceilings *out);

#endif
