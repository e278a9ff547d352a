/* What `inspect` says of an engine file. */
#ifndef QB_CLI_ENGINE_FILE_H
#define QB_CLI_ENGINE_FILE_H

#include "cli/command.h"

/* The file's tags as text (with all steps when `steps`) and as --json asks. The file need not fit
 * this machine, but every byte of it must be right. */
qb_status qb_engine_file_show(qb_ctx *cx, const qb_common *common, bool steps, const char *path);

#endif
