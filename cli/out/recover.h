/* What a recovery came to, as a table and as JSON. */
#ifndef QB_CLI_OUT_RECOVER_H
#define QB_CLI_OUT_RECOVER_H

#include <jansson.h>

#include "cli/command.h"
#include "quant/recover/recover.h"

/* Row of an option struct with a member `qb_opt_list recover`. */
#define QB_RECOVER_OPTION(STRUCT, HELP) QB_NAMED(STRUCT, "recover", recover, NULL, HELP)
/* The list that was asked for: NULL for all that help, also where nothing was asked. */
const char *qb_recover_list(const qb_opt_list *given);

void qb_recover_print(const qb_recovered *recovered);
json_t *qb_recover_json(const qb_recovered *recovered); /* NULL when there is no memory */

#endif
