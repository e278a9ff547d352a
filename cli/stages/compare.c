/* What a comparison needs beside its candidates, and what its record says of them. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/out/json.h"
#include "cli/stages/stages_internal.h"
#include "eval/part.h"
#include "eval/warnings.h"

/* That of the plain rows, else of the recovered ones; NULL without any. */
static const qb_table *table_of(const qb_candidates *c) {
    return c->plain.table ? c->plain.table : c->recovered.table;
}

qb_status qb_compare_data(qb_ctx *cx, const qb_project *project, const qb_candidates *c,
                          const char **out) {
    *out = project->evaluation_data;
    if (!*out && project->calibration_data) *out = project->calibration_data;
    if (!*out && table_of(c)) *out = table_of(c)->dataset;
    if (!*out)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "no data to score on: give --data PATH or data.evaluation in qbench.yaml");
    if (!project->evaluation_data && !qb_path_exists(*out))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "no data to score on: '%s', which the calibration was made from, is not "
                       "here: give --data PATH or data.evaluation in qbench.yaml",
                       *out);
    if (!project->evaluation_data || qb_project_scores_on_calibration(project))
        qb_info(cx, "scoring on %s, the calibration data: give --data for a held-out set", *out);
    return QB_OK;
}

/* The method that auto took for a tensor: the first one with its range. */
static const char *method_behind(const qb_table *table, const qb_table_entry *entry,
                                 int32_t automatic) {
    for (int32_t m = 0; m < table->n_methods; m++)
        if (m != automatic && entry->range[m].lo == entry->range[automatic].lo &&
            entry->range[m].hi == entry->range[automatic].hi)
            return table->method[m];
    return table->method[automatic];
}

/* Layers of an engine by auto name the method behind each range. */
static qb_status resolve_auto(qb_ctx *cx, const qb_table *table, qb_run *run) {
    const int32_t automatic = table ? qb_table_method(table, "auto") : -1;
    for (int32_t r = 0; r < run->n_rows && automatic >= 0; r++) {
        qb_run_row *row = &run->row[r];
        for (int32_t i = 0; i < row->n_layers && strcmp(row->calibration, "auto") == 0; i++) {
            qb_run_layer *layer = &row->layer[i];
            const qb_table_entry *entry = qb_table_find(table, layer->value);
            if (!entry) continue;
            char *method = QB_NEW(cx, qb_strdup(cx, method_behind(table, entry, automatic)));
            qb_free(layer->method);
            layer->method = method;
        }
    }
    return QB_OK;
}

qb_status qb_compare_batches(qb_ctx *cx, const char *text, int64_t *batches, int32_t *n) {
    *n = 0;
    for (const char *at = text; at && *at != '\0';) {
        char *end;
        const long long batch = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || batch < 1 || batch > 65536 ||
            *n == QB_COMPARE_BATCHES)
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--batches %s: expected at most %d numbers from 1 to 65536, such as "
                           "1,8,32",
                           text, QB_COMPARE_BATCHES);
        batches[(*n)++] = batch;
        at = *end == ',' ? end + 1 : end;
    }
    return QB_OK;
}

int64_t qb_stage_outputs(const qb_graph *graph) {
    const qb_value *value = &graph->values[graph->outputs[0]];
    if (qb_output_kind_of(value->dtype, &value->shape) != QB_OUTPUT_CLASSES) return 0;
    const int64_t n = qb_shape_span(&value->shape, 1, value->shape.rank);
    return n > 1 ? n : 0;
}

bool qb_stage_numbers_folders(const qb_project *project, const qb_dataset *dataset) {
    return project->labels.n == 0 && strcmp(qb_dataset_format_name(dataset), "class_folder") == 0;
}

bool qb_stage_lacks_labels(const qb_project *project, const qb_dataset *dataset) {
    return project->absent_labels && qb_dataset_has_labels(dataset) &&
           qb_stage_numbers_folders(project, dataset);
}

/* Ground truth images are those that are named, else what the data's own file holds. */
qb_status qb_compare_truth(qb_ctx *cx, const qb_project *project, const char *data,
                           const qb_dataset *dataset, qb_dataset **out) {
    const bool inside = !project->targets && qb_dataset_has_targets(dataset);
    const qb_dataset_options options = {.max_samples = project->samples,
                                        .split = qb_project_split(project, data, true),
                                        .images = inside ? "targets" : NULL};
    if (qb_stage_lacks_labels(project, dataset))
        return qb_fail(cx, QB_STATUS_IO,
                       "%s, which the model's sidecar names for its labels, does not exist: "
                       "nothing else says which folder is which class (or name a file: --labels "
                       "FILE)",
                       project->absent_labels);
    if (!inside && !project->targets) return QB_OK;
    return qb_dataset_open(cx, inside ? data : project->targets, &options, out);
}

bool qb_stage_scores_on_calibration(const qb_project *project, const qb_table *table,
                                    const char *data, qb_hash scored) {
    char part[QB_PART_TEXT];
    if (!table) return false;
    if (qb_hash_equal(table->data_hash, scored)) return true;
    if (qb_project_scores_on_calibration(project)) return true;
    const char *set = table->dataset ? table->dataset : "";
    const char *drawn = strrchr(set, '['); /* which part of it, see qb_part_text */
    if (!drawn || drawn == set) return qb_path_is_same(set, data);
    qb_part_text(qb_project_split(project, data, false), part);
    return strncmp(set, data, (size_t)(drawn - set) - 1) == 0 && strcmp(drawn, part) != 0;
}

qb_status qb_compare_warn_of_calibration(qb_ctx *cx, const char *data, qb_run *run) {
    return qb_warning_add(cx, run, "calibration-data", "",
                          "scored on %s, the data that the ranges were chosen on: the numbers "
                          "flatter; name a held-out set (--data, data.evaluation)",
                          data);
}

/* Some samples of the calibration among others flatter as well, as far as they go; copies count
 * twice, which makes intervals narrower than they are. */
qb_status qb_compare_warn_of_samples(qb_ctx *cx, int64_t shared, qb_run *run) {
    const int64_t n = run->n_sample_keys;
    int64_t copies = 0;
    for (int64_t i = 1; i < n; i++) copies += run->sample_key[i] == run->sample_key[i - 1];
    if (copies > 0)
        QB_TRY(qb_warning_add(cx, run, 2 * copies > n ? "copies" : "copies-few", "",
                              "%lld of %lld samples are copies of others, which count twice "
                              "('qbench data doctor' names them)",
                              (long long)copies, (long long)n));
    if (shared == 0) return QB_OK;
    return qb_warning_add(cx, run, 100 * shared > n ? "calibration-data" : "calibration-few", "",
                          "%lld of %lld samples are among those that the ranges were chosen on: "
                          "the numbers flatter",
                          (long long)shared, (long long)n);
}

qb_status qb_compare_warn_of_file(qb_ctx *cx, const char *row, qb_hash calibrated_on, qb_run *run) {
    if (qb_hash_is_zero(calibrated_on) || !qb_hash_equal(calibrated_on, run->data_hash))
        return QB_OK;
    return qb_warning_add(cx, run, "calibration-data", row,
                          "%s: scored on %s, the samples that its ranges were chosen on: the "
                          "numbers flatter",
                          row, run->dataset);
}

/* Ranges of other inputs than those that are scored: one of the two is not what the model gets
 * where it is used. */
static qb_status warn_of_preparation(qb_ctx *cx, const qb_candidates *c,
                                     const qb_loader_options *loader, qb_run *run) {
    char now[512], difference[256];
    qb_loader_text(loader, now, sizeof now);
    for (int32_t i = 0; i < c->n; i++) {
        const qb_candidate *item = &c->item[i];
        if (!item->prepared ||
            !qb_preprocess_differs(item->prepared, now, difference, sizeof difference))
            continue;
        QB_TRY(qb_warning_add(cx, run, "calibration-preprocess", item->precision,
                              "%s: its ranges were chosen on images prepared otherwise: %s: "
                              "calibrate again, or mend the preprocessing",
                              item->precision, difference));
    }
    return QB_OK;
}

/* Of all samples; those of a part wait for the others (qb_stage_merge). */
static qb_status warn_of_content(qb_ctx *cx, const qb_candidates *c, const qb_table *table,
                                 qb_run *run) {
    const qb_part calibration = {.sample = table ? table->sample : NULL,
                                 .n_samples = table && table->sample ? table->samples : 0};
    if (run->points_only) return QB_OK;
    const int64_t shared = qb_part_shared(&calibration, run->sample_key, run->n_sample_keys);
    QB_TRY(qb_compare_warn_of_samples(cx, shared, run));
    for (int32_t i = 0; i < c->n; i++)
        QB_TRY(qb_compare_warn_of_file(cx, c->item[i].precision, c->item[i].calibrated_on, run));
    return QB_OK;
}

/* With a folder less than classes, all behind it have another class's number. */
static qb_status warn_of_numbers(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                                 const qb_dataset *dataset, qb_run *run) {
    const int64_t outputs = qb_stage_outputs(graph);
    const int32_t n = qb_dataset_classes(dataset);
    if (outputs == 0 || n == outputs || !qb_dataset_has_labels(dataset) ||
        !qb_stage_numbers_folders(project, dataset))
        return QB_OK;
    return qb_warning_add(cx, run, "class-numbers", "",
                          "%d folders, %lld outputs of the model: folders are numbered 0 to %d in "
                          "byte order, which are not the model's numbers: say which folder is "
                          "which class (--labels, or the model's sidecar)",
                          n, (long long)outputs, n - 1);
}

static qb_status describe_part(qb_ctx *cx, qb_split part, qb_run *run) {
    if (part.percent == 0) return QB_OK;
    run->part = qb_format(cx, "the %d %% that a draw with seed %lld held out from calibration",
                          100 - part.percent, (long long)part.seed);
    return run->part ? QB_OK : cx->code;
}

qb_status qb_compare_describe(qb_ctx *cx, const qb_project *project, const qb_candidates *c,
                              const char *data, const qb_loader_options *loader, qb_run *run) {
    const qb_dataset *dataset = loader->dataset;
    const char *decoder = qb_dataset_decoder(dataset);
    const qb_table *table = table_of(c);
    QB_TRY(resolve_auto(cx, table, run));
    QB_TRY(warn_of_numbers(cx, project, c->graph, dataset, run));
    QB_TRY(warn_of_preparation(cx, c, loader, run));
    if (qb_stage_scores_on_calibration(project, table, data, run->data_hash))
        QB_TRY(qb_compare_warn_of_calibration(cx, data, run));
    if (table) {
        run->calibrated_on = qb_strdup(cx, table->dataset);
        run->calibration_samples = table->samples;
        if (!run->calibrated_on) return cx->code;
    }
    run->model_hash = c->graph->hash;
    run->model = qb_strdup(cx, qb_path_base(project->model));
    QB_TRY_NEW(cx, run->dataset = qb_strdup(cx, data));
    QB_TRY(warn_of_content(cx, c, table, run));
    QB_TRY(describe_part(cx, qb_project_split(project, data, true), run));
    run->decoder = qb_strdup(cx, strcmp(decoder, "cpu") == 0 ? "" : decoder);
    if (!run->model || !run->decoder) return cx->code;
    return qb_run_clean(cx, run);
}
