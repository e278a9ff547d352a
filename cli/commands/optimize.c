/* qbench optimize: the model as the optimizer leaves it, as an ONNX file. */
#include "cli/json_out.h"
#include "cli/pipeline.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
} options;

static const qb_opt table[] = {QB_COMMON_OPTIONS, QB_PROJECT_OPTIONS(options), {0}};

static json_t *report_json(const char *path, const qb_optimize_report *report) {
    json_t *passes = json_object();
    int32_t n;
    const qb_pass *const *all = qb_passes(&n);
    for (int32_t i = 0; i < n; i++)
        json_object_set_new(passes, all[i]->name, json_integer(report->n_changes[i]));
    return json_pack("{s:s, s:o, s:i, s:i, s:o}", "schema", "qbench.optimize/1", "file",
                     qb_json_string(path), "nodes_before", report->nodes_before, "nodes_after",
                     report->nodes_after, "passes", passes);
}

static void print_report(const char *path, const qb_optimize_report *report) {
    int32_t n;
    const qb_pass *const *all = qb_passes(&n);
    for (int32_t i = 0; i < n; i++)
        if (report->n_changes[i] > 0)
            printf("%-24s %6d  %s\n", all[i]->name, (int)report->n_changes[i], all[i]->summary);
    printf("%d nodes, %d after optimization\nwrote %s\n", (int)report->nodes_before,
           (int)report->nodes_after, path);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    if (arguments->n > 0 && !flags.model) flags.model = arguments->item[0];
    qb_project project = {0};
    qb_graph *graph = NULL;
    qb_optimize_report report = {0};
    char *path = NULL;
    qb_status status = QB_OK;
    QB_GO(qb_project_open(cx, &o->common, &flags, true, &project));
    QB_GO(qb_stage_load(cx, &project, &graph, &report));
    path = qb_project_artifact(cx, &project, "opt.onnx");
    if (!path) QB_GO(cx->code);
    QB_GO(qb_onnx_save(cx, graph, path));
    if (!o->common.quiet && !qb_json_on_stdout(&o->common)) print_report(path, &report);
    QB_GO(qb_json_out(cx, &o->common, report_json(path, &report)));
out:
    qb_free(path);
    qb_graph_free(graph);
    qb_project_close(&project);
    return status;
}

const qb_command qb_command_optimize = {
    .name = "optimize",
    .usage = "[MODEL] [-o FILE.onnx] [options]",
    .summary = "write the model as the optimizer leaves it: folded, fused, pruned",
    .example = "qbench optimize resnet50.onnx -o resnet50.opt.onnx\n"
               "qbench optimize bert.onnx --disable-pass fuse_gelu",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
