/* qbench run: the whole flow of a project, like make: a stage whose inputs have not changed since
 * it wrote its file is left out. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/out/json.h"
#include "cli/settings/fingerprint.h"
#include "cli/settings/precision.h"
#include "cli/settings/project.h"
#include "graph/graph.h"

#define RECORD_NAME "qbench.run.json"
#define NO_MIXING "--no-mixing"
#define RECORD_MAX ((size_t)1 << 20)
#define WORDS_MAX 700 /* 64 precisions, 256 passes and what stands before them */

typedef struct options {
    qb_common common;
    qb_project_flags project;
    bool force, dry_run;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DECODER_OPTION(options),
    QB_DEVICES_OPTION(options),
    QB_CHECK_OPTION(options),
    {.name = "force",
     .letter = 'f',
     .type = QB_OPT_FLAG,
     .offset = offsetof(options, force),
     .help = "run every stage"},
    {.name = "dry-run",
     .type = QB_OPT_FLAG,
     .offset = offsetof(options, dry_run),
     .help = "say which stages would run, and run none"},
    {0},
};

/* ---- stages ---- */

typedef struct stage {
    const char *command;
    const char *suffix;      /* its file is STEM.suffix ... */
    const char *file;        /* ... or this one; both NULL: runs always, writes nothing */
    const char *sections[5]; /* of qbench.yaml that it depends on */
    bool calibration_data, evaluation_data, calibration;
} stage;

static const stage stages[] = {
    {.command = "calibrate",
     .suffix = "calib.h5",
     .sections = {"data", "preprocess", "calibration"},
     .calibration_data = true},
    {.command = "quantize",
     .suffix = "qdq.onnx",
     .sections = {"quantization"},
     .calibration = true},
    {.command = "compare",
     .file = "compare.json",
     .sections = {"data", "preprocess", "quantization", "compare"},
     .evaluation_data = true,
     .calibration = true},
    {.command = "gate"},
};

/* One run of the command. */
typedef struct flow {
    qb_ctx *cx;
    const options *o;
    const qb_opt_list *precisions;
    qb_project project;
    qb_hash model_hash; /* with its external data */
    char *record_path;
    json_t *record; /* {stage: {inputs, output}} of the last run */
    json_t *report; /* what happened, for --json */
} flow;

static qb_status stage_file(const flow *f, const stage *s, char **out) {
    *out = NULL;
    if (!s->suffix && !s->file) return QB_OK;
    *out = s->suffix ? qb_project_artifact(f->cx, &f->project, s->suffix)
                     : qb_project_file(f->cx, &f->project, s->file);
    return *out ? QB_OK : f->cx->code;
}

/* ---- what a stage depends on ---- */

static void add_labels(qb_hasher *hasher, const qb_labels *labels) {
    for (int32_t i = 0; i < labels->n; i++) {
        qb_hasher_string(hasher, labels->name[i]);
        qb_hasher_string(hasher, labels->synset && labels->synset[i] ? labels->synset[i] : "");
    }
}

/* What compare is asked for; a model or an engine by what is in the file. */
static qb_status add_precision(qb_ctx *cx, qb_hasher *hasher, const char *text) {
    qb_hasher_string(hasher, text);
    char *path = qb_format(cx, "%.*s", (int)(qb_precision_where(text) - text), text);
    if (!path) return cx->code;
    const bool is_file = qb_has_suffix(path, ".onnx") || qb_precision_names_engine(path);
    qb_status status =
        is_file && qb_path_exists(path) ? qb_fingerprint_content(cx, hasher, path) : QB_OK;
    qb_free(path);
    return status;
}

static qb_status add_inputs(const flow *f, const stage *s, qb_hasher *hasher) {
    qb_ctx *cx = f->cx;
    const qb_project *p = &f->project;
    char *sidecar = NULL, *calibration = NULL;
    qb_status status = QB_OK;
    qb_hasher_string(hasher, QB_VERSION);
    qb_hasher_string(hasher, s->command);
    qb_hasher_string(hasher, p->spec.backends ? p->spec.backends : "");
    qb_hasher_string(hasher, p->build.tactic_sources ? p->build.tactic_sources : "");
    qb_hasher_string(hasher, p->spec.no_mixed_precision ? NO_MIXING : "");
    if (s->calibration_data || s->evaluation_data)
        qb_hasher_string(hasher, p->decoder ? p->decoder : "");
    for (int i = 0; p->disabled[i]; i++) qb_hasher_string(hasher, p->disabled[i]);
    for (int i = 0; i < 5 && s->sections[i]; i++)
        qb_fingerprint_section(hasher, p->config, s->sections[i]);
    qb_hasher_update(hasher, f->model_hash.byte, sizeof f->model_hash.byte);
    QB_GO(qb_sidecar_find(cx, p->model, &sidecar));
    if (sidecar) QB_GO(qb_fingerprint_content(cx, hasher, sidecar));
    for (int32_t i = 0; i < qb_plugins_count(cx->plugins); i++)
        QB_GO(qb_fingerprint_plugin(cx, hasher, qb_plugins_at(cx->plugins, i)));
    add_labels(hasher, &p->labels);
    if (s->calibration_data) QB_GO(qb_fingerprint_path(cx, hasher, p->calibration_data));
    if (s->evaluation_data) {
        QB_GO(qb_fingerprint_path(cx, hasher,
                                  p->evaluation_data ? p->evaluation_data : p->calibration_data));
        if (p->targets) QB_GO(qb_fingerprint_path(cx, hasher, p->targets));
        for (int i = 0; i < f->precisions->n; i++)
            QB_GO(add_precision(cx, hasher, f->precisions->item[i]));
    }
    if (s->calibration) {
        calibration = qb_project_artifact(cx, p, stages[0].suffix);
        if (!calibration) QB_GO(cx->code);
        if (qb_path_exists(calibration)) QB_GO(qb_fingerprint_content(cx, hasher, calibration));
    }
out:
    qb_free(sidecar);
    qb_free(calibration);
    return status;
}

static qb_status inputs_of(const flow *f, const stage *s, char hex[33]) {
    qb_hasher *hasher;
    QB_TRY(qb_hasher_create(f->cx, &hasher));
    qb_status status = add_inputs(f, s, hasher);
    if (status == QB_OK) qb_hash_hex(qb_hasher_digest(hasher), hex);
    qb_hasher_free(hasher);
    return status;
}

static qb_status output_of(qb_ctx *cx, const char *path, char hex[33]) {
    qb_hasher *hasher;
    QB_TRY(qb_hasher_create(cx, &hasher));
    qb_status status = qb_fingerprint_content(cx, hasher, path);
    if (status == QB_OK) qb_hash_hex(qb_hasher_digest(hasher), hex);
    qb_hasher_free(hasher);
    return status;
}

/* ---- the record of the last run ---- */

/* What cannot be read is no record: everything is made again. */
static qb_status record_load(flow *f) {
    char *text;
    size_t size;
    f->record = NULL;
    f->record_path = qb_project_file(f->cx, &f->project, RECORD_NAME);
    if (!f->record_path) return f->cx->code;
    if (qb_file_read(f->cx, f->record_path, RECORD_MAX, &text, &size) == QB_OK) {
        json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
        const char *schema = json_string_value(json_object_get(root, "schema"));
        if (schema && strcmp(schema, "qbench.run/1") == 0)
            f->record = json_incref(json_object_get(root, "stages"));
        json_decref(root);
        qb_free(text);
    }
    qb_ctx_clear(f->cx);
    if (!json_is_object(f->record)) {
        json_decref(f->record);
        f->record = json_object();
    }
    return QB_OK;
}

static qb_status record_save(const flow *f) {
    const qb_common to = {.json = f->record_path};
    return qb_json_out(f->cx, &to,
                       json_pack("{s:s, s:O}", "schema", "qbench.run/1", "stages", f->record));
}

static bool same(const json_t *entry, const char *key, const char *hex) {
    const char *text = json_string_value(json_object_get(entry, key));
    return text && strcmp(text, hex) == 0;
}

static qb_status up_to_date(const flow *f, const stage *s, const char *path, bool *out) {
    char inputs[33], output[33];
    const json_t *entry = json_object_get(f->record, s->command);
    *out = false;
    if (f->o->force || !entry || !qb_path_exists(path)) return QB_OK;
    QB_TRY(inputs_of(f, s, inputs));
    QB_TRY(output_of(f->cx, path, output));
    *out = same(entry, "inputs", inputs) && same(entry, "output", output);
    return QB_OK;
}

/* ---- running ---- */

static void add_word(const char **words, int *n, const char *option, const char *value) {
    if (option && !value) return;
    if (option) words[(*n)++] = option;
    words[(*n)++] = value;
}

/* The command line of a stage: what run was told, the rest is in qbench.yaml. */
static qb_status run_stage(const flow *f, const stage *s) {
    const qb_common *common = &f->o->common;
    const bool compares = strcmp(s->command, "compare") == 0;
    const char *words[WORDS_MAX] = {s->command};
    char threads[32];
    int n = 1;
    add_word(words, &n, "--model", f->project.model);
    add_word(words, &n, "--config", common->config);
    add_word(words, &n, "--output", common->out);
    add_word(words, &n, "--backends", f->project.spec.backends);
    add_word(words, &n, "--timingCacheFile", f->project.spec.timing_cache);
    add_word(words, &n, "--tacticSources", f->project.build.tactic_sources);
    if (f->project.spec.no_mixed_precision) add_word(words, &n, NULL, NO_MIXING);
    snprintf(threads, sizeof threads, "%lld", (long long)common->threads);
    add_word(words, &n, "--threads", threads);
    if (s->calibration_data || s->evaluation_data) {
        add_word(words, &n, "--decoder", f->project.decoder);
        add_word(words, &n, "--devices", f->project.build.devices);
    }
    if (common->quiet) add_word(words, &n, NULL, "--quiet");
    if (common->verbose) add_word(words, &n, NULL, "--verbose");
    for (int i = 0; f->project.disabled[i] && n + 2 < WORDS_MAX; i++)
        add_word(words, &n, "--disable-pass", f->project.disabled[i]);
    for (int i = 0; compares && i < f->precisions->n; i++)
        add_word(words, &n, NULL, f->precisions->item[i]);
    return qb_command_start(f->cx, qb_command_find(s->command), n, (char **)words);
}

static void note(const flow *f, const stage *s, const char *state, const char *path) {
    json_array_append_new(f->report,
                          json_pack("{s:s, s:s, s:o}", "stage", s->command, "state", state, "file",
                                    path ? qb_json_text(path) : json_null()));
    qb_info(f->cx, "%s: %s%s%s%s", s->command, state, path ? " (" : "", path ? path : "",
            path ? ")" : "");
}

/* The record is taken before the stage and kept after it: what changes while it runs makes it run
 * again. A stage that fails or is interrupted leaves no entry. */
static qb_status make(flow *f, const stage *s, const char *path) {
    char inputs[33], output[33];
    QB_TRY(inputs_of(f, s, inputs));
    json_object_del(f->record, s->command);
    note(f, s, "running", path);
    QB_TRY(run_stage(f, s));
    if (!path) return QB_OK;
    QB_TRY(output_of(f->cx, path, output));
    json_object_set_new(f->record, s->command,
                        json_pack("{s:s, s:s}", "inputs", inputs, "output", output));
    return record_save(f);
}

static qb_status do_stage(flow *f, const stage *s, bool *stale) {
    char *path;
    bool current = false;
    QB_TRY(stage_file(f, s, &path));
    qb_status status = path && !*stale ? up_to_date(f, s, path, &current) : QB_OK;
    if (status == QB_OK && current) {
        note(f, s, "up to date", path);
    } else if (status == QB_OK && f->o->dry_run) {
        note(f, s, "would run", path);
        *stale = true; /* what follows would be looked at with files that are not there yet */
    } else if (status == QB_OK) {
        status = make(f, s, path);
    }
    qb_free(path);
    return status;
}

static qb_status do_all(flow *f) {
    bool stale = false;
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        const stage *s = &stages[i];
        const bool gate = strcmp(s->command, "gate") == 0;
        if (gate && !(f->project.config && qb_config_find(f->project.config, "gate"))) {
            note(f, s, "left out: " QB_CONFIG_NAME " has no gate section", NULL);
            continue;
        }
        QB_TRY(do_stage(f, s, &stale));
    }
    return QB_OK;
}

/* The model is read once: its weights may lie in files of their own. */
static qb_status hash_model(flow *f) {
    qb_graph *graph;
    QB_TRY(qb_onnx_load(f->cx, f->project.model, &graph));
    f->model_hash = graph->hash;
    qb_graph_free(graph);
    return QB_OK;
}

/* With --json - the stages' own results go to standard error. */
static int divert(const qb_common *common) {
    if (!qb_json_on_stdout(common)) return -1;
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    if (kept >= 0) dup2(STDERR_FILENO, STDOUT_FILENO);
    return kept;
}

static void restore(int kept) {
    if (kept < 0) return;
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    flow f = {.cx = cx, .o = o, .precisions = arguments, .report = json_array()};
    qb_status status = QB_OK;
    QB_GO(qb_project_open(cx, &o->common, &o->project, true, &f.project));
    QB_GO(hash_model(&f));
    QB_GO(record_load(&f));
    const int kept = divert(&o->common);
    status = do_all(&f);
    restore(kept);
    /* A gate that does not hold is a result. */
    if (status == QB_OK || status == QB_STATUS_CHECK) {
        const qb_status written =
            qb_json_out(cx, &o->common,
                        json_pack("{s:s, s:b, s:O}", "schema", "qbench.flow/1", "held",
                                  status == QB_OK, "stages", f.report));
        if (written != QB_OK) status = written;
    }
out:
    json_decref(f.record);
    json_decref(f.report);
    qb_free(f.record_path);
    qb_project_close(&f.project);
    return status;
}

const qb_command qb_command_run = {
    .name = "run",
    .usage = "[PRECISION...] [options]",
    .summary = "calibrate, quantize, compare and gate, each only where something changed",
    .notes =
        "Settings come from qbench.yaml. A stage runs again when the model, its settings, its\n"
        "data (names, sizes, times) or the file that it wrote has changed; " RECORD_NAME "\n"
        "keeps what it was made from. PRECISION: as for compare.",
    .example = "qbench init --model squeezenet1.1.onnx --data imagenet_val/\n"
               "qbench run\n"
               "qbench run fp32 int8:entropy int8:minmax --dry-run",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 64,
    .run = run,
};
