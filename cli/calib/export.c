/* qbench calib export: MODEL.calib.h5 -> another tool's calibration. */
#include "base/file.h"
#include "base/text.h"
#include "calib/ranges.h"
#include "cli/out/json.h"
#include "cli/pipeline.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *format, *method;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_MODEL_OPTIONS(options),
    QB_TEXT(options, "format", format, "NAME",
            "trt, ort-json, ort-cache, ort-flatbuffers, ncnn, ppq or aimet"),
    QB_TEXT(options, "method", method, "NAME",
            "the ranges by this method (default: the calibration's first)"),
    {0},
};

/* -o when it names something other than a folder, else MODEL.SUFFIX there. New memory. */
static char *output_path(qb_ctx *cx, const options *o, const qb_project *project,
                         const qb_calib_format *format) {
    if (o->common.out && !qb_path_is_dir(o->common.out) && !qb_has_suffix(o->common.out, "/"))
        return qb_strdup(cx, o->common.out);
    char *name = qb_format(cx, "%s%s", project->stem, format->suffix);
    char *path = name ? qb_path_join(cx, o->common.out, name) : NULL;
    qb_free(name);
    return path;
}

static qb_status load_table(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                            const char *path, qb_table **out) {
    if (!path) return qb_stage_table(cx, project, graph, out);
    QB_TRY(qb_table_load(cx, path, out));
    QB_TRY_WRAP(cx, qb_table_check_model(cx, *out, project->model, graph->hash), "%s", path);
    return QB_OK;
}

static qb_status find_method(qb_ctx *cx, const options *o, const qb_table *calibration,
                             int32_t *out) {
    *out = o->method ? qb_table_method(calibration, o->method) : 0;
    if (*out >= 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "the calibration has no method '%s'", o->method);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    const qb_calib_format *format;
    if (!o->format) return qb_fail(cx, QB_STATUS_USAGE, "calib export: give --format");
    QB_TRY(qb_calib_format_find(cx, o->format, &format));
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_table_free_at) qb_table *calibration = NULL;
    QB_RELEASED(qb_ranges_release) qb_ranges ranges = {0};
    int32_t method;
    qb_common common = o->common;
    common.out = NULL; /* names the result, not a folder of artifacts */
    QB_TRY(qb_project_open(cx, &common, &o->project, true, &project));
    QB_TRY(qb_stage_load(cx, &project, NULL, &graph, NULL));
    QB_TRY(load_table(cx, &project, graph, arguments->n > 0 ? arguments->item[0] : NULL,
                      &calibration));
    QB_TRY(find_method(cx, o, calibration, &method));
    QB_TRY(qb_ranges_of_table(cx, calibration, method, &ranges));
    QB_FREED char *path = QB_NEW(cx, output_path(cx, o, &project, format));
    QB_TRY(qb_ranges_save(cx, &ranges, format, graph, path));
    if (!qb_json_on_stdout(&o->common))
        printf("%s: %d tensors, %s, for %s\n", QB_SHOWN(path), ranges.n,
               calibration->method[method], format->name);
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:o, s:s, s:s, s:i}", "schema", "qbench.calib-export/1",
                                 "file", qb_json_text(path), "format", format->name, "method",
                                 calibration->method[method], "tensors", ranges.n));
}

const qb_command qb_calib_command_export = {
    .name = "calib export",
    .usage = "[CALIB.calib.h5] --format NAME [options]",
    .summary = "write one for TensorRT, onnxruntime, ncnn, PPQ or AIMET",
    .example = "qbench calib export --format trt\n"
               "qbench calib export --format ncnn --method minmax -o resnet50.table",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
