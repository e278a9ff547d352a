#include <string.h>

#include "cli/data/check.h"

enum {
    ENOUGH = 5, /* samples a class, on average: then none should be without */
    UNEVEN = 10 /* largest class over smallest */
};

typedef struct balance {
    int32_t n_classes, smallest, largest; /* classes; of those with samples */
    qb_some_names missing;
} balance;

/* The label's name where it is known. */
static const char *class_name(const qb_project *project, int32_t label, char number[16]) {
    if (label < project->labels.n) return project->labels.name[label];
    snprintf(number, 16, "%d", label);
    return number;
}

static void weigh(const qb_data_case *data, const int64_t *count, balance *b) {
    char number[16];
    b->smallest = b->largest = -1;
    for (int32_t c = 0; c < b->n_classes; c++) {
        if (count[c] == 0) {
            qb_some_names_add(&b->missing, class_name(data->project, c, number));
            continue;
        }
        if (b->smallest < 0 || count[c] < count[b->smallest]) b->smallest = c;
        if (b->largest < 0 || count[c] > count[b->largest]) b->largest = c;
    }
}

/* "from 1 (ring) to 20 (star)", or "20 in each". */
static void range_text(const qb_data_case *data, const int64_t *count, const balance *b, size_t n,
                       char *text) {
    char small[16], large[16];
    if (count[b->smallest] == count[b->largest])
        snprintf(text, n, "%lld in each", (long long)count[b->smallest]);
    else
        snprintf(text, n, "from %lld (%s) to %lld (%s)", (long long)count[b->smallest],
                 class_name(data->project, b->smallest, small), (long long)count[b->largest],
                 class_name(data->project, b->largest, large));
}

static qb_status judge(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                       const int64_t *count, const balance *b, qb_diagnosis *out) {
    char range[256];
    if (b->smallest < 0) return QB_OK;
    range_text(data, count, b, sizeof range, range);
    const bool lacks = b->missing.n > 0 && set->n >= (int64_t)ENOUGH * b->n_classes;
    if (lacks)
        QB_TRY(qb_diagnosis_say(cx, out, QB_FINDING_BAD,
                                "add samples of them: their activations are not in the ranges or "
                                "the score",
                                "%s: %lld of %d classes have no sample: %s", set->path,
                                (long long)b->missing.n, b->n_classes, b->missing.text));
    const bool uneven = count[b->largest] > UNEVEN * count[b->smallest];
    return qb_diagnosis_say(cx, out, uneven ? QB_FINDING_NOTE : QB_FINDING_GOOD,
                            uneven ? "even them out, unless the model meets them so" : NULL,
                            "%s: samples in %lld of %d classes, %s", set->path,
                            (long long)(b->n_classes - b->missing.n), b->n_classes, range);
}

/* Folders without labels are numbered in byte order, which is right where there is one for each of
 * the model's classes; labels of their own must be among them. */
static qb_status hold_against_model(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                                    int32_t n_classes, qb_diagnosis *out) {
    const int64_t outputs = qb_stage_outputs(data->graph);
    const bool guessed = qb_stage_numbers_folders(data->project, set->dataset);
    if (outputs == 0 || n_classes == outputs || (!guessed && n_classes < outputs)) return QB_OK;
    if (guessed)
        return qb_diagnosis_say(cx, out, QB_FINDING_BAD,
                                "say which folder is which class: --labels FILE, data.labels or "
                                "the model's sidecar",
                                "%s: %d folders, %lld outputs of the model: folders are numbered "
                                "0 to %d in byte order, which are not the model's numbers",
                                set->path, n_classes, (long long)outputs, n_classes - 1);
    return qb_diagnosis_say(cx, out, QB_FINDING_BAD, "check data.labels and the model",
                            "%s: classes 0 to %d, but the model has %lld outputs", set->path,
                            n_classes - 1, (long long)outputs);
}

static qb_status look_at_set(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                             qb_diagnosis *out) {
    balance b = {.n_classes = qb_dataset_classes(set->dataset)};
    if (b.n_classes < 1) return QB_OK;
    if (qb_stage_lacks_labels(data->project, set->dataset))
        return qb_diagnosis_say(cx, out, QB_FINDING_BAD, "put it there, or name a file: --labels",
                                "%s: %s, which the model's sidecar names for its labels, does not "
                                "exist: nothing else says which folder is which class",
                                set->path, data->project->absent_labels);
    QB_TRY(hold_against_model(cx, data, set, b.n_classes, out));
    QB_FREED int64_t *count = QB_NEW(cx, qb_alloc(cx, (size_t)b.n_classes, sizeof *count));
    for (int64_t i = 0; i < set->n; i++) {
        const int32_t label = qb_dataset_label(set->dataset, i);
        if (set->fact[i].readable && label >= 0 && label < b.n_classes) count[label]++;
    }
    weigh(data, count, &b);
    return judge(cx, data, set, count, &b, out);
}

const qb_data_check qb_data_check_classes = {"classes", .look_at_set = look_at_set};
