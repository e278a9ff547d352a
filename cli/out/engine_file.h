/* What `inspect` says of an engine file. */
#ifndef QB_CLI_OUT_ENGINE_FILE_H
#define QB_CLI_OUT_ENGINE_FILE_H

#include <jansson.h>

#include "cli/command.h"

/* The tags of a file: a JSON object for the caller to release. */
qb_status qb_engine_file_json(qb_ctx *cx, const char *path, json_t **tags);

/* The file's tags as text (with all steps when `steps`) and as --json asks. The file need not fit
 * this machine, but every byte of it must be right. */
qb_status qb_engine_file_show(qb_ctx *cx, const qb_common *common, bool steps, const char *path);

#endif
