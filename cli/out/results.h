/* What compare, demo and report do with a comparison's record. */
#ifndef QB_CLI_OUT_RESULTS_H
#define QB_CLI_OUT_RESULTS_H

#include "cli/command.h"
#include "eval/run.h"

/* Notes when the record was made (SOURCE_DATE_EPOCH, else the clock) and by which command line. */
qb_status qb_results_describe(qb_ctx *cx, const qb_common *common, qb_run *run);
/* The table on standard output (unless JSON goes there) and what --json asks for. */
qb_status qb_results_show(qb_ctx *cx, const qb_common *common, const qb_run *run);
/* A record in the file `path`; can_save fails where save would, before anything was measured for
 * nothing. A record that is there already and has rows that this one has not, or is of another
 * model, is kept beside it as NAME.1.json, NAME.2.json, ...: nobody loses a long measurement to a
 * short one. */
qb_status qb_results_can_save(qb_ctx *cx, const char *path);
qb_status qb_results_save(qb_ctx *cx, const char *path, const qb_run *run);
/* Charts in FOLDER/figures. */
qb_status qb_results_draw(qb_ctx *cx, const char *folder, const qb_run *run);
/* The page in the file `path`, judged by the limits in the settings where they have some, its
 * charts in figures/ beside it where gnuplot is there and `figures` asks for them. */
qb_status qb_results_html(qb_ctx *cx, const qb_common *common, const char *path, const qb_run *run,
                          bool figures);
/* The page printed by Chromium; QB_STATUS_NOTFOUND when there is none. */
qb_status qb_results_pdf(qb_ctx *cx, const qb_common *common, const char *path, const qb_run *run,
                         bool figures);
/* Charts and FOLDER/report.html (NULL: the current folder), as compare and demo leave them. */
qb_status qb_results_page(qb_ctx *cx, const qb_common *common, const char *folder,
                          const qb_run *run);

#endif
