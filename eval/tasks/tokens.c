/* tokens: scores of a vocabulary for each place of a sequence, 1 x T x V. The true token of a place
 * is the next one of the input (a language model), or what --targets holds. */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "eval/eval.h"
#include "eval/task.h"
#include "kernels/ref.h"

enum { VOCABULARY_LEAST = 256, IGNORED = -1 };
#define PLACES_MAX ((int64_t)1 << 32) /* of a sequence */

/* Of a sequence, as one engine answers it. */
typedef struct counts {
    int64_t right, same; /* tokens; as the first engine's */
    double nats;         /* sum of minus the logarithm of the true tokens' probabilities */
} counts;

typedef struct state {
    qb_task_data data;
    int32_t output;
    int64_t samples;
    counts *count;   /* [engines x samples] */
    int64_t *places; /* [samples]: all of them */
    int64_t *told;   /* [samples]: those whose token is known */
    int32_t **first; /* [samples]: the first engine's tokens until the last has answered */
    bool *seen;      /* [samples] */
} state;

static void tokens_close(void *opened) {
    state *s = opened;
    if (!s) return;
    for (int64_t i = 0; s->first && i < s->samples; i++) qb_free(s->first[i]);
    QB_FREE_ALL(s->count, s->places, s->told, s->first, s->seen, s);
}
QB_RELEASE_AT(state, tokens_close)

static qb_status create_state(qb_ctx *cx, const qb_task_data *data, state **out) {
    QB_RELEASED(tokens_close_at) state *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    *s = (state){.data = *data, .samples = qb_dataset_count(data->loader->dataset)};
    const size_t n = (size_t)s->samples;
    QB_TRY_NEW(cx, s->count = qb_alloc(cx, n * (size_t)data->n_engines, sizeof *s->count));
    QB_TRY_NEW(cx, s->places = qb_alloc(cx, n, sizeof *s->places));
    QB_TRY_NEW(cx, s->told = qb_alloc(cx, n, sizeof *s->told));
    QB_TRY_NEW(cx, s->first = qb_alloc(cx, n, sizeof *s->first));
    QB_TRY_NEW(cx, s->seen = qb_alloc(cx, n, sizeof *s->seen));
    *out = QB_MOVE(s);
    return QB_OK;
}

/* The output that is named, else the one with the largest vocabulary; -1: none. */
static int32_t find_output(const qb_task_data *data, int64_t least) {
    const char *name = data->settings->output;
    int32_t found = -1;
    int64_t most = least - 1;
    for (int32_t i = 0; i < data->graph->n_outputs; i++) {
        const qb_value *value = &data->graph->values[data->graph->outputs[i]];
        const int64_t v =
            value->shape.rank == 3 && qb_dtype_is_float(value->dtype) ? value->shape.dim[2] : 0;
        if (name && strcmp(name, value->name) == 0) return v > 1 ? i : -1;
        if (v <= most) continue;
        most = v;
        found = i;
    }
    return found;
}

static qb_status tokens_open(qb_ctx *cx, const qb_task_data *data, void **out) {
    state *s;
    const int32_t output = find_output(data, 2);
    if (output < 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task tokens: expected an output 1 x T x vocabulary of floats");
    if (!qb_dataset_has_tensors(data->loader->dataset))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "task tokens: expected token ids (tensors), got images");
    if (data->targets && qb_dataset_count(data->targets) != qb_dataset_count(data->loader->dataset))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "task tokens: expected targets for %lld samples, got %lld",
                       (long long)qb_dataset_count(data->loader->dataset),
                       (long long)qb_dataset_count(data->targets));
    QB_TRY(create_state(cx, data, &s));
    s->output = output;
    if (!data->targets)
        qb_info(cx, "the true token of a place is the next one of the input: --targets FILE.npy "
                    "names others");
    *out = s;
    return QB_OK;
}

/* ---- the truth of one sequence ---- */

/* The integers of a sample that are as many as the sequence has places: of the name, else the first
 * ones; NULL. */
static const qb_tensor *find_ids(const qb_tensors *list, int64_t places, const char *name) {
    const qb_tensor *found = NULL;
    for (int32_t i = 0; i < list->n; i++) {
        const qb_named_tensor *item = &list->item[i];
        const bool fits = !qb_dtype_is_float(item->tensor.desc.dtype) &&
                          item->tensor.desc.dtype != QB_DTYPE_NONE &&
                          qb_shape_count(&item->tensor.desc.shape) == places;
        if (!fits) continue;
        if (item->name && strcmp(item->name, name) == 0) return &item->tensor;
        if (!found && !(item->name && strstr(item->name, "mask"))) found = &item->tensor;
    }
    return found;
}

static int64_t id_at(const qb_tensor *ids, int64_t i) {
    return (int64_t)qb_number_get(ids->desc.dtype, ids->data, i);
}

/* Padding has no token, and neither has the last place, behind which nothing comes. */
static void next_tokens(const qb_tensors *list, int64_t places, int64_t *truth) {
    const qb_tensor *ids = find_ids(list, places, "input_ids"), *mask = NULL;
    for (int32_t i = 0; i < list->n; i++)
        if (list->item[i].name && strcmp(list->item[i].name, "attention_mask") == 0 &&
            qb_shape_count(&list->item[i].tensor.desc.shape) == places)
            mask = &list->item[i].tensor;
    for (int64_t t = 0; ids && t + 1 < places; t++)
        if (!mask || (id_at(mask, t) != 0 && id_at(mask, t + 1) != 0)) truth[t] = id_at(ids, t + 1);
}

static qb_status read_truth(qb_ctx *cx, const state *s, int64_t index, int64_t places,
                            int64_t *truth) {
    const qb_dataset *from = s->data.targets ? s->data.targets : s->data.loader->dataset;
    QB_RELEASED(qb_tensors_free_at) qb_tensors *list = QB_NEW(cx, qb_alloc(cx, 1, sizeof *list));
    for (int64_t t = 0; t < places; t++) truth[t] = IGNORED;
    QB_TRY(qb_dataset_read_tensors(cx, from, index, list));
    if (!s->data.targets) {
        next_tokens(list, places, truth);
        return QB_OK;
    }
    const qb_tensor *ids = find_ids(list, places, "labels");
    if (!ids)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "task tokens: targets of '%s': expected %lld integers",
                       qb_dataset_sample_name(from, index), (long long)places);
    for (int64_t t = 0; t < places; t++) truth[t] = id_at(ids, t);
    return QB_OK;
}

/* ---- one answer ---- */

/* -log p of one token: of logits, or of what is a distribution already. */
static double nats_of(const float *v, int64_t n, int64_t token) {
    double most = -INFINITY, sum = 0, plain = 0;
    bool share = true;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, (double)v[i]);
        plain += v[i];
        share = share && v[i] >= 0 && v[i] <= 1;
    }
    if (share && fabs(plain - 1) < 1e-3) return -log(fmax((double)v[token], 1e-30));
    for (int64_t i = 0; i < n; i++) sum += exp((double)v[i] - most);
    return most + log(sum) - (double)v[token];
}

static void count(state *s, int32_t engine, int64_t index, const float *v, int64_t places,
                  int64_t vocabulary, const int64_t *truth) {
    counts *c = &s->count[engine * s->samples + index];
    int32_t *first = s->first[index];
    int64_t told = 0;
    for (int64_t t = 0; t < places; t++) {
        const float *row = v + t * vocabulary;
        const int32_t best = (int32_t)qb_best_of(row, vocabulary, 1);
        if (engine == 0) first[t] = best;
        c->same += best == first[t] && best != QB_NO_ANSWER;
        if (truth[t] < 0 || truth[t] >= vocabulary) continue;
        told++;
        c->right += best == truth[t];
        c->nats += nats_of(row, vocabulary, truth[t]);
    }
    s->told[index] = told;
    s->places[index] = places;
}

static qb_status tokens_outputs(qb_ctx *cx, void *opened, int32_t engine, int64_t index,
                                const qb_tensor *output, int32_t n) {
    state *s = opened;
    const qb_shape *shape = s->output < n ? &output[s->output].desc.shape : NULL;
    if (!shape || shape->rank != 3 || shape->dim[0] != 1)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "task tokens: expected an output 1 x T x vocabulary");
    const int64_t places = shape->dim[1];
    QB_FREED int64_t *truth = QB_NEW(cx, qb_alloc(cx, (size_t)places, sizeof *truth));
    qb_status status = read_truth(cx, s, index, places, truth);
    if (status == QB_OK && engine == 0) {
        qb_free(s->first[index]);
        s->first[index] = qb_alloc(cx, (size_t)places, sizeof **s->first);
        if (!s->first[index]) status = cx->code;
        s->places[index] = places;
    }
    if (status == QB_OK && s->places[index] != places)
        status = qb_fail(cx, QB_STATUS_MISMATCH, "task tokens: %lld places, the first row has %lld",
                         (long long)places, (long long)s->places[index]);
    if (status == QB_OK)
        count(s, engine, index, output[s->output].data, places, shape->dim[2], truth);
    if (engine == s->data.n_engines - 1) qb_free(QB_MOVE(s->first[index]));
    s->seen[index] = true; /* by every engine with the same value */
    return status;
}

static void pack_counts(qb_pack *p, counts *c, int64_t places, int64_t told) {
    qb_pack_number_of(p, &c->right, told);
    qb_pack_number_of(p, &c->same, places);
    QB_PACK(p, c->nats);
}

static qb_status tokens_pack(qb_pack *part, int32_t n, const qb_task_data *data, void **opened) {
    if (part->reads) QB_TRY(create_state(part->cx, data, (state **)opened));
    state *s = *opened;
    for (int64_t i = 0; i < s->samples; i++) {
        qb_pack *p = &part[i % n];
        qb_pack_bool(p, &s->seen[i]);
        qb_pack_number_of(p, &s->places[i], PLACES_MAX);
        qb_pack_number_of(p, &s->told[i], s->places[i]);
        for (int32_t e = 0; s->seen[i] && e < data->n_engines; e++)
            pack_counts(p, &s->count[e * s->samples + i], s->places[i], s->told[i]);
        QB_TRY(p->status);
    }
    return QB_OK;
}

/* ---- scores ---- */

static const qb_task_metric tokens_metric[] = {
    {{"token_top1", "tokens", "%",
      "places whose best token is the true one; interval: bootstrap over sequences"},
     true},
    {{"sequence_top1", "sequences", "%", "sequences whose tokens are all right"}, true},
    {{"perplexity", "perplexity", "", "exponential of the mean of -log p of the true tokens"},
     true},
};
enum { METRICS = sizeof tokens_metric / sizeof *tokens_metric, PERPLEXITY = 2 };

static qb_status tokens_values(qb_ctx *cx, const void *opened, int32_t engine,
                               const int32_t *weight, bool draw, double value[QB_TASK_METRICS]) {
    (void)cx, (void)draw;
    const state *s = opened;
    double told = 0, right = 0, nats = 0, sequences = 0, whole = 0;
    for (int64_t i = 0; i < s->samples; i++) {
        const counts *c = &s->count[engine * s->samples + i];
        if (weight[i] == 0 || s->told[i] == 0) continue;
        told += (double)weight[i] * (double)s->told[i];
        right += (double)weight[i] * (double)c->right;
        nats += weight[i] * c->nats;
        sequences += weight[i];
        whole += c->right == s->told[i] ? weight[i] : 0;
    }
    value[0] = told > 0 ? 100 * right / told : NAN;
    value[1] = sequences > 0 ? 100 * whole / sequences : NAN;
    value[2] = told > 0 ? exp(nats / told) : NAN;
    return QB_OK;
}

static const qb_metric_label same_metric = {"same_tokens", "same tokens", "%",
                                            "places with the first row's best token"};

static qb_status tokens_finish(qb_ctx *cx, void *opened, qb_run *run) {
    const state *s = opened;
    const qb_task_scores scores = {.metric = tokens_metric,
                                   .n = METRICS,
                                   .n_engines = s->data.n_engines,
                                   .samples = s->samples,
                                   .seen = s->seen,
                                   .falls = 1u << PERPLEXITY,
                                   .value = tokens_values,
                                   .state = s};
    QB_TRY(qb_task_score(cx, &scores, run));
    for (int32_t e = 0; e < s->data.n_engines; e++) {
        int64_t same = 0, places = 0;
        for (int64_t i = 0; i < s->samples; i++) {
            same += s->count[e * s->samples + i].same;
            places += s->seen[i] ? s->places[i] : 0;
        }
        QB_TRY(qb_run_number_add(cx, &run->row[e], &same_metric,
                                 places > 0 ? 100 * (double)same / (double)places : NAN));
    }
    return QB_OK;
}

/* Token ids in, a vocabulary's scores out. */
static bool tokens_fits(qb_ctx *cx, const qb_task_data *data) {
    (void)cx;
    const qb_graph *graph = data->graph;
    bool ids = false;
    if (!qb_dataset_has_tensors(data->loader->dataset)) return false;
    for (int32_t i = 0; i < graph->n_inputs; i++)
        ids = ids || graph->values[graph->inputs[i]].dtype == QB_DTYPE_S64 ||
              graph->values[graph->inputs[i]].dtype == QB_DTYPE_S32;
    return ids && find_output(data, data->targets ? 2 : VOCABULARY_LEAST) >= 0;
}

const qb_task qb_task_tokens = {
    .name = "tokens",
    .text = "a token for each place of a sequence",
    .words = "lm language-model token-classification text-generation",
    .metric = "token_top1",
    .fits = tokens_fits,
    .open = tokens_open,
    .outputs = tokens_outputs,
    .finish = tokens_finish,
    .pack = tokens_pack,
    .close = tokens_close,
};
