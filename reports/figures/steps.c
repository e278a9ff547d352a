/* Time of the layers in the first engine and in the first integer one, a pair of bars a layer. */
#include <math.h>

#include "base/sort.h"
#include "reports/figure_internal.h"

enum { STEPS_MAX = 60 };

/* The first row that computes something in integers; -1: none. */
static int32_t integer_row(const qb_run *run) {
    for (int32_t r = 1; r < run->n_rows; r++)
        if (run->row[r].layers.int8 > 0 && run->row[r].n_steps > 0) return r;
    return -1;
}

static bool is_layer(const qb_run_step *step) { return step->flops > 0 && step->ms > 0; }

static int32_t shown(const qb_run *run) {
    int32_t n = 0;
    for (int32_t i = 0; i < run->row[0].n_steps; i++) n += is_layer(&run->row[0].step[i]);
    return n < STEPS_MAX ? n : STEPS_MAX;
}

static bool applies(const qb_run *run) { return shown(run) > 0 && integer_row(run) > 0; }

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    if (!applies(run)) return QB_OK;
    const qb_run_row *first = run->row, *other = &run->row[integer_row(run)];
    int32_t left = shown(run);
    fprintf(stream, "layer\tfirst_ms\tinteger_ms\n");
    for (int32_t i = 0; i < first->n_steps && left > 0; i++) {
        const qb_run_step *step = &first->step[i];
        if (!is_layer(step)) continue;
        const qb_run_step *twin = qb_step_named(other, step->name);
        qb_tsv_name(stream, step->name);
        qb_tsv_finite(stream, step->ms);
        qb_tsv_finite(stream, twin ? twin->ms : NAN);
        fputc('\n', stream);
        left--;
    }
    return QB_OK;
}

/* Where the axis ends: at the longest layer, or where one or two are far beyond all others, at
 * twice the 95th percentile of them. */
static qb_status cut_of(qb_ctx *cx, const qb_run *run, double *out) {
    const qb_run_row *first = run->row, *other = &run->row[integer_row(run)];
    double *ms = qb_alloc(cx, 2 * (size_t)shown(run) + 1, sizeof *ms);
    int32_t n = 0, left = shown(run);
    if (!ms) return cx->code;
    for (int32_t i = 0; i < first->n_steps && left > 0; i++) {
        if (!is_layer(&first->step[i])) continue;
        const qb_run_step *twin = qb_step_named(other, first->step[i].name);
        ms[n++] = first->step[i].ms;
        if (twin && twin->ms > 0) ms[n++] = twin->ms;
        left--;
    }
    qb_sort_doubles(ms, (size_t)n);
    const double longest = ms[n - 1], usual = ms[(n - 1) * 95 / 100];
    *out = longest > 3 * usual ? 2 * usual : longest;
    qb_free(ms);
    return QB_OK;
}

static double longest_of(const qb_run *run) {
    const qb_run_row *first = run->row, *other = &run->row[integer_row(run)];
    int32_t left = shown(run);
    double longest = 0;
    for (int32_t i = 0; i < first->n_steps && left > 0; i++) {
        if (!is_layer(&first->step[i])) continue;
        const qb_run_step *twin = qb_step_named(other, first->step[i].name);
        longest = fmax(longest, fmax(first->step[i].ms, twin ? twin->ms : 0));
        left--;
    }
    return longest;
}

/* The bars of a column, and how long those are that the axis cuts. */
static void write_bars(FILE *stream, int column, const char *low, const char *high,
                       const char *format) {
    fprintf(stream, "using %d:0:(0):(end($%d)):($0%s):($0%s)%s title ", column, column, low, high,
            format);
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    double cut;
    if (!applies(run)) return QB_OK;
    QB_TRY(cut_of(cx, run, &cut));
    const bool cuts = cut < longest_of(run);
    qb_gnuplot_title(stream, "Where time goes");
    fprintf(stream,
            "set xlabel 'milliseconds a batch'\n"
            "set xrange [0:%.6g]\n",
            cuts ? cut * 1.4 : cut); /* room for what the numbers are */
    qb_gnuplot_ticks_from_zero(stream, cut);
    qb_gnuplot_rows(stream, shown(run));
    fprintf(stream,
            "set key at screen 0.5, screen 0.985 center top horizontal\nset tmargin 4.6\n"
            "longest = %.6g\nend(ms) = ms > longest ? longest : ms\n"
            "said(ms) = ms > longest ? sprintf('%%.3g', ms) : ''\n"
            "plot '%s' skip 1 ",
            cut, tsv);
    write_bars(stream, 2, "-0.38", "", ":ytic(line(strcol(1))) with boxxyerror lc rgb " QB_BLUE);
    qb_gnuplot_string(stream, run->row[0].precision);
    fprintf(stream, ", \\\n     '' skip 1 ");
    write_bars(stream, 3, "", "+0.38", " with boxxyerror lc rgb " QB_ORANGE);
    qb_gnuplot_string(stream, run->row[integer_row(run)].precision);
    if (cuts)
        fprintf(stream,
                ", \\\n     '' skip 1 using (longest):0:(said($2).($2 > longest && $3 > longest ? "
                "' and ' : '').said($3).($2 > longest || $3 > longest ? ' ms' : '')) "
                "with labels left offset 0.5,0 notitle");
    fputc('\n', stream);
    return QB_OK;
}

static int height(const qb_run *run) { return 190 + 22 * shown(run); }

const qb_figure qb_figure_steps = {.name = "steps",
                                   .title = "Where time goes",
                                   .section = QB_SECTION_STEPS,
                                   .applies = applies,
                                   .height = height,
                                   .data = data,
                                   .script = script};
