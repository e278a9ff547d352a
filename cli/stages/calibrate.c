/* What a calibration is made of, and how one is found again. */
#include "base/file.h"
#include "base/log.h"
#include "calib/ranges.h"
#include "cli/settings/methods.h"
#include "cli/stages/stages_internal.h"
#include "engine/backends.h"
#include "eval/methods.h"

qb_status qb_stage_check_devices(qb_ctx *cx, const qb_project *project, bool on_device) {
    if (project->devices.n == 0 || on_device) return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE,
                   "--devices chooses among GPUs, and nothing here runs on one: add "
                   "--providers=cuda,cpu");
}

static bool is_shared(const qb_calibrate_settings *s) {
    return s->shards >= 2 || (s->ranks && s->ranks->size >= 2);
}

static const char *methods_of(const qb_project *project, const qb_calibrate_settings *settings) {
    return settings->methods ? settings->methods : qb_project_method(project, project->task.task);
}

static qb_status check_auto(qb_ctx *cx, const qb_calibrate_settings *s, const qb_methods *list) {
    if (qb_methods_auto(list) < 0 || !is_shared(s)) return QB_OK;
    return qb_fail(
        cx, QB_STATUS_USAGE,
        "method auto judges on all of the data: calibrate the parts by another --method, "
        "then 'qbench calibrate --from FILE --method auto'");
}

/* A slip of the fingers shows before the data are read. */
qb_status qb_calibration_prepare(qb_ctx *cx, const qb_project *project,
                                 const qb_calibrate_settings *settings, qb_calib_options *out) {
    qb_methods list;
    if (!project->calibration_data)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "no calibration data: give --data PATH, or data.calibration in qbench.yaml "
                       "('qbench init --data PATH' writes one)");
    QB_TRY(qb_methods_parse(cx, methods_of(project, settings), 0, &list));
    QB_TRY(check_auto(cx, settings, &list));
    const qb_task *task = project->task.task;
    if (task && methods_of(project, settings) == task->method)
        qb_info(cx, "calibrate: no --method, and the task is %s: %s", task->name, task->method);
    QB_TRY(qb_stage_check_devices(cx, project, qb_backends_name_device(project->spec.backends)));
    *out = (qb_calib_options){.spec = project->spec,
                              .devices = project->devices,
                              .checkpoint = settings->checkpoint,
                              .checkpoint_s = settings->checkpoint_s,
                              .resume = settings->resume,
                              .per_channel = settings->per_channel,
                              .memory = settings->memory};
    out->spec.check = false; /* as docs say: build, bench, compare and run check what they build */
    return QB_OK;
}

qb_status qb_calibration_check_samples(qb_ctx *cx, const qb_project *project,
                                       const qb_calibrate_settings *settings, int64_t n) {
    qb_methods list;
    QB_TRY(qb_methods_parse(cx, methods_of(project, settings), n, &list));
    for (int32_t i = 0; n > 0 && i < list.n; i++)
        QB_TRY_WRAP(cx, qb_method_check_samples(cx, &list.choice[i], n, n), "calibrate");
    return QB_OK;
}

/* The part of the data set that falls to this process, and its name in the table. Processes share
 * what the shard has. */
void qb_calibration_take_share(const qb_calibrate_settings *s, qb_dataset *dataset,
                               qb_shards *shards) {
    if (s->shards > 1) {
        qb_dataset_keep_part(dataset, s->shard - 1, s->shards);
        shards->n = s->shards;
        shards->has[s->shard - 1] = true;
    }
    if (s->ranks && s->ranks->size > 1) {
        qb_dataset_keep_part(dataset, s->ranks->rank, s->ranks->size);
        *shards = (qb_shards){.n = s->ranks->size};
        shards->has[s->ranks->rank] = true;
    }
}

/* The statistics of all processes in the first one; a shard of a run stays one. */
qb_status qb_calibration_gather(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                                const qb_calibrate_settings *s, qb_table **table) {
    if (qb_dataset_count(options->loader.dataset) > 0)
        QB_TRY(qb_calib_gather(cx, graph, options, table));
    else if (!s->ranks || s->ranks->size < 2)
        return qb_fail(cx, QB_STATUS_NOTFOUND, "shard %d/%d holds no sample", s->shard, s->shards);
    if (!s->ranks || s->ranks->size < 2) return QB_OK;
    QB_TRY(qb_ranks_reduce(cx, s->ranks, table));
    if (!*table || s->shards < 2) return QB_OK;
    (*table)->shards = (qb_shards){.n = s->shards};
    (*table)->shards.has[s->shard - 1] = true;
    return QB_OK;
}

void qb_part_text(qb_split part, char text[QB_PART_TEXT]) {
    snprintf(text, QB_PART_TEXT, "[%d %% by seed %lld]", part.percent, (long long)part.seed);
}

qb_status qb_calibration_describe(qb_ctx *cx, const qb_project *project, qb_table *table) {
    QB_FREE_ALL(table->dataset, table->model);
    const qb_split part = qb_project_split(project, project->calibration_data, false);
    char drawn[QB_PART_TEXT];
    qb_part_text(part, drawn);
    table->dataset = part.percent > 0 ? qb_format(cx, "%s %s", project->calibration_data, drawn)
                                      : qb_strdup(cx, project->calibration_data);
    table->model = qb_strdup(cx, qb_path_base(project->model));
    return table->dataset && table->model ? QB_OK : cx->code;
}

qb_status qb_calibration_choose(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                                const qb_calibrate_settings *settings, qb_calib_options options,
                                qb_table *table, qb_holdout *holdout) {
    qb_methods list;
    const qb_quant_options quant = qb_stage_quantization(project, NULL, NULL);
    QB_TRY(qb_methods_parse(cx, methods_of(project, settings), table->samples, &list));
    options.methods = list.choice;
    options.n_methods = list.n;
    QB_TRY(qb_calib_finish(cx, table, list.choice, list.n));
    const int32_t automatic = qb_methods_auto(&list);
    if (automatic >= 0)
        QB_TRY(qb_calib_hold_out(cx, graph, &options, automatic, qb_score_methods, &quant, table,
                                 holdout));
    return qb_calibration_describe(cx, project, table);
}

/* ---- calibrations that are there ---- */

qb_status qb_stage_choose(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                          const char *from, const char *methods, qb_table **out) {
    qb_methods list;
    qb_table *table;
    QB_TRY(qb_table_load(cx, from, &table));
    const int64_t recorded = table->n_recorded > 0 ? table->n_recorded : INT64_MAX;
    qb_status status = QB_OK;
    QB_GO(qb_table_check_model(cx, table, project->model, graph->hash));
    QB_GO(qb_methods_parse(cx, methods ? methods : qb_project_method(project, project->task.task),
                           recorded, &list));
    QB_GO(qb_table_choose(cx, table, list.choice, list.n));
    *out = table;
    return QB_OK;
out:
    qb_table_free(table);
    return status == QB_STATUS_USAGE ? status : qb_wrap(cx, "%s", from);
}

/* The calibration beside the other artifacts, else in the current folder: `quantize -o release/`
 * uses what `calibrate` wrote here. New memory. */
static char *table_path(qb_ctx *cx, const qb_project *project) {
    char *name = qb_format(cx, "%s.calib.h5", project->stem);
    char *path = name ? qb_project_file(cx, project, name) : NULL;
    if (path && !qb_path_exists(path) && qb_path_exists(name)) {
        qb_free(path);
        return name;
    }
    qb_free(name);
    return path;
}

qb_status qb_stage_table(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                         qb_table **out) {
    QB_FREED char *path = QB_NEW(cx, table_path(cx, project));
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    if (!qb_path_exists(path))
        return qb_fail(cx, QB_STATUS_NOTFOUND,
                       "%s: no calibration for %s yet: run 'qbench calibrate --data PATH'", path,
                       project->model);
    QB_TRY(qb_table_load(cx, path, &table));
    QB_TRY_WRAP(cx, qb_table_check_model(cx, table, project->model, graph->hash), "%s", path);
    *out = QB_MOVE(table);
    return QB_OK;
}

void qb_stage_check_preparation(qb_ctx *cx, const qb_project *project, const qb_table *table) {
    char now[512], difference[256];
    if (!project->has_preprocess || !table->preprocess) return; /* what is guessed needs the data */
    qb_preprocess_text(&project->preprocess, now, sizeof now);
    if (qb_preprocess_differs(table->preprocess, now, difference, sizeof difference))
        qb_warn(cx, "the ranges were chosen on images prepared otherwise: %s: calibrate again",
                difference);
}

qb_status qb_stage_note_largest(qb_ctx *cx, const qb_project *project, const qb_build_spec *spec,
                                qb_graph *graph) {
    qb_table *table;
    if (spec->float_type != QB_DTYPE_F16) return QB_OK;
    if (qb_stage_table(cx, project, graph, &table) == QB_OK) {
        qb_table_note_largest(table, graph);
        qb_table_free(table);
        return QB_OK;
    }
    if (cx->code == QB_STATUS_NOMEM) return cx->code;
    if (cx->code != QB_STATUS_NOTFOUND)
        qb_warn(cx, "which values FP16 cannot hold is not known: %s", cx->message);
    qb_ctx_clear(cx);
    return QB_OK;
}
