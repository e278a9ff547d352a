/* qbench migrate: MODEL.onnx + a TensorRT 10 calibration cache -> an explicit Q/DQ model. */
#include "base/text.h"
#include "cli/calib/foreign.h"
#include "cli/out/json.h"
#include "cli/pipeline.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *format, *target;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_MODEL_OPTIONS(options),
    QB_LIST(options, "keep-float", project.keep_float, "NODE",
            "leave nodes of this name (glob) in float (repeatable)"),
    QB_TEXT(options, "format", format, "NAME",
            "of the old calibration, see calib import (default: found out)"),
    QB_TEXT(options, "for", target, "TARGET", "trt (default), ort-cpu, ort-cuda or openvino"),
    {0},
};

static void defaults(void *opts) { ((options *)opts)->target = "trt"; }

static qb_status report(qb_ctx *cx, const options *o, const char *path, const qb_target *target,
                        const qb_foreign *f, const qb_quant_report *r) {
    if (!qb_json_on_stdout(&o->common)) {
        printf("%s: for %s, %d layers in int8, %d kept in float; %d tensors had a range, %d had "
               "none, %d names are not in the model\n",
               QB_SHOWN(path), target->name, r->quantized, r->kept_float, f->fit.used,
               f->fit.n_missing, f->fit.n_extra);
        qb_foreign_print(f);
    }
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o, s:s, s:i, s:i, s:o}", "schema", "qbench.migrate/1",
                                 "file", qb_json_text(path), "target", target->name, "layers_int8",
                                 r->quantized, "layers_float", r->kept_float, "fit",
                                 qb_foreign_json(f)));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    if (arguments->n < 2)
        return qb_fail(cx, QB_STATUS_USAGE, "migrate: expected a model and its old calibration");
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL, *quantized = NULL;
    QB_RELEASED(qb_foreign_release) qb_foreign foreign = {0};
    qb_quant_report made = {0};
    QB_FREED char *suffix = NULL;
    qb_quant_options how;
    const qb_target *target;
    QB_TRY(qb_target_find(cx, o->target, &target));
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    QB_TRY(qb_stage_load(cx, &project, NULL, &graph, NULL));
    QB_TRY(qb_foreign_load(cx, arguments->item[1], o->format, project.model, graph, &foreign));
    how = qb_stage_quantization(&project, NULL, NULL);
    how.target = target;
    how.missing_stays_float = true;
    QB_TRY(qb_quantize(cx, graph, foreign.table, &how, &quantized, &made));
    suffix = qb_format(cx, "%s.qdq.onnx", target->name); /* MODEL.qdq.onnx is what 'run' makes */
    QB_FREED char *path = QB_NEW(cx, suffix ? qb_project_artifact(cx, &project, suffix) : NULL);
    QB_TRY(qb_onnx_save(cx, quantized, path));
    return report(cx, o, path, target, &foreign, &made);
}

const qb_command qb_command_migrate = {
    .name = "migrate",
    .usage = "MODEL OLD_CALIBRATION [options]",
    .summary = "make a Q/DQ model for TensorRT 11 from a TensorRT 10 cache",
    .notes = "TensorRT 11 has no calibrators: it takes scales from Q/DQ nodes. Layers whose\n"
             "input has no scale in the cache stay float, as they did, and are listed.\n"
             "Written is MODEL.TARGET.qdq.onnx, or the file that -o names.",
    .example = "qbench migrate resnet50.onnx resnet50.calib -o resnet50.qdq.onnx\n"
               "qbench migrate resnet50.onnx resnet50.table --for ort-cpu",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 2,
    .defaults = defaults,
    .run = run,
};
