/* Samples of the same content: within a set, and in calibration and evaluation data alike. */
#include <stdlib.h>
#include <string.h>

#include "cli/data/check.h"

typedef struct item {
    qb_hash content;
    int32_t set;
    int64_t index;
} item;

static int by_content(const void *left, const void *right) {
    const item *a = left, *b = right;
    const int order = memcmp(a->content.byte, b->content.byte, sizeof a->content.byte);
    if (order != 0) return order;
    if (a->set != b->set) return a->set < b->set ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* All readable samples, equal ones side by side. New memory. */
static qb_status sort_samples(qb_ctx *cx, const qb_data_case *data, item **out, int64_t *n) {
    int64_t total = 0;
    for (int32_t s = 0; s < data->n_sets; s++) total += data->set[s].n;
    item *all = QB_NEW(cx, qb_alloc(cx, (size_t)total, sizeof *all));
    *n = 0;
    for (int32_t s = 0; s < data->n_sets; s++)
        for (int64_t i = 0; i < data->set[s].n; i++)
            if (data->set[s].fact[i].readable)
                all[(*n)++] = (item){data->set[s].fact[i].content, s, i};
    qsort(all, (size_t)*n, sizeof *all, by_content);
    *out = all;
    return QB_OK;
}

static const char *name_of(const qb_data_case *data, const item *x) {
    return qb_dataset_sample_name(data->set[x->set].dataset, x->index);
}

static int32_t label_of(const qb_data_case *data, const item *x) {
    return qb_dataset_label(data->set[x->set].dataset, x->index);
}

/* Each copy is named with its class folder, so both names of a contradiction are of use. */
static qb_status look_within(qb_ctx *cx, const qb_data_case *data, const item *all, int64_t n,
                             int32_t set, qb_diagnosis *out) {
    const char *path = data->set[set].path;
    qb_some_names copies = {0}, contradictions = {0};
    for (int64_t i = 1; i < n; i++) {
        const item *a = &all[i - 1], *b = &all[i];
        if (a->set != set || b->set != set || !qb_hash_equal(a->content, b->content)) continue;
        char pair[160];
        snprintf(pair, sizeof pair, "%s = %s", name_of(data, a), name_of(data, b));
        qb_some_names_add(label_of(data, a) == label_of(data, b) ? &copies : &contradictions, pair);
    }
    if (contradictions.n > 0)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_BAD, "keep the one with the right label",
                                "%s: %lld samples are there under two labels: %s", path,
                                (long long)contradictions.n, contradictions.text));
    if (copies.n > 0)
        return qb_diagnosis_say(cx, out, QB_FINDING_NOTE, "keep one of each: copies count twice",
                                "%s: %lld samples are copies of others: %s", path,
                                (long long)copies.n, copies.text);
    return contradictions.n > 0 ? QB_OK
                                : qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                                                   "%s: no sample is there twice", path);
}

/* Evaluation samples whose content the calibration data hold too. */
static qb_status look_across(qb_ctx *cx, const qb_data_case *data, const item *all, int64_t n,
                             qb_diagnosis *out) {
    qb_some_names shared = {0};
    const item *first = all; /* of the group of equal ones; of the calibration data if any is */
    for (int64_t i = 0; i < n; i++) {
        if (!qb_hash_equal(first->content, all[i].content)) first = &all[i];
        if (first->set == 0 && all[i].set == 1) qb_some_names_add(&shared, name_of(data, &all[i]));
    }
    if (shared.n == 0)
        return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                                "calibration and evaluation share no sample");
    return qb_diagnosis_say(cx, out, QB_FINDING_BAD,
                            "take them out of one: ranges fit what they were chosen on, and the "
                            "score flatters",
                            "%lld of %lld evaluation samples are calibration samples too: %s",
                            (long long)shared.n, (long long)data->set[1].n, shared.text);
}

static qb_status look(qb_ctx *cx, const qb_data_case *data, qb_diagnosis *out) {
    QB_FREED item *all = NULL;
    int64_t n;
    QB_TRY(sort_samples(cx, data, &all, &n));
    for (int32_t s = 0; s < data->n_sets; s++) QB_TRY(look_within(cx, data, all, n, s, out));
    if (data->n_sets > 1) QB_TRY(look_across(cx, data, all, n, out));
    if (data->scores_on_calibration)
        QB_TRY(qb_diagnosis_say(
            cx, out, QB_FINDING_NOTE, "name a set that was held out: data.evaluation",
            "%s is calibration and evaluation data: the score flatters", data->set[0].path));
    return QB_OK;
}

const qb_data_check qb_data_check_duplicates = {"duplicates", .look = look};
