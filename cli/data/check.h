/* What `qbench data doctor` looks at: one row in checks.def and one file in checks/ each. */
#ifndef QB_CLI_DATA_CHECK_H
#define QB_CLI_DATA_CHECK_H

#include "base/log.h"
#include "cli/out/diagnosis.h"
#include "cli/pipeline.h"

/* What is known of one sample after it was read once. */
typedef struct qb_sample_facts {
    bool readable, blank; /* blank: an image of one colour, or black but for noise */
    qb_hash content;      /* of its pixels (tensors: names, types, shapes and elements) */
    qb_hash form;         /* tensors: of names, types and shapes */
} qb_sample_facts;

/* A data set all of whose samples were read. */
typedef struct qb_survey {
    const char *path; /* not owned */
    qb_dataset *dataset;
    int64_t n;
    qb_sample_facts *fact; /* [n] */
} qb_survey;

/* Opens `path` as the project says and reads every sample, in qb_threads threads. Unreadable
 * samples are facts, not errors. */
qb_status qb_survey_make(qb_ctx *cx, const qb_project *project, const char *path, qb_survey *out);
void qb_survey_release(qb_survey *survey); /* accepts zeroed */

typedef struct qb_data_case {
    const qb_project *project;
    const qb_graph *graph; /* optimized, float */
    const qb_survey *set;  /* the calibration data, then the evaluation data when there are some */
    int32_t n_sets;
    bool scores_on_calibration; /* the settings name one set for both */
    bool anew; /* of no calibration before: what is found is kept in the next one */
} qb_data_case;

typedef struct qb_data_check {
    const char *name;
    /* Says what it finds, also when all is well; nothing where it has nothing to look at. One of
     * the two: at all sets together, or at each. */
    qb_status (*look)(qb_ctx *cx, const qb_data_case *data, qb_diagnosis *out);
    qb_status (*look_at_set)(qb_ctx *cx, const qb_data_case *data, const qb_survey *set,
                             qb_diagnosis *out);
} qb_data_check;

/* Every check over the project's calibration data and, where there are some beside them, the
 * evaluation data: `evaluation`, or the project's where that is NULL. Samples run where the project
 * says, on all of its devices. `graph`: optimized, float.
 * `anew`: without what an earlier calibration knows. */
qb_status qb_data_examine(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                          const char *evaluation, bool anew, qb_diagnosis *out);

/* Statistics of up to `most` samples of each of the first `n_sets` sets, evenly spread, from the
 * float model: new tables. Samples that cannot be run are a note: then out[0] is NULL. */
qb_status qb_data_check_gather(qb_ctx *cx, const qb_data_case *data, int64_t most, int32_t n_sets,
                               qb_table **out, qb_diagnosis *diagnosis);

/* The survey has named what cannot be read, and progress of runs would bury the findings: errors
 * alone are told from here on. Returns what unhush takes back. */
qb_log qb_data_check_hush(qb_ctx *cx);
void qb_data_check_unhush(qb_ctx *cx, const qb_log *before);

/* The first names of many: "a, b, c ...". */
typedef struct qb_some_names {
    char text[256];
    int64_t n;
} qb_some_names;
void qb_some_names_add(qb_some_names *names, const char *name);

#endif
