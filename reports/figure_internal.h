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
/* Backends of a record, numbered in order of their first row: how many there are, which one a row
 * has, and how it is drawn: a colour ("#0072B2"), a gnuplot point type, hollow or filled. */
int32_t qb_backends_count(const qb_run *run);
int32_t qb_backend_index(const qb_run *run, int32_t row);
const char *qb_color(int32_t index);
int qb_point(int32_t index, bool filled);
/* What a row is called in a key, as a gnuplot string: its precision, and its backend where the
 * record has several and the precision does not say it. */
void qb_gnuplot_row_title(FILE *stream, const qb_run *run, int32_t row);
/* The first row with errors of layers; -1: none. */
int32_t qb_layered_row(const qb_run *run);
/* The step of a row that computes the node of this name; NULL: none. */
const qb_run_step *qb_step_named(const qb_run_row *row, const char *name);
/* A title in the middle of the picture, above the graph: gnuplot centres its own on the graph, and
 * cuts what is longer than that. */
void qb_gnuplot_title(FILE *stream, const char *text);
/* How many lines a key of the rows has, three at least: one each where names are long, else half as
 * many, for two columns have room. */
int qb_key_lines(const qb_run *run);
/* How much taller than with three lines a picture is. */
int qb_key_extra(const qb_run *run);
/* A key of so many lines below the axis' label, at the lower edge. */
void qb_gnuplot_key_below(FILE *stream, int lines);
/* Horizontal bars, a row each, the first on top: axes without the x range. For names beside them:
 * name(text) in two lines where it is long, line(text) in one, without what it begins with. */
void qb_gnuplot_rows(FILE *stream, int32_t n_rows);
/* At most six ticks, at round numbers, on an axis from 0 to `high` > 0. */
void qb_gnuplot_ticks_from_zero(FILE *stream, double high);
/* Ticks of a logarithmic x axis at round numbers, dense enough that less than a decade has some. */
void qb_gnuplot_log_ticks(FILE *stream, double low, double high);

#endif
