/* Does the model see what it was trained on? Top-1 of the float model with the inputs prepared as
 * configured, and as they are prepared after usual mistakes. */
#include <string.h>

#include "cli/data/check.h"
#include "eval/accuracy.h"
#include "eval/stats.h"

enum {
    SAMPLES = 200, /* evenly spread */
    FEWEST = 50    /* below this, points alone say nothing */
};
#define P_CLEAR 0.01 /* McNemar; several alternatives are tried */
#define POINTS 10    /* or better by so much */

static void to_rgb(qb_preprocess *p) { p->color = QB_COLOR_RGB; }
static void to_bgr(qb_preprocess *p) { p->color = QB_COLOR_BGR; }

static void set_all(qb_preprocess *p, float mean, float std) {
    for (int32_t c = 0; c < 4; c++) {
        p->mean[c] = mean;
        p->std[c] = std;
    }
}

static void leave_out(qb_preprocess *p) { set_all(p, 0, 1); }
static void to_unit(qb_preprocess *p) { set_all(p, 0, 255); }

/* mean and std were given for pixels in 0..1 */
static void times_255(qb_preprocess *p) {
    for (int32_t c = 0; c < 4; c++) {
        p->mean[c] *= 255;
        p->std[c] *= 255;
    }
}

/* What most models for photographs are trained with: mean 0.485 0.456 0.406 and std 0.229 0.224
 * 0.225 of pixels in 0..1. */
static void imagenet(qb_preprocess *p) {
    static const float mean[] = {123.675F, 116.28F, 103.53F}, std[] = {58.395F, 57.12F, 57.375F};
    for (int32_t c = 0; c < 3; c++) {
        const int32_t at = p->color == QB_COLOR_BGR ? 2 - c : c;
        p->mean[at] = mean[c];
        p->std[at] = std[c];
    }
}

/* The same without the std, as Caffe's models are trained. */
static void imagenet_mean(qb_preprocess *p) {
    imagenet(p);
    for (int32_t c = 0; c < 4; c++) p->std[c] = 1;
}

typedef struct alternative {
    const char *what, *remedy;
    void (*apply)(qb_preprocess *p);
    bool of_color; /* only for images of three channels */
} alternative;

/* Of equally good ones the first is named. */
static const alternative alternatives[] = {
    {"RGB input", "write into qbench.yaml: preprocess: {color: RGB}", to_rgb, true},
    {"BGR input", "write into qbench.yaml: preprocess: {color: BGR}", to_bgr, true},
    {"pixels as they are (mean 0, std 1)", "check preprocess.mean and std", leave_out, false},
    {"pixels in 0..1 (mean 0, std 255)", "check preprocess.mean and std", to_unit, false},
    {"mean and std times 255", "check preprocess.mean and std: they are for pixels in 0..255",
     times_255, false},
    {"ImageNet's mean and std",
     "check preprocess.mean (R G B 123.675 116.28 103.53) and std (58.395 57.12 57.375)", imagenet,
     true},
    {"ImageNet's mean alone (std 1)",
     "check preprocess.mean (R G B 123.675 116.28 103.53) and std (1)", imagenet_mean, true},
};
enum { ALTERNATIVES = sizeof alternatives / sizeof alternatives[0] };

/* One preparation, and which samples are right with it. */
typedef struct trial {
    qb_output_kind kind;
    int64_t n, n_right; /* labelled samples */
    int64_t width;      /* of the output: the model's classes */
    bool right[SAMPLES];
} trial;

static qb_status try_it(qb_ctx *cx, const qb_data_case *data, const qb_loader_options *loader,
                        trial *out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    int32_t logits;
    QB_TRY(qb_expose_logits(cx, data->graph, &graph, &logits));
    const qb_stream_model model = {
        .graph = graph, .spec = data->project->spec, .devices = data->project->devices};
    QB_RELEASED(qb_answers_release) qb_answers answers = {0};
    const qb_collect_options options = {.loader = loader, .workers = qb_threads(cx)};
    QB_TRY(qb_answers_collect(cx, &model, &logits, 1, &options, &answers));
    *out = (trial){.kind = answers.kind};
    for (int64_t i = 0; i < answers.n; i++)
        if (answers.answer[i].size > out->width) out->width = answers.answer[i].size;
    for (int64_t i = 0; i < answers.n && out->n < SAMPLES; i++) {
        if (answers.answer[i].label_rank < 0) continue;
        out->right[out->n] = answers.answer[i].label_rank == 0;
        out->n_right += out->right[out->n++];
    }
    return QB_OK;
}

static double percent(const trial *t) { return 100 * (double)t->n_right / (double)t->n; }

static bool is_clearly_better(const trial *other, const trial *own) {
    int64_t lost = 0, gained = 0;
    if (other->n != own->n || other->n_right <= own->n_right) return false;
    for (int64_t i = 0; i < own->n; i++) {
        lost += own->right[i] && !other->right[i];
        gained += !own->right[i] && other->right[i];
    }
    return qb_mcnemar(lost, gained) < P_CLEAR ||
           (own->n >= FEWEST && percent(other) - percent(own) >= POINTS);
}

/* Whether the alternative is another preparation at all. */
static bool differs(const alternative *a, const qb_preprocess *p) {
    qb_preprocess changed = *p;
    if (a->of_color && qb_preprocess_channels(p) != 3) return false;
    a->apply(&changed);
    return memcmp(&changed, p, sizeof changed) != 0;
}

/* The best of the alternatives that are clearly better than `own`; ALTERNATIVES: none is. */
static qb_status find_better(qb_ctx *cx, const qb_data_case *data, const qb_loader_options *loader,
                             const trial *own, int32_t *best, trial *better) {
    *best = ALTERNATIVES;
    for (int32_t a = 0; a < ALTERNATIVES; a++) {
        qb_loader_options options = *loader;
        trial t;
        if (!differs(&alternatives[a], &options.preprocess)) continue;
        alternatives[a].apply(&options.preprocess);
        QB_TRY(try_it(cx, data, &options, &t));
        if (!is_clearly_better(&t, own)) continue;
        if (*best < ALTERNATIVES && t.n_right <= better->n_right) continue;
        *best = a;
        *better = t;
    }
    return QB_OK;
}

/* Inputs that do not fit the model are a finding, too. */
static qb_status explain(qb_ctx *cx, qb_status status, qb_diagnosis *out) {
    if (status == QB_STATUS_NOMEM || status == QB_STATUS_CANCELLED) return status;
    const qb_finding_kind kind = status == QB_STATUS_INVALID ? QB_FINDING_BAD : QB_FINDING_NOTE;
    status = qb_diagnosis_say(cx, out, kind, NULL, "the samples cannot be scored: %s", cx->message);
    if (status == QB_OK) qb_ctx_clear(cx);
    return status;
}

/* What there is to guess among: the model's classes, of which the data may show a few only. A model
 * whose output is the class itself does not tell them. 0: unknown. */
static int64_t classes(const trial *t, const qb_data_case *data, const qb_dataset *dataset) {
    int64_t n = t->kind & QB_OUTPUT_CLASSES ? t->width : 0;
    if (qb_dataset_classes(dataset) > n) n = qb_dataset_classes(dataset);
    if (data->project->labels.n > n) n = data->project->labels.n;
    return n > 1 ? n : 0;
}

/* Whether the answers are no better than drawing one of the classes: the 95 % interval of top-1
 * reaches down to that. */
static bool is_guessing(const trial *t, int64_t n_classes) {
    return n_classes > 0 && qb_wilson(t->n_right, t->n).lo <= 100.0 / (double)n_classes;
}

/* No other preparation is better. */
static qb_status judge_own(qb_ctx *cx, const trial *own, int64_t n_classes, qb_diagnosis *out) {
    if (is_guessing(own, n_classes))
        return qb_diagnosis_say(cx, out, QB_FINDING_BAD,
                                "check the class numbers (data.labels), preprocess and the data",
                                "FP32 top-1 is %.1f %% on %lld samples: no better than guessing "
                                "among %lld classes, however prepared",
                                percent(own), (long long)own->n, (long long)n_classes);
    return qb_diagnosis_say(cx, out, QB_FINDING_GOOD, NULL,
                            "FP32 top-1 is %.1f %% on %lld samples; no other color order, mean or "
                            "std is clearly better",
                            percent(own), (long long)own->n);
}

static qb_status compare(qb_ctx *cx, const qb_data_case *data, const qb_loader_options *loader,
                         qb_diagnosis *out) {
    trial own, better;
    int32_t best;
    qb_status status = try_it(cx, data, loader, &own);
    if (status != QB_OK) return explain(cx, status, out);
    if (!(own.kind & QB_OUTPUT_ANSWER) || own.n == 0) return QB_OK;
    QB_TRY(find_better(cx, data, loader, &own, &best, &better));
    const int64_t n_classes = classes(&own, data, loader->dataset);
    /* where the best only guesses, `own` does, too: it is no better */
    if (best == ALTERNATIVES || is_guessing(&better, n_classes))
        return judge_own(cx, &own, n_classes, out);
    return qb_diagnosis_say(cx, out, QB_FINDING_BAD, alternatives[best].remedy,
                            "%s: FP32 top-1 %.1f %% on %lld samples, as configured %.1f %%",
                            alternatives[best].what, percent(&better), (long long)own.n,
                            percent(&own));
}

static qb_status look(qb_ctx *cx, const qb_data_case *data, qb_diagnosis *out) {
    const qb_survey *set = &data->set[data->n_sets - 1];
    if (qb_dataset_has_tensors(set->dataset) || !qb_dataset_has_labels(set->dataset) ||
        qb_stage_lacks_labels(data->project, set->dataset))
        return QB_OK;
    qb_project few = *data->project;
    if (few.samples == 0 || few.samples > SAMPLES) few.samples = SAMPLES;
    few.strict = false;
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = NULL;
    qb_loader_options loader;
    qb_status status =
        qb_stage_data(cx, &few, data->graph, set->path, (qb_split){0}, &dataset, &loader);
    if (status != QB_OK) return explain(cx, status, out);
    qb_info(cx, "preprocess: up to %d samples, prepared in up to %d ways", SAMPLES,
            ALTERNATIVES + 1);
    const qb_log before = qb_data_check_hush(cx);
    status = compare(cx, data, &loader, out);
    qb_data_check_unhush(cx, &before);
    return status;
}

const qb_data_check qb_data_check_preprocess = {"preprocess", .look = look};
