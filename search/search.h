/* Precisions by accuracy and time: the Pareto front over which groups of a model stay in float.
 *
 * Each group alone back in float, and each group alone in integers, tell what its quantization
 * costs; profiles of engines tell what its float form costs in time. A model of both proposes
 * alternatives, which are built and measured, accuracy over all samples and latency in alternating
 * runs; what is measured corrects the model, which proposes again. Every point of the front is
 * measured.
 *
 * All that was measured is kept in a journal (search/journal.h). Accuracy does not depend on
 * threads or on what was measured together; a search that goes on from its journal takes the way
 * that it took before. */
#ifndef QB_SEARCH_SEARCH_H
#define QB_SEARCH_SEARCH_H

#include "eval/eval.h"
#include "search/journal.h"
#include "search/space.h"

/* What an alternative's accuracy is, against the float model on the same samples; NaN: it cannot be
 * measured. */
typedef struct qb_search_score {
    double sqnr_db;   /* +inf: equal */
    double agreement; /* percent; classifiers */
    double divergence;
    double metric, drop; /* of the task's first metric: percent, points */
    qb_interval drop_ci; /* NaN for the sensitivity of groups */
} qb_search_score;

/* What it takes: milliseconds, and times all integers. */
typedef struct qb_search_time {
    double ms, ratio;
    qb_interval ratio_ci;
} qb_search_time;

typedef struct qb_search_point {
    qb_alternative a;
    char *key; /* "0/f32/" and a digit for each group */
    qb_search_score score;
    qb_search_time time;
    bool on_front, meets; /* the limits */
} qb_search_point;

/* Of one group. */
typedef struct qb_search_group {
    qb_search_score back;  /* it alone is float */
    qb_search_score alone; /* it alone is integers */
    double noise;          /* its share of the output's noise power by now, see the model */
} qb_search_group;

/* What the picked plan must keep to; NaN: anything. */
typedef struct qb_search_limits {
    double max_drop, min_agreement;   /* points, percent */
    double max_latency_ms, max_ratio; /* the latter: times all integers */
    bool sure;                        /* the drop's interval must be within its limit, too */
} qb_search_limits;

typedef struct qb_search_options {
    const qb_space *space;
    const qb_graph *reference; /* the float model that all are held against */
    const qb_dtype *floats;    /* types that float groups may have */
    int32_t n_floats;
    qb_compare_options compare; /* data, task, labels, workers; candidates are the search's own */
    qb_search_limits limits;
    double time_budget_s; /* nothing new is begun after that; 0: no limit */
    qb_journal *journal;
} qb_search_options;

typedef struct qb_search {
    int32_t n_groups, n_points;
    qb_search_group *group;
    qb_search_point *point; /* by ratio, the fastest first */
    size_t capacity;
    int32_t picked;   /* the fastest that meets the limits, or with a limit of latency alone the
                         most accurate; -1: none does */
    int32_t integers; /* the point that is all integers */
    struct qb_arena *arena; /* of the points' alternatives */
    int64_t samples;
    char *metric;     /* title of the task's first metric; NULL: it has none */
    bool out_of_time; /* the budget ended it */
} qb_search;

qb_status qb_search_run(qb_ctx *cx, const qb_search_options *options, qb_search *out);
void qb_search_release(qb_search *search); /* accepts zeroed */

/* search/front.c */
/* Sorts the points, and finds the front, what meets the limits, and the picked one. A point is on
 * the front where no other is both as fast and more accurate; accuracy is the drop or agreement
 * that is limited, and SQNR where these are equal or not limited. */
void qb_search_judge(const qb_search_limits *limits, qb_search *search);

/* search/score.c */
/* Scores alternatives, those that are in the journal without running them. `intervals`: with the
 * drop's. metric: see qb_search; may be NULL. */
qb_status qb_search_score_all(qb_ctx *cx, const qb_search_options *options,
                              const qb_alternative *const *alternatives, int32_t n, bool intervals,
                              qb_search_score *out, qb_search *search);
/* What the journal knows of the data: samples and metric. */
qb_status qb_search_recall_data(qb_ctx *cx, const qb_journal *journal, qb_search *search);
/* "0/f32/0010": way, type of floats, a digit for each group. New memory. Without a float group the
 * type does not matter. */
char *qb_search_key(qb_ctx *cx, const qb_space *space, const qb_alternative *alternative);
#endif
