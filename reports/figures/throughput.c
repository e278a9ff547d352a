/* Items a second over batch size, a line a row; each backend has its point and its dashes. */
#include <math.h>

#include "reports/figure_internal.h"

static bool applies(const qb_run *run) { return run->row[0].n_batches > 1; }

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    fprintf(stream, "batch");
    for (int32_t r = 0; r < run->n_rows; r++) {
        fputc('\t', stream);
        qb_tsv_name(stream, run->row[r].precision);
    }
    for (int32_t k = 0; k < run->row[0].n_batches; k++) {
        fprintf(stream, "\n%lld", (long long)run->row[0].batches[k].batch);
        for (int32_t r = 0; r < run->n_rows; r++) {
            const qb_run_row *row = &run->row[r];
            qb_tsv_finite(stream, k < row->n_batches ? row->batches[k].throughput : NAN);
        }
    }
    fputc('\n', stream);
    return QB_OK;
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    char title[64];
    snprintf(title, sizeof title, "Throughput over batch size, %d thread%s", run->threads,
             run->threads == 1 ? "" : "s");
    qb_gnuplot_title(stream, title);
    qb_gnuplot_key_below(stream, qb_key_lines(run));
    fprintf(stream, "set xlabel 'items a batch (logarithmic)'\n"
                    "set ylabel 'items a second'\n"
                    "set logscale x 2\n"
                    "set yrange [0:*]\n"
                    "set offsets 0, 0, graph 0.05, 0\n"
                    "set grid lc rgb '#d0d0d0'\n"
                    "set border 3\n"
                    "set tics nomirror out\n");
    for (int32_t r = 0; r < run->n_rows; r++) {
        const int32_t backend = qb_backend_index(run, r);
        fprintf(stream,
                "%s'%s' skip 1 using 1:%d with linespoints lw 2 dt %d pt %d lc rgb '%s' title ",
                r == 0 ? "plot " : ", \\\n     ", r == 0 ? tsv : "", r + 2, backend % 5 + 1,
                qb_point(backend, true), qb_color(r));
        qb_gnuplot_row_title(stream, run, r);
    }
    fputc('\n', stream);
    return QB_OK;
}

static int height(const qb_run *run) { return 380 + qb_key_extra(run); }

const qb_figure qb_figure_throughput = {.name = "throughput",
                                        .title = "Throughput over batch size",
                                        .section = QB_SECTION_SPEED,
                                        .applies = applies,
                                        .height = height,
                                        .data = data,
                                        .script = script};
