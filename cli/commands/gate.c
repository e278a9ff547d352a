/* qbench gate: compare.json against limits; exit code 3 when one does not hold. */
#include <math.h>

#include "base/file.h"
#include "cli/json_out.h"
#include "cli/pipeline.h"

enum { CHECKS_MAX = 1024 };

typedef struct options {
    qb_common common;
    qb_project_flags project;
    qb_gate_limits limits;
    const char *precision;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_PROJECT_OPTIONS(options),
    QB_DATA_OPTIONS(options),
    {.name = "max-drop",
     .type = QB_OPT_DOUBLE,
     .offset = offsetof(options, limits.max_drop),
     .argument = "PCT",
     .help = "most points of top-1 that may be lost against the first row",
     .min = -100,
     .max = 100},
    {.name = "min-agreement",
     .type = QB_OPT_DOUBLE,
     .offset = offsetof(options, limits.min_agreement),
     .argument = "PCT",
     .help = "least share of samples with the first row's class",
     .min = 0,
     .max = 100},
    {.name = "min-sqnr",
     .type = QB_OPT_DOUBLE,
     .offset = offsetof(options, limits.min_sqnr),
     .argument = "DB",
     .help = "least signal-to-quantization-noise ratio of the output",
     .min = -300,
     .max = 300},
    {.name = "max-latency-ratio",
     .type = QB_OPT_DOUBLE,
     .offset = offsetof(options, limits.max_latency_ratio),
     .argument = "R",
     .help = "most median latency, as a multiple of the first row's",
     .min = 0,
     .max = 1e6},
    {.name = "precision",
     .type = QB_OPT_STRING,
     .offset = offsetof(options, precision),
     .argument = "NAME",
     .help = "check only this row (default: all but the first)"},
    {0},
};

static void defaults(void *opts) {
    options *o = opts;
    o->limits = (qb_gate_limits){NAN, NAN, NAN, NAN};
}

static bool has_limit(const qb_gate_limits *l) {
    return !isnan(l->max_drop) || !isnan(l->min_agreement) || !isnan(l->min_sqnr) ||
           !isnan(l->max_latency_ratio);
}

/* What is being judged. */
typedef struct verdict {
    char *path; /* of the record */
    qb_run *run;
    qb_gate_limits limits;
    qb_gate_check *checks;
    int32_t n, failed;
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

/* The comparison that was not made yet. */
static qb_status measure(qb_ctx *cx, const qb_project *project, verdict *v) {
    static const char *const precisions[] = {"fp32", "int8"};
    const qb_compare_settings settings = {.precision = precisions, .n_precisions = 2};
    qb_info(cx, "no %s yet: comparing fp32 and int8", v->path);
    QB_TRY(qb_stage_compare(cx, project, &settings, &v->run));
    return qb_run_save(cx, v->run, v->path);
}

/* compare.json of the output folder, made now when it is not there. A folder with nothing but the
 * record will do when the limits are given. */
static qb_status obtain(qb_ctx *cx, const options *o, verdict *v) {
    qb_project project = {.max_drop = NAN};
    qb_status status = QB_OK;
    v->path = qb_path_join(cx, o->common.out, "compare.json");
    if (!v->path) return cx->code;
    const bool exists = qb_path_exists(v->path);
    if (exists) QB_GO(qb_run_load(cx, v->path, &v->run));
    qb_project_flags flags = o->project;
    const bool described = flags.model || o->common.config || qb_path_exists(QB_CONFIG_NAME);
    if (!described && exists && qb_path_exists(v->run->model)) flags.model = v->run->model;
    if (!exists || !has_limit(&v->limits) || described || flags.model) {
        QB_GO(qb_project_open(cx, &o->common, &flags, false, &project));
        if (!has_limit(&v->limits)) v->limits.max_drop = project.max_drop;
    }
    if (!has_limit(&v->limits)) goto out; /* the caller complains */
    if (!exists)
        QB_GO(measure(cx, &project, v));
    else if (project.model)
        QB_GO(check_model(cx, project.model, v));
out:
    qb_project_close(&project);
    return status;
}

static void print_check(const qb_gate_check *c) {
    if (!c->measured)
        printf("FAIL %s %s: could not be measured (limit %g)\n", c->row, c->name, c->limit);
    else
        printf("%s %s %s: %.5g, limit %g (%s %.3g)\n", c->held ? "PASS" : "FAIL", c->row, c->name,
               c->value, c->limit, c->held ? "margin" : "over by", fabs(c->limit - c->value));
}

static json_t *record_json(const verdict *v) {
    char model[33], data[33];
    qb_hash_hex(v->run->model_hash, model);
    qb_hash_hex(v->run->data_hash, data);
    return json_pack("{s:o, s:s, s:s, s:s, s:s, s:I, s:I}", "file", qb_json_string(v->path),
                     "model", v->run->model, "model_hash", model, "dataset", v->run->dataset,
                     "data_hash", data, "samples", (json_int_t)v->run->samples, "skipped",
                     (json_int_t)v->run->skipped);
}

static json_t *result_json(const verdict *v) {
    json_t *list = json_array();
    for (int32_t i = 0; i < v->n; i++) {
        const qb_gate_check *c = &v->checks[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:o, s:f, s:b}", "check", c->name, "precision", c->row,
                            "value", isfinite(c->value) ? json_real(c->value) : json_null(),
                            "limit", c->limit, "held", c->held));
    }
    return json_pack("{s:s, s:o, s:b, s:o}", "schema", "qbench.gate/1", "record", record_json(v),
                     "held", v->held, "checks", list);
}

static void print_text(const verdict *v) {
    printf("%s: model %s, data %s, %lld samples", v->path, v->run->model, v->run->dataset,
           (long long)v->run->samples);
    if (v->run->skipped > 0) printf(" (%lld skipped)", (long long)v->run->skipped);
    printf("\n");
    for (int32_t i = 0; i < v->n; i++) print_check(&v->checks[i]);
}

static qb_status judge(qb_ctx *cx, const options *o, verdict *v) {
    v->checks = qb_alloc(cx, CHECKS_MAX, sizeof *v->checks);
    if (!v->checks) return cx->code;
    QB_TRY(qb_gate(cx, v->run, o->precision, &v->limits, v->checks, CHECKS_MAX, &v->n, &v->held));
    if (v->n == 0 && o->precision)
        return qb_fail(cx, QB_STATUS_USAGE, "gate: %s has no row '%s' after the first one", v->path,
                       o->precision);
    if (v->n == 0)
        return qb_fail(cx, QB_STATUS_USAGE,
                       "gate: %s has one row only: there is nothing to judge against it", v->path);
    for (int32_t i = 0; i < v->n; i++) v->failed += !v->checks[i].held;
    if (!qb_json_on_stdout(&o->common)) print_text(v);
    QB_TRY(qb_json_out(cx, &o->common, result_json(v)));
    if (v->held) return QB_OK;
    return qb_fail(cx, QB_STATUS_CHECK, "gate: %d of %d checks did not hold", v->failed, v->n);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    verdict v = {.limits = o->limits};
    qb_status status = QB_OK;
    if (arguments->n > 0) { /* a record given by name needs neither model nor settings */
        v.path = qb_strdup(cx, arguments->item[0]);
        if (!v.path) QB_GO(cx->code);
        QB_GO(qb_run_load(cx, v.path, &v.run));
    } else {
        QB_GO(obtain(cx, o, &v));
    }
    if (!has_limit(&v.limits))
        QB_GO(qb_fail(cx, QB_STATUS_USAGE,
                      "gate: no limit: give --max-drop PCT or gate.max_drop in qbench.yaml"));
    QB_GO(judge(cx, o, &v));
out:
    qb_free(v.checks);
    qb_run_free(v.run);
    qb_free(v.path);
    return status;
}

const qb_command qb_command_gate = {
    .name = "gate",
    .usage = "[COMPARE.json] [options]",
    .summary = "exit 3 unless the comparison keeps within the limits",
    .example = "qbench gate --max-drop 1.0\n"
               "qbench gate release/compare.json --max-drop 0.5 --min-agreement 95",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .defaults = defaults,
    .run = run,
};
