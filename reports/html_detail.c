/* Layers, samples, classes and steps: why the numbers are what they are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/shell.h"
#include "reports/figure_internal.h"
#include "reports/html_internal.h"

enum { KEEP = 3, CLASSES_FEW = 20, CLASSES_MAX = 60, CONFUSIONS_MAX = 20 };

/* ---- where accuracy goes ---- */

static int by_share(const void *a, const void *b) {
    const qb_run_layer *x = *(const qb_run_layer *const *)a, *y = *(const qb_run_layer *const *)b;
    const double sx = isnan(x->share) ? -1 : x->share, sy = isnan(y->share) ? -1 : y->share;
    if (sx != sy) return sx < sy ? 1 : -1;
    return (x > y) - (x < y); /* both from one list: in order of execution */
}

static void range_cell(FILE *stream, double low, double high) {
    char text[64] = "float";
    if (!isnan(low)) snprintf(text, sizeof text, "%.4g to %.4g", low, high);
    qb_html_cell(stream, text, high - low);
}

static void layer_line(FILE *s, const qb_run_layer *l) {
    fputs("<tr>", s);
    qb_html_name_cell(s, l->name[0] ? l->name : l->value);
    qb_html_number(s, "%.1f", l->share);
    qb_html_number(s, "%.1f", l->own_db);
    qb_html_number(s, "%.1f", l->total_db);
    qb_html_number(s, "%.1f", isfinite(l->own_db) ? l->own_db - l->total_db : NAN);
    qb_html_number(s, "%.3f", l->saturated);
    range_cell(s, l->range_lo, l->range_hi);
    range_cell(s, l->seen_lo, l->seen_hi);
    qb_html_number(s, "%.0f", l->unused_codes < 0 ? NAN : l->unused_codes);
    qb_html_cell(s, l->method[0] ? l->method : "-", NAN);
    qb_html_cell(s, l->op, NAN);
    fputs("</tr>\n", s);
}

/* As a shell word: a pattern that matches just this name. */
static void add_pattern(qb_strbuf *line, const char *name) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf pattern = {0};
    for (; *name; name++)
        qb_strbuf_addf(&pattern, "%s%c", strchr("*?[\\", *name) ? "\\" : "", *name);
    if (pattern.data) qb_shell_add_word(line, pattern.data);
}

/* The line that keeps the worst layers in float, and its price by the times of their steps. */
static void keep_line(const qb_page *p, const qb_run_row *row, const qb_run_layer **ranked,
                      int32_t n) {
    QB_RELEASED(qb_strbuf_release) qb_strbuf line = {0};
    double cost = 0, gain = 0, all = 0;
    int32_t kept = 0;
    qb_strbuf_add(&line, "qbench compare ");
    qb_shell_add_word(&line, p->run->row[0].precision);
    qb_strbuf_add(&line, " ");
    qb_shell_add_word(&line, row->precision);
    qb_strbuf_add(&line, " --data ");
    qb_shell_add_word(&line, p->run->dataset);
    for (int32_t i = 0; i < n && kept < KEEP; i++) {
        if (!(ranked[i]->share > 0) || ranked[i]->name[0] == '\0') continue;
        const qb_run_step *slow = qb_step_named(&p->run->row[0], ranked[i]->name),
                          *fast = qb_step_named(row, ranked[i]->name);
        qb_strbuf_add(&line, " --keep-float ");
        add_pattern(&line, ranked[i]->name);
        cost += slow && fast ? slow->ms - fast->ms : NAN;
        gain += ranked[i]->share;
        kept++;
    }
    for (int32_t i = 0; i < row->n_steps; i++) all += row->step[i].ms;
    if (kept == 0 || line.failed) return;
    qb_html_put(p->stream,
                "<p>To keep the %d worst in float (%.0f %% of the layers' own noise):</p>"
                "<pre>%s</pre>",
                kept, gain, line.data);
    if (!isnan(cost) && !qb_warning_has(p->run, "contention"))
        fprintf(p->stream,
                "<p>Expected price: %+.3f ms on %.3f ms a batch (%+.0f %%), from the times of "
                "these steps in both engines; conversions around them are not counted.</p>\n",
                cost, all, 100 * cost / all);
}

static qb_status layer_table(const qb_page *p, const qb_run_row *row, bool open) {
    static const char *const titles[] = {"layer",
                                         "share of own noise %",
                                         "own dB",
                                         "in the engine dB",
                                         "inherited dB",
                                         "saturated %",
                                         "range of quantized values",
                                         "FP32 values",
                                         "unused values",
                                         "method",
                                         "operators"};
    QB_FREED const qb_run_layer **ranked =
        QB_NEW(p->cx, qb_alloc(p->cx, (size_t)row->n_layers, sizeof(qb_run_layer *)));
    int32_t n = 0;
    for (int32_t i = 0; i < row->n_layers; i++)
        if (!isnan(row->layer[i].own_db)) ranked[n++] = &row->layer[i];
    qsort(ranked, (size_t)n, sizeof(qb_run_layer *), by_share);
    qb_html_put(p->stream, "<details%s><summary>%s%s%s</summary>\n", open ? " open" : "",
                row->precision, row->calibration[0] ? ", ranges by " : "", row->calibration);
    if (row->suggestion && row->suggestion[0])
        qb_html_put(p->stream, "<p>To keep in float, %s</p>\n", row->suggestion);
    else if (row->calibration[0]) /* files are as they are */
        keep_line(p, row, ranked, n);
    qb_html_table(p->stream, "Worst first", titles, sizeof titles / sizeof titles[0]);
    for (int32_t i = 0; i < n; i++) layer_line(p->stream, ranked[i]);
    qb_html_table_end(p->stream);
    if (n < row->n_layers)
        fprintf(
            p->stream,
            "<p class=\"soft\">%d more only move values, or pick some: they add no noise.</p>\n",
            row->n_layers - n);
    fputs("</details>\n", p->stream);
    return QB_OK;
}

qb_status qb_html_layers(const qb_page *p) {
    const int32_t first = qb_layered_row(p->run);
    if (first < 0) return QB_OK;
    fputs(
        "<section id=\"layers\"><h2>Where accuracy goes</h2>\n"
        "<p>Own: SQNR of the layer alone, fed with FP32 values: what its own quantization costs. "
        "In "
        "the engine: SQNR of its value after everything before it was quantized too; the "
        "difference is inherited. Share: its own relative noise among all layers'. Saturated: FP32 "
        "values beyond what the quantized values can represent.</p>\n",
        p->stream);
    QB_TRY(qb_html_figures(p, QB_SECTION_LAYERS));
    for (int32_t r = first; r < p->run->n_rows; r++)
        if (p->run->row[r].n_layers > 0) QB_TRY(layer_table(p, &p->run->row[r], r == first));
    fputs("</section>\n", p->stream);
    return QB_OK;
}

/* ---- samples ---- */

static void answer(FILE *stream, const qb_run *run, const char *who, int32_t class, int32_t label) {
    char number[16];
    qb_html_put(stream, "%s: <span class=\"%s\">%s</span><br>", who,
                label < 0        ? "soft"
                : class == label ? "good"
                                 : "bad",
                qb_run_class_text(run, class, number));
}

/* A thumbnail comes from a record: only what base64 is made of may enter the attribute. */
static bool is_base64(const char *text) {
    return text && text[0] != '\0' &&
           text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuv"
                             "wxyz0123456789+/=")] == '\0';
}

enum { NAMES_MAX = 40 };

/* A name's place in a picture, and those of the names before it. */
typedef struct names {
    double at[NAMES_MAX][4]; /* left, top, right, bottom */
    int32_t n;
} names;

/* Is there room for a name? Takes it. One over another could not be read. */
static bool take_room(names *taken, double left, double top, double width, double height) {
    for (int32_t i = 0; i < taken->n; i++) {
        const double *a = taken->at[i];
        if (left < a[2] && a[0] < left + width && top < a[3] && a[1] < top + height) return false;
    }
    if (taken->n == NAMES_MAX) return false;
    double *own = taken->at[taken->n++];
    own[0] = left;
    own[1] = top;
    own[2] = left + width;
    own[3] = top + height;
    return true;
}

/* One row's view of a sample: its picture with the row's boxes or mask over it. */
static void view(const qb_page *p, const qb_run_shown *shown, const char *who,
                 const qb_run_box *box, int32_t n, const char *mask) {
    FILE *s = p->stream;
    const double line = (shown->width > shown->height ? shown->width : shown->height) / 128.0;
    int32_t alone = 0;
    names taken = {.n = 0};
    fprintf(s,
            "<figure><svg viewBox=\"0 0 %d %d\" role=\"img\" "
            "style=\"width:min(100%%,%.2frem)\">",
            shown->width, shown->height, 16.0 * shown->width / shown->height);
    if (is_base64(shown->thumbnail))
        fprintf(s, "<use href=\"#shot-%lld\"/>", (long long)shown->index);
    if (is_base64(mask))
        fprintf(s,
                "<image class=\"mask\" href=\"data:image/png;base64,%s\" width=\"%d\" "
                "height=\"%d\" preserveAspectRatio=\"none\"/>",
                mask, shown->width, shown->height);
    for (int32_t i = 0; i < n; i++) {
        const qb_run_box *b = &box[i];
        if (!isfinite(b->x) || !isfinite(b->y) || !(b->width >= 0) || !(b->height >= 0)) continue;
        alone += !b->matched;
        qb_html_put(s,
                    "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                    "stroke-width=\"%.2f\"><title>%s %.2f</title></rect>",
                    b->matched ? "box" : "box alone", b->x, b->y, b->width, b->height, line,
                    b->name, b->score);
        if (b->matched) continue;
        /* A name in the right half ends where its box does, so that the picture's edge does not cut
         * it; the left edge of a box may lie outside. */
        const bool right = b->x > shown->width / 2.0;
        const double x = right ? fmin(b->x + b->width, shown->width) - line : fmax(b->x, 0) + line;
        /* A letter is about half as wide as high; the score takes five. */
        const double width = 3 * line * (double)((b->name ? strlen(b->name) : 0) + 5);
        if (!take_room(&taken, right ? x - width : x, fmax(b->y, 0), width, 6 * line)) continue;
        qb_html_put(s,
                    "<text class=\"box\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" "
                    "text-anchor=\"%s\">%s %.2f</text>",
                    x, fmax(b->y, 0) + 6 * line, 6 * line, right ? "end" : "start", b->name,
                    b->score);
    }
    qb_html_put(s, "</svg><figcaption>%s", who);
    if (!is_base64(mask)) fprintf(s, ": %d boxes, %d of them alone", n, alone);
    fputs("</figcaption></figure>", s);
}

static bool has_views(const qb_page *p, const qb_run_worst *w) {
    const qb_run_shown *shown = &p->run->shown[w->shown];
    return shown->width > 0 && shown->height > 0 &&
           (w->n_boxes > 0 || w->n_reference_boxes > 0 || is_base64(w->mask));
}

/* The picture that both views use, once. */
static void define_shot(FILE *s, const qb_run_shown *shown) {
    if (shown->width < 1 || shown->height < 1 || !is_base64(shown->thumbnail)) return;
    fprintf(s,
            "<image id=\"shot-%lld\" href=\"data:image/png;base64,%s\" width=\"%d\" "
            "height=\"%d\" preserveAspectRatio=\"none\"/>",
            (long long)shown->index, shown->thumbnail, shown->width, shown->height);
}

/* The first row's view and this row's, side by side. */
static void views(const qb_page *p, const qb_run_row *row, const qb_run_worst *w) {
    const qb_run_shown *shown = &p->run->shown[w->shown];
    fputs("<li class=\"pair\">", p->stream);
    view(p, shown, p->run->row[0].precision, w->reference_box, w->n_reference_boxes,
         w->reference_mask);
    view(p, shown, row->precision, w->box, w->n_boxes, w->mask);
    qb_html_put(p->stream, "<span class=\"soft\">%s</span></li>\n", shown->name);
}

static void sample(const qb_page *p, const qb_run_row *row, const qb_run_worst *w) {
    const qb_run_shown *shown = &p->run->shown[w->shown];
    char number[16];
    FILE *s = p->stream;
    fputs("<li>", s);
    if (is_base64(shown->thumbnail))
        fprintf(s, "<img alt=\"\" src=\"data:image/png;base64,%s\">", shown->thumbnail);
    qb_html_put(s, "%s<br>", shown->name);
    if (w->answer >= 0 || w->reference_answer >= 0) {
        if (shown->label >= 0)
            qb_html_put(s, "label: %s<br>", qb_run_class_text(p->run, shown->label, number));
        answer(s, p->run, p->run->row[0].precision, w->reference_answer, shown->label);
        answer(s, p->run, row->precision, w->answer, shown->label);
    }
    if (isfinite(w->sqnr_db)) fprintf(s, "<span class=\"soft\">%.1f dB</span>", w->sqnr_db);
    fputs("</li>\n", s);
}

void qb_html_worst(const qb_page *p) {
    bool any = false;
    for (int32_t r = 1; r < p->run->n_rows; r++) {
        const qb_run_row *row = &p->run->row[r];
        if (row->n_worst == 0) continue;
        const bool pictures = has_views(p, &row->worst[0]);
        if (!any) {
            fputs("<section id=\"worst\"><h2>Worst samples</h2><p>", p->stream);
            fputs(row->worst[0].n_boxes + row->worst[0].n_reference_boxes > 0
                      ? "Those in which a row differs most from the first one come first. Red, "
                        "with a name where there is room: what the other row does not have; other "
                        "names show "
                        "where the pointer is."
                  : pictures
                      ? "Those in which a row differs most from the first one come first."
                      : "Those with another answer than the first row's come first, then those "
                        "with the noisiest output. Green answers are right.",
                  p->stream);
            fputs("</p>\n<svg class=\"shots-defined\" aria-hidden=\"true\"><defs>", p->stream);
            for (int32_t i = 0; i < p->run->n_shown; i++) define_shot(p->stream, &p->run->shown[i]);
            fputs("</defs></svg>\n", p->stream);
        }
        qb_html_put(p->stream, "<details%s><summary>%s</summary><ul class=\"%s\">\n",
                    any ? "" : " open", row->precision, pictures ? "pairs" : "shots");
        any = true;
        for (int32_t i = 0; i < row->n_worst; i++)
            (has_views(p, &row->worst[i]) ? views : sample)(p, row, &row->worst[i]);
        fputs("</ul></details>\n", p->stream);
    }
    if (any) fputs("</section>\n", p->stream);
}

/* ---- classes ---- */

static const qb_run_recall *recall_of(const qb_run_row *row, int32_t label) {
    for (int32_t i = 0; i < row->n_recall; i++)
        if (row->recall[i].label == label) return &row->recall[i];
    return NULL;
}

static double percent(const qb_run_recall *r) {
    return r && r->n > 0 ? 100 * (double)r->right / (double)r->n : NAN;
}

/* The largest loss of a class over all rows. */
static double loss_of(const qb_run *run, const qb_run_recall *reference) {
    double worst = -INFINITY;
    for (int32_t r = 1; r < run->n_rows; r++)
        worst =
            fmax(worst, percent(reference) - percent(recall_of(&run->row[r], reference->label)));
    return worst;
}

/* Does some row answer more or fewer samples of the class right than the reference? */
static bool changed(const qb_run *run, const qb_run_recall *reference) {
    for (int32_t r = 1; r < run->n_rows; r++) {
        const qb_run_recall *other = recall_of(&run->row[r], reference->label);
        if (!other || other->right != reference->right) return true;
    }
    return false;
}

typedef struct class_loss {
    const qb_run_recall *recall;
    double loss;
} class_loss;

static int by_loss(const void *a, const void *b) {
    const class_loss *x = a, *y = b;
    if (x->loss != y->loss) return x->loss < y->loss ? 1 : -1;
    return (x->recall > y->recall) - (x->recall < y->recall);
}

/* Many classes: only those in which rows differ. */
static bool listed(const qb_run *run, const class_loss *c, int32_t n) {
    return n <= CLASSES_FEW || changed(run, c->recall);
}

static void recall_table(const qb_page *p, const class_loss *list, int32_t n) {
    const qb_run *run = p->run;
    const char *titles[258] = {"class", "samples"};
    int32_t shown = 0, wanted = 0;
    for (int32_t i = 0; i < n; i++) wanted += listed(run, &list[i], n);
    if (wanted == 0) {
        fprintf(p->stream, "<p>In each of the %d classes all rows are right equally often.</p>\n",
                n);
        return;
    }
    for (int32_t r = 0; r < run->n_rows; r++) titles[2 + r] = run->row[r].precision;
    qb_html_table(p->stream, "Recall in percent, classes that lose most first", titles,
                  2 + run->n_rows);
    for (int32_t i = 0; i < n && shown < CLASSES_MAX; i++) {
        char number[16];
        if (!listed(run, &list[i], n)) continue;
        shown++;
        fputs("<tr>", p->stream);
        qb_html_name_cell(p->stream, qb_run_class_text(run, list[i].recall->label, number));
        qb_html_number(p->stream, "%.0f", (double)list[i].recall->n);
        for (int32_t r = 0; r < run->n_rows; r++)
            qb_html_number(p->stream, "%.1f",
                           percent(recall_of(&run->row[r], list[i].recall->label)));
        fputs("</tr>\n", p->stream);
    }
    qb_html_table_end(p->stream);
    if (n > shown)
        fprintf(p->stream,
                "<p class=\"soft\">%d more classes change less or not at all; compare.json has "
                "all.</p>\n",
                n - shown);
}

static int64_t confused(const qb_run_row *row, const qb_run_confusion *c) {
    for (int32_t i = 0; i < row->n_confusion; i++)
        if (row->confusion[i].label == c->label && row->confusion[i].answer == c->answer)
            return row->confusion[i].n;
    return 0;
}

/* The most frequent mistakes of one row beside the reference's number of the same mistake. */
static void confusion_table(const qb_page *p, const qb_run_row *row) {
    static const char *const titles[] = {"class", "taken for", "times", "by the first row"};
    if (row->n_confusion == 0) return;
    qb_html_put(p->stream, "<details><summary>Most frequent mistakes of %s</summary>\n",
                row->precision);
    qb_html_table(p->stream, NULL, titles, 4);
    for (int32_t i = 0; i < row->n_confusion && i < CONFUSIONS_MAX; i++) {
        const qb_run_confusion *c = &row->confusion[i];
        char number[16];
        fputs("<tr>", p->stream);
        qb_html_name_cell(p->stream, qb_run_class_text(p->run, c->label, number));
        qb_html_cell(p->stream, qb_run_class_text(p->run, c->answer, number), NAN);
        qb_html_number(p->stream, "%.0f", (double)c->n);
        qb_html_number(p->stream, "%.0f", (double)confused(&p->run->row[0], c));
        fputs("</tr>\n", p->stream);
    }
    qb_html_table_end(p->stream);
    fputs("</details>\n", p->stream);
}

void qb_html_classes(const qb_page *p) {
    const qb_run_row *first = &p->run->row[0];
    class_loss *list = first->n_recall > 0 && p->run->n_rows > 1
                           ? calloc((size_t)first->n_recall, sizeof *list)
                           : NULL;
    if (!list) return;
    for (int32_t i = 0; i < first->n_recall; i++)
        list[i] = (class_loss){&first->recall[i], loss_of(p->run, &first->recall[i])};
    qsort(list, (size_t)first->n_recall, sizeof *list, by_loss);
    fputs("<section id=\"classes\"><h2>Classes</h2>\n", p->stream);
    recall_table(p, list, first->n_recall);
    for (int32_t r = 1; r < p->run->n_rows; r++) confusion_table(p, &p->run->row[r]);
    fputs("</section>\n", p->stream);
    free(list);
}

/* ---- where time goes ---- */

/* What the roofline allows a step: the lower of the processor's and the memory's ceiling. */
static double ceiling_of(const qb_run *run, const qb_run_step *s) {
    const qb_ceilings roof = qb_report_roof(run), *c = &roof;
    const double peak = s->dtype[0] == 's' || s->dtype[0] == 'u' ? c->s8_gops : c->f32_gops;
    const double memory = c->memory_gbs * s->flops / s->bytes;
    return isnan(memory) ? peak : fmin(peak, memory);
}

static void step_table(const qb_page *p, const qb_run_row *row) {
    static const char *const titles[] = {
        "step",    "operators", "type",     "tactic",       "ms",
        "share %", "GOPS",      "ops/byte", "of ceiling %", "why not in integers"};
    double all = 0;
    bool reasons = false;
    for (int32_t i = 0; i < row->n_steps; i++) {
        all += row->step[i].ms;
        reasons = reasons || row->step[i].reason[0];
    }
    qb_html_put(p->stream, "<details><summary>%s: %.3f ms in %d steps</summary>\n", row->precision,
                all, row->n_steps);
    qb_html_table(p->stream, NULL, titles, (int32_t)(sizeof titles / sizeof titles[0]) - !reasons);
    for (int32_t i = 0; i < row->n_steps; i++) {
        const qb_run_step *s = &row->step[i];
        const bool computes = s->flops > 0 && s->ms > 0;
        const double gops = computes ? s->flops / s->ms * 1e-6 : NAN;
        fputs("<tr>", p->stream);
        qb_html_name_cell(p->stream, s->name);
        qb_html_cell(p->stream, s->op, NAN);
        qb_html_cell(p->stream, s->dtype, NAN);
        qb_html_cell(p->stream, s->tactic, NAN);
        qb_html_number(p->stream, "%.4f", s->ms);
        qb_html_number(p->stream, "%.1f", 100 * s->ms / all);
        qb_html_number(p->stream, "%.1f", gops);
        qb_html_number(p->stream, "%.1f", computes && s->bytes > 0 ? s->flops / s->bytes : NAN);
        qb_html_number(p->stream, "%.0f", 100 * gops / ceiling_of(p->run, s));
        if (reasons) qb_html_cell(p->stream, s->reason, NAN);
        fputs("</tr>\n", p->stream);
    }
    qb_html_table_end(p->stream);
    fputs("</details>\n", p->stream);
}

qb_status qb_html_steps(const qb_page *p) {
    const qb_run *run = p->run;
    if (run->row[0].n_steps == 0) return QB_OK;
    fputs("<section id=\"steps\"><h2>Where time goes</h2>\n", p->stream);
    QB_TRY(qb_html_figures(p, QB_SECTION_STEPS));
    if (!isnan(run->ceilings.f32_gops))
        fprintf(p->stream,
                "<p>Ceilings, measured with the engine's own kernels on a 3x3 convolution of 256 "
                "channels, and with a copy of 64 MiB: FP32 %.0f and INT8 %.0f 10^9 operations a "
                "second, memory %.1f GB/s. The roof is raised to the best that a layer here "
                "reaches, as values that stay in the caches are faster than memory.</p>\n",
                run->ceilings.f32_gops, run->ceilings.s8_gops, run->ceilings.memory_gbs);
    for (int32_t r = 0; r < run->n_rows; r++)
        if (run->row[r].n_steps > 0) step_table(p, &run->row[r]);
    fputs("</section>\n", p->stream);
    return QB_OK;
}
