/* Answers of several engines for every sample of a dataset. */
#ifndef QB_EVAL_ACCURACY_H
#define QB_EVAL_ACCURACY_H

#include "eval/eval.h"
#include "stream/stream.h"

typedef struct qb_answers {
    int32_t n_engines;
    int64_t n;         /* samples that could be read, in dataset order */
    int64_t *index;    /* [n] their numbers in the dataset */
    uint64_t *key;     /* [n] of their content (qb_batch), ascending; NULL: not known */
    qb_answer *answer; /* [n_engines x n], an engine's answers together */
    qb_output_kind kind;
    qb_stream_result stream;
} qb_answers;

/* All outputs of model `engine` for a sample, as row-major f32. Called from several threads, never
 * twice for one sample and engine. */
typedef qb_status (*qb_outputs_fn)(qb_ctx *cx, void *user, int32_t engine, int64_t index,
                                   const qb_tensor *output, int32_t n);

typedef struct qb_collect_options {
    const qb_loader_options *loader;
    int32_t workers;
    int64_t
        every; /* above 1: only samples that are held back by it are scored, see calib/holdout.h */
    const qb_dataset *targets; /* may be NULL, see eval/targets.h */
    qb_outputs_fn outputs;     /* may be NULL */
    void *user;
} qb_collect_options;

/* logits[e] is the output of model e to score on: float, and for a sample of the same size in all
 * models. */
qb_status qb_answers_collect(qb_ctx *cx, const qb_stream_model *model, const int32_t *logits,
                             int32_t n_models, const qb_collect_options *options, qb_answers *out);
void qb_answers_release(qb_answers *answers);
/* Orders keys, for qsort. */
int qb_answers_by_key(const void *a, const void *b);

/* Scores one output of n floats against the reference output (may be the same). */
void qb_answer_of(const float *output, const float *reference, int64_t n, int32_t label,
                  qb_answer *out);
/* The same of an output that is the class itself (QB_OUTPUT_CLASS). */
void qb_answer_of_class(float output, float reference, int32_t label, qb_answer *out);
#endif
