#include "cli/settings/gate_policy.h"

#include <math.h>

#include "base/config.h"
#include "base/file.h"
#include "cli/settings/project.h"

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
    qb_free(full);
    out->limits.baseline = out->baseline;
    return status;
}

static qb_status load(qb_ctx *cx, const qb_gate_flags *flags, const source *s,
                      qb_gate_policy *out) {
    const char *confidence = flags->confidence, *baseline = flags->baseline,
               *precision = flags->precision, *metric = flags->metric;
    out->limits = flags->limits;
    if (s->config)
        QB_TRY(apply_settings(cx, s, flags, &confidence, &baseline, &precision, &metric,
                              &out->limits));
    if (confidence && !qb_confidence_parse(confidence, &out->limits.confidence)) {
        if (!flags->confidence)
            return qb_config_fail(cx, s->config, "gate.confidence",
                                  "expected point, fail or pass, got '%s'", confidence);
        return qb_fail(cx, QB_STATUS_USAGE,
                       "gate: --confidence: expected point, fail or pass, got '%s'", confidence);
    }
    if (precision) {
        out->precision = qb_strdup(cx, precision);
        if (!out->precision) return cx->code;
    }
    if (metric) {
        out->limits.metric = out->metric = qb_strdup(cx, metric);
        if (!out->metric) return cx->code;
    }
    return baseline ? load_baseline(cx, flags, s, baseline, out) : QB_OK;
}

qb_status qb_gate_policy_load(qb_ctx *cx, const qb_common *common, const qb_gate_flags *flags,
                              qb_gate_policy *out) {
    qb_config *config = NULL;
    const char *name = NULL;
    QB_TRY(qb_settings_load(cx, common, &name, &config));
    *out = (qb_gate_policy){.limits = flags->limits};
    qb_status status = load(cx, flags, &(source){config, name}, out);
    qb_config_free(config);
    if (status != QB_OK) qb_gate_policy_release(out);
    return status;
}

void qb_gate_policy_release(qb_gate_policy *policy) {
    qb_free(policy->precision);
    qb_free(policy->metric);
    qb_run_free(policy->baseline);
    *policy = (qb_gate_policy){.limits = qb_gate_no_limits()};
}
