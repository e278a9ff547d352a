/* The release gate: a record against limits. A check that could not be measured does not hold. */
#ifndef QB_EVAL_GATE_H
#define QB_EVAL_GATE_H

#include "base/ctx.h"
#include "eval/run.h"

/* X(field, option, unit, least, most, text): the limits, one number each. The same list makes the
 * command's options and the keys of the settings file (gate.max_drop). */
#define QB_GATE_LIMITS(X)                                                                          \
    X(max_drop, "max-drop", "PCT", -100, 100,                                                      \
      "most points of the task's first metric that may be lost against the first row (top-1, AP)") \
    X(min_top1, "min-top1", "PCT", 0, 100, "least top-1 of the row itself")                        \
    X(min_agreement, "min-agreement", "PCT", 0, 100,                                               \
      "least share of samples with the first row's class")                                         \
    X(min_sqnr, "min-sqnr", "DB", -300, 300,                                                       \
      "least signal-to-quantization-noise ratio of the output")                                    \
    X(max_latency, "max-latency", "MS", 0, 1e9, "most milliseconds of median latency")             \
    X(max_latency_ratio, "max-latency-ratio", "R", 0, 1e6,                                         \
      "most median latency, as a multiple of the first row's")                                     \
    X(max_engine_size, "max-engine-size", "MIB", 0, 1e9, "largest engine, in MiB")                 \
    X(min_samples, "min-samples", "N", 0, 1e12, "fewest samples that may be judged by")            \
    X(baseline_drop, "baseline-drop", "PCT", 0, 100,                                               \
      "points of top-1 that may be lost against the baseline (default: 0)")                        \
    X(baseline_ratio, "baseline-ratio", "R", 0, 1e6,                                               \
      "latency and size against the baseline's (default: 1.1)")

/* When a number with an interval counts. */
typedef enum qb_confidence {
    QB_CONFIDENCE_POINT, /* the number itself is compared */
    QB_CONFIDENCE_FAIL,  /* fails only when the whole interval is beyond the limit */
    QB_CONFIDENCE_PASS   /* passes only when the whole interval keeps the limit */
} qb_confidence;
/* "point", "fail", "pass"; false leaves *out alone. */
bool qb_confidence_parse(const char *text, qb_confidence *out);

/* The least value of a metric of the record. */
typedef struct qb_gate_least {
    const char *metric; /* its name */
    double value;
} qb_gate_least;

enum { QB_GATE_LEAST_MAX = 32 };

/* NaN limits are off. */
typedef struct qb_gate_limits {
#define X(field, option, unit, least, most, text) double field;
    QB_GATE_LIMITS(X)
#undef X
    qb_gate_least least[QB_GATE_LEAST_MAX];
    int32_t n_least;
    const char *const *allowed; /* names of warnings that block nothing, see eval/warnings.h */
    int32_t n_allowed;
    const char *metric; /* what max_drop is of; NULL: the task's first */
    bool
        relative; /* max_drop and baseline_drop are percent of the reference's metric, not points */
    bool mlperf;  /* top-1 at least 99 % of the first row's */
    qb_confidence confidence;
    const qb_run *baseline; /* no row may be worse than its namesake here; NULL: none */
    bool baseline_accuracy; /* only by its accuracy: machines that differ tell nothing of latency */
} qb_gate_limits;

qb_gate_limits qb_gate_no_limits(void);
/* Would it check anything? */
bool qb_gate_has_limit(const qb_gate_limits *limits);

enum { QB_GATE_REASON = 448 };

typedef struct qb_gate_check {
    const char *name;    /* "max-drop" */
    const char *row;     /* the record's precision */
    const char *metric;  /* what it is of, as tables title it; NULL: its name says it */
    const char *unit;    /* of value and limit as they are printed: " points", "x"; may be "" */
    const char *blocked; /* the warning that makes the number worthless; NULL: none */
    double value, limit;
    qb_interval ci; /* NaN: none */
    bool at_most;   /* which side of the limit is allowed */
    bool measured, held;
    char reason[QB_GATE_REASON]; /* why it was not measured or is blocked; what the interval says;
                                    what n cannot tell */
} qb_gate_check;

/* A check of a number that a warning of the record touches does not hold, whatever the number is:
 * accuracy where the reference is at chance or the data are the calibration's, latency where it is
 * unstable or others ran on the machine (then it counts as not measured). */

/* How far inside the limit the value is, as a share of the limit; negative outside; -inf when it
 * was not measured. */
double qb_gate_margin(const qb_gate_check *check);

/* Evaluates all limits on all rows but the first (or only on `precision` when not NULL). At most
 * `capacity` checks are written. *held is true when there was at least one check and all held.
 * Checks refer to the record's texts. */
qb_status qb_gate(qb_ctx *cx, const qb_run *run, const char *precision,
                  const qb_gate_limits *limits, qb_gate_check *checks, int32_t capacity, int32_t *n,
                  bool *held);
#endif
