#include "eval/gate.h"

#include "base/opt.h"
#include "datasets/loader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NONE ((qb_interval){NAN, NAN})
#define MLPERF_PERCENT 99.0 /* of the reference's accuracy */

bool qb_confidence_parse(const char *text, qb_confidence *out) {
    static const char *const names[] = {"point", "fail", "pass"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (qb_confidence)i;
            return true;
        }
    return false;
}

qb_gate_limits qb_gate_no_limits(void) {
    return (qb_gate_limits){
#define X(field, option, unit, least, most, text) .field = NAN,
        QB_GATE_LIMITS(X)
#undef X
    };
}

bool qb_gate_has_limit(const qb_gate_limits *l) {
    return l->mlperf || l->baseline || l->n_least > 0 || !isnan(l->max_drop) ||
           !isnan(l->min_top1) || !isnan(l->min_agreement) || !isnan(l->min_sqnr) ||
           !isnan(l->max_latency) || !isnan(l->max_latency_ratio) || !isnan(l->max_engine_size) ||
           !isnan(l->min_samples);
}

/* What one check looks at. */
typedef struct subject {
    const qb_run *run;
    const qb_run_row *row, *first;
    const qb_gate_limits *limits;
    const qb_run_row *before;   /* its namesake in the baseline; may be NULL */
    const qb_gate_least *least; /* the metric that is looked at; may be NULL */
} subject;

/* A value, its interval, and why there is none. */
typedef struct finding {
    double value;
    qb_interval ci;
    bool has_interval; /* a number of this kind comes with one */
    const char *reason;
    double one; /* what one sample more or less makes; 0: no such number */
} finding;

/* The metric that accuracy is judged by: told, else the task's first. NULL: top-1 as it was before
 * there were tasks. */
static const char *metric_name(const subject *s) {
    return s->limits->metric ? s->limits->metric : qb_run_own_metric(s->run);
}

/* Of a row; top-1 where none is told. */
static double metric_of(const subject *s, const qb_run_row *row) {
    const char *name = metric_name(s);
    const qb_run_metric *m = name ? qb_run_metric_find(row, name) : NULL;
    return m ? m->value : name ? NAN : row->top1;
}

static double scale_of(const subject *s) {
    return s->limits->relative ? 100 / metric_of(s, s->first) : 1;
}

/* One sample in percent of those with a label, or of all where that is not known. */
static double one_of(const subject *s) {
    const qb_paired *p = &s->row->paired;
    const int64_t labelled = p->both + p->lost + p->gained + p->neither;
    return 100 / (double)(labelled > 0 ? labelled : s->run->samples);
}

static qb_interval drop_interval(const subject *s) {
    const char *name = metric_name(s);
    const qb_run_metric *m = name ? qb_run_metric_find(s->row, name) : NULL;
    return !name ? s->row->paired.drop_ci : m ? m->drop_ci : NONE;
}

static const char *missing(const subject *s) {
    if (!isnan(metric_of(s, s->row))) return NULL;
    return metric_name(s) ? "the data has no ground truth for it"
                          : "the data has no labels (--min-sqnr needs none)";
}

/* The same of a share of the first row's. */
static const char *missing_share(const subject *s) {
    return metric_of(s, s->first) == 0 ? "the first row's own is 0" : missing(s);
}

static finding drop(const subject *s) {
    const qb_interval ci = drop_interval(s);
    const bool told = metric_name(s);
    const double scale = scale_of(s);
    return (finding){(told ? metric_of(s, s->first) - metric_of(s, s->row) : s->row->drop) * scale,
                     {ci.lo * scale, ci.hi * scale},
                     true,
                     s->limits->relative ? missing_share(s) : missing(s),
                     told ? 0 : one_of(s) * scale};
}

static finding mlperf(const subject *s) {
    const qb_interval ci = drop_interval(s);
    const double scale = 100 / metric_of(s, s->first);
    return (finding){metric_of(s, s->row) * scale,
                     {100 - ci.hi * scale, 100 - ci.lo * scale},
                     true,
                     missing_share(s),
                     metric_name(s) ? 0 : one_of(s) * scale};
}

static finding top1(const subject *s) {
    return (finding){s->row->top1, qb_run_metric_ci(s->row, "top1"), true,
                     isnan(s->row->top1) ? "the data has no labels" : NULL, one_of(s)};
}

static finding least(const subject *s) {
    const qb_run_metric *m = qb_run_metric_find(s->row, s->least->metric);
    if (!m) return (finding){NAN, NONE, false, "the record has no such metric", 0};
    return (finding){m->value, m->ci, !isnan(m->ci.lo), missing(s), 0};
}

static finding agreement(const subject *s) {
    return (finding){s->row->agreement_top1, qb_run_metric_ci(s->row, "agreement"), true, NULL,
                     100 / (double)s->run->samples};
}

static finding sqnr(const subject *s) { return (finding){s->row->sqnr_db, NONE, false, NULL, 0}; }

static finding latency(const subject *s) {
    return (finding){s->row->latency.median, s->row->latency.median_ci, true, NULL, 0};
}

static finding latency_ratio(const subject *s) {
    return (finding){s->row->latency.median / s->first->latency.median, s->row->latency.ratio_ci,
                     true, NULL, 0};
}

static finding engine_size(const subject *s) {
    return (finding){s->row->engine_bytes > 0 ? (double)s->row->engine_bytes / 0x1p20 : NAN, NONE,
                     false, NULL, 0};
}

static finding samples(const subject *s) {
    return (finding){(double)s->run->samples, NONE, false, NULL, 0};
}

/* ---- against the baseline ---- */

/* A record that names no decoder had the processor's. */
static bool same_decoder(const qb_run *a, const qb_run *b) {
    return strcmp(a->decoder ? a->decoder : "", b->decoder ? b->decoder : "") == 0;
}

static const char *other_data(const subject *s) {
    if (!s->before) return "the baseline has no such row";
    if (!same_decoder(s->run, s->limits->baseline))
        return "the baseline's images were decoded by another decoder";
    return qb_hash_equal(s->run->data_hash, s->limits->baseline->data_hash)
               ? NULL
               : "the baseline was scored on other data";
}

static const char *other_machine(const subject *s) {
    if (!s->before) return "the baseline has no such row";
    const qb_run *old = s->limits->baseline;
    if (strcmp(old->cpu, s->run->cpu) != 0) return "the baseline was measured on another processor";
    if (old->threads != s->run->threads) return "the baseline ran with other threads";
    if (strcmp(s->before->backend, s->row->backend) != 0)
        return "the baseline ran on another backend";
    return s->before->batch == s->row->batch ? NULL : "the baseline ran with another batch";
}

static finding baseline_drop(const subject *s) {
    const char *reason = other_data(s);
    /* Without labels, the share of samples with the first row's class stands for accuracy. */
    const bool told = metric_name(s), labelled = told || !isnan(s->row->top1);
    const double now = labelled ? metric_of(s, s->row) : s->row->agreement_top1,
                 before = reason     ? NAN
                          : labelled ? metric_of(s, s->before)
                                     : s->before->agreement_top1;
    const double scale = s->limits->relative ? 100 / before : 1;
    return (finding){(before - now) * scale, NONE, false, reason, told ? 0 : one_of(s) * scale};
}

static finding baseline_latency(const subject *s) {
    const char *reason = other_machine(s);
    const double before = reason ? NAN : s->before->latency.median;
    const qb_interval ci = s->row->latency.median_ci;
    return (finding){
        s->row->latency.median / before, {ci.lo / before, ci.hi / before}, true, reason, 0};
}

static finding baseline_size(const subject *s) {
    if (!s->before) return (finding){NAN, NONE, false, "the baseline has no such row", 0};
    return (finding){(double)s->row->engine_bytes / (double)s->before->engine_bytes, NONE, false,
                     NULL, 0};
}

/* ---- the checks ---- */

typedef struct rule {
    const char *name;
    size_t limit; /* offset in qb_gate_limits */
    bool at_most;
    finding (*find)(const subject *s);
    const char *touched; /* what it is of: QB_TOUCHES_... */
    const char *unit;
    bool of_metric; /* of the metric that accuracy is judged by */
    bool of_both;   /* of the first row, too */
    bool of_baseline;
} rule;

#define LIMIT(FIELD) offsetof(qb_gate_limits, FIELD)
#define ACCURACY QB_TOUCHES_ACCURACY
#define LATENCY QB_TOUCHES_LATENCY
static const rule rules[] = {
    {"min-samples", LIMIT(min_samples), false, samples, "", " samples", false, false, false},
    {"max-drop", LIMIT(max_drop), true, drop, ACCURACY, " points", true, true, false},
    {"min-top1", LIMIT(min_top1), false, top1, ACCURACY, " %", false, false, false},
    {"min-agreement", LIMIT(min_agreement), false, agreement, ACCURACY, " %", false, true, false},
    {"min-sqnr", LIMIT(min_sqnr), false, sqnr, ACCURACY, " dB", false, true, false},
    {"max-latency", LIMIT(max_latency), true, latency, LATENCY, " ms", false, false, false},
    {"max-latency-ratio", LIMIT(max_latency_ratio), true, latency_ratio, LATENCY, "x", false, true,
     false},
    {"max-engine-size", LIMIT(max_engine_size), true, engine_size, "", " MiB", false, false, false},
};
static const rule baseline_rules[] = {
    {"baseline-drop", LIMIT(baseline_drop), true, baseline_drop, ACCURACY, " points", true, false,
     true},
    {"baseline-latency", LIMIT(baseline_ratio), true, baseline_latency, LATENCY, "x", false, false,
     true},
    {"baseline-size", LIMIT(baseline_ratio), true, baseline_size, "", "x", false, false, false},
};
static const rule mlperf_rule = {"mlperf", 0, false, mlperf, ACCURACY, " %", true, true, false};
static const rule least_rule = {"min", 0, false, least, ACCURACY, "", false, false, false};

static bool keeps(const qb_gate_check *c, double value) {
    /* Percentages of counts such as 1.0 points come out as 0.9999999999 or 1.0000000001. */
    const double slack = 1e-9 * fmax(1, fabs(c->limit));
    return c->at_most ? value <= c->limit + slack : value >= c->limit - slack;
}

/* By the interval: its better end decides whether to fail, its worse end whether to pass. */
static void judge_interval(qb_gate_check *c, qb_confidence confidence) {
    const double better = c->at_most ? c->ci.lo : c->ci.hi,
                 worse = c->at_most ? c->ci.hi : c->ci.lo;
    const bool point = keeps(c, c->value);
    if (isnan(better) || isnan(worse)) {
        c->measured = c->held = false;
        snprintf(c->reason, sizeof c->reason, "the record has no interval: compare again");
        return;
    }
    c->held = keeps(c, confidence == QB_CONFIDENCE_FAIL ? better : worse);
    if (c->held != point)
        snprintf(c->reason, sizeof c->reason, "the interval from %.4g to %.4g decides", c->ci.lo,
                 c->ci.hi);
}

/* A limit that allows less than one sample cannot be told from one that allows none: the number
 * decides, but nobody may take it for more than it is. `one`: what a sample makes of n. */
static void note_resolution(qb_gate_check *c, double one, int64_t n) {
    const double allowed = c->at_most ? c->limit : 100 - c->limit;
    if (!(one > 0 && allowed > 0) || allowed >= one * (1 - 1e-9) || c->reason[0] != '\0') return;
    snprintf(
        c->reason, sizeof c->reason,
        "one of %lld samples is %.3g, so less than that cannot be told from none; %.0f samples "
        "could",
        (long long)n, one, ceil((double)n * one / allowed * (1 - 1e-9)));
}

/* The warning that the number cannot be trusted for. */
static const qb_run_warning *warning_of(const rule *r, const subject *s) {
    const qb_gate_limits *l = s->limits;
    const qb_run_warning *w =
        qb_warning_find(s->run, r->touched, s->row->precision, l->allowed, l->n_allowed);
    if (!w && r->of_both)
        w = qb_warning_find(s->run, r->touched, s->first->precision, l->allowed, l->n_allowed);
    if (!w && r->of_baseline && s->before)
        w = qb_warning_find(l->baseline, r->touched, s->before->precision, l->allowed,
                            l->n_allowed);
    return w;
}

/* Latency that others disturbed was not measured; accuracy was, but of something else. */
static void block(qb_gate_check *c, const rule *r, const qb_run_warning *w) {
    c->blocked = w->name;
    c->held = false;
    c->measured = strcmp(r->touched, LATENCY) != 0;
    const size_t n = strlen(c->row); /* whose name the line begins with */
    const bool own = strncmp(w->text, c->row, n) == 0 && strncmp(w->text + n, ": ", 2) == 0;
    snprintf(c->reason, sizeof c->reason, "%.360s (--allow %.40s)", w->text + (own ? n + 2 : 0),
             w->name);
}

static const char *unit_of(const rule *r, const subject *s, const qb_run_metric *metric) {
    if (r == &least_rule) return metric ? metric->unit : "";
    return s->limits->relative && r->of_metric ? " %" : r->unit;
}

static qb_gate_check check_of(const rule *r, double limit, const subject *s) {
    const finding f = r->find(s);
    const char *told = r == &least_rule ? s->least->metric : r->of_metric ? metric_name(s) : NULL;
    const qb_run_metric *metric = told ? qb_run_metric_find(s->row, told) : NULL;
    qb_gate_check c = {.name = r->name,
                       .metric = metric ? metric->title : told,
                       .unit = unit_of(r, s, metric),
                       .row = s->row->precision,
                       .value = f.value,
                       .limit = limit,
                       .ci = f.has_interval ? f.ci : NONE,
                       .at_most = r->at_most,
                       .measured = !isnan(f.value) && s->run->samples > 0};
    if (!c.measured)
        snprintf(c.reason, sizeof c.reason, "%s",
                 f.reason              ? f.reason
                 : s->run->samples > 0 ? "the record has no such number"
                                       : "no sample was scored");
    else if (s->limits->confidence != QB_CONFIDENCE_POINT && f.has_interval)
        judge_interval(&c, s->limits->confidence);
    else
        c.held = keeps(&c, c.value);
    if (c.measured && c.held) note_resolution(&c, f.one, s->run->samples);
    const qb_run_warning *w = warning_of(r, s);
    if (w && c.measured) block(&c, r, w);
    return c;
}

double qb_gate_margin(const qb_gate_check *c) {
    if (!c->measured) return -INFINITY;
    const double inside = c->at_most ? c->limit - c->value : c->value - c->limit;
    return inside / fmax(fabs(c->limit), 1e-9);
}

typedef struct list {
    qb_gate_check *check;
    int32_t capacity, n;
} list;

static qb_status add(qb_ctx *cx, list *l, const rule *r, double limit, const subject *s) {
    if (l->n == l->capacity)
        return qb_fail(cx, QB_STATUS_INVALID, "gate: more than %d checks", l->capacity);
    l->check[l->n++] = check_of(r, limit, s);
    return QB_OK;
}

static double limit_of(const qb_gate_limits *limits, const rule *r) {
    return *(const double *)(const void *)((const char *)limits + r->limit);
}

static const qb_run_row *row_named(const qb_run *run, const char *precision) {
    for (int32_t i = 0; run && i < run->n_rows; i++)
        if (strcmp(run->row[i].precision, precision) == 0) return &run->row[i];
    return NULL;
}

static qb_status check_row(qb_ctx *cx, const subject *s, list *l) {
    const qb_gate_limits *limits = s->limits;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const double limit = limit_of(limits, &rules[i]);
        if (!isnan(limit)) QB_TRY(add(cx, l, &rules[i], limit, s));
    }
    if (limits->mlperf) QB_TRY(add(cx, l, &mlperf_rule, MLPERF_PERCENT, s));
    for (int32_t i = 0; i < limits->n_least; i++) {
        subject one = *s;
        one.least = &limits->least[i];
        QB_TRY(add(cx, l, &least_rule, one.least->value, &one));
    }
    for (size_t i = 0; limits->baseline && i < sizeof baseline_rules / sizeof baseline_rules[0];
         i++) {
        const rule *r = &baseline_rules[i];
        const bool of_accuracy = r->find == baseline_drop;
        if (limits->baseline_accuracy && !of_accuracy) continue;
        const double limit = limit_of(limits, r), usual = of_accuracy ? 0 : 1.1;
        QB_TRY(add(cx, l, r, isnan(limit) ? usual : limit, s));
    }
    return QB_OK;
}

/* A metric that no row has: those that there are. */
static qb_status check_metric(qb_ctx *cx, const qb_run *run, const char *option, const char *name) {
    enum { MOST = 64 };
    const char *names[MOST + 1] = {NULL};
    char text[512];
    const qb_run_row *row = &run->row[0];
    for (int32_t i = 0; i < row->n_metrics && i < MOST; i++) names[i] = row->metric[i].name;
    if (qb_run_metric_find(row, name)) return QB_OK;
    return qb_fail(cx, QB_STATUS_USAGE, "--%s: %s", option,
                   qb_word_error(names, name, text, sizeof text));
}

qb_status qb_gate(qb_ctx *cx, const qb_run *run, const char *precision,
                  const qb_gate_limits *limits, qb_gate_check *checks, int32_t capacity, int32_t *n,
                  bool *held) {
    list l = {checks, capacity, 0};
    if (limits->metric) QB_TRY(check_metric(cx, run, "metric", limits->metric));
    for (int32_t i = 0; i < limits->n_least; i++)
        QB_TRY(check_metric(cx, run, "min", limits->least[i].metric));
    for (int32_t r = 1; r < run->n_rows; r++) {
        const qb_run_row *row = &run->row[r];
        if (precision && strcmp(precision, row->precision) != 0) continue;
        const subject s = {run, row, run->row, limits, row_named(limits->baseline, row->precision),
                           NULL};
        QB_TRY(check_row(cx, &s, &l));
    }
    *n = l.n;
    *held = l.n > 0;
    for (int32_t i = 0; i < l.n; i++) *held = *held && checks[i].held;
    return QB_OK;
}
