/* qbench data doctor: what is wrong with the data, before anything is calibrated on them. */
#include "cli/data/check.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *evaluation;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DATA_OPTIONS(options),
    QB_DEVICES_OPTION(options),
    QB_TEXT(options, "evaluation", evaluation, "PATH",
            "evaluation data (default: data.evaluation in qbench.yaml; none)", .letter = 'e'),
    {0},
};

static qb_status look(qb_ctx *cx, const options *o, const qb_project *project) {
    QB_RELEASED(qb_diagnosis_release) qb_diagnosis diagnosis = {.common = &o->common};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    if (!project->calibration_data)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "no data to look at: give PATH or data.calibration in qbench.yaml");
    QB_TRY(qb_stage_load(cx, project, NULL, &graph, NULL));
    QB_TRY(qb_data_examine(cx, project, graph, o->evaluation, false, &diagnosis));
    return qb_diagnosis_end(cx, &diagnosis, "qbench.data-doctor/1");
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "data", &flags.data));
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    return look(cx, o, &project);
}

const qb_command qb_data_command_doctor = {
    .name = "data doctor",
    .usage = "[PATH] [--evaluation PATH] [options]",
    .summary = "copies, blank images, missing classes, wrong preprocessing, drift",
    .notes = "PATH: the calibration data (default: data.calibration in qbench.yaml). 'bad'\n"
             "spoils ranges or scores (exit code 3), 'note' may be meant so. With labels the\n"
             "FP32 model also answers up to 200 samples, prepared as configured and after\n"
             "usual mistakes. With both sets it runs up to 100 samples of each, to see\n"
             "whether they reach alike. Whether samples are too few is told from\n"
             "MODEL.calib.h5, or before there is one from up to 200. calibrate and 'calib\n"
             "show' tell what follows from a calibration alone; 'calibrate --doctor' does all\n"
             "of this first and keeps it in the calibration.",
    .example = "qbench data doctor calib/ --evaluation val/\n"
               "qbench data doctor --model resnet50.onnx --data images.h5 --json doctor.json",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
