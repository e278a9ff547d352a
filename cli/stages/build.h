/* An engine from a project, in one precision: what build writes and bench measures. */
#ifndef QB_CLI_STAGES_BUILD_H
#define QB_CLI_STAGES_BUILD_H

#include <jansson.h>

#include "cli/settings/project.h"
#include "cli/settings/shape_flags.h"
#include "engine/file.h"

/* --precision and trtexec's switches for it: INT8 with another one allows both. */
typedef struct qb_precision_flags {
    const char *precision;
    bool fp16, bf16, int8, best;
} qb_precision_flags;

/* What build and bench take unless told: every model has it, as for trtexec. */
#define QB_PRECISION_DEFAULT "fp32"
#define QB_PRECISION_FLAG(STRUCT, NAME)                                                            \
    QB_FLAG(STRUCT, #NAME, type.NAME, "the same as --precision " #NAME)
/* Rows of an option struct with a member `qb_precision_flags type`. */
#define QB_PRECISION_OPTIONS(STRUCT)                                                               \
    QB_TEXT(STRUCT, "precision", type.precision, "PRECISION",                                      \
            QB_PRECISION_DEFAULT                                                                   \
            " (default), tf32, fp16, bf16, best or int8[:METHOD][+VARIANT...] with the "           \
            "calibration's ranges (see 'qbench help precisions')"),                                \
        QB_PRECISION_FLAG(STRUCT, fp16), QB_PRECISION_FLAG(STRUCT, bf16),                          \
        QB_PRECISION_FLAG(STRUCT, int8),                                                           \
        QB_FLAG(STRUCT, "best", type.best,                                                         \
                "the same as --precision best, and as --int8 --fp16: what is fastest")

const char *qb_precision_asked(const qb_precision_flags *flags);
/* QB_STATUS_USAGE where of a command's options one would be ignored: --precision that the switches
 * overrule, or options of quantization with floats alone. */
qb_status qb_precision_refuse(qb_ctx *cx, const qb_command *command, const void *options,
                              const qb_precision_flags *flags);

typedef struct qb_build_settings {
    const char *precision;       /* "fp32", "bf16", "int8:entropy+per-tensor" */
    const qb_shape_flags *sizes; /* of inputs; what they leave open is the model's own, with the
                                    project's batch */
    bool version_compatible, hardware_compatible; /* of the file; see qb_engine_origin */
} qb_build_settings;

typedef struct qb_built {
    qb_engine *engine;
    char *calibration; /* the method of an integer engine; NULL */
    qb_hash data_hash; /* of its calibration data */
    char *prepared;    /* how those became inputs; NULL: not known */
} qb_built;

void qb_built_release(qb_built *built);

/* Prints what a context of the engine takes, and the process so far. */
void qb_memory_print(const qb_engine *engine);
json_t *qb_memory_json(const qb_engine *engine);

/* Writes the engine to a file, which may not be the model. */
qb_status qb_built_save(qb_ctx *cx, const qb_project *project, const qb_build_settings *settings,
                        const qb_built *built, const char *path);

#endif
