/* The parts of qb_compare; each fills its share of the record. */
#ifndef QB_EVAL_COMPARE_INTERNAL_H
#define QB_EVAL_COMPARE_INTERNAL_H

#include "eval/accuracy.h"

/* Metrics, pairs and classes of every row (scoring.c). */
qb_status qb_score_fill(qb_ctx *cx, const qb_answers *answers, qb_run *run);
/* Then, once the task (NULL: none) has finished, the worst samples, and the names of classes. */
qb_status qb_worst_fill(qb_ctx *cx, const qb_compare_options *options, const qb_answers *answers,
                        const qb_task *task, const void *state, qb_run *run);
/* Thumbnails of run->shown (thumbnails.c), at most `pixels` on a side. */
qb_status qb_thumbnails_fill(qb_ctx *cx, const qb_dataset *dataset, int32_t pixels, qb_run *run);
/* An image as a PNG in base64 (thumbnails.c). */
qb_status qb_picture_text(qb_ctx *cx, const char *name, const qb_image *image, char **out);
/* The engines that the rows stand for (timing.c), at the batch and for the threads of the latency
 * measurement; those of a file too. */
typedef struct qb_row_engines qb_row_engines;
qb_status qb_row_engines_build(qb_ctx *cx, const qb_compare_options *options, qb_row_engines **out);
void qb_row_engines_free(qb_row_engines *engines); /* accepts NULL */
QB_RELEASE_AT(qb_row_engines, qb_row_engines_free)
const qb_engine *qb_row_engine(const qb_row_engines *engines, int32_t row);
/* Latency of every row, and throughput at the batches asked for. */
qb_status qb_timing_fill(qb_ctx *cx, const qb_compare_options *options, qb_row_engines *engines,
                         qb_run *run);
/* What `threads` threads of this machine reach (ceilings.c). */
qb_status qb_ceilings_measure(qb_ctx *cx, int threads, qb_ceilings *out);

#endif
