/* qbench verify: ONNX test cases against their expected outputs. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/out/json.h"
#include "eval/verify.h"

typedef struct options {
    qb_common common;
    qb_opt_list backends;
    double rtol, atol;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_LIST(options, "backends", backends, "LIST",
            "an engine's backends in order of preference (default: cpu,dnnl,ref), or eval: the "
            "operators' definitions; may be given several times"),
    QB_DOUBLE(options, "rtol", rtol, "R", 0, 1e6,
              "relative tolerance of floats (default: 1e-5; f16 1e-3, bf16 1e-2)"),
    QB_DOUBLE(options, "atol", atol, "A", 0, 1e30, "absolute tolerance of floats (default: 1e-6)"),
    {0},
};

static void defaults(void *opts) {
    options *o = opts;
    o->rtol = o->atol = NAN;
}

/* Results of one backend list over all cases. */
typedef struct tally {
    int32_t count[QB_OUTCOME_COUNT];
    double max_error;
    const char *worst; /* the case that has it, "" when every one is exact */
    json_t *cases;
} tally;

/* "error 1.2e-07" or the reason's first line */
static void print_case(const char *name, const qb_case_result *r) {
    if (r->outcome == QB_OUTCOME_PASSED)
        printf("%-11s  %s  error %.3g\n", qb_outcome_text(r->outcome), QB_SHOWN(name),
               r->max_error);
    else
        printf("%-11s  %s  %s\n", qb_outcome_text(r->outcome), QB_SHOWN(name), r->reason);
}

static qb_status verify_one(qb_ctx *cx, const char *path, const options *o,
                            const qb_verify_options *settings, tally *t) {
    qb_case_result r;
    const char *name = qb_path_base(path);
    QB_TRY(qb_verify_case(cx, path, settings, &r));
    t->count[r.outcome]++;
    if (r.outcome != QB_OUTCOME_UNSUPPORTED && !(r.max_error <= t->max_error)) {
        t->max_error = r.max_error;
        t->worst = name;
    }
    bool quiet = o->common.quiet && r.outcome == QB_OUTCOME_PASSED;
    if (!quiet && !qb_json_on_stdout(&o->common)) print_case(name, &r);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:i, s:o}", "name", name, "path", path, "outcome",
                            qb_outcome_text(r.outcome), "reason", r.reason, "data_sets",
                            (int)r.n_sets, "max_error", qb_json_finite(r.max_error));
    if (!row || json_array_append_new(t->cases, row) != 0)
        return qb_fail(cx, QB_STATUS_NOMEM, "%s: no memory for the result", name);
    return QB_OK;
}

static qb_status verify_all(qb_ctx *cx, char *const *cases, int32_t n, const options *o,
                            const char *backends, tally *t) {
    const bool named = strcmp(backends, "default") != 0;
    const qb_verify_options settings = {
        .spec = {.backends = named ? backends : NULL}, .rtol = o->rtol, .atol = o->atol};
    for (int32_t i = 0; i < n; i++) {
        QB_TRY(qb_check_cancel(cx));
        QB_TRY(verify_one(cx, cases[i], o, &settings, t));
    }
    if (qb_json_on_stdout(&o->common)) return QB_OK;
    printf("%d passed, %d failed, %d unsupported", (int)t->count[QB_OUTCOME_PASSED],
           (int)t->count[QB_OUTCOME_FAILED], (int)t->count[QB_OUTCOME_UNSUPPORTED]);
    printf(" (%s); largest error %.3g%s%s\n", backends, t->max_error, *t->worst ? " in " : "",
           QB_SHOWN(t->worst));
    return QB_OK;
}

/* All cases of all arguments. */
static qb_status gather(qb_ctx *cx, const qb_opt_list *arguments, char ***cases, int32_t *n) {
    size_t capacity = 0;
    for (int32_t i = 0; i < arguments->n; i++) {
        char **more;
        int32_t n_more;
        QB_TRY(qb_cases_find(cx, arguments->item[i], &more, &n_more));
        qb_status status = qb_grow(cx, cases, &capacity, (size_t)(*n + n_more), sizeof **cases);
        if (status != QB_OK) {
            qb_cases_free(more, n_more);
            return status;
        }
        memcpy(*cases + *n, more, (size_t)n_more * sizeof *more);
        *n += n_more;
        qb_free(more); /* the strings have moved */
    }
    return QB_OK;
}

static json_t *run_json(const char *backends, const tally *t) {
    return json_pack("{s:s, s:i, s:i, s:i, s:o, s:O}", "backends", backends, "passed",
                     (int)t->count[QB_OUTCOME_PASSED], "failed", (int)t->count[QB_OUTCOME_FAILED],
                     "unsupported", (int)t->count[QB_OUTCOME_UNSUPPORTED], "max_error",
                     qb_json_finite(t->max_error), "cases", t->cases);
}

/* Counts over all backends on top, one entry a backend list below. */
static json_t *report_json(const int32_t *count, double max_error, json_t *runs) {
    return json_pack("{s:s, s:i, s:i, s:i, s:o, s:o}", "schema", "qbench.verify/1", "passed",
                     (int)count[QB_OUTCOME_PASSED], "failed", (int)count[QB_OUTCOME_FAILED],
                     "unsupported", (int)count[QB_OUTCOME_UNSUPPORTED], "max_error",
                     qb_json_finite(max_error), "runs", runs);
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    char **cases = NULL;
    int32_t n = 0, count[QB_OUTCOME_COUNT] = {0};
    double max_error = 0.0;
    qb_status status = QB_OK;
    json_auto_t *runs = json_array();
    if (arguments->n == 0)
        QB_GO(qb_fail(cx, QB_STATUS_USAGE, "verify: expected a folder with test cases"));
    QB_GO(gather(cx, arguments, &cases, &n));
    for (int32_t b = 0; b < (o->backends.n ? o->backends.n : 1); b++) {
        const char *backends = o->backends.n ? o->backends.item[b] : "default";
        tally t = {.worst = "", .cases = json_array()};
        status = verify_all(cx, cases, n, o, backends, &t);
        for (int k = 0; k < QB_OUTCOME_COUNT; k++) count[k] += t.count[k];
        if (!(t.max_error <= max_error)) max_error = t.max_error;
        if (status == QB_OK && json_array_append_new(runs, run_json(backends, &t)) != 0)
            status = qb_fail(cx, QB_STATUS_NOMEM, "verify: no memory for the result");
        json_decref(t.cases);
        if (status != QB_OK) goto out;
    }
    json_t *report = report_json(count, max_error, runs);
    runs = NULL;
    QB_GO(qb_json_out(cx, &o->common, report));
    if (count[QB_OUTCOME_FAILED] > 0)
        status = qb_fail(cx, QB_STATUS_CHECK, "verify: %d of %d cases failed",
                         (int)count[QB_OUTCOME_FAILED],
                         (int)(count[0] + count[1] + count[QB_OUTCOME_UNSUPPORTED]));
    else if (count[QB_OUTCOME_PASSED] == 0)
        status = qb_fail(cx, QB_STATUS_CHECK, "verify: none of the cases is supported");
out:
    qb_cases_free(cases, n);
    return status;
}

const qb_command qb_command_verify = {
    .name = "verify",
    .usage = "CASE... [options]",
    .summary = "run ONNX test cases against their expected outputs",
    .example = "qbench verify onnx-node-tests/ --backends eval --backends ref\n"
               "qbench verify test_conv_basic/ --rtol 1e-3 --json result.json",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = QB_OPT_LIST_MAX,
    .defaults = defaults,
    .run = run,
};
