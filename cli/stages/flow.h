/* What `qbench run` keeps of the stages that made a project's files, so that one is left out where
 * nothing has changed: qbench.run.json in the output folder, {stage: {inputs, output}} as hashes.
 */
#ifndef QB_CLI_STAGES_FLOW_H
#define QB_CLI_STAGES_FLOW_H

#include <jansson.h>

#include "cli/settings/project.h"

#define QB_FLOW_RECORD "qbench.run.json"
enum { QB_FLOW_STAGES = 4 };

typedef struct qb_flow_stage {
    const char *command;
    const char *suffix;      /* its file is STEM.suffix ... */
    const char *file;        /* ... or this one; both NULL: runs always, writes nothing */
    const char *sections[5]; /* of qbench.yaml that it depends on */
    bool calibration_data, evaluation_data, calibration;
} qb_flow_stage;

/* calibrate, quantize, compare, gate: in their order. */
extern const qb_flow_stage qb_flow_stages[QB_FLOW_STAGES];

typedef struct qb_flow {
    qb_ctx *cx;
    const qb_project *project;
    qb_hash model_hash;            /* with its external data */
    const qb_opt_list *precisions; /* that compare is asked for; NULL: none */
    char *record_path;
    json_t *record;
} qb_flow;

/* With the record of earlier runs, an empty one where there is none. `project` and `precisions`
 * stay the caller's. */
qb_status qb_flow_open(qb_ctx *cx, const qb_project *project, qb_hash model_hash,
                       const qb_opt_list *precisions, qb_flow *out);
void qb_flow_close(qb_flow *flow); /* accepts zeroed */
/* The file that a stage writes, new memory; NULL in *out where it writes none. */
qb_status qb_flow_file(const qb_flow *flow, const qb_flow_stage *stage, char **out);
/* Of all that the stage depends on. */
qb_status qb_flow_inputs(const qb_flow *flow, const qb_flow_stage *stage, char hex[33]);
/* Was the file at `path` made by the stage from what there is now, and is it as it was made? */
qb_status qb_flow_is_current(const qb_flow *flow, const qb_flow_stage *stage, const char *path,
                             bool *out);
/* Notes that the stage made `path` from `inputs`, and writes the record. */
qb_status qb_flow_note(qb_flow *flow, const qb_flow_stage *stage, const char inputs[33],
                       const char *path);

#endif
