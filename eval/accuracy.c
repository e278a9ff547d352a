#include "eval/accuracy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/holdout.h"
#include "eval/targets.h"
#include "kernels/ref.h"

int64_t qb_best_of(const float *score, int64_t n, int64_t step) {
    int64_t best = 0;
    bool tie = false, answered = true;
    for (int64_t i = 0; i < n; i++) {
        const float v = score[i * step], most = score[best * step];
        answered = answered && !isnan(v);
        tie = tie || (i > 0 && v == INFINITY && most == INFINITY);
        if (v > most) best = i;
    }
    return answered && !tie ? best : QB_NO_ANSWER;
}

void qb_answer_of(const float *output, const float *reference, int64_t n, int32_t label,
                  qb_answer *out) {
    qb_answer a = {
        .label = label, .label_rank = -1, .size = n, .divergence = NAN, .target_square = NAN};
    int64_t ahead = 0;
    const int64_t best = qb_best_of(output, n, 1);
    const bool ranked = label >= 0 && label < n, answered = best != QB_NO_ANSWER;
    for (int64_t i = 0; i < n; i++) {
        if (ranked) ahead += output[i] > output[label] || (output[i] == output[label] && i < label);
        const double ref = reference[i], value = output[i], error = value - ref;
        a.ref_square += ref * ref;
        a.out_square += value * value;
        a.dot += ref * value;
        a.err_square += error * error;
        a.max_error = fmax(a.max_error, fabs(error));
        a.ref_max = fmax(a.ref_max, fabs(ref));
    }
    a.top1 = (int32_t)best;
    if (ranked) a.label_rank = answered ? (int32_t)ahead : INT32_MAX;
    *out = a;
}

void qb_answer_of_class(float output, float reference, int32_t label, qb_answer *out) {
    qb_answer_of(&output, &reference, 1, label, out);
    out->top1 = output >= 0 && output < 0x1p31F ? (int32_t)output : QB_NO_ANSWER;
    out->label_rank = label < 0 ? -1 : out->top1 == label ? 0 : INT32_MAX;
}

/* Where a worker's engines write: the reference's output and the one at hand; and the target. */
typedef struct scratch {
    float *reference, *output, *target;
    char *raw; /* an output of another type than float */
    size_t reference_capacity, output_capacity, target_capacity, raw_capacity;
    int32_t n;       /* most outputs of a model */
    void **outputs;  /* [n] */
    qb_tensor *seen; /* [n]: what options.outputs gets */
    float **wide;    /* [n]: the memory behind it */
    char **typed;    /* [n]: of outputs of other types */
    bool nan;        /* an output that is not scored, but shown, holds NaN */
    size_t *wide_capacity, *typed_capacity;
} scratch;

/* What the workers share: answers by dataset index. */
typedef struct collector {
    int32_t n_engines;
    int64_t count; /* of the dataset */
    const qb_collect_options *options;
    const int32_t *logits;
    scratch *scratch;  /* one a worker */
    qb_answer *answer; /* [n_engines x count] */
    bool *seen;        /* [count] */
    uint64_t *key;     /* [count] of each sample's content */
} collector;

/* Memory for the outputs that are not scored, of model `e`. */
static qb_status place_outputs(qb_ctx *cx, const collector *c, scratch *s, const qb_engine *engine,
                               int32_t e) {
    for (int32_t i = 0; i < qb_engine_n_outputs(engine); i++) {
        const qb_desc *desc = qb_engine_output(engine, i);
        s->seen[i] = qb_tensor_of(QB_DTYPE_F32, desc->shape, NULL);
        if (i == c->logits[e]) continue;
        const size_t n = (size_t)qb_shape_count(&desc->shape) + 1;
        const bool converts = desc->dtype != QB_DTYPE_F32;
        QB_TRY(qb_grow(cx, &s->wide[i], &s->wide_capacity[i], n, sizeof **s->wide));
        if (converts)
            QB_TRY(qb_grow(cx, &s->typed[i], &s->typed_capacity[i], qb_desc_bytes(desc) + 1, 1));
        s->outputs[i] = converts ? s->typed[i] : (void *)s->wide[i];
        s->seen[i].data = s->wide[i];
    }
    return QB_OK;
}

static bool holds_nan(const float *v, int64_t n) {
    bool nan = false;
    for (int64_t i = 0; i < n; i++) nan |= isnan(v[i]) != 0;
    return nan;
}

/* Shows them to whoever wants to see them, all in f32. */
static qb_status show_outputs(qb_ctx *cx, const collector *c, scratch *s,
                              const qb_stream_sample *sample, int32_t e, float *scored) {
    const qb_engine *engine = sample->engine[e];
    const int32_t n = qb_engine_n_outputs(engine);
    for (int32_t i = 0; i < n; i++) {
        const qb_desc *desc = qb_engine_output(engine, i);
        s->seen[i].desc.shape = qb_context_output_shape(sample->context[e], i);
        if (i == c->logits[e]) s->seen[i].data = scored;
        if (i == c->logits[e]) continue;
        for (int64_t k = 0; desc->dtype != QB_DTYPE_F32 && k < qb_shape_count(&desc->shape); k++)
            s->wide[i][k] = (float)qb_number_get(desc->dtype, s->typed[i], k);
        s->nan = s->nan || holds_nan(s->wide[i], qb_shape_count(&s->seen[i].desc.shape));
    }
    return c->options->outputs(cx, c->options->user, e, sample->index, s->seen, n);
}

/* Runs model `e`, its scored output into memory that grows with it; *n is the output's size.
 * Integers count as numbers. */
static qb_status run_engine(qb_ctx *cx, const collector *c, const qb_stream_sample *sample,
                            int32_t e, float **output, size_t *capacity, int64_t *n) {
    scratch *s = &c->scratch[sample->worker];
    const qb_desc *desc = qb_engine_output(sample->engine[e], c->logits[e]);
    const bool converts = desc->dtype != QB_DTYPE_F32;
    *n = qb_shape_count(&desc->shape);
    QB_TRY(qb_grow(cx, output, capacity, (size_t)*n + 1, sizeof **output));
    if (converts) QB_TRY(qb_grow(cx, &s->raw, &s->raw_capacity, qb_desc_bytes(desc) + 1, 1));
    s->nan = false;
    if (c->options->outputs) QB_TRY(place_outputs(cx, c, s, sample->engine[e], e));
    s->outputs[c->logits[e]] = converts ? s->raw : (void *)*output;
    qb_status status = qb_context_run(cx, sample->context[e], sample->inputs, s->outputs);
    memset(s->outputs, 0, (size_t)qb_engine_n_outputs(sample->engine[e]) * sizeof *s->outputs);
    QB_TRY(status);
    for (int64_t i = 0; converts && i < *n; i++)
        (*output)[i] = (float)qb_number_get(desc->dtype, s->raw, i);
    return c->options->outputs ? show_outputs(cx, c, s, sample, e, *output) : QB_OK;
}

/* The sample's target, in the scratch. */
static qb_status read_target(qb_ctx *cx, const collector *c, const qb_stream_sample *sample) {
    scratch *s = &c->scratch[sample->worker];
    const qb_shape *shape = &qb_engine_output(sample->engine[0], c->logits[0])->shape;
    QB_TRY(qb_grow(cx, &s->target, &s->target_capacity, (size_t)qb_shape_count(shape) + 1,
                   sizeof *s->target));
    return qb_target_read(cx, c->options->targets, sample->index, &c->options->loader->preprocess,
                          shape, s->target);
}

static void score_target(const collector *c, const qb_stream_sample *sample, const float *output,
                         qb_answer *answer) {
    if (c->options->targets)
        answer->target_square = qb_target_error(
            output, c->scratch[sample->worker].target, &c->options->loader->preprocess,
            &qb_engine_output(sample->engine[0], c->logits[0])->shape);
}

/* log(sum exp v), without an overflow. */
static double log_sum_exp(const float *v, int64_t n) {
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, (double)v[i]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)v[i] - most);
    return most + log(sum);
}

/* sum p log(p / q) with p and q the softmax of the reference and of the output (Kullback and
 * Leibler, "On information and sufficiency", Annals of Mathematical Statistics 22, 1951). */
static double divergence_of(const float *reference, const float *output, int64_t n) {
    const double of_p = log_sum_exp(reference, n), of_q = log_sum_exp(output, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double log_p = (double)reference[i] - of_p, log_q = (double)output[i] - of_q;
        sum += exp(log_p) * (log_p - log_q);
    }
    return sum;
}

/* The answer of model `e`. */
static void score(const collector *c, const qb_stream_sample *sample, int32_t e,
                  const float *output, int64_t n, qb_answer *answer) {
    const qb_desc *desc = qb_engine_output(sample->engine[e], c->logits[e]);
    const float *reference = c->scratch[sample->worker].reference;
    if (qb_output_kind_of(desc->dtype, &desc->shape) == QB_OUTPUT_CLASS)
        qb_answer_of_class(*output, *reference, sample->label, answer);
    else
        qb_answer_of(output, reference, n, sample->label, answer);
    if (qb_output_kind_of(desc->dtype, &desc->shape) == QB_OUTPUT_CLASSES && n > 1)
        answer->divergence = divergence_of(reference, output, n);
    if (c->scratch[sample->worker].nan) answer->top1 = QB_NO_ANSWER;
    score_target(c, sample, output, answer);
}

static qb_status on_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    const collector *c = user;
    const int64_t every = c->options->every;
    if (every > 1 && !qb_is_held_back(sample->index, every)) return QB_OK;
    scratch *s = &c->scratch[sample->worker];
    qb_answer *answer = c->answer + sample->index;
    int64_t size, n;
    if (c->options->targets) QB_TRY(read_target(cx, c, sample));
    QB_TRY(run_engine(cx, c, sample, 0, &s->reference, &s->reference_capacity, &size));
    score(c, sample, 0, s->reference, size, answer);
    for (int32_t e = 1; e < c->n_engines; e++) {
        QB_TRY(run_engine(cx, c, sample, e, &s->output, &s->output_capacity, &n));
        if (n != size)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "evaluation: output '%s': expected %lld values, got %lld",
                           qb_engine_output_name(sample->engine[e], c->logits[e]), (long long)size,
                           (long long)n);
        score(c, sample, e, s->output, size, answer + e * c->count);
    }
    c->seen[sample->index] = true;
    c->key[sample->index] = sample->key;
    return QB_OK;
}

static qb_status create_scratch(qb_ctx *cx, const qb_stream_model *model, int32_t workers,
                                collector *c) {
    int32_t n_outputs = 0;
    for (int32_t e = 0; e < c->n_engines; e++)
        if (model[e].graph->n_outputs > n_outputs) n_outputs = model[e].graph->n_outputs;
    QB_TRY_NEW(cx, c->scratch = qb_alloc(cx, (size_t)workers, sizeof *c->scratch));
    for (int32_t i = 0; i < workers; i++) {
        scratch *s = &c->scratch[i];
        const size_t n = (size_t)n_outputs;
        s->n = n_outputs;
        s->outputs = qb_alloc(cx, n, sizeof *s->outputs);
        s->seen = qb_alloc(cx, n, sizeof *s->seen);
        s->wide = qb_alloc(cx, n, sizeof *s->wide);
        s->typed = qb_alloc(cx, n, sizeof *s->typed);
        s->wide_capacity = qb_alloc(cx, n, sizeof *s->wide_capacity);
        s->typed_capacity = qb_alloc(cx, n, sizeof *s->typed_capacity);
        if (!s->outputs || !s->seen || !s->wide || !s->typed || !s->wide_capacity ||
            !s->typed_capacity)
            return cx->code;
    }
    return QB_OK;
}

static void release_scratch(collector *c, int32_t workers) {
    for (int32_t i = 0; c->scratch && i < workers; i++) {
        scratch *s = &c->scratch[i];
        for (int32_t k = 0; s->wide && s->typed && k < s->n; k++)
            QB_FREE_ALL(s->wide[k], s->typed[k]);
        QB_FREE_ALL(s->reference, s->output, s->target, s->raw, s->outputs, s->seen, s->wide,
                    s->typed, s->wide_capacity, s->typed_capacity);
    }
    qb_free(c->scratch);
}

int qb_answers_by_key(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Closes the gaps that unreadable samples left. */
static int64_t compact(collector *c, int64_t *index) {
    int64_t kept = 0;
    for (int64_t i = 0; i < c->count; i++) {
        if (!c->seen[i]) continue;
        c->key[kept] = c->key[i];
        index[kept++] = i;
    }
    qsort(c->key, (size_t)kept, sizeof *c->key, qb_answers_by_key);
    for (int32_t e = 0; e < c->n_engines; e++)
        for (int64_t i = 0, k = 0; i < c->count; i++)
            if (c->seen[i]) c->answer[e * kept + k++] = c->answer[e * c->count + i];
    return kept;
}

qb_status qb_answers_collect(qb_ctx *cx, const qb_stream_model *model, const int32_t *logits,
                             int32_t n_models, const qb_collect_options *options, qb_answers *out) {
    const qb_loader_options *loader = options->loader;
    const qb_dataset *targets = options->targets;
    int32_t workers = options->workers;
    for (int32_t e = 0; e < n_models; e++) /* no device stands idle */
        if (workers < qb_devices_count(&model[e].devices))
            workers = qb_devices_count(&model[e].devices);
    collector c = {.n_engines = n_models,
                   .count = qb_dataset_count(loader->dataset),
                   .options = options,
                   .logits = logits};
    qb_stream_result result = {0};
    int64_t *index = NULL;
    qb_status status = QB_OK;
    const qb_value *scored = &model[0].graph->values[model[0].graph->outputs[logits[0]]];
    if (targets) QB_GO(qb_targets_check(cx, loader->dataset, targets));
    QB_GO(create_scratch(cx, model, workers, &c));
    QB_GO_NEW(cx, c.answer = qb_alloc(cx, (size_t)n_models * (size_t)c.count, sizeof *c.answer));
    QB_GO_NEW(cx, c.seen = qb_alloc(cx, (size_t)c.count, sizeof *c.seen));
    QB_GO_NEW(cx, index = qb_alloc(cx, (size_t)c.count, sizeof *index));
    QB_GO_NEW(cx, c.key = qb_alloc(cx, (size_t)c.count, sizeof *c.key));
    const qb_stream_options stream = {.model = model,
                                      .n_models = n_models,
                                      .loader = loader,
                                      .workers = workers,
                                      .label = "evaluate",
                                      .sample = on_sample,
                                      .user = &c};
    QB_GO(qb_stream(cx, &stream, &result));
    *out = (qb_answers){.n_engines = n_models,
                        .n = compact(&c, index),
                        .index = index,
                        .key = c.key,
                        .answer = c.answer,
                        .kind = qb_output_kind_of(scored->dtype, &scored->shape),
                        .stream = result};
    c.answer = NULL;
    c.key = NULL;
    index = NULL;
out:
    release_scratch(&c, workers);
    QB_FREE_ALL(index, c.answer, c.seen, c.key);
    return status;
}

void qb_answers_release(qb_answers *answers) {
    QB_FREE_ALL(answers->answer, answers->index, answers->key);
    *answers = (qb_answers){0};
}
