/* Top-1 accuracy and agreement with the first engine, one below the other. Without labels only
 * agreement is drawn. */
#include <math.h>

#include "reports/figure_internal.h"

/* Boxes and masks have neither: gnuplot would have nothing to draw. */
static bool applies(const qb_run *run) {
    return !isnan(run->row[0].top1) || !isnan(run->row[0].agreement_top1);
}

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    fprintf(stream, "precision\ttop1\ttop5\tagreement\tsqnr_db\tdrop\n");
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_run_row *r = &run->row[i];
        const double cells[] = {r->top1, r->top5, r->agreement_top1, r->sqnr_db, r->drop};
        fprintf(stream, "%s", r->precision);
        for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) qb_tsv_number(stream, cells[k]);
        fputc('\n', stream);
    }
    return QB_OK;
}

/* One set of bars with their numbers; `from` and `to` are the bar's edges within its row. */
static void write_bars(FILE *stream, const char *tsv, int column, double from, double to,
                       const char *color, const char *title) {
    fprintf(stream,
            "'%s' skip 1 using %d:0:(0):%d:($0%+.2f):($0%+.2f):ytic(name(strcol(1))) with "
            "boxxyerror lc rgb %s "
            "title ",
            tsv, column, column, from, to, color);
    qb_gnuplot_string(stream, title);
    fprintf(stream,
            ", \\\n     '' skip 1 using %d:($0%+.3f):(sprintf('%%.2f', $%d)) with labels left "
            "offset 0.5,0 notitle",
            column, (from + to) / 2, column);
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    const bool labelled = !isnan(run->row[0].top1);
    char text[256];
    snprintf(text, sizeof text, "Accuracy of %s on %lld samples", run->model,
             (long long)run->samples);
    qb_gnuplot_title(stream, text);
    fprintf(stream, "set xlabel 'percent of the samples'\n"
                    "unset logscale\n"
                    "set xrange [0:114]\n"
                    "set xtics 0,20,100\n");
    qb_gnuplot_rows(stream, run->n_rows);
    fprintf(stream,
            "set key at screen 0.5, screen 0.985 center top horizontal\nset tmargin 4.6\nplot ");
    if (labelled) {
        write_bars(stream, tsv, 2, -0.36, -0.02, QB_BLUE, "right class (top-1)");
        fprintf(stream, ", \\\n     ");
    }
    snprintf(text, sizeof text, "same class as %s", run->row[0].precision);
    write_bars(stream, tsv, 4, labelled ? 0.02 : -0.3, labelled ? 0.36 : 0.3, QB_ORANGE, text);
    fputc('\n', stream);
    return QB_OK;
}

/* Two numbers a row, below a key. */
static int height(const qb_run *run) { return 190 + 46 * run->n_rows; }

const qb_figure qb_figure_accuracy = {.name = "accuracy",
                                      .title = "Accuracy",
                                      .applies = applies,
                                      .height = height,
                                      .data = data,
                                      .script = script};
