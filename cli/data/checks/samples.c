#include "cli/data/check.h"

static qb_status look_at_set(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                             qb_diagnosis *out) {
    (void)data;
    qb_some_names bad = {0};
    for (int64_t i = 0; i < set->n; i++)
        if (!set->fact[i].readable)
            qb_some_names_add(&bad, qb_dataset_sample_name(set->dataset, i));
    if (bad.n == 0)
        return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                                "%s: %lld samples (%s), all readable", set->path, (long long)set->n,
                                qb_dataset_format_name(set->dataset));
    return qb_diagnosis_say(cx, out, QB_FINDING_BAD,
                            "replace them: calibrate and compare leave them out",
                            "%s: %lld of %lld samples cannot be read: %s", set->path,
                            (long long)bad.n, (long long)set->n, bad.text);
}

const qb_data_check qb_data_check_samples = {"samples", .look_at_set = look_at_set};
