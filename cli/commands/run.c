/* qbench run: the whole flow of a project, like make: a stage whose inputs have not changed since
 * it wrote its file is left out. */
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/out/json.h"
#include "cli/pipeline.h"
#include "cli/settings/gate_policy.h"
#include "cli/settings/project.h"
#include "cli/stages/flow.h"
#include "graph/graph.h"

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
    QB_FLAG(options, "force", force, "run every stage", .letter = 'f'),
    QB_FLAG(options, "dry-run", dry_run, "say which stages would run, and run none"),
    {0},
};

/* One run of the command. */
typedef struct flow {
    qb_ctx *cx;
    const options *o;
    const qb_opt_list *precisions;
    qb_project project;
    qb_flow made;   /* by earlier runs */
    json_t *report; /* what happened, for --json */
} flow;

/* ---- running ---- */

static void add_word(const char **words, int *n, const char *option, const char *value) {
    if (option && !value) return;
    if (option) words[(*n)++] = option;
    words[(*n)++] = value;
}

/* The command line of a stage: what run was told, the rest is in qbench.yaml. */
static qb_status run_stage(const flow *f, const qb_flow_stage *s) {
    const qb_common *common = &f->o->common;
    const bool compares = strcmp(s->command, "compare") == 0;
    const bool has_engines = s->calibration_data || s->evaluation_data;
    const bool reads_model = s->suffix || s->file; /* the gate judges a record as it is */
    const char *words[WORDS_MAX] = {s->command};
    char threads[32];
    int n = 1;
    add_word(words, &n, "--model", f->project.model);
    add_word(words, &n, "--config", common->config);
    add_word(words, &n, "--output", common->out);
    if (compares && !f->project.spec.check) add_word(words, &n, NULL, "--no-check");
    snprintf(threads, sizeof threads, "%lld", (long long)common->threads);
    add_word(words, &n, "--threads", threads);
    if (has_engines) {
        add_word(words, &n, "--backends", f->project.spec.backends);
        add_word(words, &n, "--timingCacheFile", f->project.spec.timing_cache);
        add_word(words, &n, "--tacticSources", f->project.build.tactic_sources);
        add_word(words, &n, "--max-size", f->project.build.max_sizes);
        if (f->project.spec.no_mixed_precision) add_word(words, &n, NULL, "--no-mixing");
        add_word(words, &n, "--decoder", f->project.decoder);
        add_word(words, &n, "--devices", f->project.build.devices);
    }
    if (common->quiet) add_word(words, &n, NULL, "--quiet");
    if (common->verbose) add_word(words, &n, NULL, "--verbose");
    for (int i = 0; reads_model && f->project.disabled[i] && n + 2 < WORDS_MAX; i++)
        add_word(words, &n, "--disable-pass", f->project.disabled[i]);
    for (int i = 0; compares && i < f->precisions->n; i++)
        add_word(words, &n, NULL, f->precisions->item[i]);
    return qb_command_start(f->cx, qb_command_find(s->command), n, (char **)words);
}

static void note(const flow *f, const qb_flow_stage *s, const char *state, const char *path) {
    json_array_append_new(f->report,
                          json_pack("{s:s, s:s, s:o}", "stage", s->command, "state", state, "file",
                                    path ? qb_json_text(path) : json_null()));
    qb_info(f->cx, "%s: %s%s%s%s", s->command, state, path ? " (" : "", path ? path : "",
            path ? ")" : "");
}

/* The record is taken before the stage and kept after it: what changes while it runs makes it run
 * again. A stage that fails or is interrupted leaves no entry. */
static qb_status make(flow *f, const qb_flow_stage *s, const char *path) {
    char inputs[33];
    QB_TRY(qb_flow_inputs(&f->made, s, inputs));
    json_object_del(f->made.record, s->command);
    note(f, s, "running", path);
    QB_TRY(run_stage(f, s));
    return path ? qb_flow_note(&f->made, s, inputs, path) : QB_OK;
}

static qb_status do_stage(flow *f, const qb_flow_stage *s, bool *stale) {
    QB_FREED char *path = NULL;
    bool current = false;
    QB_TRY(qb_flow_file(&f->made, s, &path));
    const bool looks = path && !*stale && !f->o->force;
    qb_status status = looks ? qb_flow_is_current(&f->made, s, path, &current) : QB_OK;
    if (status == QB_OK && current) {
        note(f, s, "up to date", path);
    } else if (status == QB_OK && f->o->dry_run) {
        note(f, s, "would run", path);
        *stale = true; /* what follows would be looked at with files that are not there yet */
    } else if (status == QB_OK) {
        status = make(f, s, path);
    }
    return status;
}

static bool has_gate(const flow *f) {
    return f->project.config && qb_config_find(f->project.config, "gate");
}

/* What the last stages would refuse is refused before the first one runs. */
static qb_status check_ahead(const flow *f) {
    const qb_gate_flags none = {.limits = qb_gate_no_limits()};
    QB_RELEASED(qb_gate_policy_release) qb_gate_policy policy = {.limits = none.limits};
    for (int i = 0; i < f->precisions->n; i++)
        QB_TRY(qb_stage_check_precision(f->cx, &f->project, f->precisions->item[i]));
    if (!has_gate(f)) return QB_OK;
    QB_TRY(qb_gate_policy_load(f->cx, &f->o->common, &none, &policy));
    return qb_gate_policy_has_limit(f->cx, &policy);
}

static qb_status do_all(flow *f) {
    bool stale = false;
    for (size_t i = 0; i < QB_FLOW_STAGES; i++) {
        const qb_flow_stage *s = &qb_flow_stages[i];
        const bool gate = strcmp(s->command, "gate") == 0;
        if (gate && !has_gate(f)) {
            note(f, s, "left out: " QB_CONFIG_NAME " has no gate section", NULL);
            continue;
        }
        QB_TRY(do_stage(f, s, &stale));
    }
    return QB_OK;
}

/* The model is read once: its weights may lie in files of their own. */
static qb_status hash_model(flow *f, qb_hash *out) {
    QB_RELEASED(qb_graph_free_at) qb_graph *graph = NULL;
    QB_TRY(qb_onnx_load(f->cx, f->project.model, &graph));
    *out = graph->hash;
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
    qb_hash model;
    QB_GO(qb_project_open(cx, &o->common, &o->project, true, &f.project));
    QB_GO(check_ahead(&f));
    QB_GO(hash_model(&f, &model));
    QB_GO(qb_flow_open(cx, &f.project, model, arguments, &f.made));
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
    qb_flow_close(&f.made);
    json_decref(f.report);
    qb_project_close(&f.project);
    return status;
}

const qb_command qb_command_run = {
    .name = "run",
    .usage = "[PRECISION...] [options]",
    .summary = "calibrate, quantize, compare, gate: each only where needed",
    .notes =
        "Settings come from qbench.yaml. A stage runs again when the model, its settings,\n"
        "its data (names, sizes, times) or the file that it wrote has changed;\n" QB_FLOW_RECORD
        " keeps what it was made from. PRECISION: as for compare.",
    .example = "qbench init --model squeezenet1.1.onnx --data imagenet_val/\n"
               "qbench run\n"
               "qbench run fp32 int8:entropy int8:minmax --dry-run",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 64,
    .run = run,
};
