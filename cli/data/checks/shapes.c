#include "cli/data/check.h"

/* Samples of other tensors, types or shapes than the first one's: fine where the model's axes are
 * open, otherwise calibrate names the one that does not fit. */
static qb_status look_at_set(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                             qb_diagnosis *out) {
    (void)data;
    qb_some_names other = {0};
    int64_t first = -1;
    if (!qb_dataset_has_tensors(set->dataset)) return QB_OK;
    for (int64_t i = 0; i < set->n; i++) {
        if (!set->fact[i].readable) continue;
        if (first < 0) first = i;
        if (!qb_hash_equal(set->fact[i].form, set->fact[first].form))
            qb_some_names_add(&other, qb_dataset_sample_name(set->dataset, i));
    }
    if (first < 0) return QB_OK;
    if (other.n == 0)
        return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                                "%s: the tensors of all samples have the same types and shapes",
                                set->path);
    return qb_diagnosis_say(cx, out, QB_FINDING_NOTE,
                            "fine for open axes; otherwise bring them to the model's shape",
                            "%s: %lld of %lld samples differ in types or shapes from %s: %s",
                            set->path, (long long)other.n, (long long)set->n,
                            qb_dataset_sample_name(set->dataset, first), other.text);
}

const qb_data_check qb_data_check_shapes = {"shapes", .look_at_set = look_at_set};
