/* Reports from run records: terminal table, figures (gnuplot). Neither model nor data is needed. */
#ifndef QB_REPORTS_REPORT_H
#define QB_REPORTS_REPORT_H

#include <stdio.h>

#include "eval/run.h"

/* ---- columns: what every form of the table shows ---- */

#define QB_CELL 96 /* longest cell; longer names are cut */

typedef enum qb_column_group { QB_GROUP_ACCURACY, QB_GROUP_SPEED, QB_GROUP_COUNT } qb_column_group;

typedef struct qb_column {
    const char *key;   /* "top1", for machines */
    const char *title; /* "top-1 %" */
    qb_column_group group;
    const char *format;                             /* of one number; NULL: bytes */
    double (*value)(const qb_run_row *row);         /* NaN: not measured; NULL: metric `key` */
    qb_interval (*interval)(const qb_run_row *row); /* instead of `value`: low and high */
    bool always;                                    /* shown even when no row has it */
    bool detail;                                    /* too much for a terminal's width */
    const char *definition;                         /* NULL: none, or that of a metric */
    const char *(*text)(const qb_run_row *row);     /* instead of both: a name */
} qb_column;

#define QB_COLUMNS_MAX 96
/* The columns of a record, into `out`: those of the table in columns.c, and among them one for each
 * of its metrics that has none there. Returns how many; they live as long as the record. */
int32_t qb_columns(const qb_run *run, qb_column out[QB_COLUMNS_MAX]);
/* Does any row have it (or is it always shown)? Names: do the rows differ in it? */
bool qb_column_shown(const qb_column *column, const qb_run *run);
/* The cell as people read it: "61.60", "57.3 to 65.8", "-" where nothing was measured. */
void qb_column_cell(const qb_column *column, const qb_run_row *row, char text[QB_CELL]);
/* What a table is sorted by: the number, the interval's lower end; NaN for names. */
double qb_column_order(const qb_column *column, const qb_run_row *row);
/* "4.7 MiB" */
void qb_bytes_text(int64_t bytes, char text[QB_CELL]);

/* Is it a classifier's record of samples that nobody labelled? */
bool qb_report_lacks_labels(const qb_run *run);

/* The comparison as aligned tables with definitions under the numbers and warnings. */
void qb_report_table(FILE *stream, const qb_run *run);
/* The same as Markdown, for a pull request. */
void qb_report_markdown(FILE *stream, const qb_run *run);
/* One row an engine, all columns, numbers as they are: tab-separated with a header. */
void qb_report_tsv(FILE *stream, const qb_run *run);

/* Definitions of what the tables show, one call each; `detail`: of the columns too that a terminal
 * has no room for. */
void qb_report_definitions(const qb_run *run, bool detail,
                           void (*say)(void *user, const char *term, const char *text), void *user);

typedef enum qb_section { /* of the HTML page */
                          QB_SECTION_ACCURACY,
                          QB_SECTION_SPEED,
                          QB_SECTION_LAYERS,
                          QB_SECTION_STEPS
} qb_section;

typedef struct qb_figure {
    const char *name; /* "latency": NAME.tsv, NAME.gp, NAME.svg, NAME.png */
    const char *title;
    qb_section section; /* where it stands in the page, after those before it in figures.def */
    bool (*applies)(const qb_run *run); /* is there anything to draw? NULL: always */
    int (*height)(const qb_run *run);   /* pixels at a width of 640; NULL: by the number of rows */
    /* Writes the figure's data as TSV (with a header line). */
    qb_status (*data)(qb_ctx *cx, const qb_run *run, FILE *stream);
    /* Writes the gnuplot script's body: it plots `tsv`; the caller sets terminal and output. */
    qb_status (*script)(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream);
} qb_figure;
extern const qb_figure *const qb_figures[]; /* ends with NULL */

/* Draws all figures that apply into a folder: data, script, SVG and PNG each. Pictures
 * appear whole or not at all. No gnuplot: QB_STATUS_NOTFOUND once data and scripts of all figures
 * are written; gnuplot failing: QB_STATUS_IO with what it said. */
qb_status qb_report_figures(qb_ctx *cx, const qb_run *run, const char *folder);

/* What the gate says of a record, for the top of the page. */
typedef struct qb_verdict {
    const char *word;  /* "PASS", "FAIL", "BLOCKED" */
    const char *text;  /* the check that decides, in words */
    const char *lines; /* every check, a line each */
} qb_verdict;

/* What no layer of the record can be above: the ceilings, raised to the best that its own steps
 * reach, as values that stay in caches are faster than memory. NaN where nothing is known. */
qb_ceilings qb_report_roof(const qb_run *run);

/* The report as one HTML page that needs no other file and no network; it is whole without
 * JavaScript (which sorts its tables). `verdict` may be NULL: no limits are known. `figures`: the
 * folder that qb_report_figures drew into; NULL: a page without figures. */
qb_status qb_report_html(qb_ctx *cx, const qb_run *run, const qb_verdict *verdict,
                         const char *figures, FILE *stream);
#endif
