/* The figures of a comparison's record. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "reports/figure_internal.h"

#define QB_FIGURE(name) extern const qb_figure qb_figure_##name;
#include "reports/figures.def"

const qb_figure *const qb_figures[] = {
#define QB_FIGURE(name) &qb_figure_##name,
#include "reports/figures.def"
    NULL};

void qb_tsv_number(FILE *stream, double value) {
    if (isnan(value))
        fputs("\tNaN", stream);
    else
        fprintf(stream, "\t%.6g", value);
}

int32_t qb_layered_row(const qb_run *run) {
    for (int32_t r = 0; r < run->n_rows; r++)
        if (run->row[r].n_layers > 0) return r;
    return -1;
}

const qb_run_step *qb_step_named(const qb_run_row *row, const char *name) {
    for (int32_t i = 0; i < row->n_steps; i++)
        if (row->step[i].flops > 0 && strcmp(row->step[i].name, name) == 0) return &row->step[i];
    return NULL;
}

void qb_tsv_finite(FILE *stream, double value) {
    qb_tsv_number(stream, isfinite(value) ? value : NAN);
}

void qb_tsv_name(FILE *stream, const char *text) {
    for (; *text; text++) fputc(*text == '"' ? '\'' : *text, stream);
}

/* ---- backends ---- */

static int32_t first_with(const qb_run *run, int32_t row) {
    int32_t first = 0;
    while (strcmp(run->row[first].backend, run->row[row].backend) != 0) first++;
    return first;
}

int32_t qb_backend_index(const qb_run *run, int32_t row) {
    const int32_t first = first_with(run, row);
    int32_t index = 0;
    for (int32_t r = 0; r < first; r++) index += first_with(run, r) == r;
    return index;
}

int32_t qb_backends_count(const qb_run *run) {
    int32_t n = 0;
    for (int32_t r = 0; r < run->n_rows; r++) n += first_with(run, r) == r;
    return n;
}

const char *qb_color(int32_t index) {
    static const char *const color[] = {"#0072B2", "#E69F00", "#009E73",
                                        "#D55E00", "#CC79A7", "#56B4E9"};
    return color[(size_t)index % (sizeof color / sizeof color[0])];
}

int qb_point(int32_t index, bool filled) {
    static const int hollow[] = {6, 4, 8, 12, 10};
    return hollow[index % 5] + filled;
}

void qb_gnuplot_row_title(FILE *stream, const qb_run *run, int32_t row) {
    char title[256];
    const qb_run_row *r = &run->row[row];
    const bool told = qb_backends_count(run) < 2 || strchr(r->precision, '@');
    snprintf(title, sizeof title, "%s%s%s", r->precision, told ? "" : " on ",
             told ? "" : r->backend);
    qb_gnuplot_string(stream, title);
}

void qb_gnuplot_title(FILE *stream, const char *text) {
    char shown[64];
    snprintf(shown, sizeof shown, "%s", text);
    if (strlen(text) >= sizeof shown) memcpy(shown + sizeof shown - 3, "..", 2);
    fprintf(stream, "set title ' '\nset label 99 ");
    qb_gnuplot_string(stream, shown);
    fprintf(stream, " at screen 0.5, graph 1 center offset 0, 1\n");
}

int qb_key_lines(const qb_run *run) {
    enum { LEAST = 3, SHORT = 24, SIDE_BY_SIDE = 2 };
    bool is_long = false;
    for (int32_t r = 0; r < run->n_rows; r++) is_long |= strlen(run->row[r].precision) > SHORT;
    const int lines = is_long ? run->n_rows : (run->n_rows + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
    return lines > LEAST ? lines : LEAST;
}

int qb_key_extra(const qb_run *run) { return 20 * (qb_key_lines(run) - 3); }

void qb_gnuplot_key_below(FILE *stream, int lines) {
    fprintf(stream,
            "set bmargin %d\n"
            "set key at screen 0.5, screen 0.01 center bottom vertical maxrows %d Left reverse\n",
            lines + 5, lines);
}

void qb_gnuplot_rows(FILE *stream, int32_t n_rows) {
    fprintf(stream,
            "cut(text) = strlen(text) > 30 ? substr(text, 1, 28).'..' : text\n"
            "at(text) = strstrt(text, '+') > 0 ? strstrt(text, '+') : 29\n"
            "name(text) = strlen(text) <= 26 ? text : "
            "cut(substr(text, 1, at(text) - 1)).\"\\n\".cut(substr(text, at(text), 400))\n"
            "line(text) = strlen(text) <= 26 ? text : '..'.substr(text, strlen(text) - 23, "
            "strlen(text))\n"
            "set yrange [%.1f:-0.6]\n"
            "set ytics scale 0\n"
            "set style fill solid 1.0 noborder\n"
            "set grid xtics lc rgb '#d0d0d0'\n"
            "set border 3\n"
            "set tics nomirror out\n",
            n_rows - 0.4);
}

void qb_gnuplot_ticks_from_zero(FILE *stream, double high) {
    const double least = high / 5, decade = pow(10, floor(log10(least)));
    const double step = least <= decade       ? 1
                        : least <= 2 * decade ? 2
                        : least <= 5 * decade ? 5
                                              : 10;
    fprintf(stream, "set xtics 0,%.10g\n", step * decade);
}

void qb_gnuplot_log_ticks(FILE *stream, double low, double high) {
    static const double decades[] = {1}, coarse[] = {1, 2, 5}, medium[] = {1, 1.5, 2, 3, 4, 5, 7},
                        fine[] = {1, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 4, 5, 6, 7, 8.5};
    const double ratio = high / low;
    const double *step = ratio > 1000 ? decades : ratio > 20 ? coarse : ratio > 4 ? medium : fine;
    const int n = ratio > 1000 ? 1 : ratio > 20 ? 3 : ratio > 4 ? 7 : 12;
    const char *comma = "";
    fprintf(stream, "set xtics (");
    for (int e = (int)floor(log10(low)); e <= (int)ceil(log10(high)); e++)
        for (int i = 0; i < n; i++) {
            const double at = step[i] * pow(10, e);
            if (at < low || at > high) continue;
            fprintf(stream, "%s'%.10g' %.10g", comma, at, at);
            comma = ", ";
        }
    fprintf(stream, ")\n");
}

/* A figure of a record, as qb_draw wants it. */
typedef struct plotted {
    const qb_figure *figure;
    const qb_run *run;
} plotted;

static qb_status plotted_data(qb_ctx *cx, const void *user, FILE *stream) {
    const plotted *p = user;
    return p->figure->data(cx, p->run, stream);
}

static qb_status plotted_script(qb_ctx *cx, const void *user, const char *tsv, FILE *stream) {
    const plotted *p = user;
    return p->figure->script(cx, p->run, tsv, stream);
}

qb_status qb_report_figures(qb_ctx *cx, const qb_run *run, const char *folder) {
    qb_status first = QB_OK; /* without gnuplot, data and scripts of all figures are written */
    QB_TRY(qb_make_own_dir(cx, folder));
    for (int i = 0; qb_figures[i]; i++) {
        const qb_figure *f = qb_figures[i];
        if (f->applies && !f->applies(run)) continue;
        const plotted p = {f, run};
        const qb_drawing drawing = {.name = f->name,
                                    .height = f->height ? f->height(run) : 150 + 46 * run->n_rows,
                                    .data = plotted_data,
                                    .script = plotted_script,
                                    .user = &p};
        const qb_status status = qb_draw(cx, &drawing, folder);
        if (status != QB_OK && status != QB_STATUS_NOTFOUND) return status;
        if (first == QB_OK) first = status;
    }
    return first;
}
