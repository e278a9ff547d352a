#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eval/eval.h"

/* One limit: its option's name, the value it looks at, and which side is allowed. */
typedef struct gate_rule {
    const char *name;
    double limit;
    double value;
    bool at_most;
} gate_rule;

static int32_t rules_of(const qb_run *run, const qb_run_row *row, const qb_gate_limits *limits,
                        gate_rule rules[4]) {
    const gate_rule all[4] = {
        {"max-drop", limits->max_drop, row->drop, true},
        {"min-agreement", limits->min_agreement, row->agreement_top1, false},
        {"min-sqnr", limits->min_sqnr, row->sqnr_db, false},
        {"max-latency-ratio", limits->max_latency_ratio,
         row->latency.median / run->row[0].latency.median, true},
    };
    int32_t n = 0;
    for (int32_t i = 0; i < 4; i++)
        if (!isnan(all[i].limit)) rules[n++] = all[i];
    return n;
}

static qb_gate_check check_of(const gate_rule *rule, const char *precision) {
    qb_gate_check check = {.value = rule->value, .limit = rule->limit};
    snprintf(check.name, sizeof check.name, "%s", rule->name);
    snprintf(check.row, sizeof check.row, "%s", precision);
    check.measured = !isnan(rule->value);
    /* Percentages of counts such as 1.0 points come out as 0.9999999999 or 1.0000000001. */
    const double slack = 1e-9 * fmax(1, fabs(rule->limit));
    check.held = check.measured && (rule->at_most ? rule->value <= rule->limit + slack
                                                  : rule->value >= rule->limit - slack);
    return check;
}

qb_status qb_gate(qb_ctx *cx, const qb_run *run, const char *precision,
                  const qb_gate_limits *limits, qb_gate_check *checks, int32_t capacity, int32_t *n,
                  bool *held) {
    *n = 0;
    *held = true;
    for (int32_t r = 1; r < run->n_rows; r++) {
        const qb_run_row *row = &run->row[r];
        if (precision && strcmp(precision, row->precision) != 0) continue;
        gate_rule rules[4];
        int32_t n_rules = rules_of(run, row, limits, rules);
        for (int32_t i = 0; i < n_rules; i++) {
            if (*n == capacity)
                return qb_fail(cx, QB_STATUS_INVALID, "gate: more than %d checks", capacity);
            checks[*n] = check_of(&rules[i], row->precision);
            *held = *held && checks[*n].held;
            (*n)++;
        }
    }
    *held = *held && *n > 0;
    return QB_OK;
}
