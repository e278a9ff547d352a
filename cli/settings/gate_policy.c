#include "cli/settings/gate_policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "cli/settings/project.h"
#include "eval/warnings.h"

/* What is being put together; `name` is the settings file's, for messages. */
typedef struct source {
    const qb_config *config;
    const char *name;
} source;

/* A number of the settings where the command line has none; a wrong one is an error in any case. */
static qb_status number(qb_ctx *cx, const source *s, const char *key, double least, double most,
                        double *out) {
    double value = NAN;
    QB_TRY(qb_config_double(cx, s->config, key, &value));
    if (value < least || value > most)
        return qb_config_fail(cx, s->config, key, "expected %g to %g, got %g", least, most, value);
    if (isnan(*out)) *out = value;
    return QB_OK;
}

static qb_status apply_settings(qb_ctx *cx, const source *s, const qb_gate_flags *flags,
                                const char **confidence, const char **baseline,
                                const char **precision, const char **metric,
                                qb_gate_limits *limits) {
#define X(field, option, unit, least, most, text)                                                  \
    QB_TRY(number(cx, s, "gate." #field, least, most, &limits->field));
    QB_GATE_LIMITS(X)
#undef X
    if (!flags->relative_given)
        QB_TRY(qb_config_bool(cx, s->config, "gate.relative", &limits->relative));
    if (!flags->mlperf_given) QB_TRY(qb_config_bool(cx, s->config, "gate.mlperf", &limits->mlperf));
    if (!flags->accuracy_given)
        QB_TRY(qb_config_bool(cx, s->config, "gate.baseline_accuracy", &limits->baseline_accuracy));
    if (!*confidence) QB_TRY(qb_config_string(cx, s->config, "gate.confidence", confidence));
    if (!*baseline) QB_TRY(qb_config_string(cx, s->config, "gate.baseline", baseline));
    if (!*precision) QB_TRY(qb_config_string(cx, s->config, "gate.precision", precision));
    if (!*metric) QB_TRY(qb_config_string(cx, s->config, "gate.metric", metric));
    return QB_OK;
}

/* A baseline of the settings is relative to the settings file. */
static qb_status load_baseline(qb_ctx *cx, const qb_gate_flags *flags, const source *s,
                               const char *path, qb_gate_policy *out) {
    char *folder = !flags->baseline && s->name ? qb_path_dir(cx, s->name) : NULL;
    char *full = qb_path_join(cx, folder, path);
    qb_free(folder);
    if (!full) return cx->code;
    qb_status status = qb_run_load(cx, full, &out->baseline);
    if (status == QB_STATUS_NOTFOUND)
        qb_fail(cx, status,
                "baseline: there is no %s: it is the compare.json of the last release; leave the "
                "baseline out until there is one",
                full);
    else if (status != QB_OK)
        qb_wrap(cx, "baseline");
    out->baseline_path = full;
    out->limits.baseline = out->baseline;
    return status;
}

/* The texts of an option, or of the settings where it is not given: new memory, in out->text from
 * `*n` on. */
static qb_status add_texts(qb_ctx *cx, const source *s, const qb_opt_list *given, const char *key,
                           qb_gate_policy *out) {
    const qb_config_node *list = s->config && given->n == 0 ? qb_config_find(s->config, key) : NULL;
    const int32_t n = list ? qb_config_size(list) : given->n;
    size_t capacity = (size_t)out->n_texts;
    QB_TRY(qb_grow(cx, &out->text, &capacity, capacity + (size_t)n + 1, sizeof *out->text));
    for (int32_t i = 0; i < n; i++) {
        const char *text = list ? qb_config_text(qb_config_at(list, i)) : given->item[i];
        if (!text) return qb_config_fail(cx, s->config, key, "expected a list of names");
        out->text[out->n_texts] = qb_strdup(cx, text);
        if (!out->text[out->n_texts++]) return cx->code;
    }
    return QB_OK;
}

/* "ap=35" -> its name (the text is cut there) and value. */
static qb_status parse_least(qb_ctx *cx, char *text, qb_gate_least *out) {
    char *equals = strchr(text, '='), *end = NULL;
    const double value = equals ? strtod(equals + 1, &end) : NAN;
    if (!equals || equals == text || end == equals + 1 || *end != '\0' || !isfinite(value))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--min %s: expected METRIC=V, such as ap=35 (gate.min in the settings)",
                       text);
    *equals = '\0';
    *out = (qb_gate_least){text, value};
    return QB_OK;
}

/* An error in a list that the command line does not have names the settings file. */
static qb_status in_settings(qb_ctx *cx, const source *s, const qb_opt_list *given,
                             qb_status status) {
    return status == QB_OK || given->n > 0 || !s->name ? status : qb_wrap(cx, "%s", s->name);
}

static qb_status load_lists(qb_ctx *cx, const qb_gate_flags *flags, const source *s,
                            qb_gate_policy *out) {
    qb_gate_limits *l = &out->limits;
    char message[1024];
    QB_TRY(add_texts(cx, s, &flags->least, "gate.min", out));
    if (out->n_texts > QB_GATE_LEAST_MAX)
        return qb_fail(cx, QB_STATUS_USAGE, "--min: at most %d metrics, got %d", QB_GATE_LEAST_MAX,
                       out->n_texts);
    const int32_t first = l->n_least = out->n_texts;
    for (int32_t i = 0; i < first; i++)
        QB_TRY(in_settings(cx, s, &flags->least, parse_least(cx, out->text[i], &l->least[i])));
    QB_TRY(add_texts(cx, s, &flags->allow, "gate.allow", out));
    for (int32_t i = first; i < out->n_texts; i++)
        if (qb_word_find(qb_warning_names(), out->text[i]) < 0)
            return in_settings(
                cx, s, &flags->allow,
                qb_fail(cx, QB_STATUS_USAGE, "--allow: %s",
                        qb_word_error(qb_warning_names(), out->text[i], message, sizeof message)));
    l->allowed = (const char *const *)out->text + first;
    l->n_allowed = out->n_texts - first;
    return QB_OK;
}

static qb_status load(qb_ctx *cx, const qb_gate_flags *flags, const source *s,
                      qb_gate_policy *out) {
    const char *confidence = flags->confidence, *baseline = flags->baseline,
               *precision = flags->precision, *metric = flags->metric;
    out->limits = flags->limits;
    if (s->config)
        QB_TRY(apply_settings(cx, s, flags, &confidence, &baseline, &precision, &metric,
                              &out->limits));
    QB_TRY(load_lists(cx, flags, s, out));
    if (confidence && !qb_confidence_parse(confidence, &out->limits.confidence)) {
        if (!flags->confidence)
            return qb_config_fail(cx, s->config, "gate.confidence",
                                  "expected point, fail or pass, got '%s'", confidence);
        return qb_fail(cx, QB_STATUS_USAGE,
                       "gate: --confidence: expected point, fail or pass, got '%s'", confidence);
    }
    if (precision) QB_TRY_NEW(cx, out->precision = qb_strdup(cx, precision));
    if (metric) {
        out->limits.metric = out->metric = qb_strdup(cx, metric);
        if (!out->metric) return cx->code;
    }
    return baseline ? load_baseline(cx, flags, s, baseline, out) : QB_OK;
}

qb_status qb_gate_policy_load(qb_ctx *cx, const qb_common *common, const qb_gate_flags *flags,
                              qb_gate_policy *out) {
    QB_RELEASED(qb_config_free_at) qb_config *config = NULL;
    const char *name = NULL;
    QB_TRY(qb_settings_load(cx, common, &name, &config));
    *out = (qb_gate_policy){.limits = flags->limits};
    qb_status status = load(cx, flags, &(source){config, name}, out);
    if (status != QB_OK) qb_gate_policy_release(out);
    return status;
}

qb_status qb_gate_policy_has_limit(qb_ctx *cx, const qb_gate_policy *policy) {
    if (qb_gate_has_limit(&policy->limits)) return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE,
                   "gate: no limit: give --max-drop PCT or gate.max_drop in qbench.yaml");
}

void qb_gate_policy_release(qb_gate_policy *policy) {
    QB_FREE_ALL(policy->precision, policy->metric, policy->baseline_path);
    for (int32_t i = 0; i < policy->n_texts; i++) qb_free(policy->text[i]);
    qb_free(policy->text);
    qb_run_free(policy->baseline);
    *policy = (qb_gate_policy){.limits = qb_gate_no_limits()};
}
