/* qbench calibrate: data -> MODEL.calib.h5. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/calib/ranks.h"
#include "cli/data/check.h"
#include "cli/out/auto.h"
#include "cli/out/json.h"
#include "cli/out/recover.h"
#include "cli/out/sampling.h"
#include "cli/pipeline.h"
#include "cli/settings/methods.h"
#include "cli/stages/flow.h"

typedef struct options {
    qb_common common;
    qb_project_flags project;
    const char *method, *from, *shard;
    double checkpoint;
    bool resume, per_channel, doctor;
    qb_opt_list recover;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DATA_OPTIONS(options),
    QB_DECODER_OPTION(options),
    QB_DEVICES_OPTION(options),
    QB_TEXT(options, "method", method, "LIST", QB_METHODS_HELP),
    QB_TEXT(options, "from", from, "FILE",
            "choose by other methods from a calibration's statistics: no data, no inference"),
    QB_TEXT(options, "shard", shard, "I/N",
            "only part I of N of the samples, for 'qbench calib merge'"),
    QB_DOUBLE(options, "checkpoint", checkpoint, "SECONDS", 0, 1e9,
              "save progress this often beside the result (default: 60; 0: never)"),
    QB_FLAG(options, "resume", resume, "go on where a run that was cut off saved its progress"),
    QB_FLAG(options, "per-channel", per_channel,
            "keep each channel's extremes as well, see 'qbench calib show'"),
    QB_RECOVER_OPTION(options,
                      "also make MODEL.recovered.onnx, from which INT8 takes less: all that helps, "
                      "or =LIST (see docs/guides/recovery.md)"),
    QB_FLAG(options, "doctor", doctor,
            "look at the data first, as 'qbench data doctor', and keep what it finds in the file"),
    {0},
};

/* Of a run over data; NULL where there was none. */
static json_t *memory_json(const qb_calib_memory *m) {
    if (m->tensors == 0) return NULL;
    return json_pack("{s:i, s:I, s:i, s:I, s:I, s:I}", "tensors", m->tensors, "histogram_bytes",
                     (json_int_t)m->histogram, "threads", m->threads, "samples_recorded",
                     (json_int_t)m->samples, "channels", (json_int_t)m->channels, "bytes",
                     (json_int_t)m->bytes);
}

/* What `data doctor` found, as it is kept; null where it was not asked. */
static json_t *doctor_json(const qb_table *t) {
    json_t *kept = t->doctor ? json_loads(t->doctor, 0, NULL) : NULL;
    return kept ? kept : json_null();
}

/* Takes the references of `findings`, of `weighed` (what auto weighed) and of `recovery`; both may
 * be NULL. */
static json_t *result_json(const qb_table *t, const char *path, const qb_calib_memory *memory,
                           json_t *findings, json_t *weighed, json_t *recovery) {
    char model[33], data[33];
    qb_hash_hex(t->model_hash, model);
    qb_hash_hex(t->data_hash, data);
    json_t *methods = json_array();
    for (int32_t i = 0; i < t->n_methods; i++)
        json_array_append_new(methods, json_string(t->method[i]));
    return json_pack(
        "{s:s, s:o, s:o, s:s, s:o, s:s, s:I, s:I, s:i, s:o, s:o, s:o, s:o*, s:I, s:o*, s:o*}",
        "schema", "qbench.calibrate/1", "file", qb_json_text(path), "model", qb_json_text(t->model),
        "model_hash", model, "dataset", qb_json_text(t->dataset), "data_hash", data, "samples",
        (json_int_t)t->samples, "skipped", (json_int_t)t->skipped, "tensors", t->n_entries,
        "methods", methods, "doctor", doctor_json(t), "findings", findings, "statistics",
        memory_json(memory), "peak_bytes", (json_int_t)qb_peak_rss(), "auto", weighed, "recovery",
        recovery);
}

/* Without --json, what auto weighed is part of the printed result. */
static qb_status show_result(qb_ctx *cx, const options *o, const qb_project *project,
                             const char *path, const qb_table *t, const qb_calib_memory *memory,
                             const qb_holdout *holdout, const qb_recovered *recovered) {
    const qb_auto_result weighed = {.table = t,
                                    .automatic = qb_table_method(t, "auto"),
                                    .symmetric = project->activations == QB_SCHEME_S8_SYMMETRIC,
                                    .holdout = holdout};
    const bool has_auto = weighed.automatic >= 0;
    QB_RELEASED(qb_diagnosis_release)
    qb_diagnosis diagnosis = {.common = &o->common, .faults_only = true};
    if (!qb_json_on_stdout(&o->common)) {
        if (has_auto) QB_TRY(qb_auto_print(cx, &weighed));
        printf("%s: %d tensors, %lld samples, %s\n", QB_SHOWN(path), t->n_entries,
               (long long)t->samples, t->method[0]);
        if (recovered) qb_recover_print(recovered);
    }
    qb_status status = qb_sampling_say(cx, t, &diagnosis);
    if (!o->common.json || status != QB_OK) QB_TRY(status);
    json_t *json = has_auto ? qb_auto_json(cx, &weighed) : NULL;
    if (has_auto && !json) return cx->code;
    json_t *findings = qb_diagnosis_take(&diagnosis);
    json_t *recovery = recovered ? qb_recover_json(recovered) : NULL;
    return qb_json_out(cx, &o->common, result_json(t, path, memory, findings, json, recovery));
}

static void defaults(void *opts) { ((options *)opts)->checkpoint = 60; }

/* OUT.part, by rank where there are several. New memory. */
static char *checkpoint_path(qb_ctx *cx, const qb_ranks *ranks, const char *path) {
    return ranks->size > 1 ? qb_format(cx, "%s.part.%d", path, ranks->rank)
                           : qb_format(cx, "%s.part", path);
}

/* Looks at the data before they are used. Bad findings stop nothing here: `data doctor` is there
 * for that. New memory. */
static qb_status examine(qb_ctx *cx, const options *o, const qb_project *project,
                         const qb_graph *graph, char **kept) {
    QB_RELEASED(qb_diagnosis_release) qb_diagnosis diagnosis = {.common = &o->common};
    qb_status status = QB_OK;
    if (!project->calibration_data) return QB_OK; /* an error of the run itself */
    QB_TRY(qb_data_examine(cx, project, graph, NULL, true, &diagnosis));
    json_t *findings = qb_diagnosis_take(&diagnosis);
    char *text = json_dumps(findings, JSON_COMPACT);
    json_decref(findings);
    if (!text || strlen(text) >= QB_TABLE_FINDINGS)
        status = qb_fail(cx, QB_STATUS_NOMEM, "what was found does not fit into a calibration");
    else if (!(*kept = qb_strdup(cx, text)))
        status = cx->code;
    free(text);
    return status;
}

/* Runs over the data, alone or with the others that mpirun started; the first writes the result. */
static qb_status calibrate(qb_ctx *cx, const options *o, const qb_project *project,
                           const qb_graph *graph, const char *path, const qb_ranks *ranks,
                           qb_holdout *holdout) {
    qb_calib_memory memory = {0};
    qb_calibrate_settings settings = {.methods = o->method,
                                      .ranks = ranks,
                                      .checkpoint_s = o->checkpoint,
                                      .resume = o->resume,
                                      .per_channel = o->per_channel,
                                      .memory = &memory};
    const bool recovers = o->recover.n > 0;
    qb_recovered recovered = {0};
    QB_RELEASED(qb_table_free_at) qb_table *result = NULL;
    QB_FREED char *found = NULL, *part = QB_NEW(cx, checkpoint_path(cx, ranks, path));
    qb_status status;
    if (o->checkpoint > 0 || o->resume) settings.checkpoint = part;
    if (o->checkpoint <= 0) settings.checkpoint_s = INFINITY;
    QB_GO(qb_shard_parse(cx, o->shard, QB_TABLE_SHARDS, &settings.shard, &settings.shards));
    if (recovers && settings.shards > 1)
        QB_GO(qb_fail(cx, QB_STATUS_USAGE,
                      "--recover looks at all of the data: run it without --shard"));
    QB_GO(qb_recover_check(cx, qb_recover_list(&o->recover)));
    if (o->doctor && ranks->rank == 0) QB_GO(examine(cx, o, project, graph, &found));
    QB_GO(qb_stage_calibrate(cx, project, graph, &settings, &result, holdout));
    if (result) {
        result->doctor = QB_MOVE(found);
        QB_GO(qb_table_save(cx, result, path));
    }
    unlink(part);
    if (result && recovers)
        QB_GO(qb_stage_recover(cx, project, graph, o->method, qb_recover_list(&o->recover),
                               o->resume, &recovered));
    if (result)
        status = show_result(cx, o, project, path, result, &memory, holdout,
                             recovers ? &recovered : NULL);
out:
    qb_recovered_release(&recovered);
    if (status == QB_STATUS_CANCELLED && qb_path_exists(part))
        qb_warn(cx,
                "progress is saved in %s: the same command with --resume goes on where it stopped",
                part);
    return status;
}

static qb_status choose(qb_ctx *cx, const options *o, const qb_project *project,
                        const qb_graph *graph, const char *path) {
    QB_RELEASED(qb_table_free_at) qb_table *result = NULL;
    QB_TRY(qb_stage_choose(cx, project, graph, o->from, o->method, &result));
    QB_TRY(qb_table_save(cx, result, path));
    return show_result(cx, o, project, path, result, &(qb_calib_memory){0}, &(qb_holdout){0}, NULL);
}

/* --from runs nothing: what is about a run would be ignored. */
static qb_status refuse_run_options(qb_ctx *cx, const options *o) {
    static const char *const of_runs[] = {"shard",      "resume",
                                          "checkpoint", "per-channel",
                                          "recover",    "samples",
                                          "batch",      "strict",
                                          "devices",    "decoder",
                                          "images",     "labels",
                                          "shapes",     QB_BUILD_OPTION_NAMES,
                                          NULL};
    return qb_options_refuse(cx, &qb_command_calibrate, o, of_runs, "--from runs no data");
}

/* Does it what `run` would do? Then run need not do it again. */
static bool is_as_settings(const options *o, const qb_project *project) {
    const qb_project_flags *p = &o->project;
    const bool told = o->method || o->from || o->shard || o->per_channel || o->doctor || p->data ||
                      p->images || p->task || p->labels || p->shapes || p->samples_given ||
                      p->batch > 0 || p->strict;
    return project->config && project->calibration_data && !project->out_file && !told;
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    qb_project_flags flags = o->project;
    QB_TRY(qb_argument_is(cx, arguments, "model", &flags.model));
    if (o->from && o->doctor)
        return qb_fail(cx, QB_STATUS_USAGE, "--from reads no data that --doctor could look at");
    if (o->from && flags.data)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--from takes its statistics from %s: --data would not be read", o->from);
    if (o->from) QB_TRY(refuse_run_options(cx, o));
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    qb_holdout holdout = {0};
    qb_ranks ranks = {.size = 1};
    QB_RELEASED(qb_flow_close) qb_flow flow = {0};
    char inputs[33];
    if (!o->from) QB_TRY(qb_ranks_join(cx, &ranks));
    QB_TRY(qb_project_open(cx, &o->common, &flags, true, &project));
    QB_TRY(qb_stage_load(cx, &project, NULL, &graph, NULL));
    QB_FREED char *path = QB_NEW(cx, qb_project_artifact(cx, &project, "calib.h5"));
    QB_TRY(qb_file_can_write(cx, path));
    const bool noted = is_as_settings(o, &project) && ranks.size == 1;
    if (noted) QB_TRY(qb_flow_open(cx, &project, graph->hash, NULL, &flow));
    if (noted) QB_TRY(qb_flow_inputs(&flow, &qb_flow_stages[0], inputs));
    QB_TRY(o->from ? choose(cx, o, &project, graph, path)
                   : calibrate(cx, o, &project, graph, path, &ranks, &holdout));
    if (noted) QB_TRY(qb_flow_note(&flow, &qb_flow_stages[0], inputs, path));
    qb_ranks_leave(&ranks);
    return QB_OK;
}

const qb_command qb_command_calibrate = {
    .name = "calibrate",
    .usage = "[MODEL] --data PATH [options]",
    .summary = "run data through the FP32 model, choose ranges (MODEL.calib.h5)",
    .notes = "Methods: entropy[:symmetric|nvidia|ort|ncnn|ppq], percentile[:P][:one-sided],\n"
             "minmax, moving-average[:C], mse[:symmetric], lp[:P], aciq[:gauss|laplace],\n"
             "auto[:symmetric]. moving-average takes the samples in the order of their\n"
             "contents' hashes: the same for any order of reading, and never class after\n"
             "class. auto takes by tensor the range of best SQNR, compares that end to end\n"
             "with every single method on each fifth sample, which it holds back, and takes\n"
             "one of those instead where that is better beyond chance. After the run it says\n"
             "what is wrong with the samples as far as the calibration tells; --doctor looks\n"
             "at classes, drift and preprocessing too, before.",
    .example = "qbench calibrate --data imagenet_val/ --method entropy\n"
               "qbench calibrate resnet50.onnx --data images.h5 --method entropy,minmax\n"
               "qbench calibrate --data imagenet_val/ --method auto\n"
               "qbench calibrate --data imagenet_val/ --doctor\n"
               "qbench calibrate --data imagenet_val/ --resume\n"
               "qbench calibrate --data imagenet_val/ --providers=cuda,cpu --devices=0,1\n"
               "mpirun -n 4 qbench calibrate --data imagenet_val/ --threads 8\n"
               "qbench calibrate --from resnet50.calib.h5 --method mse,entropy:nvidia",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
