/* qbench gate: compare.json against limits; exit code 3 when one does not hold. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "cli/out/gate.h"
#include "cli/out/json.h"
#include "cli/pipeline.h"
#include "cli/settings/gate_policy.h"

enum { CHECKS_MAX = 4096 };

typedef struct options {
    qb_common common;
    qb_project_flags project;
    qb_gate_flags gate;
    const char *junit;
    bool github;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DATA_OPTIONS(options),
    QB_DECODER_OPTION(options),
#define X(field, option, unit, least, most, text)                                                  \
    QB_DOUBLE(options, (option), gate.limits.field, (unit), (least), (most), (text)),
    QB_GATE_LIMITS(X)
#undef X
        QB_FLAG(options, "relative", gate.limits.relative,
                "drops are percent of the reference's metric, not points",
                .given_offset = offsetof(options, gate.relative_given)),
    QB_TEXT(options, "metric", gate.metric, "NAME",
            "what drops are of, such as ap50 (default: the task's first: top1, ap)"),
    QB_FLAG(options, "mlperf", gate.limits.mlperf,
            "the metric must be at least 99 % of the first row's",
            .given_offset = offsetof(options, gate.mlperf_given)),
    QB_LIST(options, "min", gate.least, "METRIC=V",
            "least value of a metric of the record, such as ap=35 or top5=90 (repeatable)"),
    QB_LIST(options, "allow", gate.allow, "NAME",
            "a warning of the record that is to block no limit, such as chance (repeatable)"),
    QB_TEXT(options, "confidence", gate.confidence, "point|fail|pass",
            "what a 95 % interval decides (see below)"),
    QB_TEXT(options, "baseline", gate.baseline, "LAST.json",
            "no row may be worse than in this record"),
    QB_FLAG(options, "baseline-accuracy", gate.limits.baseline_accuracy,
            "of the baseline only its accuracy, not latency and size",
            .given_offset = offsetof(options, gate.accuracy_given)),
    QB_TEXT(options, "precision", gate.precision, "NAME",
            "check only this row (default: all but the first)"),
    QB_TEXT(options, "junit", junit, "FILE", "write the checks as JUnit XML"),
    QB_FLAG(options, "github", github,
            "print GitHub annotations (default where GITHUB_ACTIONS is set)"),
    {0},
};

static void defaults(void *opts) { ((options *)opts)->gate.limits = qb_gate_no_limits(); }

/* What is being judged. */
typedef struct verdict {
    char *path; /* of the record */
    qb_run *run;
    qb_gate_policy policy;
    qb_gate_check *checks;
    int32_t n, failed, blocked;
    bool held;
} verdict;

/* A record lies about in a folder for long: it must not speak for a model that came after it. */
static qb_status check_model(qb_ctx *cx, const char *model, const verdict *v) {
    qb_graph *graph;
    QB_TRY(qb_onnx_load(cx, model, &graph));
    const bool same = qb_hash_equal(graph->hash, v->run->model_hash);
    qb_graph_free(graph);
    if (same) return QB_OK;
    return qb_fail(cx, QB_STATUS_MISMATCH,
                   "%s was made from another model (%s) than %s: run 'qbench compare' again, or "
                   "name the record to judge it as it is: 'qbench gate %s'",
                   v->path, v->run->model, model, v->path);
}

/* A record that is there already: what is about measuring would be ignored. The model is asked for
 * only where the record is not named. */
static qb_status refuse_ignored(qb_ctx *cx, const options *o, const char *record, bool named) {
    static const char *const measuring[] = {"model", "disable-pass", QB_BUILD_OPTION_NAMES,
                                            QB_DATA_OPTION_NAMES, NULL};
    QB_FREED char *why = QB_NEW(cx, qb_format(cx, "gate: %s is judged as it is", record));
    return qb_options_refuse(cx, &qb_command_gate, o, named ? measuring : measuring + 1, why);
}

/* Options of limits that there are not. */
static qb_status refuse_idle(qb_ctx *cx, const options *o, const qb_gate_limits *l) {
    static const char *const of_drops[] = {"relative", NULL}, *const of_metric[] = {"metric", NULL},
                             *const of_baseline[] = {"baseline-drop", "baseline-ratio",
                                                     "baseline-accuracy", NULL},
                             *const of_speed[] = {"baseline-ratio", NULL};
    const bool drops = !isnan(l->max_drop) || l->baseline;
    const qb_command *gate = &qb_command_gate;
    if (!l->baseline) QB_TRY(qb_options_refuse(cx, gate, o, of_baseline, "gate: no --baseline"));
    if (l->baseline_accuracy)
        QB_TRY(qb_options_refuse(cx, gate, o, of_speed, "gate: of the baseline accuracy alone"));
    if (!drops) QB_TRY(qb_options_refuse(cx, gate, o, of_drops, "gate: no limit of a drop"));
    if (!drops && !l->mlperf)
        QB_TRY(qb_options_refuse(cx, gate, o, of_metric, "gate: no limit of a drop"));
    return QB_OK;
}

/* The comparison that was not made yet. */
static qb_status measure(qb_ctx *cx, const qb_project *project, verdict *v) {
    static const char *const precisions[] = {"fp32", "int8"};
    const qb_compare_settings settings = {
        .precision = precisions, .n_precisions = 2, .thumbnail = 64};
    qb_info(cx, "no %s yet: comparing fp32 and int8", v->path);
    QB_TRY(qb_stage_compare(cx, project, &settings, &v->run));
    return qb_run_save(cx, v->run, v->path);
}

/* compare.json of the output folder, made now when it is not there. A folder with nothing but the
 * record will do when the limits are given. */
static qb_status obtain(qb_ctx *cx, const options *o, verdict *v) {
    QB_RELEASED(qb_project_close) qb_project project = {0};
    QB_TRY_NEW(cx, v->path = qb_path_join(cx, o->common.out, "compare.json"));
    const bool exists = !qb_path_is_absent(v->path), limited = qb_gate_has_limit(&v->policy.limits);
    if (exists) QB_TRY(refuse_ignored(cx, o, v->path, false));
    if (exists) QB_TRY(qb_run_load(cx, v->path, &v->run));
    qb_project_flags flags = o->project;
    const bool described = flags.model || o->common.config || qb_path_exists(QB_CONFIG_NAME);
    if (!described && exists && !qb_path_is_absent(v->run->model)) flags.model = v->run->model;
    if (!exists || !limited || described || flags.model)
        QB_TRY(qb_project_open(cx, &o->common, &flags, false, &project));
    if (!limited) return QB_OK; /* the caller complains */
    if (!exists)
        QB_TRY(measure(cx, &project, v));
    else if (project.model)
        QB_TRY(check_model(cx, project.model, v));
    return QB_OK;
}

/* A row that the record does not have, or not to be judged: those that it has. */
static qb_status no_such_row(qb_ctx *cx, const verdict *v) {
    qb_strbuf rows = {0};
    for (int32_t r = 1; r < v->run->n_rows; r++)
        qb_strbuf_addf(&rows, "%s%s", r > 1 ? ", " : "", v->run->row[r].precision);
    qb_fail(cx, QB_STATUS_USAGE, "gate: %s has no row '%s' after the first one; it has %s", v->path,
            v->policy.precision, rows.size > 0 ? rows.data : "none");
    qb_strbuf_release(&rows);
    return cx->code;
}

static qb_status judge(qb_ctx *cx, verdict *v) {
    const char *precision = v->policy.precision;
    QB_TRY_NEW(cx, v->checks = qb_alloc(cx, CHECKS_MAX, sizeof *v->checks));
    QB_TRY(
        qb_gate(cx, v->run, precision, &v->policy.limits, v->checks, CHECKS_MAX, &v->n, &v->held));
    if (v->n == 0 && precision) return no_such_row(cx, v);
    if (v->n == 0)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "gate: %s has one row only: there is nothing to judge against it", v->path);
    for (int32_t i = 0; i < v->n; i++) {
        v->failed += !v->checks[i].held;
        v->blocked += v->checks[i].blocked != NULL;
    }
    return QB_OK;
}

/* Everywhere the verdict goes; an open gate or one that does not hold. */
static qb_status tell(qb_ctx *cx, const options *o, const verdict *v) {
    const qb_gate_result result = {v->path, v->run, v->checks, v->n, v->failed, v->blocked};
    const char *actions = getenv("GITHUB_ACTIONS");
    const bool to_stdout = !qb_json_on_stdout(&o->common);
    if (to_stdout) qb_gate_print(stdout, &result);
    if (o->github || (actions && strcmp(actions, "true") == 0))
        qb_gate_annotate(to_stdout ? stdout : stderr, &result);
    if (o->junit) QB_TRY(qb_gate_junit(cx, o->junit, &result, NULL));
    QB_TRY(qb_json_out(cx, &o->common, qb_gate_json(&result)));
    if (v->held) return QB_OK;
    return qb_fail(cx, QB_STATUS_CHECK, "gate: %d of %d checks did not hold", v->failed, v->n);
}

static qb_status run_gate(qb_ctx *cx, const options *o, const qb_opt_list *arguments, verdict *v) {
    QB_TRY(refuse_idle(cx, o, &v->policy.limits));
    if (arguments->n > 0) { /* a record given by name needs neither model nor data */
        QB_TRY(refuse_ignored(cx, o, arguments->item[0], true));
        QB_TRY_NEW(cx, v->path = qb_strdup(cx, arguments->item[0]));
        QB_TRY(qb_run_load(cx, v->path, &v->run));
    } else {
        QB_TRY(obtain(cx, o, v));
    }
    QB_TRY(qb_gate_policy_has_limit(cx, &v->policy));
    return judge(cx, v);
}

/* A gate that broke before it judged: whoever waits for the XML must not take silence for a pass.
 */
static void report_error(qb_ctx *cx, const options *o) {
    qb_ctx child;
    qb_ctx_child(cx, &child);
    if (o->junit && qb_gate_junit(&child, o->junit, &(qb_gate_result){0}, cx->message) != QB_OK)
        qb_warn(cx, "%s", child.message);
}

/* What is read although no word of the command line names it. */
static qb_status check_outputs(qb_ctx *cx, const options *o, const char *from) {
    QB_TRY(qb_output_check(cx, "--json", o->common.json, from));
    return qb_output_check(cx, "--junit", o->junit, from);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    verdict v = {.policy = {.limits = qb_gate_no_limits()}};
    QB_FREED char *record = QB_NEW(cx, qb_path_join(cx, o->common.out, "compare.json"));
    if (arguments->n == 0) QB_TRY(check_outputs(cx, o, record)); /* before an error is XML there */
    qb_status status = qb_gate_policy_load(cx, &o->common, &o->gate, &v.policy);
    if (status == QB_OK && check_outputs(cx, o, v.policy.baseline_path) != QB_OK) {
        qb_gate_policy_release(&v.policy);
        return cx->code;
    }
    if (status == QB_OK) status = run_gate(cx, o, arguments, &v);
    if (status == QB_OK)
        status = tell(cx, o, &v);
    else
        report_error(cx, o);
    qb_free(v.checks);
    qb_run_free(v.run);
    qb_free(v.path);
    qb_gate_policy_release(&v.policy);
    return status;
}

const qb_command qb_command_gate = {
    .name = "gate",
    .usage = "[COMPARE.json] [options]",
    .summary = "exit 3 unless the comparison keeps within the limits",
    .notes = "A check that could not be measured does not hold. Limits that are not given here\n"
             "come from gate: in qbench.yaml (max_drop, min_agreement, ..., confidence,\n"
             "baseline). A limit on what a warning of the record touches is BLOCKED: accuracy\n"
             "where the reference is at chance or was scored on the calibration data, latency\n"
             "where it is unstable or others ran on the machine. --allow NAME lets the number\n"
             "decide.\n"
             "\n"
             "--confidence point: the number decides (default); fail: fails only when all of\n"
             "its 95 % interval is beyond the limit; pass: passes only when all of it keeps\n"
             "the limit.",
    .example = "qbench gate --max-drop 1.0\n"
               "qbench gate --max-drop 1.0 --confidence pass --junit gate.xml\n"
               "qbench gate release/compare.json --mlperf --max-latency-ratio 0.8\n"
               "qbench gate --baseline last/compare.json",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
