/* The gate's limits from the command line and from `gate:` in the settings file. */
#ifndef QB_CLI_SETTINGS_GATE_POLICY_H
#define QB_CLI_SETTINGS_GATE_POLICY_H

#include "cli/command.h"
#include "eval/gate.h"

/* What the command line says; NaN and NULL: nothing. */
typedef struct qb_gate_flags {
    qb_gate_limits limits;
    const char *confidence, *baseline, *precision, *metric;
    qb_opt_list least, allow; /* METRIC=V; names of warnings */
    bool relative_given, mlperf_given, accuracy_given;
} qb_gate_flags;

/* The limits that hold: flags win over settings, one by one. `precision` and what `limits` points
 * to are the policy's own. */
typedef struct qb_gate_policy {
    qb_gate_limits limits;
    char *precision; /* the only row to judge; NULL: all but the first */
    char *metric;    /* what limits.metric points to */
    char **text;     /* what limits.allowed and limits.least point to */
    int32_t n_texts;
    qb_run *baseline;
    char *baseline_path;
} qb_gate_policy;

qb_status qb_gate_policy_load(qb_ctx *cx, const qb_common *common, const qb_gate_flags *flags,
                              qb_gate_policy *out);
/* An error where it limits nothing. */
qb_status qb_gate_policy_has_limit(qb_ctx *cx, const qb_gate_policy *policy);
void qb_gate_policy_release(qb_gate_policy *policy);

#endif
