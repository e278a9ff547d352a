/* What the figures share. */
#ifndef QB_REPORTS_FIGURE_INTERNAL_H
#define QB_REPORTS_FIGURE_INTERNAL_H

#include "reports/report.h"

/* Colours that stay apart for colour-blind eyes and in grey (Okabe and Ito, "Color Universal
 * Design", 2008). */
#define QB_BLUE "'#0072B2'"
#define QB_ORANGE "'#E69F00'"

/* A gnuplot string constant. Names come from files: a quote in one must not end the string. */
void qb_gnuplot_string(FILE *stream, const char *text);
/* A number for a data file; NaN the way gnuplot skips it. Written after a tab. */
void qb_tsv_number(FILE *stream, double value);
/* Horizontal bars, a row each, the first on top: axes without the x range. */
void qb_gnuplot_rows(FILE *stream, int32_t n_rows);

#endif
