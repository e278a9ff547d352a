/* The whole story of a project. `qbench init` writes the settings that it is opened with; then
 *   load -> calibrate -> quantize -> build -> compare,
 * and `qbench gate` and `report` read the record that the comparison leaves. */
#include "cli/pipeline.h"

#include "cli/settings/inputs.h"
#include "cli/stages/stages_internal.h"
#include "eval/probe.h"

qb_status qb_stage_load(qb_ctx *cx, const qb_project *project, const qb_onnx_part *part,
                        qb_graph **out, qb_optimize_report *report) {
    const qb_optimize_options options = {.disabled = project->disabled};
    qb_onnx_part sized = part ? *part : (qb_onnx_part){0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    if (!sized.user) sized.user = project->shapes;
    sized.size_inputs = sized.user ? qb_size_inputs : NULL;
    QB_TRY(qb_project_read_model(cx, project, &sized, &graph));
    QB_TRY(qb_fix_inputs(cx, project->fixed_inputs, graph));
    QB_TRY(qb_optimize(cx, graph, &options, report));
    *out = QB_MOVE(graph);
    return QB_OK;
}

qb_status qb_stage_calibrate(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                             const qb_calibrate_settings *settings, qb_table **out,
                             qb_holdout *holdout) {
    qb_calib_options options;
    qb_holdout scores = {0};
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = NULL;
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    QB_TRY(qb_calibration_prepare(cx, project, settings, &options));
    const char *data = project->calibration_data;
    QB_TRY(qb_stage_data(cx, project, graph, data, qb_project_split(project, data, false), &dataset,
                         &options.loader));
    qb_calibration_take_share(settings, dataset, &options.shards);
    QB_TRY(qb_calibration_check_samples(cx, project, settings, qb_dataset_count(dataset)));
    QB_TRY(qb_calibration_gather(cx, graph, &options, settings, &table));
    if (table) QB_TRY(qb_calibration_choose(cx, project, graph, settings, options, table, &scores));
    if (holdout) *holdout = scores;
    *out = QB_MOVE(table);
    return QB_OK;
}

qb_status qb_stage_build(qb_ctx *cx, const qb_project *project, const qb_build_settings *settings,
                         qb_built *out) {
    qb_precision precision = qb_stage_precision(project);
    qb_build_spec spec;
    QB_RELEASED(qb_build_sizes_release) qb_build_sizes sizes = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_RELEASED(qb_built_release) qb_built built = {0};
    qb_status status = QB_OK;
    QB_TRY(qb_precision_parse(cx, settings->precision, &precision));
    const char *refusal = qb_precision_spec(&precision, &spec);
    if (refusal) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: %s", settings->precision, refusal);
    const qb_onnx_part sized = {.user = settings->sizes->shapes};
    QB_TRY(qb_stage_load(cx, project, &sized, &graph, NULL));
    QB_TRY(qb_build_sizes_parse(cx, project, settings->sizes, graph, &spec, &sizes));
    if (qb_precision_is_quantized(&precision))
        QB_TRY(qb_build_quantize(cx, project, &precision, &spec, &graph, &built));
    else
        QB_TRY(qb_stage_note_largest(cx, project, &spec, graph));
    status = qb_build_graph(cx, spec, graph, &built.engine);
    if (status != QB_OK) {
        qb_wrap(cx, "%s", project->model);
        return status;
    }
    *out = QB_MOVE(built);
    return status;
}

qb_status qb_stage_compare(qb_ctx *cx, const qb_project *project,
                           const qb_compare_settings *settings, qb_run **out) {
    QB_RELEASED(qb_candidates_release) qb_candidates c = {0};
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = NULL, *targets = NULL;
    QB_RELEASED(qb_run_free_at) qb_run *run = NULL;
    const char *data;
    int64_t batches[QB_COMPARE_BATCHES];
    qb_compare_options options = {.batch = project->batch,
                                  .duration_s = settings->duration_s > 0 ? settings->duration_s
                                                                         : project->duration_s,
                                  .batches = batches,
                                  .labels = &project->labels,
                                  .task = &project->task,
                                  .layers = settings->layers,
                                  .thumbnail = (int32_t)settings->thumbnail};
    QB_TRY(qb_compare_batches(cx, settings->batches, batches, &options.n_batches));
    QB_TRY(qb_candidates_collect(cx, project, settings->precision, settings->n_precisions, &c));
    for (int32_t k = 0; k < options.n_batches; k++) QB_TRY(qb_probe_check(cx, c.graph, batches[k]));
    QB_TRY(qb_compare_data(cx, project, &c, &data));
    QB_TRY(qb_stage_data(cx, project, c.graph, data, qb_project_split(project, data, true),
                         &dataset, &options.loader));
    QB_TRY(qb_compare_truth(cx, project, data, dataset, &targets));
    QB_TRY(qb_candidates_finalize(cx, project, &options.loader, &c));
    QB_TRY(qb_compare_take_part(cx, project, settings, &c, dataset, targets, &options));
    options.candidate = c.item;
    options.n_candidates = c.n;
    options.targets = targets;
    QB_TRY(qb_compare(cx, &options, &run));
    QB_TRY(qb_compare_describe(cx, project, &c, data, &options.loader, run));
    if (settings->layers) QB_TRY(qb_compare_suggest(cx, project, run));
    *out = QB_MOVE(run);
    return QB_OK;
}
