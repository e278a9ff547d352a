/* The HTML report: one file that needs nothing else. */
#include <math.h>
#include <string.h>

#include "base/embed.h"
#include "base/file.h"
#include "reports/html_internal.h"

#define SVG_MAX ((size_t)4 << 20)

/* ---- pieces ---- */

static void put_escaped(FILE *stream, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '&': fputs("&amp;", stream); break;
        case '<': fputs("&lt;", stream); break;
        case '>': fputs("&gt;", stream); break;
        case '"': fputs("&quot;", stream); break;
        case '\'': fputs("&#39;", stream); break;
        default: fputc((unsigned char)text[i] < ' ' ? ' ' : text[i], stream);
        }
    }
}

void qb_html_text(FILE *stream, const char *text) { put_escaped(stream, text, strlen(text)); }

void qb_html_put(FILE *stream, const char *format, ...) {
    va_list args;
    va_start(args, format);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        fwrite(format, 1, plain, stream);
        format += plain;
        if (!*format) break;
        const size_t n = strcspn(format + 1, "%sdf") + 2;
        char one[16];
        snprintf(one, sizeof one, "%.*s", (int)n, format);
        switch (format[n - 1]) {
        case 's': qb_html_text(stream, va_arg(args, const char *)); break;
        case 'f': fprintf(stream, one, va_arg(args, double)); break;
        case 'd':
            if (format[1] == 'l')
                fprintf(stream, one, va_arg(args, long long));
            else
                fprintf(stream, one, va_arg(args, int));
            break;
        default: fputc('%', stream);
        }
        format += n;
    }
    va_end(args);
}

void qb_html_cell(FILE *stream, const char *text, double sort) {
    if (isnan(sort))
        fprintf(stream, "<td data-v=\"\">");
    else if (isinf(sort))
        fprintf(stream, "<td data-v=\"%s1e300\">", sort < 0 ? "-" : "");
    else
        fprintf(stream, "<td data-v=\"%.9g\">", sort);
    qb_html_put(stream, "%s</td>", text);
}

void qb_html_name_cell(FILE *stream, const char *text) {
    qb_html_put(stream, "<th scope=\"row\" title=\"%s\">%s</th>", text, text);
}

void qb_html_number(FILE *stream, const char *format, double value) {
    char text[64];
    if (isnan(value))
        snprintf(text, sizeof text, "-");
    else if (isinf(value))
        snprintf(text, sizeof text, value > 0 ? "inf" : "-inf");
    else
        snprintf(text, sizeof text, format, value);
    qb_html_cell(stream, text, value);
}

/* Headings may break between words and before each '+' of a precision, not at the hyphen of
 * "top-1". */
static void put_title(FILE *stream, const char *title) {
    while (*title) {
        const size_t n = 1 + strcspn(title + 1, " +");
        if (*title == '+') fputs("<wbr>", stream);
        const bool whole = memchr(title, '-', n) != NULL;
        if (whole) fputs("<span>", stream);
        put_escaped(stream, title, n);
        if (whole) fputs("</span>", stream);
        title += n;
        if (*title == ' ') fputc(*title++, stream);
    }
}

void qb_html_table(FILE *stream, const char *caption, const char *const *titles, int32_t n) {
    fputs("<div class=\"scroll\" tabindex=\"0\"><table class=\"data\">", stream);
    if (caption) qb_html_put(stream, "<caption>%s</caption>", caption);
    fputs("<thead><tr>", stream);
    for (int32_t i = 0; i < n; i++) {
        fputs("<th scope=\"col\">", stream);
        put_title(stream, titles[i]);
        fputs("</th>", stream);
    }
    fputs("</tr></thead><tbody>\n", stream);
}

void qb_html_table_end(FILE *stream) { fputs("</tbody></table></div>\n", stream); }

/* ---- figures ---- */

/* The next text of gnuplot's own for a tooltip, "<title>gnuplot_plot_1</title>": its length, 0
 * where `at` is another place. */
static size_t own_title(const char *at) {
    static const char begin[] = "<title>gnuplot_plot_", end[] = "</title>";
    if (strncmp(at, begin, sizeof begin - 1) != 0) return 0;
    const char *close = strstr(at, end);
    return close ? (size_t)(close - at) + sizeof end - 1 : 0;
}

/* gnuplot numbers its symbols alike in every picture: inside one page they get a name each. Only
 * ids and references to them are changed, never text. */
static void put_svg(FILE *stream, const char *svg, const char *name) {
    for (const char *at = svg; *at; at++) {
        at += own_title(at);
        fputc(*at, stream);
        const bool id =
            at - svg >= 4 && (*at == '\'' || *at == '"') && memcmp(at - 3, "id=", 3) == 0;
        const bool reference = *at == '#' && (strncmp(at + 1, "gp", 2) == 0);
        if (id || reference) fprintf(stream, "%s-", name);
    }
}

/* The element without the XML declaration, and without the title that would show as "Gnuplot". */
static char *svg_body(char *text) {
    char *start = strstr(text, "<svg"), *title = strstr(text, "<title>"),
         *end = strstr(text, "</desc>");
    if (start && title && end && title < end) memset(title, ' ', (size_t)(end + 7 - title));
    return start;
}

static qb_status put_figure(const qb_page *page, const qb_figure *figure) {
    const char *name = figure->name;
    QB_FREED char *path = QB_NEW(page->cx, qb_format(page->cx, "%s/%s.svg", page->figures, name));
    QB_FREED char *text = NULL;
    QB_TRY(qb_file_read(page->cx, path, SVG_MAX, &text, NULL));
    const char *svg = svg_body(text);
    if (svg) {
        fprintf(page->stream, "<figure role=\"img\" aria-label=\"%s\" title=\"%s\">\n",
                figure->title, figure->title);
        put_svg(page->stream, svg, name);
        fprintf(
            page->stream,
            "<figcaption>Data and script: figures/%s.tsv, figures/%s.gp</figcaption></figure>\n",
            name, name);
    }
    return QB_OK;
}

qb_status qb_html_figures(const qb_page *page, qb_section section) {
    if (page->figures) fputs("<div class=\"figures\">\n", page->stream);
    for (const qb_figure *const *f = qb_figures; page->figures && *f; f++)
        if ((*f)->section == section && (!(*f)->applies || (*f)->applies(page->run)))
            QB_TRY(put_figure(page, *f));
    if (page->figures) fputs("</div>\n", page->stream);
    return QB_OK;
}

/* ---- the page ---- */

/* Its style sheet, in which paper comes last and takes back what screens were given, and its
 * script, without which the page is whole: it sorts tables, and unfolds details for paper. */
QB_EMBED(qb_html_style, "reports/assets/page.css");
QB_EMBED(qb_html_script, "reports/assets/page.js");
extern const char qb_html_style[], qb_html_script[];
extern const size_t qb_html_style_size, qb_html_script_size;

static void head(const qb_page *p) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
          "'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n",
          p->stream);
    qb_html_put(p->stream, "<title>%s: quantization report</title>\n<style>\n", p->run->model);
    fwrite(qb_html_style, 1, qb_html_style_size, p->stream);
    fputs("</style></head><body>\n", p->stream);
}

static void put_hash(FILE *stream, const char *title, qb_hash hash) {
    char hex[33];
    qb_hash_hex(hash, hex);
    fprintf(stream, "<dt>%s</dt><dd><code>%s</code></dd>", title, hex);
}

static void put_term(FILE *stream, const char *term, const char *text) {
    qb_html_put(stream, "<dt>%s</dt><dd>%s</dd>", term, text);
}

static void environment(const qb_page *p) {
    const qb_run *run = p->run;
    fputs("<section id=\"measured\"><h2>What was measured, on what</h2><dl class=\"terms\">",
          p->stream);
    if (run->made && run->made[0]) put_term(p->stream, "measured", run->made);
    if (run->command && run->command[0]) put_term(p->stream, "command", run->command);
    put_term(p->stream, "model", run->model);
    put_hash(p->stream, "model hash", run->model_hash);
    put_term(p->stream, "data", run->dataset);
    fprintf(p->stream, "<dt>samples</dt><dd>%lld scored, %lld skipped</dd>",
            (long long)run->samples, (long long)run->skipped);
    if (run->part && run->part[0]) put_term(p->stream, "part of the data", run->part);
    put_hash(p->stream, "data hash", run->data_hash);
    if (run->calibrated_on && run->calibrated_on[0]) {
        put_term(p->stream, "calibrated on", run->calibrated_on);
        fprintf(p->stream, "<dt>calibration samples</dt><dd>%lld</dd>",
                (long long)run->calibration_samples);
    }
    for (int32_t r = 0; r < run->n_rows; r++) {
        const char *scheme = run->row[r].scheme;
        qb_html_put(p->stream, "<dt>row %s</dt><dd>%s</dd>", run->row[r].precision,
                    scheme && scheme[0]          ? scheme
                    : run->row[r].calibration[0] ? run->row[r].calibration
                                                 : "not calibrated");
    }
    put_term(p->stream, "processor", run->cpu);
    fprintf(p->stream, "<dt>threads, batch</dt><dd>%d, %lld</dd>", run->threads,
            (long long)run->row[0].batch);
    put_term(p->stream, "system", run->host_os);
    put_term(p->stream, "libraries", run->libraries);
    put_term(p->stream, "qbench", run->version);
    fputs("</dl></section>\n", p->stream);
}

qb_status qb_report_html(qb_ctx *cx, const qb_run *run, const qb_verdict *verdict,
                         const char *figures, FILE *stream) {
    const qb_page page = {
        .cx = cx, .run = run, .figures = figures, .verdict = verdict, .stream = stream};
    head(&page);
    qb_html_summary(&page);
    QB_TRY(qb_html_accuracy(&page));
    QB_TRY(qb_html_speed(&page));
    QB_TRY(qb_html_layers(&page));
    qb_html_worst(&page);
    qb_html_classes(&page);
    QB_TRY(qb_html_steps(&page));
    environment(&page);
    fputs("<script>\n", stream);
    fwrite(qb_html_script, 1, qb_html_script_size, stream);
    fputs("</script></body></html>\n", stream);
    return QB_OK;
}
