#include "cli/data/check.h"

#define MANY 0.01 /* share from which blank images are more than an accident */

static qb_status look_at_set(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                             qb_diagnosis *out) {
    (void)data;
    qb_some_names blank = {0};
    if (qb_dataset_has_tensors(set->dataset)) return QB_OK;
    for (int64_t i = 0; i < set->n; i++)
        if (set->fact[i].blank) qb_some_names_add(&blank, qb_dataset_sample_name(set->dataset, i));
    if (blank.n == 0)
        return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL, "%s: every image shows something",
                                set->path);
    const bool many = (double)blank.n > MANY * (double)set->n;
    return qb_diagnosis_say(cx, out, many ? QB_FINDING_BAD : QB_FINDING_NOTE,
                            "take them out unless the model will see such images",
                            "%s: %lld of %lld images are of one colour or near-black: %s",
                            set->path, (long long)blank.n, (long long)set->n, blank.text);
}

const qb_data_check qb_data_check_blank = {"blank", .look_at_set = look_at_set};
