/* Where --json goes. */
#ifndef QB_CLI_OUT_JSON_H
#define QB_CLI_OUT_JSON_H

#include <jansson.h>

#include "base/json_clean.h"
#include "cli/command.h"

/* Writes `root` (reference taken, also on failure) to the file that --json names, or to standard
 * output for "-"; does nothing when the option was not given. NULL is then an internal error.
 * Numbers have nine digits: those of a float. */
qb_status qb_json_out(qb_ctx *cx, const qb_common *common, json_t *root);
/* The same with so many digits. */
qb_status qb_json_out_digits(qb_ctx *cx, const qb_common *common, json_t *root, int digits);
/* The same for JSON that is text already. */
qb_status qb_json_text_out(qb_ctx *cx, const qb_common *common, const char *text);
/* Must results in plain text stay off standard output because JSON goes there? */
bool qb_json_on_stdout(const qb_common *common);

#endif
