#include "cli/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/engine_file.h"
#include "cli/json_out.h"
#include "cli/methods.h"
#include "engine/file.h"
#include "graph/dequantize.h"

/* ---- load ---- */

qb_status qb_stage_load(qb_ctx *cx, const qb_project *project, qb_graph **out,
                        qb_optimize_report *report) {
    return qb_stage_load_part(cx, project, NULL, out, report);
}

qb_status qb_stage_load_part(qb_ctx *cx, const qb_project *project, const qb_onnx_part *part,
                             qb_graph **out, qb_optimize_report *report) {
    qb_graph *graph;
    QB_TRY(qb_onnx_load_part(cx, project->model, part, &graph));
    const qb_optimize_options options = {.disabled = project->disabled};
    qb_status status = qb_optimize(cx, graph, &options, report);
    if (status == QB_OK)
        *out = graph;
    else
        qb_graph_free(graph);
    return status;
}

/* ---- calibrate ---- */

/* Of so many samples one is held back when methods are to be judged by the network's output. */
#define HOLD_BACK 5

/* Statistics without the samples held back give ranges that these can judge; a single method that
 * surely beats auto's choice by tensor takes its place in `table`. */
static qb_status settle_auto(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                             const qb_calib_options *all, int32_t automatic, qb_table *table,
                             qb_bakeoff *bakeoff) {
    qb_calib_options options = *all;
    options.hold_back = HOLD_BACK;
    options.memory = NULL;
    if (qb_dataset_count(options.loader.dataset) < 2 * HOLD_BACK) {
        qb_warn(cx, "auto: %lld samples are too few to hold some back: chosen by tensor only",
                (long long)qb_dataset_count(options.loader.dataset));
        return QB_OK;
    }
    const qb_quant_options quant = qb_stage_quantization(project, NULL, NULL);
    qb_table *training;
    qb_info(cx, "auto: once more without each %dth sample, to judge the methods on those",
            HOLD_BACK);
    QB_TRY(qb_calibrate(cx, graph, &options, &training));
    qb_status status = qb_bakeoff_run(cx, graph, training, &quant, &options, automatic, bakeoff);
    for (int32_t i = 0; status == QB_OK && i < table->n_entries; i++)
        table->entry[i].range[automatic] = table->entry[i].range[bakeoff->best];
    qb_table_free(training);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "auto");
}

/* The part of the data set that falls to this process, and its name in the table. Processes share
 * what the shard has. */
static void take_share(const qb_calibrate_settings *s, qb_dataset *dataset, qb_shards *shards) {
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
static qb_status gather(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
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

qb_status qb_stage_check_devices(qb_ctx *cx, const qb_project *project, bool on_device) {
    if (project->devices.n == 0 || on_device) return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE,
                   "--devices chooses among GPUs, and nothing here runs on one: add "
                   "--providers=cuda,cpu");
}

static qb_status check_auto(qb_ctx *cx, const qb_calibrate_settings *s, const qb_methods *list) {
    if (qb_methods_auto(list) < 0 || (s->shards < 2 && (!s->ranks || s->ranks->size < 2)))
        return QB_OK;
    return qb_fail(
        cx, QB_STATUS_USAGE,
        "--method auto judges on all of the data: calibrate the parts by another method, "
        "then 'qbench calibrate --from FILE --method auto'");
}

qb_status qb_stage_calibrate(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                             const qb_calibrate_settings *settings, qb_table **out,
                             qb_bakeoff *bakeoff) {
    if (!project->calibration_data)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "no calibration data: give --data PATH, or data.calibration in qbench.yaml "
                       "('qbench init --data PATH' writes one)");
    const char *names = settings->methods ? settings->methods : project->method;
    qb_methods list;
    QB_TRY(qb_methods_parse(cx, names, 0, &list)); /* a slip of the fingers shows before the data */
    QB_TRY(check_auto(cx, settings, &list));
    QB_TRY(qb_stage_check_devices(cx, project, qb_backends_name_device(project->backends)));
    qb_calib_options options = {.backends = project->backends,
                                .devices = project->devices,
                                .checkpoint = settings->checkpoint,
                                .checkpoint_s = settings->checkpoint_s,
                                .resume = settings->resume,
                                .per_channel = settings->per_channel,
                                .memory = settings->memory};
    qb_bakeoff judged = {0};
    qb_dataset *dataset;
    qb_table *table = NULL;
    qb_status status = QB_OK;
    QB_TRY(qb_stage_data(cx, project, graph, project->calibration_data, &dataset, &options.loader));
    take_share(settings, dataset, &options.shards);
    QB_GO(gather(cx, graph, &options, settings, &table));
    if (table) {
        QB_GO(qb_methods_parse(cx, names, table->samples, &list));
        options.methods = list.choice;
        options.n_methods = list.n;
        options.checkpoint = NULL;
        QB_GO(qb_calib_finish(cx, table, list.choice, list.n));
        if (qb_methods_auto(&list) >= 0)
            QB_GO(
                settle_auto(cx, project, graph, &options, qb_methods_auto(&list), table, &judged));
        qb_free(table->dataset);
        qb_free(table->model);
        table->dataset = qb_strdup(cx, project->calibration_data);
        table->model = qb_strdup(cx, qb_path_base(project->model));
        if (!table->dataset || !table->model) QB_GO(cx->code);
    }
    if (bakeoff) *bakeoff = judged;
    *out = table;
    table = NULL;
out:
    qb_table_free(table);
    qb_dataset_close(dataset);
    return status;
}

qb_status qb_stage_choose(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                          const char *from, const char *methods, qb_table **out) {
    qb_methods list;
    qb_table *table;
    QB_TRY(qb_table_load(cx, from, &table));
    const int64_t recorded = table->n_recorded > 0 ? table->n_recorded : INT64_MAX;
    qb_status status = QB_OK;
    QB_GO(qb_table_check_model(cx, table, project->model, graph->hash));
    QB_GO(qb_methods_parse(cx, methods ? methods : project->method, recorded, &list));
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
    char *path = table_path(cx, project);
    if (!path) return cx->code;
    qb_table *table = NULL;
    qb_status status = QB_OK;
    if (!qb_path_exists(path))
        QB_GO(qb_fail(cx, QB_STATUS_NOTFOUND,
                      "%s: no calibration for %s yet: run 'qbench calibrate --data PATH'", path,
                      project->model));
    QB_GO(qb_table_load(cx, path, &table));
    status = qb_table_check_model(cx, table, project->model, graph->hash);
    if (status != QB_OK) qb_wrap(cx, "%s", path);
out:
    if (status == QB_OK)
        *out = table;
    else
        qb_table_free(table);
    qb_free(path);
    return status;
}

/* ---- quantize ---- */

qb_precision qb_stage_precision(const qb_project *project) {
    return (qb_precision){.kind = QB_PRECISION_INT8,
                          .activations = project->activations,
                          .per_tensor_weights = project->per_tensor_weights,
                          .weights = project->weights,
                          .backends = project->backends};
}

qb_quant_options qb_stage_quantization(const qb_project *project, const qb_precision *precision,
                                       const char *method) {
    const qb_precision own = qb_stage_precision(project), *p = precision ? precision : &own;
    return (qb_quant_options){.method = method,
                              .activations = p->activations,
                              .per_tensor_weights = p->per_tensor_weights,
                              .weights = p->weights,
                              .keep_float = project->keep_float};
}

/* ---- compare ---- */

enum { TEXTS_EACH = 3 }; /* most that a precision keeps */

/* The graphs behind the precisions of one comparison. */
typedef struct contenders {
    qb_graph *graph; /* optimized, float */
    qb_table *table; /* NULL until a precision needs it */
    qb_graph **quantized;
    qb_contender *item;
    char **text; /* what items say that nothing else keeps */
    int32_t n, n_texts;
} contenders;

static void contenders_release(contenders *c) {
    for (int32_t i = 0; c->quantized && i < c->n; i++) qb_graph_free(c->quantized[i]);
    for (int32_t i = 0; i < c->n_texts; i++) qb_free(c->text[i]);
    qb_free(c->text);
    qb_free(c->quantized);
    qb_free(c->item);
    qb_table_free(c->table);
    qb_graph_free(c->graph);
}

/* Keeps a new text until the end; NULL stays NULL. */
static const char *keep(contenders *c, char *text) { return c->text[c->n_texts++] = text; }

static qb_contender contender(const qb_project *project, const char *text, const char *method,
                              const qb_graph *graph, const qb_precision *precision) {
    qb_dtype float_type;
    qb_precision_float(precision, &float_type);
    return (qb_contender){.precision = text,
                          .calibration = method,
                          .graph = graph,
                          .backends = precision->backends,
                          .devices = project->devices,
                          .float_type = float_type,
                          .timing_cache = project->timing_cache,
                          .no_mixing = project->no_mixing,
                          .without = project->without,
                          .tf32 = precision->kind == QB_PRECISION_TF32};
}

static qb_status add_int8(qb_ctx *cx, const qb_project *project, const char *text,
                          const qb_precision *precision, contenders *c) {
    if (!c->table) QB_TRY(qb_stage_table(cx, project, c->graph, &c->table));
    const int32_t index =
        precision->method[0] != '\0' ? qb_table_method(c->table, precision->method) : 0;
    if (index < 0)
        return qb_fail(cx, QB_STATUS_NOTFOUND,
                       "%s: the calibration has no method '%s': run 'qbench calibrate --method %s'",
                       text, precision->method, precision->method);
    qb_quant_options options = qb_stage_quantization(project, precision, c->table->method[index]);
    options.missing_stays_float = qb_table_is_imported(c->table);
    qb_graph **quantized = &c->quantized[c->n];
    QB_TRY_WRAP(cx, qb_quantize(cx, c->graph, c->table, &options, quantized, NULL), "%s", text);
    c->item[c->n++] = contender(project, text, options.method, *quantized, precision);
    return QB_OK;
}

/* What a row of a file is called: the file's name, or its path where another row has that name. */
static const char *file_title(const contenders *c, const char *path) {
    const char *name = qb_path_base(path);
    for (int32_t i = 0; i < c->n; i++)
        if (strcmp(c->item[i].precision, name) == 0) return path;
    return name;
}

/* An engine file that was built before, such as the last release's: "release.qbe". */
static qb_status add_engine(qb_ctx *cx, const qb_project *project, const char *path,
                            contenders *c) {
    json_t *root;
    QB_TRY(qb_engine_file_json(cx, path, &root));
    const char *method = json_string_value(json_object_get(root, "calibration")),
               *backend =
                   json_string_value(json_object_get(json_object_get(root, "built"), "backend"));
    const size_t inputs = json_array_size(json_object_get(root, "inputs")),
                 outputs = json_array_size(json_object_get(root, "outputs"));
    const qb_precision precision = {.kind = QB_PRECISION_INT8,
                                    .backends = keep(c, qb_strdup(cx, backend ? backend : "cpu"))};
    method = keep(c, qb_strdup(cx, method ? method : ""));
    json_decref(root);
    if (!precision.backends || !method) return cx->code;
    if (inputs != (size_t)c->graph->n_inputs || outputs != (size_t)c->graph->n_outputs)
        return qb_fail(cx, QB_STATUS_MISMATCH,
                       "%s: expected %d inputs and %d outputs as %s has, got %zu and %zu", path,
                       c->graph->n_inputs, c->graph->n_outputs, project->model, inputs, outputs);
    qb_contender *item = &c->item[c->n];
    *item = contender(project, file_title(c, path), method, c->graph, &precision);
    item->file = path;
    c->n++;
    return QB_OK;
}

/* A model of its own beside the precisions, as others write it: "other.qdq.onnx@ref". */
static qb_status add_model(qb_ctx *cx, const qb_project *project, const char *text,
                           const char *path, qb_precision *precision, contenders *c) {
    const qb_optimize_options options = {.disabled = project->disabled};
    qb_graph **graph = &c->quantized[c->n];
    QB_TRY(qb_onnx_load(cx, path, graph));
    QB_TRY_WRAP(cx, qb_optimize(cx, *graph, &options, NULL), "%s", path);
    precision->kind = qb_graph_is_quantized(*graph) ? QB_PRECISION_INT8 : QB_PRECISION_FP32;
    c->item[c->n] = contender(project, file_title(c, text), "", *graph, precision);
    c->n++;
    return QB_OK;
}

/* Floats that the backends do not compute in: another reference than the one asked for would be a
 * silent change of every number. */
static qb_status refuse(qb_ctx *cx, const char *text, const qb_precision *precision,
                        const char *refusal, const contenders *c) {
    if (precision->placed) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: %s", text, refusal);
    if (c->n == 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "%s: %s; and the first precision is what the others are measured against: "
                       "begin with fp32",
                       text, refusal);
    qb_warn(cx, "%s is left out: %s", text, refusal);
    return QB_OK;
}

static qb_status add_precision(qb_ctx *cx, const qb_project *project, const char *text,
                               contenders *c) {
    qb_precision precision = qb_stage_precision(project);
    const char *where = qb_precision_where(text);
    const char *path = keep(c, qb_format(cx, "%.*s", (int)(where - text), text));
    if (!path) return cx->code;
    const bool is_engine = qb_precision_names_engine(path);
    if (is_engine && *where)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "%s: an engine file runs on what it was built for: leave out '%s', or build "
                       "it anew with --backends",
                       text, where);
    if (is_engine) return add_engine(cx, project, path, c);
    if (qb_has_suffix(path, ".onnx")) {
        QB_TRY(qb_precision_place(cx, text, &precision));
        return add_model(cx, project, text, path, &precision, c);
    }
    QB_TRY(qb_precision_parse(cx, text, &precision));
    if (precision.kind == QB_PRECISION_INT8) return add_int8(cx, project, text, &precision, c);
    qb_dtype type;
    const char *refusal = qb_precision_float(&precision, &type);
    if (refusal) return refuse(cx, text, &precision, refusal, c);
    c->item[c->n++] = contender(project, text, "", c->graph, &precision);
    return QB_OK;
}

static qb_status collect(qb_ctx *cx, const qb_project *project, const qb_compare_settings *settings,
                         contenders *c) {
    QB_TRY(qb_stage_load(cx, project, &c->graph, NULL));
    c->quantized = qb_alloc(cx, (size_t)settings->n_precisions, sizeof(qb_graph *));
    c->item = qb_alloc(cx, (size_t)settings->n_precisions, sizeof *c->item);
    c->text = qb_alloc(cx, (size_t)settings->n_precisions * TEXTS_EACH, sizeof *c->text);
    if (!c->quantized || !c->item || !c->text) return cx->code;
    bool on_device = false;
    for (int32_t i = 0; i < settings->n_precisions; i++)
        QB_TRY(add_precision(cx, project, settings->precision[i], c));
    for (int32_t i = 0; i < c->n; i++)
        on_device = on_device || qb_backends_name_device(c->item[i].backends);
    return qb_stage_check_devices(cx, project, on_device);
}

/* What to score on: the evaluation set, else the set that the calibration was made from. */
static qb_status evaluation_data(qb_ctx *cx, const qb_project *project, const contenders *c,
                                 const char **out) {
    *out = project->evaluation_data;
    if (!*out && project->calibration_data) *out = project->calibration_data;
    if (!*out && c->table) *out = c->table->dataset;
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

/* Ground truth images: those that are named, else what the data's own file holds. *out stays NULL
 * where there are none. */
static qb_status open_targets(qb_ctx *cx, const qb_project *project, const char *data,
                              const qb_dataset *dataset, qb_dataset **out) {
    const bool inside = !project->targets && qb_dataset_has_targets(dataset);
    const qb_dataset_options options = {.max_samples = project->samples,
                                        .images = inside ? "targets" : NULL};
    if (!inside && !project->targets) return QB_OK;
    return qb_dataset_open(cx, inside ? data : project->targets, &options, out);
}

/* Names come from files and folders; a record holds text that can be shown. */
static void one_line(char *text) {
    qb_utf8_repair(text);
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
}

/* Names that come from files are any bytes. */
static void repair_texts(qb_run *run) {
    one_line(run->model);
    one_line(run->dataset);
    for (int32_t i = 0; i < run->n_rows; i++) one_line(run->row[i].precision);
    for (int32_t i = 0; i < run->n_shown; i++) one_line(run->shown[i].name);
    for (int32_t i = 0; i < run->n_classes; i++) one_line(run->class_name[i].name);
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
            char *method = qb_strdup(cx, method_behind(table, entry, automatic));
            if (!method) return cx->code;
            qb_free(layer->method);
            layer->method = method;
        }
    }
    return QB_OK;
}

enum { BATCHES_MAX = 32 };

static qb_status parse_batches(qb_ctx *cx, const char *text, int64_t *batches, int32_t *n) {
    *n = 0;
    for (const char *at = text; at && *at != '\0';) {
        char *end;
        const long long batch = strtoll(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || batch < 1 || batch > 65536 ||
            *n == BATCHES_MAX)
            return qb_fail(cx, QB_STATUS_USAGE,
                           "--batches %s: expected at most %d numbers from 1 to 65536, such as "
                           "1,8,32",
                           text, BATCHES_MAX);
        batches[(*n)++] = batch;
        at = *end == ',' ? end + 1 : end;
    }
    return QB_OK;
}

bool qb_stage_lacks_labels(const qb_project *project, const qb_dataset *dataset) {
    return project->absent_labels && project->labels.n == 0 && qb_dataset_has_labels(dataset) &&
           strcmp(qb_dataset_format_name(dataset), "class_folder") == 0;
}

static qb_status need_labels(qb_ctx *cx, const qb_project *project, const qb_dataset *dataset) {
    if (!qb_stage_lacks_labels(project, dataset)) return QB_OK;
    return qb_fail(cx, QB_STATUS_IO,
                   "%s, which the model's sidecar names for its labels, does not exist: nothing "
                   "else says which folder is which class (or name a file: --labels FILE)",
                   project->absent_labels);
}

qb_status qb_stage_compare(qb_ctx *cx, const qb_project *project,
                           const qb_compare_settings *settings, qb_run **out) {
    contenders c = {0};
    qb_dataset *dataset = NULL, *targets = NULL;
    qb_run *run = NULL;
    const char *data;
    int64_t batches[BATCHES_MAX];
    int32_t n_batches;
    qb_status status = QB_OK;
    QB_GO(parse_batches(cx, settings->batches, batches, &n_batches));
    QB_GO(collect(cx, project, settings, &c));
    qb_compare_options options = {.contender = c.item,
                                  .n_contenders = c.n,
                                  .batch = project->batch,
                                  .duration_s = settings->duration_s > 0 ? settings->duration_s
                                                                         : project->duration_s,
                                  .batches = batches,
                                  .n_batches = n_batches,
                                  .labels = &project->labels,
                                  .layers = settings->layers,
                                  .thumbnail = (int32_t)settings->thumbnail};
    QB_GO(evaluation_data(cx, project, &c, &data));
    QB_GO(qb_stage_data(cx, project, c.graph, data, &dataset, &options.loader));
    QB_GO(need_labels(cx, project, dataset));
    QB_GO(open_targets(cx, project, data, dataset, &targets));
    options.targets = targets;
    QB_GO(qb_compare(cx, &options, &run));
    QB_GO(resolve_auto(cx, c.table, run));
    run->model_hash = c.graph->hash;
    run->model = qb_strdup(cx, qb_path_base(project->model));
    run->dataset = qb_strdup(cx, data);
    const char *decoder = qb_dataset_decoder(dataset);
    run->decoder = qb_strdup(cx, strcmp(decoder, "cpu") == 0 ? "" : decoder);
    if (!run->model || !run->dataset || !run->decoder) QB_GO(cx->code);
    repair_texts(run);
    *out = run;
    run = NULL;
out:
    qb_run_free(run);
    qb_dataset_close(targets);
    qb_dataset_close(dataset);
    contenders_release(&c);
    return status;
}
