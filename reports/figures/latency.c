/* Latency of each engine on an axis from zero: median as a bar, a line from there to p99. Bars of
 * one backend have one colour. */
#include <math.h>
#include <string.h>

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

/* Where the axis ends but for the numbers: behind the longest p99 that is near the medians. One far
 * beyond them would leave nothing to be seen of the bars; its number says it. 10 when nothing was
 * measured. */
static double extent(const qb_run *run) {
    double high = 0, most = 0;
    for (int32_t i = 0; i < run->n_rows; i++)
        if (isfinite(run->row[i].latency.median)) high = fmax(high, run->row[i].latency.median);
    for (int32_t i = 0; i < run->n_rows; i++) {
        const double p99 = run->row[i].latency.p99;
        if (isfinite(p99)) most = fmax(most, fmin(p99, 2 * high));
    }
    most = fmax(most, high);
    return most > 0 ? fmin(most, 1e12) : 10; /* a record may say anything */
}

/* How much longer than its bars the axis is, so that the numbers behind them are not cut: pixels of
 * a picture 640 wide whose names take some. */
static double room_for_numbers(const qb_run *run) {
    size_t longest = 0;
    for (int32_t i = 0; i < run->n_rows; i++) {
        const size_t n = strlen(run->row[i].precision);
        if (n > longest) longest = n;
    }
    const double width = 610 - 8.2 * fmin((double)longest, 30), numbers = 225;
    return width / fmax(width - numbers, 50);
}

/* The bars of one backend; of all when there is only one. */
static void write_bars(FILE *stream, const qb_run *run, int32_t row, const char *tsv) {
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
    fprintf(stream, ":0:(0):2:($0-0.3):($0+0.3):ytic(name(strcol(1))) with boxxyerror lc rgb '%s'",
            qb_color(qb_backend_index(run, row)));
    if (several) {
        fprintf(stream, " title ");
        qb_gnuplot_string(stream, run->row[row].backend);
    }
    fprintf(stream, ", \\\n");
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    const double cut = extent(run), right = cut * room_for_numbers(run);
    char title[256];
    snprintf(title, sizeof title, "Latency of %s, batch %lld, %d thread%s", run->model,
             (long long)run->row[0].batch, run->threads, run->threads == 1 ? "" : "s");
    qb_gnuplot_title(stream, title);
    fprintf(stream,
            "set xlabel 'ms a batch; bar: median, line: to p99'\n"
            "set xrange [0:%.6g]\n",
            right);
    qb_gnuplot_ticks_from_zero(stream, right);
    qb_gnuplot_rows(stream, run->n_rows);
    fprintf(stream,
            "%s\ncut = %.6g\nend(median, p99) = p99 > cut ? cut : p99 > median ? p99 : median\n"
            "beyond(p99) = p99 > cut ? sprintf(p99 < 100 ? ', p99 %%#.3g' : ', p99 %%.0f', "
            "p99) : ''\n",
            qb_backends_count(run) > 1
                ? "set key at screen 0.5, screen 0.985 center top horizontal\nset tmargin 4.6"
                : "unset key",
            cut);
    for (int32_t r = 0, shown = 0; r < run->n_rows; r++)
        if (qb_backend_index(run, r) == shown) {
            write_bars(stream, run, r, tsv);
            shown++;
        }
    fprintf(stream,
            "     '' skip 1 using 2:0:2:(end($2,$4)) with xerrorbars pt 0 lw 2 lc rgb "
            "'#202020' notitle, \\\n"
            "     '' skip 1 using (end($2,$4)):0:(sprintf($2 < 100 ? '%%#.3g ms, %%.2fx' : "
            "'%%.0f ms, %%.2fx', $2, $6).beyond($4)) with labels left offset 1,0 notitle\n");
    return QB_OK;
}

const qb_figure qb_figure_latency = {.name = "latency",
                                     .title = "Latency",
                                     .section = QB_SECTION_SPEED,
                                     .data = data,
                                     .script = script};
