/* One pass over the samples of a data set, for the checks of `qbench data doctor`. */
#include <string.h>

#include "cli/data/check.h"
#include "kernels/workers.h"

enum { CHUNK = 256 }; /* samples between two looks at the cancel flag */

static qb_status look_at_image(qb_ctx *cx, const qb_dataset *dataset, int64_t index,
                               qb_sample_facts *fact) {
    QB_RELEASED(qb_image_release) qb_image image = {0};
    QB_TRY(qb_dataset_read(cx, dataset, index, &image, NULL));
    fact->content = qb_image_hash(&image);
    fact->blank = qb_image_is_blank(&image);
    return QB_OK;
}

/* Raw bytes have neither type nor shape: their number stands for both. */
static void add_form(qb_hasher *hasher, const qb_named_tensor *item) {
    const qb_desc *desc = &item->tensor.desc;
    qb_hasher_string(hasher, item->name ? item->name : "");
    qb_hasher_string(hasher, qb_dtype_text(desc->dtype));
    for (int32_t i = 0; i < desc->shape.rank; i++)
        qb_hasher_update(hasher, &desc->shape.dim[i], sizeof desc->shape.dim[i]);
    qb_hasher_update(hasher, &item->bytes, sizeof item->bytes);
}

static qb_status look_at_tensors(qb_ctx *cx, const qb_dataset *dataset, int64_t index,
                                 qb_sample_facts *fact) {
    QB_RELEASED(qb_tensors_free_at)
    qb_tensors *tensors = QB_NEW(cx, qb_alloc(cx, 1, sizeof *tensors));
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_TRY(qb_dataset_read_tensors(cx, dataset, index, tensors));
    QB_TRY(qb_hasher_create(cx, &hasher));
    for (int32_t i = 0; i < tensors->n; i++) add_form(hasher, &tensors->item[i]);
    fact->form = qb_hasher_digest(hasher);
    for (int32_t i = 0; i < tensors->n; i++)
        qb_hasher_update(hasher, tensors->item[i].tensor.data, tensors->item[i].bytes);
    fact->content = qb_hasher_digest(hasher);
    return QB_OK;
}

typedef struct pass {
    const qb_ctx *cx;
    const qb_survey *survey;
    int64_t first; /* sample of task 0 */
} pass;

static void look_at_sample(int64_t task, void *argument) {
    const pass *p = argument;
    const int64_t index = p->first + task;
    const qb_dataset *dataset = p->survey->dataset;
    qb_sample_facts *fact = &p->survey->fact[index];
    qb_ctx cx;
    qb_ctx_child(p->cx, &cx);
    const qb_status status = qb_dataset_has_tensors(dataset)
                                 ? look_at_tensors(&cx, dataset, index, fact)
                                 : look_at_image(&cx, dataset, index, fact);
    fact->readable = status == QB_OK;
}

static qb_status look_at_all(qb_ctx *cx, qb_survey *survey) {
    pass p = {.cx = cx, .survey = survey};
    qb_workers *workers = NULL;
    qb_progress progress;
    qb_status status = QB_OK;
    QB_TRY(qb_workers_create(cx, qb_threads(cx), &workers));
    qb_progress_begin(cx, &progress, "read", "samples", survey->n);
    while (p.first < survey->n && (status = qb_check_cancel(cx)) == QB_OK) {
        const int64_t n = survey->n - p.first < CHUNK ? survey->n - p.first : CHUNK;
        qb_workers_run(workers, n, look_at_sample, &p);
        p.first += n;
        qb_progress_step(&progress, n);
    }
    qb_progress_end(&progress);
    qb_workers_free(workers);
    return status;
}

qb_status qb_survey_make(qb_ctx *cx, const qb_project *project, const char *path, qb_survey *out) {
    const qb_dataset_options options = {.labels = project->labels.n > 0 ? &project->labels : NULL,
                                        .max_samples = project->samples,
                                        .folder = project->images};
    QB_RELEASED(qb_survey_release) qb_survey survey = {.path = path};
    QB_TRY(qb_dataset_open(cx, path, &options, &survey.dataset));
    survey.n = qb_dataset_count(survey.dataset);
    QB_TRY_NEW(cx, survey.fact = qb_alloc(cx, (size_t)survey.n, sizeof *survey.fact));
    QB_TRY(look_at_all(cx, &survey));
    *out = QB_MOVE(survey);
    return QB_OK;
}

void qb_survey_release(qb_survey *survey) {
    qb_free(survey->fact);
    qb_dataset_close(survey->dataset);
    *survey = (qb_survey){0};
}

qb_log qb_data_check_hush(qb_ctx *cx) {
    if (!cx->log) return (qb_log){0};
    const qb_log before = *cx->log;
    cx->log->level = QB_LEVEL_ERROR;
    cx->log->quiet = true;
    return before;
}

void qb_data_check_unhush(qb_ctx *cx, const qb_log *before) {
    if (cx->log) *cx->log = *before;
}

void qb_some_names_add(qb_some_names *names, const char *name) {
    enum { SHOWN = 3 };
    const size_t used = strlen(names->text), capacity = sizeof names->text - used;
    if (names->n < SHOWN)
        snprintf(names->text + used, capacity, "%s%s", names->n > 0 ? ", " : "", name);
    else if (names->n == SHOWN)
        snprintf(names->text + used, capacity, " ...");
    names->n++;
}
