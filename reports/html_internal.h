/* The parts of the HTML page. All of them write well-formed HTML and escape every text. */
#ifndef QB_REPORTS_HTML_INTERNAL_H
#define QB_REPORTS_HTML_INTERNAL_H

#include "reports/report.h"

typedef struct qb_page {
    qb_ctx *cx;
    const qb_run *run;
    const char *figures;       /* folder with the SVG files; NULL: no figures */
    const qb_verdict *verdict; /* NULL: no limits are known */
    FILE *stream;
} qb_page;

/* Text with &, <, >, " and ' escaped. */
void qb_html_text(FILE *stream, const char *text);
/* printf of %d, %lld, %f and %s, of which %s is escaped. */
void qb_html_put(FILE *stream, const char *format, ...) QB_PRINTF(2, 3);
/* A table cell: <td> or, for the first of a row, <th scope="row">; `sort` is what the column sorts
 * by (NaN: the text). */
void qb_html_cell(FILE *stream, const char *text, double sort);
void qb_html_name_cell(FILE *stream, const char *text);
/* A sortable table's start up to <tbody>, from `n` titles; closed by qb_html_table_end. The first
 * column is of names. */
void qb_html_table(FILE *stream, const char *caption, const char *const *titles, int32_t n);
void qb_html_table_end(FILE *stream);
/* printf into a cell; "-" for NaN. */
void qb_html_number(FILE *stream, const char *format, double value);
/* The figures of a section that were drawn before. */
qb_status qb_html_figures(const qb_page *page, qb_section section);

/* The sections. */
void qb_html_summary(const qb_page *page);
qb_status qb_html_accuracy(const qb_page *page);
qb_status qb_html_speed(const qb_page *page);
qb_status qb_html_layers(const qb_page *page);
void qb_html_worst(const qb_page *page);
void qb_html_classes(const qb_page *page);
qb_status qb_html_steps(const qb_page *page);

#endif
