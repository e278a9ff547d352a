/* qbench quantize: MODEL.onnx + MODEL.calib.h5 -> MODEL.qdq.onnx. */
#include "base/text.h"
#include "cli/out/json.h"
#include "cli/out/recover.h"
#include "cli/pipeline.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *method, *target;
    bool skip_missing;
    qb_opt_list recover;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_QUANT_OPTIONS(options),
    QB_TEXT(options, "method", method, "NAME",
            "which method of the calibration to use (default: its first)"),
    QB_TEXT(options, "for", target, "TARGET",
            "write the form that a runtime wants: trt, ort-cpu, ort-cuda or openvino"),
    QB_RECOVER_OPTION(options,
                      "of the model that 'calibrate --recover' made; =LIST: recover it now by "
                      "these, from the data of the settings"),
    QB_FLAG(options, "skip-missing", skip_missing,
            "leave in float what the calibration has no range for"),
    {0},
};

static void print_report(const char *path, const qb_quant_report *r) {
    printf("%s: %d layers in int8, %d kept in float, %d activation tensors", QB_SHOWN(path),
           r->quantized, r->kept_float, r->tensors);
    if (r->tensors_16 > 0) printf(", %d of 16 bits", r->tensors_16);
    if (r->held > 0) printf("; %d layers were in int8 before and stay as they are", r->held);
    putchar('\n');
}

static qb_status write_result(qb_ctx *cx, const options *o, const qb_project *project,
                              const qb_graph *quantized, const qb_quant_report *report) {
    QB_FREED char *path = QB_NEW(cx, qb_project_artifact(cx, project, "qdq.onnx"));
    QB_TRY(qb_onnx_save(cx, quantized, path));
    if (!qb_json_on_stdout(&o->common)) print_report(path, report);
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i}", "schema",
                                 "qbench.quantize/1", "file", qb_json_text(path), "layers_int8",
                                 report->quantized, "layers_float", report->kept_float,
                                 "layers_held", report->held, "tensors", report->tensors,
                                 "tensors_16", report->tensors_16));
}

/* Engines run to recover the model now, and for nothing else. */
static qb_status refuse_run_options(qb_ctx *cx, const options *o) {
    static const char *const of_runs[] = {QB_BUILD_OPTION_NAMES, NULL};
    if (qb_recover_list(&o->recover)) return QB_OK;
    return qb_options_refuse(cx, &qb_command_quantize, o, of_runs, "quantize runs no engine");
}

static qb_status recover(qb_ctx *cx, const options *o, const qb_project *project,
                         const qb_graph *graph) {
    const char *list = qb_recover_list(&o->recover);
    QB_RELEASED(qb_recovered_release) qb_recovered made = {0};
    if (!list) return QB_OK;
    QB_TRY(qb_stage_recover(cx, project, graph, o->method, list, false, &made));
    if (!qb_json_on_stdout(&o->common)) qb_recover_print(&made);
    return QB_OK;
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL, *quantized = NULL;
    QB_RELEASED(qb_stage_source_release) qb_stage_source source = {0};
    qb_quant_report report = {0};
    const qb_target *target = NULL;
    if (o->target) QB_TRY(qb_target_find(cx, o->target, &target));
    if (target && flags.activations)
        return qb_fail(cx, QB_STATUS_USAGE, "--activations: --for %s decides that", target->name);
    QB_TRY(refuse_run_options(cx, o));
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    QB_TRY(qb_stage_load(cx, &project, NULL, &graph, NULL));
    QB_TRY(recover(cx, o, &project, graph));
    QB_TRY(qb_stage_source_load(cx, &project, graph, o->recover.n > 0, &source));
    qb_stage_check_preparation(cx, &project, source.table);
    qb_quant_options how = qb_stage_quantization(&project, NULL, o->method);
    how.target = target;
    how.missing_stays_float = o->skip_missing;
    how.unrounded = source.unrounded;
    QB_TRY(qb_quantize(cx, source.graph, source.table, &how, &quantized, &report));
    return write_result(cx, o, &project, quantized, &report);
}

const qb_command qb_command_quantize = {
    .name = "quantize",
    .usage = "[MODEL] [options]",
    .summary = "write the explicit Q/DQ model (MODEL.qdq.onnx)",
    .example = "qbench quantize\n"
               "qbench quantize --for trt -o model.trt.onnx\n"
               "qbench quantize --method minmax --keep-float 'classifier*' -o release/",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
