/* qbench data doctor: what is wrong with the data, before anything is calibrated on them. */
#include <string.h>

#include "cli/data_check.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *evaluation;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DATA_OPTIONS(options),
    {.name = "evaluation",
     .letter = 'e',
     .type = QB_OPT_STRING,
     .offset = offsetof(options, evaluation),
     .argument = "PATH",
     .help = "evaluation data (default: data.evaluation in qbench.yaml; none)"},
    {0},
};

#define QB_DATA_CHECK(name) extern const qb_data_check qb_data_check_##name;
#include "cli/data_checks.def"
#undef QB_DATA_CHECK

static const qb_data_check *const checks[] = {
#define QB_DATA_CHECK(name) &qb_data_check_##name,
#include "cli/data_checks.def"
#undef QB_DATA_CHECK
};

static qb_status look_at_all(qb_ctx *cx, const qb_data_case *data, qb_diagnosis *diagnosis) {
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        diagnosis->check = checks[i]->name;
        QB_TRY(checks[i]->look(cx, data, diagnosis));
    }
    return qb_diagnosis_end(cx, diagnosis, "qbench.data-doctor/1");
}

static qb_status look(qb_ctx *cx, const options *o, const qb_project *project) {
    const char *evaluation = o->evaluation ? o->evaluation : project->evaluation_data;
    qb_diagnosis diagnosis = {.common = &o->common};
    qb_survey set[2] = {{0}};
    qb_graph *graph = NULL;
    qb_status status = QB_OK;
    if (!project->calibration_data)
        QB_GO(qb_fail(cx, QB_STATUS_USAGE,
                      "no data to look at: give PATH or data.calibration in qbench.yaml"));
    QB_GO(qb_stage_load(cx, project, &graph, NULL));
    QB_GO(qb_survey_make(cx, project, project->calibration_data, &set[0]));
    qb_data_case data = {.project = project, .graph = graph, .set = set, .n_sets = 1};
    if (evaluation && strcmp(evaluation, project->calibration_data) != 0) {
        QB_GO(qb_survey_make(cx, project, evaluation, &set[1]));
        data.n_sets = 2;
    }
    status = look_at_all(cx, &data, &diagnosis);
out:
    qb_diagnosis_release(&diagnosis);
    qb_survey_release(&set[0]);
    qb_survey_release(&set[1]);
    qb_graph_free(graph);
    return status;
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    if (arguments->n > 0 && !flags.data) flags.data = arguments->item[0];
    qb_project project;
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    qb_status status = look(cx, o, &project);
    qb_project_close(&project);
    return status;
}

const qb_command qb_data_command_doctor = {
    .name = "data doctor",
    .usage = "[PATH] [--evaluation PATH] [options]",
    .summary =
        "duplicates, blank images, missing classes, wrong preprocessing, drift, too few samples",
    .notes =
        "PATH: the calibration data (default: data.calibration in qbench.yaml). 'bad' spoils\n"
        "ranges or scores (exit code 3), 'note' may be meant so. With labels the FP32 model also\n"
        "answers up to 200 samples, prepared as configured and after usual mistakes. With both\n"
        "sets it runs up to 100 samples of each, to see whether they reach alike. Whether\n"
        "samples are too few is told from MODEL.calib.h5, or before there is one from up to 200.\n"
        "calibrate and 'calib show' tell what follows from a calibration alone.",
    .example = "qbench data doctor calib/ --evaluation val/\n"
               "qbench data doctor --model resnet50.onnx --data images.h5 --json doctor.json",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
