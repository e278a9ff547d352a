#include <math.h>

#include "eval/eval.h"

/* Data come class by class as a rule, so the search backwards is short. */
static bool is_first_of_class(const qb_answer *answer, int64_t i) {
    for (int64_t k = i - 1; k >= 0; k--)
        if (answer[k].label == answer[i].label) return false;
    return true;
}

static double recall_of(const qb_answer *answer, int64_t n, int32_t label) {
    int64_t all = 0, right = 0;
    for (int64_t i = 0; i < n; i++) {
        if (answer[i].label_rank < 0 || answer[i].label != label) continue;
        all++;
        right += answer[i].label_rank == 0;
    }
    return (double)right / (double)all;
}

static qb_estimate value(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    (void)reference;
    int64_t classes = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (answer[i].label_rank < 0 || !is_first_of_class(answer, i)) continue;
        classes++;
        sum += recall_of(answer, n, answer[i].label);
    }
    return qb_estimate_of(classes > 0 ? 100 * sum / (double)classes : NAN);
}

const qb_metric qb_metric_recall = {
    .name = "recall",
    .title = "mean recall",
    .unit = "%",
    .definition = "share of a class's samples that are answered with it, averaged over classes",
    .kinds = QB_OUTPUT_ANSWER,
    .value = value};
