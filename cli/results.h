/* What compare, demo and report do with a comparison's record. */
#ifndef QB_CLI_RESULTS_H
#define QB_CLI_RESULTS_H

#include "cli/command.h"
#include "eval/run.h"

/* The table on standard output (unless JSON goes there) and what --json asks for. */
qb_status qb_results_show(qb_ctx *cx, const qb_common *common, const qb_run *run);
/* compare.json in a folder (NULL: the current one). */
qb_status qb_results_save(qb_ctx *cx, const char *folder, const qb_run *run);
/* Charts in FOLDER/figures. */
qb_status qb_results_draw(qb_ctx *cx, const char *folder, const qb_run *run);
/* The same for a command whose numbers stand without charts: no gnuplot is a warning. */
qb_status qb_results_try_draw(qb_ctx *cx, const char *folder, const qb_run *run);

#endif
