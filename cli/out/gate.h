/* The gate's verdict in the forms that people and continuous integration read. */
#ifndef QB_CLI_OUT_GATE_H
#define QB_CLI_OUT_GATE_H

#include <jansson.h>
#include <stdio.h>

#include "cli/command.h"
#include "eval/gate.h"

typedef struct qb_gate_result {
    const char *path; /* of the record */
    const qb_run *run;
    const qb_gate_check *check;
    int32_t n, failed, blocked; /* checks; blocked ones are among the failed */
} qb_gate_result;

/* "max-drop: 6.2 points, limit 1 points (over by 5.2)" */
#define QB_GATE_TEXT 640
void qb_gate_check_text(const qb_gate_check *check, char text[QB_GATE_TEXT]);
/* One line a check, and the verdict as the last one. */
void qb_gate_print(FILE *stream, const qb_gate_result *result);
/* The verdict alone: PASS, FAIL or BLOCKED (nothing but warnings of the record speaks against it),
 * the check that decided, by how much. */
void qb_gate_verdict(const qb_gate_result *result, char text[QB_GATE_TEXT]);
/* One ::error or ::notice line a check, as GitHub's workflow commands. */
void qb_gate_annotate(FILE *stream, const qb_gate_result *result);
/* JUnit XML: one test case a check. `error` (may be NULL) is why nothing could be judged. */
qb_status qb_gate_junit(qb_ctx *cx, const char *file, const qb_gate_result *result,
                        const char *error);
/* The verdict by the limits of the settings file: all NULL where there are none. The texts are new
 * memory. */
typedef struct qb_verdict_text {
    const char *word; /* "PASS", "FAIL", "BLOCKED" */
    char *text, *lines;
} qb_verdict_text;
qb_status qb_gate_verdict_of(qb_ctx *cx, const qb_common *common, const qb_run *run,
                             qb_verdict_text *out);
json_t *qb_gate_json(const qb_gate_result *result);

#endif
