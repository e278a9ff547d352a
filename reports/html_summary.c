/* The first screen: what INT8 costs and gains, how sure that is; then the two tables. */
#include <math.h>
#include <string.h>

#include "reports/html_internal.h"

/* ---- cards ---- */

static void item(FILE *stream, const char *term, const char *format, ...) QB_PRINTF(3, 4);
static void item(FILE *stream, const char *term, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stream, "<dt>%s</dt><dd>", term);
    vfprintf(stream, format, args);
    fputs("</dd>", stream);
    va_end(args);
}

static void interval(FILE *stream, const char *term, const char *value, const char *format,
                     qb_interval ci) {
    char low[32], high[32];
    if (isnan(ci.lo) || isnan(ci.hi)) {
        item(stream, term, "%s", value);
        return;
    }
    snprintf(low, sizeof low, format, ci.lo);
    snprintf(high, sizeof high, format, ci.hi);
    item(stream, term, "<b>%s</b> <span class=\"soft fix\">(%s to %s)</span>", value, low, high);
}

/* The warning for which the gate blocks limits on the row, which stand against the first row; NULL:
 * its numbers of this kind (QB_TOUCHES_...) can be believed. */
static const qb_run_warning *doubt(const qb_run *run, const char *what, const qb_run_row *row) {
    const qb_run_warning *own = qb_warning_find(run, what, row->precision, NULL, 0);
    return own ? own : qb_warning_find(run, what, run->row[0].precision, NULL, 0);
}

/* One sentence: is the loss more than chance? */
static void judgement(FILE *stream, const qb_run *run, const qb_run_row *row) {
    const qb_interval ci = row->paired.drop_ci;
    const qb_run_warning *w = doubt(run, QB_TOUCHES_ACCURACY, row);
    if (w)
        qb_html_put(stream, "<p class=\"doubt\">The loss is not known: %s.</p>",
                    qb_warning_means(w));
    else if (isnan(ci.lo))
        fputs("<p class=\"soft\">No labels: judged by agreement with the first engine.</p>",
              stream);
    else if (ci.lo > 0)
        fprintf(stream,
                "<p class=\"bad\">Loses accuracy: %.1f to %.1f points, more than chance.</p>",
                ci.lo, ci.hi);
    else if (ci.hi < 0)
        fprintf(stream, "<p class=\"good\">Gains accuracy: %.1f to %.1f points.</p>", -ci.hi,
                -ci.lo);
    else
        fprintf(stream,
                "<p class=\"good\">No loss beyond chance; a loss of more than %.2f points is ruled "
                "out.</p>",
                ci.hi);
}

/* The task's own metric of a row, top-1 of classifiers. */
static double own_value(const qb_run *run, const qb_run_row *row) {
    const char *name = qb_run_own_metric(run);
    const qb_run_metric *m = name ? qb_run_metric_find(row, name) : NULL;
    return name ? m ? m->value : NAN : row->top1;
}

static const char *own_title(const qb_run *run) {
    const char *name = qb_run_own_metric(run);
    const qb_run_metric *m = name ? qb_run_metric_find(&run->row[0], name) : NULL;
    return m ? m->title : "top-1 %";
}

/* The limits of the gate under which the row would be shipped. */
static void gate_hint(FILE *stream, const qb_run *run, const qb_run_row *row) {
    const qb_interval ci = row->paired.drop_ci;
    const double needed = fmax(row->drop, 0), sure = fmax(ci.hi, 0);
    const qb_run_warning *w = doubt(run, QB_TOUCHES_ACCURACY, row);
    if (isnan(row->drop)) return;
    if (w) {
        qb_html_put(stream,
                    "<p class=\"soft\">The gate blocks limits of accuracy, but with <code>--allow "
                    "%s</code>.</p>",
                    w->name);
        return;
    }
    fprintf(stream, "<p class=\"soft\">The gate opens from <code>--max-drop %.2f</code>",
            needed > 0 ? ceil(needed * 100 - 1e-6) / 100 : 0.0);
    if (!isnan(ci.hi))
        fprintf(stream, ", with <code>--confidence pass</code> from %.2f", ceil(sure * 100) / 100);
    fprintf(stream, "; the 99 %% rule (<code>--mlperf</code>) %s.</p>",
            own_value(run, row) >= 0.99 * own_value(run, &run->row[0]) - 1e-9 ? "holds"
                                                                              : "does not hold");
}

static void card(const qb_page *p, const qb_run_row *row) {
    FILE *s = p->stream;
    char text[64], size[QB_CELL];
    const qb_interval ratio = row->latency.ratio_ci;
    qb_html_put(s, "<div class=\"card\"><h3>%s</h3>", row->precision);
    judgement(s, p->run, row);
    fputs("<dl>", s);
    if (!isnan(row->drop)) {
        const char *own = qb_run_own_metric(p->run);
        snprintf(text, sizeof text, "%.2f", own_value(p->run, row));
        interval(s, own_title(p->run), text, "%.1f", qb_run_metric_ci(row, own ? own : "top1"));
        snprintf(text, sizeof text, "%+.2f points", row->drop);
        interval(s, "drop", text, "%+.2f", row->paired.drop_ci);
    }
    if (!isnan(row->paired.p_value))
        item(s, "images lost, gained", "%lld, %lld <span class=\"soft\">(p = %.2g)</span>",
             (long long)row->paired.lost, (long long)row->paired.gained, row->paired.p_value);
    if (!isnan(row->agreement_top1)) {
        snprintf(text, sizeof text, "%.2f %%", row->agreement_top1);
        interval(s, "same answer", text, "%.1f", qb_run_metric_ci(row, "agreement"));
    }
    if (!isnan(row->sqnr_db)) item(s, "output SQNR", "<b>%.1f dB</b>", row->sqnr_db);
    if (!isnan(row->speedup)) {
        if (isnan(row->speedup_minima))
            snprintf(text, sizeof text, "%.2fx", row->speedup);
        else
            snprintf(text, sizeof text, "%.2fx by medians, %.2fx by minima", row->speedup,
                     row->speedup_minima);
        interval(s, doubt(p->run, QB_TOUCHES_LATENCY, row) ? "speed-up, in doubt" : "speed-up",
                 text, "%.2f", (qb_interval){1 / ratio.hi, 1 / ratio.lo});
        item(s, "median latency", "%.3f ms", row->latency.median);
    }
    qb_bytes_text(row->engine_bytes, size);
    const double smaller = (double)p->run->row[0].engine_bytes /
                           (double)(row->engine_bytes > 0 ? row->engine_bytes : 1);
    item(s, "engine", "%s <span class=\"soft\">(%.1fx %s)</span>", size,
         smaller < 1 ? 1 / smaller : smaller, smaller < 1 ? "larger" : "smaller");
    fputs("</dl>", s);
    gate_hint(s, p->run, row);
    fputs("</div>\n", s);
}

/* Has the row no loss that chance cannot explain? Without labels nobody knows. */
static bool is_safe(const qb_run *run, const qb_run_row *row) {
    return row->paired.drop_ci.lo <= 0 && !doubt(run, QB_TOUCHES_ACCURACY, row);
}

static bool same_plan(const qb_run_row *a, const qb_run_row *b) {
    return a->plan && b->plan && a->plan[0] && strcmp(a->plan, b->plan) == 0;
}

/* Can nobody tell which one is faster? Engines of one plan run the same kernels. */
static bool is_as_fast(const qb_run_row *a, const qb_run_row *b) {
    const qb_interval x = a->latency.median_ci, y = b->latency.median_ci;
    return a == b || same_plan(a, b) || !(x.hi < y.lo || y.hi < x.lo);
}

/* The names of all safe rows that are as fast as `best`. */
static int32_t put_ties(const qb_page *p, const qb_run_row *best) {
    int32_t n = 0;
    for (int32_t r = 1; r < p->run->n_rows; r++) {
        const qb_run_row *row = &p->run->row[r];
        if (!is_safe(p->run, row) || !is_as_fast(row, best)) continue;
        qb_html_put(p->stream, "%s<b>%s</b>", n++ ? ", " : "", row->precision);
    }
    return n;
}

static void put_drop(const qb_page *p, const qb_run_row *row) {
    fprintf(p->stream, "drop %+.2f points", row->drop + 0.0); /* no -0.00 */
}

/* Rows without a proven loss: the fastest, and all that nobody can tell from it. Nothing is said of
 * what a warning touches. */
static void bottom_line(const qb_page *p) {
    const qb_run_row *fast = NULL, *sure = NULL, *close = NULL;
    bool doubtful = false;
    for (int32_t r = 1; r < p->run->n_rows; r++) {
        const qb_run_row *row = &p->run->row[r];
        if (doubt(p->run, QB_TOUCHES_ACCURACY, row)) {
            doubtful = true;
            continue;
        }
        const bool timed = !doubt(p->run, QB_TOUCHES_LATENCY, row);
        if (is_safe(p->run, row)) {
            if (!fast || row->speedup > fast->speedup) fast = row;
            if (timed && (!sure || row->speedup > sure->speedup)) sure = row;
        }
        if (!isnan(row->drop) && (!close || row->drop < close->drop)) close = row;
    }
    if (!close || (!fast && doubtful)) return;
    if (sure && is_as_fast(sure, fast)) fast = sure;
    const qb_run_warning *untimed = fast ? doubt(p->run, QB_TOUCHES_LATENCY, fast) : NULL;
    if (fast && !untimed) {
        fputs("<p class=\"line\">Fastest without a loss beyond chance: ", p->stream);
        const int32_t n = put_ties(p, fast);
        fputs(n > 1 ? " (their latencies cannot be told apart); " : ", ", p->stream);
        if (n == 1) put_drop(p, fast);
        fprintf(p->stream, "%s%.2f times as fast", n == 1 ? ", " : "", fast->speedup);
    } else {
        qb_html_put(p->stream, "<p class=\"line\">%s: <b>%s</b>, ",
                    fast                  ? "Least loss, none beyond chance"
                    : p->run->n_rows == 2 ? "Loses accuracy beyond chance"
                                          : "Every row loses accuracy beyond chance; least",
                    close->precision);
        put_drop(p, close);
        if (untimed)
            qb_html_put(p->stream, "; no speed-up is claimed, %s", qb_warning_means(untimed));
    }
    fputs(".</p>\n", p->stream);
}

static void warnings(const qb_page *p) {
    if (p->run->n_warnings == 0) return;
    fputs("<ul class=\"warn\">\n", p->stream);
    for (int32_t i = 0; i < p->run->n_warnings; i++) {
        char text[QB_WARNING_TEXT];
        const char *said = qb_warning_said(p->run, i, text);
        if (said) qb_html_put(p->stream, "<li>%s</li>\n", said);
    }
    fputs("</ul>\n", p->stream);
}

static void contents(const qb_page *p) {
    const qb_run *run = p->run;
    bool worst = false, classes = false, layers = false;
    for (int32_t r = 0; r < run->n_rows; r++) {
        worst = worst || run->row[r].n_worst > 0;
        classes = classes || run->row[r].n_recall > 0;
        layers = layers || run->row[r].n_layers > 0;
    }
    fputs("<nav><a href=\"#accuracy\">Accuracy</a><a href=\"#speed\">Speed and size</a>",
          p->stream);
    if (layers) fputs("<a href=\"#layers\">Where accuracy goes</a>", p->stream);
    if (worst) fputs("<a href=\"#worst\">Worst samples</a>", p->stream);
    if (classes) fputs("<a href=\"#classes\">Classes</a>", p->stream);
    if (run->row[0].n_steps > 0) fputs("<a href=\"#steps\">Where time goes</a>", p->stream);
    fputs("<a href=\"#measured\">What was measured</a></nav>\n", p->stream);
}

/* What whoever signs looks for first. */
static void banner(const qb_page *p) {
    const qb_verdict *v = p->verdict;
    if (!v) {
        fputs("<section class=\"verdict none\"><b>Not judged</b> No limits are known: "
              "<code>qbench gate --max-drop 1.0</code>, or <code>gate:</code> in qbench.yaml."
              "</section>\n",
              p->stream);
        return;
    }
    qb_html_put(p->stream,
                "<section class=\"verdict %s\"><b>%s</b> %s"
                "<details><summary>All limits</summary><pre>",
                v->word, v->word, v->text);
    for (const char *c = v->lines; *c; c++) { /* line breaks stay here */
        char one[2] = {*c, '\0'};
        if (*c == '\n')
            fputc('\n', p->stream);
        else
            qb_html_text(p->stream, one);
    }
    fputs("</pre></details></section>\n", p->stream);
}

void qb_html_summary(const qb_page *p) {
    const qb_run *run = p->run;
    banner(p);
    qb_html_put(p->stream, "<header><h1>%s</h1><p class=\"soft\">%lld samples of %s", run->model,
                (long long)run->samples, run->dataset);
    if (run->part && run->part[0]) qb_html_put(p->stream, " (%s)", run->part);
    qb_html_put(p->stream, "%s; on %s, %d thread%s, batch %lld, %s. Against %s",
                qb_report_lacks_labels(run) ? ", without labels" : "", run->cpu, run->threads,
                run->threads == 1 ? "" : "s", (long long)run->row[0].batch, run->libraries,
                run->row[0].precision);
    if (!isnan(own_value(run, &run->row[0])))
        fprintf(p->stream, " (<span class=\"fix\">%s: %.2f</span>)", own_title(run),
                own_value(run, &run->row[0]));
    fprintf(p->stream, ", median %.3f ms. Intervals are at 95 %%.</p></header>\n",
            run->row[0].latency.median);
    contents(p);
    bottom_line(p);
    fputs("<section class=\"cards\">\n", p->stream);
    for (int32_t r = 1; r < run->n_rows; r++) card(p, &run->row[r]);
    fputs("</section>\n", p->stream);
    warnings(p);
}

/* ---- the two tables ---- */

enum { COLUMNS_WIDE = 14, ROWS_FEW = 6 };

/* A row an engine; a row a metric where a screen has no room for all of them side by side. */
static void group_table(const qb_page *p, qb_column_group group) {
    const qb_run *run = p->run;
    qb_column all[QB_COLUMNS_MAX];
    const char *titles[QB_COLUMNS_MAX + 1] = {"precision"};
    int32_t n = 0;
    const int32_t known = qb_columns(run, all);
    for (int32_t c = 0; c < known; c++)
        if (all[c].group == group && qb_column_shown(&all[c], run)) all[n++] = all[c];
    const bool turned = n > COLUMNS_WIDE && run->n_rows <= ROWS_FEW;
    const int32_t across = turned ? run->n_rows : n, down = turned ? n : run->n_rows;
    for (int32_t i = 0; i < across; i++)
        titles[i + 1] = turned ? run->row[i].precision : all[i].title;
    if (turned) titles[0] = "metric";
    qb_html_table(p->stream, NULL, titles, across + 1);
    for (int32_t k = 0; k < down; k++) {
        fputs("<tr>", p->stream);
        qb_html_name_cell(p->stream, turned ? all[k].title : run->row[k].precision);
        for (int32_t i = 0; i < across; i++) {
            const qb_column *column = &all[turned ? k : i];
            const qb_run_row *row = &run->row[turned ? i : k];
            char text[QB_CELL];
            qb_column_cell(column, row, text);
            qb_html_cell(p->stream, text, qb_column_order(column, row));
        }
        fputs("</tr>\n", p->stream);
    }
    qb_html_table_end(p->stream);
}

static void put_definition(void *user, const char *term, const char *text) {
    qb_html_put(user, "<dt>%s</dt><dd>%s</dd>", term, text);
}

qb_status qb_html_accuracy(const qb_page *p) {
    fputs("<section id=\"accuracy\"><h2>Accuracy</h2>\n", p->stream);
    group_table(p, QB_GROUP_ACCURACY);
    fputs("<details><summary>What the columns mean</summary><dl class=\"terms\">", p->stream);
    qb_report_definitions(p->run, true, put_definition, p->stream);
    fputs("</dl></details>\n", p->stream);
    QB_TRY(qb_html_figures(p, QB_SECTION_ACCURACY));
    fputs("</section>\n", p->stream);
    return QB_OK;
}

qb_status qb_html_speed(const qb_page *p) {
    fputs("<section id=\"speed\"><h2>Speed and size</h2>\n", p->stream);
    group_table(p, QB_GROUP_SPEED);
    QB_TRY(qb_html_figures(p, QB_SECTION_SPEED));
    fputs("</section>\n", p->stream);
    return QB_OK;
}
