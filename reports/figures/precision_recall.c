/* Precision over recall of detectors, a line a row: at IoU 0.5, the mean over categories. */
#include <math.h>

#include "reports/figure_internal.h"

static bool applies(const qb_run *run) { return run->row[0].n_curve > 1; }

static int height(const qb_run *run) {
    (void)run;
    return 400;
}

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    fprintf(stream, "recall");
    for (int32_t r = 0; r < run->n_rows; r++) {
        fputc('\t', stream);
        qb_tsv_name(stream, run->row[r].precision);
    }
    fputc('\n', stream);
    const int32_t n = run->row[0].n_curve;
    for (int32_t i = 0; i < n; i++) {
        fprintf(stream, "%.4g", 100.0 * i / (n - 1));
        for (int32_t r = 0; r < run->n_rows; r++)
            qb_tsv_number(stream, run->row[r].n_curve == n ? 100 * run->row[r].curve[i] : NAN);
        fputc('\n', stream);
    }
    return QB_OK;
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    fprintf(stream, "set title 'Precision over recall at IoU 0.5, mean over categories'\n"
                    "set xlabel 'recall, percent'\nset ylabel 'precision, percent'\n"
                    "set xrange [0:100]\nset yrange [0:100]\n"
                    "set grid lc rgb '#d0d0d0'\nset border 3\nset tics nomirror out\n"
                    "set key top right\nplot ");
    for (int32_t r = 0; r < run->n_rows; r++) {
        fprintf(stream, "%s'%s' skip 1 using 1:%d with lines lw 2 dt %d lc rgb '%s' title ",
                r > 0 ? ", \\\n     " : "", tsv, r + 2, r % 4 + 1, qb_color(r));
        qb_gnuplot_row_title(stream, run, r);
    }
    fputc('\n', stream);
    return QB_OK;
}

const qb_figure qb_figure_precision_recall = {.name = "precision_recall",
                                              .title = "Precision over recall",
                                              .applies = applies,
                                              .height = height,
                                              .data = data,
                                              .script = script};
