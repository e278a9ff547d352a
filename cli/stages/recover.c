/* The recovered model beside the model: made of the calibration data, found again by its name. */
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "calib/ranges.h"
#include "cli/settings/methods.h"
#include "cli/stages/stages_internal.h"
#include "eval/methods.h"

/* STEM.recovered.SUFFIX in the output folder; to be read it may be in the current one, too. */
static char *path_of(qb_ctx *cx, const qb_project *project, const char *suffix, bool read) {
    char *name = qb_format(cx, "%s.recovered.%s", project->stem, suffix);
    char *path = name ? qb_project_file(cx, project, name) : NULL;
    if (read && path && !qb_path_exists(path) && qb_path_exists(name)) {
        qb_free(path);
        return name;
    }
    qb_free(name);
    return path;
}

static qb_status load(qb_ctx *cx, const qb_project *project, const char *path, qb_graph **out) {
    const qb_optimize_options options = {.disabled = project->disabled};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_onnx_load(cx, path, &graph));
    QB_TRY(qb_optimize(cx, graph, &options, NULL));
    *out = QB_MOVE(graph);
    return QB_OK;
}

/* The table is that of the model as it is in the file. */
static qb_status save(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                      qb_recovered *r) {
    QB_FREED char *model = path_of(cx, project, "onnx", false),
                  *unrounded = path_of(cx, project, "float.onnx", false),
                  *table = path_of(cx, project, "calib.h5", false);
    QB_RELEASED(qb_graph_free_at) qb_graph *again = NULL;
    if (!model || !unrounded || !table) return cx->code;
    QB_TRY(qb_onnx_save(cx, r->unrounded, unrounded));
    QB_TRY(qb_onnx_save(cx, r->graph, model));
    QB_TRY(load(cx, project, model, &again));
    r->table->model_hash = again->hash;
    r->table->recovered_from = graph->hash;
    return qb_table_save(cx, r->table, table);
}

qb_status qb_stage_recover(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                           const char *methods, const char *list, bool resume, qb_recovered *out) {
    const qb_calibrate_settings settings = {.methods = methods};
    const qb_quant_options quant = qb_stage_quantization(project, NULL, NULL);
    qb_calib_options calibration;
    QB_RELEASED(qb_dataset_close_at) qb_dataset *dataset = NULL;
    qb_methods all;
    QB_RELEASED(qb_recovered_release) qb_recovered result = {0};
    qb_status status = QB_OK;
    QB_FREED char *part = NULL;
    QB_TRY(qb_recover_check(cx, list));
    QB_TRY(qb_calibration_prepare(cx, project, &settings, &calibration));
    const char *data = project->calibration_data;
    QB_TRY(qb_stage_data(cx, project, graph, data, qb_project_split(project, data, false), &dataset,
                         &calibration.loader));
    QB_GO(qb_methods_parse(cx, methods ? methods : qb_project_method(project, project->task.task),
                           qb_dataset_count(dataset), &all));
    calibration.methods = all.choice;
    calibration.n_methods = all.n;
    if (!(part = path_of(cx, project, "part", false))) QB_GO(cx->code);
    const qb_recover_options options = {.calibration = &calibration,
                                        .quant = &quant,
                                        .list = list,
                                        .score = qb_score_graph,
                                        .progress = part,
                                        .resume = resume};
    QB_GO(qb_recover(cx, graph, &options, &result));
    QB_GO(qb_calibration_describe(cx, project, result.table));
    QB_GO(save(cx, project, graph, &result));
    unlink(part);
    *out = QB_MOVE(result);
out:
    if (status == QB_STATUS_CANCELLED && qb_path_exists(part))
        qb_warn(cx,
                "steps that ended are in %s: the same command with --resume goes on behind them",
                part);
    return status;
}

static qb_status load_recovered(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                                qb_stage_source *out) {
    QB_FREED char *model = path_of(cx, project, "onnx", true),
                  *unrounded = path_of(cx, project, "float.onnx", true),
                  *ranges = path_of(cx, project, "calib.h5", true);
    if (!model || !unrounded || !ranges) return cx->code;
    if (!qb_path_exists(model) || !qb_path_exists(ranges))
        return qb_fail(cx, QB_STATUS_NOTFOUND,
                       "%s: %s was not recovered yet: run 'qbench calibrate --recover'", model,
                       project->model);
    QB_TRY(load(cx, project, model, &out->recovered));
    QB_TRY(qb_table_load(cx, ranges, &out->table));
    QB_TRY(qb_table_check_model(cx, out->table, model, out->recovered->hash));
    if (!qb_hash_equal(out->table->recovered_from, graph->hash))
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s was recovered from another model than %s: run 'qbench calibrate "
                       "--recover' again",
                       model, project->model);
    if (qb_path_exists(unrounded)) QB_TRY(load(cx, project, unrounded, &out->unrounded));
    return QB_OK;
}

qb_status qb_stage_source_load(qb_ctx *cx, const qb_project *project, qb_graph *graph, bool recover,
                               qb_stage_source *out) {
    qb_stage_source source = {.graph = graph};
    const qb_status status = recover ? load_recovered(cx, project, graph, &source)
                                     : qb_stage_table(cx, project, graph, &source.table);
    if (recover) source.graph = source.recovered;
    if (status == QB_OK) {
        qb_table_note_largest(source.table, recover ? source.recovered : graph);
        *out = source;
    } else {
        qb_stage_source_release(&source);
    }
    return status;
}

void qb_stage_source_release(qb_stage_source *source) {
    qb_graph_free(source->recovered);
    qb_graph_free(source->unrounded);
    qb_table_free(source->table);
    *source = (qb_stage_source){0};
}
