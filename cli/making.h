/* An engine from a project, in one precision: what build writes and bench measures. */
#ifndef QB_CLI_MAKING_H
#define QB_CLI_MAKING_H

#include <jansson.h>

#include "cli/project.h"
#include "cli/shape_flags.h"
#include "engine/file.h"

/* --precision and trtexec's switches for it; INT8 wins over the others, as it does there. */
typedef struct qb_precision_flags {
    const char *precision;
    bool fp16, bf16, int8;
} qb_precision_flags;

#define QB_PRECISION_FLAG(STRUCT, NAME)                                                            \
    {                                                                                              \
        .name = #NAME, .type = QB_OPT_FLAG, .offset = offsetof(STRUCT, type.NAME),                 \
        .help = "the same as --precision " #NAME                                                   \
    }
/* Rows of an option struct with a member `qb_precision_flags type`. */
#define QB_PRECISION_OPTIONS(STRUCT, HELP)                                                         \
    {.name = "precision",                                                                          \
     .type = QB_OPT_STRING,                                                                        \
     .offset = offsetof(STRUCT, type.precision),                                                   \
     .argument = "PRECISION",                                                                      \
     .help = HELP " (see 'qbench help precisions')"},                                              \
        QB_PRECISION_FLAG(STRUCT, fp16), QB_PRECISION_FLAG(STRUCT, bf16),                          \
        QB_PRECISION_FLAG(STRUCT, int8)

const char *qb_precision_asked(const qb_precision_flags *flags);

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

/* Writes the engine to a file, which may not be the model. */
qb_status qb_made_save(qb_ctx *cx, const qb_project *project, const qb_making *making,
                       const qb_made *made, const char *path);

#endif
