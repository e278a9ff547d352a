/* Latency of each engine on a logarithmic axis: median as a bar, a line from there to p99. */
#include <math.h>

#include "reports/figure_internal.h"

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    fprintf(stream, "precision\tmedian_ms\tp90_ms\tp99_ms\tmin_ms\tspeedup\n");
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_run_row *r = &run->row[i];
        const double cells[] = {r->latency.median, r->latency.p90, r->latency.p99, r->latency.min,
                                r->speedup};
        fprintf(stream, "%s", r->precision);
        for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) qb_tsv_number(stream, cells[k]);
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

/* Ticks at round numbers, dense enough that an axis of less than a decade has some too. */
static void write_ticks(FILE *stream, double low, double high) {
    static const double decades[] = {1}, coarse[] = {1, 2, 5}, medium[] = {1, 1.5, 2, 3, 4, 5, 7},
                        fine[] = {1,   1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8,
                                  3.2, 3.6, 4,   4.5, 5,   5.5, 6,   7, 8,   9};
    const double ratio = high / low;
    const double *step = ratio > 1000 ? decades : ratio > 20 ? coarse : ratio > 4 ? medium : fine;
    const int n = ratio > 1000 ? 1 : ratio > 20 ? 3 : ratio > 4 ? 7 : 21;
    const char *comma = "";
    fprintf(stream, "set xtics (");
    for (int e = (int)floor(log10(low)); e <= (int)ceil(log10(high)); e++)
        for (int i = 0; i < n; i++) {
            const double at = step[i] * pow(10, e);
            if (at < low || at > high) continue;
            fprintf(stream, "%s'%.10g' %.10g", comma, at, at);
            comma = ", ";
        }
    fprintf(stream, ")\n");
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
    write_ticks(stream, left, right);
    qb_gnuplot_rows(stream, run->n_rows);
    fprintf(stream,
            "unset key\n"
            "end(median, p99) = p99 > median ? p99 : median\n"
            "plot '%s' skip 1 using 2:0:(%.6g):2:($0-0.3):($0+0.3):ytic(1) with boxxyerror "
            "lc rgb " QB_BLUE ", \\\n"
            "     '' skip 1 using 2:0:2:(end($2,$4)) with xerrorbars pt 0 lw 2 lc rgb '#202020', "
            "\\\n"
            "     '' skip 1 using (end($2,$4)):0:(sprintf($2 < 100 ? '%%#.3g ms, %%.2fx' : "
            "'%%.0f ms, %%.2fx', $2, $6)) with labels left offset 1,0\n",
            tsv, left);
    return QB_OK;
}

const qb_figure qb_figure_latency = {
    .name = "latency", .title = "Latency", .data = data, .script = script};
