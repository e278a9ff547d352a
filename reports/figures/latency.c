/* Latency of each engine on a logarithmic axis: median as a bar, a line from there to p99. Bars of
 * one backend have one colour. */
#include <math.h>

#include "reports/figure_internal.h"

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    fprintf(stream, "precision\tmedian_ms\tp90_ms\tp99_ms\tmin_ms\tspeedup\tbackend\n");
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_run_row *r = &run->row[i];
        const double cells[] = {r->latency.median, r->latency.p90, r->latency.p99, r->latency.min,
                                r->speedup};
        fprintf(stream, "%s", r->precision);
        for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) qb_tsv_number(stream, cells[k]);
        fputc('\t', stream);
        qb_tsv_name(stream, r->backend);
        fputc('\n', stream);
    }
    return QB_OK;
}

/* What the axis must show: all medians and p99; 1 to 10 when nothing was measured. */
static void extent(const qb_run *run, double *low, double *high) {
    *low = INFINITY;
    *high = 0;
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_latency *l = &run->row[i].latency;
        if (l->median > 0 && l->median < *low) *low = l->median;
        if (l->median > *high && isfinite(l->median)) *high = l->median;
        if (l->p99 > *high && isfinite(l->p99)) *high = l->p99;
    }
    if (*low > *high) {
        *low = 1;
        *high = 10;
    }
    *low = fmax(*low, 1e-9); /* a record may say anything */
    *high = fmin(fmax(*high, *low), 1e12);
}

/* The bars of one backend; of all when there is only one. */
static void write_bars(FILE *stream, const qb_run *run, int32_t row, const char *tsv, double left) {
    const bool several = qb_backends_count(run) > 1;
    if (row == 0)
        fprintf(stream, "plot '%s' skip 1 using ", tsv);
    else
        fprintf(stream, "     '' skip 1 using ");
    if (several) {
        fprintf(stream, "(strcol(7) eq ");
        qb_gnuplot_string(stream, run->row[row].backend);
        fprintf(stream, " ? $2 : NaN)");
    } else {
        fprintf(stream, "2");
    }
    fprintf(stream, ":0:(%.6g):2:($0-0.3):($0+0.3):ytic(1) with boxxyerror lc rgb '%s'", left,
            qb_color(qb_backend_index(run, row)));
    if (several) {
        fprintf(stream, " title ");
        qb_gnuplot_string(stream, run->row[row].backend);
    }
    fprintf(stream, ", \\\n");
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    double low, high;
    extent(run, &low, &high);
    const double left = low / 1.5;
    const double right = high * pow(high / left, 0.32); /* room for the numbers behind the bars */
    char title[256];
    snprintf(title, sizeof title, "Latency of %s, batch %lld, %d thread%s", run->model,
             (long long)run->row[0].batch, run->threads, run->threads == 1 ? "" : "s");
    fprintf(stream, "set title ");
    qb_gnuplot_string(stream, title);
    fprintf(stream,
            "\nset xlabel 'milliseconds a batch (logarithmic); bar: median, line: to p99'\n"
            "set logscale x\n"
            "set xrange [%.6g:%.6g]\n",
            left, right);
    qb_gnuplot_log_ticks(stream, left, right);
    qb_gnuplot_rows(stream, run->n_rows);
    fprintf(stream, "%s\nend(median, p99) = p99 > median ? p99 : median\n",
            qb_backends_count(run) > 1 ? "set key above center horizontal" : "unset key");
    for (int32_t r = 0, shown = 0; r < run->n_rows; r++)
        if (qb_backend_index(run, r) == shown) {
            write_bars(stream, run, r, tsv, left);
            shown++;
        }
    fprintf(stream, "     '' skip 1 using 2:0:2:(end($2,$4)) with xerrorbars pt 0 lw 2 lc rgb "
                    "'#202020' notitle, \\\n"
                    "     '' skip 1 using (end($2,$4)):0:(sprintf($2 < 100 ? '%%#.3g ms, %%.2fx' : "
                    "'%%.0f ms, %%.2fx', $2, $6)) with labels left offset 1,0 notitle\n");
    return QB_OK;
}

const qb_figure qb_figure_latency = {.name = "latency",
                                     .title = "Latency",
                                     .section = QB_SECTION_SPEED,
                                     .data = data,
                                     .script = script};
