/* What the figures share. */
#ifndef QB_REPORTS_FIGURE_INTERNAL_H
#define QB_REPORTS_FIGURE_INTERNAL_H

#include "reports/draw.h"
#include "reports/report.h"

/* Colours that stay apart for colour-blind eyes and in grey (Okabe and Ito, "Color Universal
 * Design", 2008). */
#define QB_BLUE "'#0072B2'"
#define QB_ORANGE "'#E69F00'"

/* A number for a data file; NaN the way gnuplot skips it. Written after a tab. */
void qb_tsv_number(FILE *stream, double value);
/* The same, infinities as NaN too. */
void qb_tsv_finite(FILE *stream, double value);
/* A name for a data file that gnuplot reads: double quotes would swallow tabs. */
void qb_tsv_name(FILE *stream, const char *text);
/* The first row with errors of layers; -1: none. */
int32_t qb_layered_row(const qb_run *run);
/* The step of a row that computes the node of this name; NULL: none. */
const qb_run_step *qb_step_named(const qb_run_row *row, const char *name);
/* Horizontal bars, a row each, the first on top: axes without the x range. */
void qb_gnuplot_rows(FILE *stream, int32_t n_rows);

#endif
