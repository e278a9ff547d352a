/* Reports from run records: terminal table, figures (gnuplot). Neither model nor data is needed. */
#ifndef QB_REPORTS_REPORT_H
#define QB_REPORTS_REPORT_H

#include <stdio.h>

#include "eval/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The comparison as an aligned table with definitions under the numbers. */
void qb_report_table(FILE *stream, const qb_run *run);

typedef struct qb_figure {
    const char *name; /* "latency": NAME.tsv, NAME.gp, NAME.svg, NAME.png */
    const char *title;
    /* Writes the figure's data as TSV (with a header line). */
    qb_status (*data)(qb_ctx *cx, const qb_run *run, FILE *stream);
    /* Writes the gnuplot script's body: it plots `tsv`; the caller sets terminal and output. */
    qb_status (*script)(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream);
} qb_figure;
const qb_figure *const *qb_figures(int32_t *n);

/* Draws all figures into a folder: data, script, SVG and PNG each. Pictures
 * appear whole or not at all. No gnuplot: QB_STATUS_NOTFOUND once data and scripts of all figures
 * are written; gnuplot failing: QB_STATUS_IO with what it said. */
qb_status qb_report_figures(qb_ctx *cx, const qb_run *run, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
