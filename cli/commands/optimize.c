/* qbench optimize: the model, or a part of it, as the optimizer leaves it, as an ONNX file. */
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "cli/out/values.h"
#include "cli/pipeline.h"
#include "graph/dequantize.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    qb_opt_list inputs, outputs;
    bool dequantize;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_MODEL_OPTIONS(options),
    QB_LIST(options, "outputs", outputs, "NAME,...",
            "let the model end at these tensors: before NonMaxSuppression, or without a head "
            "(repeatable)"),
    QB_LIST(options, "inputs", inputs, "NAME,...", "let it begin at these tensors (repeatable)"),
    QB_FLAG(options, "dequantize", dequantize,
            "a Q/DQ model without its quantization: to be calibrated anew"),
    {0},
};

/* "a,b" and "c" as a, b, c. */
static qb_status split(qb_ctx *cx, qb_arena *arena, const char *option, const qb_opt_list *list,
                       const char *const **out, int32_t *n) {
    size_t most = 0;
    for (int i = 0; i < list->n; i++) most += strlen(list->item[i]) / 2 + 1;
    const char **names = QB_NEW(cx, qb_arena_alloc(cx, arena, most, sizeof *names));
    for (int i = 0; i < list->n; i++) {
        for (const char *at = list->item[i];; at++) {
            const size_t length = strcspn(at, ",");
            if (length == 0)
                return qb_fail(cx, QB_STATUS_USAGE, "--%s: expected NAME[,NAME...], got '%s'",
                               option, list->item[i]);
            names[*n] = qb_arena_strndup(cx, arena, at, length);
            if (!names[(*n)++]) return cx->code;
            at += length;
            if (!*at) break;
        }
    }
    *out = names;
    return QB_OK;
}

static qb_status load(qb_ctx *cx, const options *o, const qb_project *project, qb_graph **graph,
                      qb_optimize_report *report) {
    qb_onnx_part part = {0};
    QB_RELEASED(qb_arena_free_at) qb_arena *arena = NULL;
    QB_TRY(qb_arena_create(cx, &arena));
    QB_TRY(split(cx, arena, "inputs", &o->inputs, &part.inputs, &part.n_inputs));
    QB_TRY(split(cx, arena, "outputs", &o->outputs, &part.outputs, &part.n_outputs));
    const bool whole = part.n_inputs == 0 && part.n_outputs == 0;
    return qb_stage_load(cx, project, whole ? NULL : &part, graph, report);
}

/* Weights become what their codes stand for; activations are not rounded any more. */
static qb_status dequantize(qb_ctx *cx, qb_graph **graph) {
    qb_graph *floats;
    if (!qb_graph_is_quantized(*graph))
        return qb_fail(cx, QB_STATUS_USAGE, "--dequantize: nothing of the model is quantized");
    QB_TRY(qb_graph_dequantize(cx, *graph, &floats));
    qb_graph_free(*graph);
    *graph = floats;
    return QB_OK;
}

static json_t *report_json(const char *path, const qb_graph *graph,
                           const qb_optimize_report *report) {
    json_t *passes = json_object();
    for (int i = 0; qb_passes[i]; i++)
        json_object_set_new(passes, qb_passes[i]->name, json_integer(report->n_changes[i]));
    return json_pack("{s:s, s:o, s:o, s:o, s:i, s:i, s:o}", "schema", "qbench.optimize/1", "file",
                     qb_json_text(path), "inputs",
                     qb_values_json(graph, graph->inputs, graph->n_inputs), "outputs",
                     qb_values_json(graph, graph->outputs, graph->n_outputs), "nodes_before",
                     report->nodes_before, "nodes_after", report->nodes_after, "passes", passes);
}

static void print_report(const char *path, const json_t *json, const qb_optimize_report *report) {
    for (int i = 0; qb_passes[i]; i++)
        if (report->n_changes[i] > 0)
            printf("%-24s %6d  %s\n", qb_passes[i]->name, (int)report->n_changes[i],
                   qb_passes[i]->summary);
    qb_print_values("inputs", json_object_get(json, "inputs"));
    qb_print_values("outputs", json_object_get(json, "outputs"));
    printf("%d nodes, %d after optimization\nwrote %s\n", (int)report->nodes_before,
           (int)report->nodes_after, QB_SHOWN(path));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    qb_optimize_report report = {0};
    json_auto_t *json = NULL;
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    QB_TRY(load(cx, o, &project, &graph, &report));
    if (o->dequantize) QB_TRY(dequantize(cx, &graph));
    QB_FREED char *path = QB_NEW(cx, qb_project_artifact(cx, &project, "opt.onnx"));
    QB_TRY(qb_onnx_save(cx, graph, path));
    json = report_json(path, graph, &report);
    if (!o->common.quiet && !qb_json_on_stdout(&o->common)) print_report(path, json, &report);
    return qb_json_out(cx, &o->common, json_incref(json));
}

const qb_command qb_command_optimize = {
    .name = "optimize",
    .usage = "[MODEL] [-o FILE.onnx] [options]",
    .summary = "write the model as the optimizer leaves it: folded, fused, cut",
    .example = "qbench optimize resnet50.onnx -o resnet50.opt.onnx\n"
               "qbench optimize bert.onnx --disable-pass fuse-gelu\n"
               "qbench optimize detector.onnx --outputs boxes,scores\n"
               "qbench optimize trained.qdq.onnx --dequantize -o trained.onnx",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
