/* Activations of some samples, for the checks of `qbench data doctor` that look at ranges. */
#include "calib/calib.h"
#include "cli/data/check.h"

static qb_status gather(qb_ctx *cx, const qb_data_case *data, const char *path, int64_t most,
                        qb_table **out) {
    qb_project few = *data->project;
    qb_calib_options options = {.spec = data->project->spec, .devices = data->project->devices};
    options.spec.check = false;
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = NULL;
    if (few.samples == 0 || few.samples > most) few.samples = most;
    few.strict = false;
    QB_TRY(qb_stage_data(cx, &few, data->graph, path, (qb_split){0}, &dataset, &options.loader));
    return qb_calib_gather(cx, data->graph, &options, out);
}

qb_status qb_data_check_gather(qb_ctx *cx, const qb_data_case *data, int64_t most, int32_t n_sets,
                               qb_table **out, qb_diagnosis *diagnosis) {
    const qb_log before = qb_data_check_hush(cx);
    qb_status status = QB_OK;
    for (int32_t i = 0; i < n_sets; i++) out[i] = NULL;
    for (int32_t i = 0; i < n_sets && status == QB_OK; i++)
        status = gather(cx, data, data->set[i].path, most, &out[i]);
    qb_data_check_unhush(cx, &before);
    if (status == QB_OK) return QB_OK;
    for (int32_t i = 0; i < n_sets; i++) {
        qb_table_free(QB_MOVE(out[i]));
    }
    if (status == QB_STATUS_NOMEM || status == QB_STATUS_CANCELLED) return status;
    status = qb_diagnosis_say(cx, diagnosis, QB_FINDING_NOTE, NULL, "the samples cannot be run: %s",
                              cx->message);
    if (status == QB_OK) qb_ctx_clear(cx);
    return status;
}
