/* An engine from a project, in one precision: what build writes and bench measures. */
#ifndef QB_CLI_MAKING_H
#define QB_CLI_MAKING_H

#include <jansson.h>

#include "cli/project.h"
#include "cli/shape_flags.h"
#include "engine/file.h"

typedef struct qb_making {
    const char *precision;       /* "fp32", "bf16", "int8:entropy+per-tensor" */
    const qb_shape_flags *sizes; /* of inputs; what they leave open is the model's own, with the
                                    project's batch */
    int32_t device;              /* which GPU, for an engine of one */
    int threads;                 /* of one run */
    bool time_tactics;
    bool version_compatible, hardware_compatible; /* of the file; see qb_engine_origin */
} qb_making;

typedef struct qb_made {
    qb_engine *engine;
    char *calibration; /* the method of an integer engine; NULL */
    qb_hash data_hash; /* of its calibration data */
} qb_made;

/* Loads, quantizes where the precision says so (with the project's calibration), builds. */
qb_status qb_stage_engine(qb_ctx *cx, const qb_project *project, const qb_making *making,
                          qb_made *out);
void qb_made_release(qb_made *made);

/* Prints what a context of the engine takes, and the process so far. */
void qb_memory_print(const qb_engine *engine);
json_t *qb_memory_json(const qb_engine *engine);

/* Writes the engine to a file. */
qb_status qb_made_save(qb_ctx *cx, const qb_project *project, const qb_making *making,
                       const qb_made *made, const char *path);

#endif
