#include "eval/accuracy.h"

#include <math.h>
#include <string.h>

#include "calib/holdout.h"

void qb_answer_of(const float *output, const float *reference, int64_t n, int32_t label,
                  qb_answer *out) {
    qb_answer a = {.label = label, .label_rank = -1, .size = n};
    int64_t best = 0, ahead = 0;
    const bool ranked = label >= 0 && label < n;
    bool answered = true;
    for (int64_t i = 0; i < n; i++) {
        answered = answered && !isnan(output[i]);
        if (output[i] > output[best]) best = i;
        if (ranked) ahead += output[i] > output[label] || (output[i] == output[label] && i < label);
        const double ref = reference[i], value = output[i], error = value - ref;
        a.ref_square += ref * ref;
        a.out_square += value * value;
        a.dot += ref * value;
        a.err_square += error * error;
        a.max_error = fmax(a.max_error, fabs(error));
        a.ref_max = fmax(a.ref_max, fabs(ref));
    }
    a.top1 = answered ? (int32_t)best : QB_NO_ANSWER;
    if (ranked) a.label_rank = answered ? (int32_t)ahead : INT32_MAX;
    *out = a;
}

/* What the workers share: answers by dataset index, and a scratch buffer a worker and engine. */
typedef struct collector {
    int32_t n_engines;
    int64_t count; /* of the dataset */
    int64_t size;  /* floats of one scored output */
    int64_t every; /* above 1: only held-back samples count */
    const int32_t *logits;
    const qb_engine *const *engine;
    float *scratch;    /* [workers x 2 x size]: the reference's output and the one at hand */
    qb_answer *answer; /* [n_engines x count] */
    bool *seen;        /* [count] */
} collector;

static qb_status run_engine(qb_ctx *cx, const collector *c, int32_t e, qb_context *context,
                            const float *input, float *output) {
    void *outputs[64] = {0};
    const void *inputs[1] = {input};
    outputs[c->logits[e]] = output;
    return qb_context_run(cx, context, inputs, outputs);
}

static qb_status on_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    const collector *c = user;
    if (c->every > 1 && !qb_is_held_back(sample->index, c->every)) return QB_OK;
    float *reference = c->scratch + (size_t)sample->worker * 2 * (size_t)c->size;
    float *output = reference + c->size;
    for (int32_t e = 0; e < c->n_engines; e++) {
        float *target = e == 0 ? reference : output;
        QB_TRY(run_engine(cx, c, e, sample->context[e], sample->input, target));
        qb_answer_of(target, reference, c->size, sample->label,
                     &c->answer[e * c->count + sample->index]);
    }
    c->seen[sample->index] = true;
    return QB_OK;
}

/* Every engine must take one float image and give a float output of the same size to score on. */
static qb_status check_engines(qb_ctx *cx, const collector *c) {
    for (int32_t e = 0; e < c->n_engines; e++) {
        const qb_engine *engine = c->engine[e];
        if (qb_engine_n_inputs(engine) != 1 || qb_engine_n_outputs(engine) > 64)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "evaluation: expected 1 input and at most 64 outputs, got %d and %d",
                           qb_engine_n_inputs(engine), qb_engine_n_outputs(engine));
        const qb_desc *output = qb_engine_output(engine, c->logits[e]);
        if (output->dtype != QB_DTYPE_F32 || qb_shape_count(&output->shape) != c->size)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "evaluation: output '%s': expected %lld f32 values, got %lld %s",
                           qb_engine_output_name(engine, c->logits[e]), (long long)c->size,
                           (long long)qb_shape_count(&output->shape), qb_dtype_text(output->dtype));
    }
    return QB_OK;
}

/* Closes the gaps that unreadable samples left. */
static int64_t compact(collector *c, int64_t *index) {
    int64_t kept = 0;
    for (int64_t i = 0; i < c->count; i++)
        if (c->seen[i]) index[kept++] = i;
    for (int32_t e = 0; e < c->n_engines; e++)
        for (int64_t i = 0, k = 0; i < c->count; i++)
            if (c->seen[i]) c->answer[e * kept + k++] = c->answer[e * c->count + i];
    return kept;
}

qb_status qb_answers_collect(qb_ctx *cx, const qb_engine *const *engine, const int32_t *logits,
                             int32_t n_engines, const qb_loader_options *loader, int32_t workers,
                             int64_t every, qb_answers *out) {
    collector c = {.n_engines = n_engines,
                   .count = qb_dataset_count(loader->dataset),
                   .size = qb_shape_count(&qb_engine_output(engine[0], logits[0])->shape),
                   .every = every,
                   .logits = logits,
                   .engine = engine};
    qb_stream_result result = {0};
    int64_t *index = NULL;
    qb_status status = QB_OK;
    QB_GO(check_engines(cx, &c));
    c.answer = qb_alloc(cx, (size_t)n_engines * (size_t)c.count, sizeof *c.answer);
    c.seen = qb_alloc(cx, (size_t)c.count, sizeof *c.seen);
    c.scratch = qb_alloc(cx, (size_t)workers * 2, (size_t)c.size * sizeof *c.scratch);
    index = qb_alloc(cx, (size_t)c.count, sizeof *index);
    if (!c.answer || !c.seen || !c.scratch || !index) QB_GO(cx->code);
    const qb_stream_options stream = {.engine = engine,
                                      .n_engines = n_engines,
                                      .loader = loader,
                                      .workers = workers,
                                      .label = "evaluate",
                                      .sample = on_sample,
                                      .user = &c};
    QB_GO(qb_stream(cx, &stream, &result));
    *out = (qb_answers){.n_engines = n_engines,
                        .n = compact(&c, index),
                        .index = index,
                        .answer = c.answer,
                        .kind = qb_output_kind_of(&qb_engine_output(engine[0], logits[0])->shape),
                        .stream = result};
    c.answer = NULL;
    index = NULL;
out:
    qb_free(index);
    qb_free(c.answer);
    qb_free(c.seen);
    qb_free(c.scratch);
    return status;
}

void qb_answers_release(qb_answers *answers) {
    qb_free(answers->answer);
    qb_free(answers->index);
    *answers = (qb_answers){0};
}
