/* Samples by row: one bar each. */
#include "reports/figure_internal.h"

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    fprintf(stream, "precision\tsamples\n");
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_tsv_name(stream, run->row[i].precision);
        qb_tsv_number(stream, (double)run->samples);
        fputc('\n', stream);
    }
    return QB_OK;
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    fprintf(stream, "set xrange [0:%lld]\n", 2 * (long long)run->samples);
    qb_gnuplot_rows(stream, run->n_rows);
    fprintf(stream,
            "plot '%s' skip 1 using 2:0:(0):2:($0-0.3):($0+0.3):ytic(1) with boxxyerror "
            "lc rgb " QB_BLUE " notitle\n",
            tsv);
    return QB_OK;
}

const qb_figure qb_figure_newcomer = {
    .name = "newcomer", .title = "Newcomer", .data = data, .script = script};
