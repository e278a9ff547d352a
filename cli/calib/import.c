/* qbench calib import: another tool's calibration -> MODEL.calib.h5. */
#include "base/text.h"
#include "cli/calib/foreign.h"
#include "cli/out/json.h"
#include "cli/pipeline.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *format;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_MODEL_OPTIONS(options),
    QB_TEXT(options, "format", format, "NAME",
            "trt, ort-json, ort-cache, ort-flatbuffers, ncnn, ppq or aimet (default: found out)"),
    {0},
};

static qb_status report(qb_ctx *cx, const options *o, const char *path, const qb_foreign *f) {
    if (!qb_json_on_stdout(&o->common)) {
        printf("%s: %d tensors from %s, %d without a range, %d not in the model\n", QB_SHOWN(path),
               f->fit.used, f->format->name, f->fit.n_missing, f->fit.n_extra);
        qb_foreign_print(f);
    }
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o, s:o}", "schema", "qbench.calib-import/1", "file",
                                 qb_json_text(path), "fit", qb_foreign_json(f)));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (arguments->n < 1) return qb_fail(cx, QB_STATUS_USAGE, "calib import: which file?");
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_foreign_release) qb_foreign foreign = {0};
    QB_TRY(qb_project_open(cx, &o->common, &o->project, true, &project));
    QB_TRY(qb_stage_load(cx, &project, NULL, &graph, NULL));
    QB_TRY(qb_foreign_load(cx, arguments->item[0], o->format, project.model, graph, &foreign));
    QB_FREED char *path = QB_NEW(cx, qb_project_artifact(cx, &project, "calib.h5"));
    QB_TRY(qb_table_save(cx, foreign.table, path));
    return report(cx, o, path, &foreign);
}

const qb_command qb_calib_command_import = {
    .name = "calib import",
    .usage = "FILE [options]",
    .summary = "read the calibration of TensorRT, onnxruntime, ncnn, PPQ, AIMET",
    .notes = "The result holds ranges without histograms: quantize uses them, other methods\n"
             "cannot be chosen from them. Tensors without a range stay float in compare and\n"
             "build, and with quantize --skip-missing.",
    .example = "qbench calib import old.calib --model resnet50.onnx\n"
               "qbench calib import resnet50.table --format ncnn --model resnet50.onnx",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
