/* The comparison as text: aligned for a terminal, Markdown, tab-separated. */
#include <math.h>
#include <string.h>

#include "reports/report.h"

enum { LINE = 80 };

/* The columns of one group that are shown. */
typedef struct layout {
    qb_column column[QB_COLUMNS_MAX];
    int width[QB_COLUMNS_MAX], first; /* of the column; of the names */
    int32_t n;
} layout;

static int wider(int width, const char *text) {
    const int n = (int)strlen(text);
    return n > width ? n : width;
}

static void layout_make(const qb_run *run, qb_column_group group, bool detail, layout *l) {
    qb_column all[QB_COLUMNS_MAX];
    const int32_t n = qb_columns(run, all);
    char text[QB_CELL];
    *l = (layout){.first = (int)strlen("precision")};
    for (int32_t r = 0; r < run->n_rows; r++) {
        snprintf(text, sizeof text, "%s", run->row[r].precision);
        l->first = wider(l->first, text);
    }
    for (int32_t c = 0; c < n; c++) {
        if (all[c].group != group || !qb_column_shown(&all[c], run)) continue;
        if (all[c].detail && !detail) continue;
        int width = wider(0, all[c].title);
        for (int32_t r = 0; r < run->n_rows; r++) {
            qb_column_cell(&all[c], &run->row[r], text);
            width = wider(width, text);
        }
        l->width[l->n] = width;
        l->column[l->n++] = all[c];
    }
}

/* Names stand at the left of their column, numbers at the right. */
static void print_cell(FILE *stream, const qb_column *column, int width, const char *text) {
    fprintf(stream, "  %*s", column->text ? -width : width, text);
}

/* The columns from `from` on that fit a line, at least one; a number keeps its interval. */
static int32_t columns_that_fit(const layout *l, int32_t from) {
    int width = l->first;
    int32_t end = from;
    while (end < l->n) {
        const bool pair = end + 1 < l->n && l->column[end + 1].interval;
        const int more = l->width[end] + 2 + (pair ? l->width[end + 1] + 2 : 0);
        if (end > from && width + more > LINE) break;
        width += more;
        end += pair ? 2 : 1;
    }
    return end;
}

static void print_columns(FILE *stream, const qb_run *run, const layout *l, int32_t from,
                          int32_t end) {
    fprintf(stream, "%-*s", l->first, "precision");
    for (int32_t c = from; c < end; c++)
        print_cell(stream, &l->column[c], l->width[c], l->column[c].title);
    fputc('\n', stream);
    for (int32_t r = 0; r < run->n_rows; r++) {
        char text[QB_CELL];
        fprintf(stream, "%-*.*s", l->first, QB_CELL - 1, run->row[r].precision);
        for (int32_t c = from; c < end; c++) {
            qb_column_cell(&l->column[c], &run->row[r], text);
            print_cell(stream, &l->column[c], l->width[c], text);
        }
        fputc('\n', stream);
    }
    fputc('\n', stream);
}

/* What is wider than a line is folded into several tables, one below the other. */
static void print_group(FILE *stream, const qb_run *run, qb_column_group group) {
    layout l;
    layout_make(run, group, false, &l);
    for (int32_t from = 0; from < l.n;) {
        const int32_t end = columns_that_fit(&l, from);
        print_columns(stream, run, &l, from, end);
        from = end;
    }
}

static void print_head(FILE *stream, const qb_run *run) {
    fprintf(stream, "model %s, data %s: %lld samples%s", run->model, run->dataset,
            (long long)run->samples, qb_report_lacks_labels(run) ? " without labels" : "");
    if (run->skipped > 0) fprintf(stream, " (%lld skipped)", (long long)run->skipped);
    if (run->part && run->part[0]) fprintf(stream, ", %s", run->part);
    fprintf(stream, "\n%s, %d thread%s, batch %lld, %s\n\n", run->cpu, run->threads,
            run->threads == 1 ? "" : "s", (long long)run->row[0].batch, run->libraries);
}

/* One definition, broken into lines. */
static void print_definition(void *user, const char *term, const char *text) {
    FILE *stream = user;
    int at = fprintf(stream, "%s:", term);
    while (*text != '\0') {
        const int n = (int)strcspn(text, " ");
        if (at + 1 + n > LINE) at = fprintf(stream, "\n ") - 1;
        at += fprintf(stream, " %.*s", n, text);
        text += n + (text[n] == ' ');
    }
    fputc('\n', stream);
}

void qb_report_table(FILE *stream, const qb_run *run) {
    print_head(stream, run);
    for (int g = 0; g < QB_GROUP_COUNT; g++) print_group(stream, run, (qb_column_group)g);
    qb_report_definitions(run, false, print_definition, stream);
    fputc('\n', stream);
    for (int32_t r = 0; r < run->n_rows; r++)
        if (run->row[r].suggestion && run->row[r].suggestion[0])
            fprintf(stream, "%s: to keep in float, %s\n", run->row[r].precision,
                    run->row[r].suggestion);
    for (int32_t i = 0; i < run->n_warnings; i++) {
        char text[QB_WARNING_TEXT];
        const char *said = qb_warning_said(run, i, text);
        if (said) fprintf(stream, "warning: %s\n", said);
    }
}

/* ---- Markdown ---- */

/* Text in a table: what Markdown or HTML would take as its own is escaped. */
static void put_markdown(FILE *stream, const char *text) {
    for (; *text; text++) {
        if (strchr("\\`*_{}[]<>#|~!&", *text)) fputc('\\', stream);
        fputc(*text, stream);
    }
}

static void markdown_group(FILE *stream, const qb_run *run, qb_column_group group) {
    layout l;
    layout_make(run, group, true, &l);
    fprintf(stream, "| precision |");
    for (int32_t c = 0; c < l.n; c++) {
        fputc(' ', stream);
        put_markdown(stream, l.column[c].title);
        fputs(" |", stream);
    }
    fprintf(stream, "\n| --- |");
    for (int32_t c = 0; c < l.n; c++) fprintf(stream, " ---: |");
    for (int32_t r = 0; r < run->n_rows; r++) {
        char text[QB_CELL];
        fprintf(stream, "\n| ");
        put_markdown(stream, run->row[r].precision);
        fprintf(stream, " |");
        for (int32_t c = 0; c < l.n; c++) {
            qb_column_cell(&l.column[c], &run->row[r], text);
            fprintf(stream, " %s |", text);
        }
    }
    fprintf(stream, "\n\n");
}

static void markdown_definition(void *user, const char *term, const char *text) {
    fputs("- ", user);
    put_markdown(user, term);
    fputs(": ", user);
    put_markdown(user, text);
    fputc('\n', user);
}

void qb_report_markdown(FILE *stream, const qb_run *run) {
    fprintf(stream, "### ");
    put_markdown(stream, run->model);
    fprintf(stream, ": %lld samples of ", (long long)run->samples);
    put_markdown(stream, run->dataset);
    if (run->part && run->part[0]) fprintf(stream, " (%s)", run->part);
    fprintf(stream, "%s\n\n", qb_report_lacks_labels(run) ? ", without labels" : "");
    for (int g = 0; g < QB_GROUP_COUNT; g++) markdown_group(stream, run, (qb_column_group)g);
    for (int32_t i = 0; i < run->n_warnings; i++) {
        char text[QB_WARNING_TEXT];
        const char *said = qb_warning_said(run, i, text);
        if (!said) continue;
        fprintf(stream, "> **Warning:** ");
        put_markdown(stream, said);
        fprintf(stream, "\n\n");
    }
    fprintf(stream, "<details><summary>What the columns mean</summary>\n\n");
    qb_report_definitions(run, true, markdown_definition, stream);
    fprintf(stream, "- measured on: ");
    put_markdown(stream, run->cpu);
    fprintf(stream, ", %d threads, batch %lld, ", run->threads, (long long)run->row[0].batch);
    put_markdown(stream, run->libraries);
    fprintf(stream, "\n\n</details>\n");
}

/* ---- tab-separated ---- */

static void tsv_number(FILE *stream, double value) {
    if (isnan(value))
        fputc('\t', stream);
    else
        fprintf(stream, "\t%.9g", value);
}

void qb_report_tsv(FILE *stream, const qb_run *run) {
    qb_column all[QB_COLUMNS_MAX];
    const int32_t n = qb_columns(run, all);
    fprintf(stream, "precision");
    for (int32_t c = 0; c < n; c++)
        fprintf(stream, all[c].interval ? "\t%s_low\t%s_high" : "\t%s", all[c].key, all[c].key);
    for (int32_t r = 0; r < run->n_rows; r++) {
        const qb_run_row *row = &run->row[r];
        fprintf(stream, "\n%s", row->precision);
        for (int32_t c = 0; c < n; c++) {
            if (all[c].text)
                fprintf(stream, "\t%s", all[c].text(row));
            else
                tsv_number(stream, qb_column_order(&all[c], row));
            if (all[c].interval) tsv_number(stream, all[c].interval(row).hi);
        }
    }
    fputc('\n', stream);
}
