/* What `qbench doctor` and `qbench data doctor` say: good, note or bad, with what to do. */
#ifndef QB_CLI_OUT_DIAGNOSIS_H
#define QB_CLI_OUT_DIAGNOSIS_H

#include "cli/out/json.h"

typedef enum qb_finding_kind {
    QB_FINDING_GOOD,
    QB_FINDING_NOTE, /* works, but slower or with less than there could be */
    QB_FINDING_BAD   /* something will fail */
} qb_finding_kind;

typedef struct qb_finding {
    qb_finding_kind kind;
    char *text;   /* what was found; new memory */
    char *remedy; /* what to do about a NOTE or BAD; NULL: nothing; new memory */
} qb_finding;

/* One finding from formatted text (cut at 511 bytes); `remedy` may be NULL. */
qb_status qb_found(qb_ctx *cx, qb_finding *out, qb_finding_kind kind, const char *remedy,
                   const char *fmt, ...) QB_PRINTF(5, 6);
void qb_finding_release(qb_finding *finding); /* accepts zeroed */

/* Findings of one command, printed as they come (unless JSON goes to standard output). */
typedef struct qb_diagnosis {
    const qb_common *common;
    const char *check; /* whose findings come now */
    bool faults_only;  /* what is good is not worth a word here */
    int32_t n_bad;
    json_t *list; /* of {check, kind, text, remedy}; NULL before the first */
} qb_diagnosis;

/* Prints a finding, remembers it, and releases it. */
qb_status qb_diagnosis_add(qb_ctx *cx, qb_diagnosis *diagnosis, qb_finding *finding);
/* The same from formatted text, as qb_found. */
qb_status qb_diagnosis_say(qb_ctx *cx, qb_diagnosis *diagnosis, qb_finding_kind kind,
                           const char *remedy, const char *fmt, ...) QB_PRINTF(5, 6);
/* Adds findings that were kept: the list as JSON text. QB_STATUS_FORMAT, naming `origin`, for any
 * other text. */
qb_status qb_diagnosis_again(qb_ctx *cx, qb_diagnosis *diagnosis, const char *origin,
                             const char *kept);
/* Takes the list out; an empty one where nothing was found. */
json_t *qb_diagnosis_take(qb_diagnosis *diagnosis);
/* Writes what --json asks for under this schema and hands the list over: QB_STATUS_CHECK when
 * something was bad. */
qb_status qb_diagnosis_end(qb_ctx *cx, qb_diagnosis *diagnosis, const char *schema);
void qb_diagnosis_release(qb_diagnosis *diagnosis); /* accepts zeroed and ended ones */

#endif
