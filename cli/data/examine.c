/* All rows of checks.def over the data of a project. */
#include <string.h>

#include "cli/data/check.h"
#include "engine/backends.h"

#define QB_DATA_CHECK(name) extern const qb_data_check qb_data_check_##name;
#include "cli/data/checks.def"

static const qb_data_check *const checks[] = {
#define QB_DATA_CHECK(name) &qb_data_check_##name,
#include "cli/data/checks.def"
};

qb_status qb_data_examine(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                          const char *evaluation, bool anew, qb_diagnosis *out) {
    qb_survey set[2] = {{0}};
    qb_data_case data = {.project = project, .graph = graph, .set = set, .n_sets = 1, .anew = anew};
    qb_status status = QB_OK;
    QB_TRY(qb_stage_check_devices(cx, project, qb_backends_name_device(project->spec.backends)));
    data.scores_on_calibration = !evaluation && qb_project_scores_on_calibration(project);
    if (!evaluation) evaluation = project->evaluation_data;
    QB_GO(qb_survey_make(cx, project, project->calibration_data, &set[0]));
    if (evaluation && strcmp(evaluation, project->calibration_data) != 0) {
        QB_GO(qb_survey_make(cx, project, evaluation, &set[1]));
        data.n_sets = 2;
    }
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        out->check = checks[i]->name;
        if (checks[i]->look) QB_GO(checks[i]->look(cx, &data, out));
        for (int32_t s = 0; checks[i]->look_at_set && s < data.n_sets; s++)
            QB_GO(checks[i]->look_at_set(cx, &data, &set[s], out));
    }
out:
    qb_survey_release(&set[0]);
    qb_survey_release(&set[1]);
    return status;
}
