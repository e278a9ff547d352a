/* Accuracy against latency, each with its interval: what is above and to the left is better. Rows
 * that another one beats in both are hollow; each backend has its shape. */
#include <math.h>

#include "reports/figure_internal.h"

/* Top-1 where there are labels, else agreement, else SQNR. */
typedef struct axis {
    const char *name, *label;
} axis;

static axis axis_of(const qb_run *run) {
    if (!isnan(run->row[0].top1)) return (axis){"top1", "top-1, %"};
    if (!isnan(run->row[0].agreement_top1))
        return (axis){"agreement", "same class as the first row, %"};
    return (axis){"sqnr", "SQNR, dB"};
}

static double value_of(const qb_run *run, const qb_run_row *row) {
    if (!isnan(run->row[0].top1)) return row->top1;
    return isnan(run->row[0].agreement_top1) ? row->sqnr_db : row->agreement_top1;
}

static bool has_point(const qb_run *run, const qb_run_row *row) {
    return isfinite(value_of(run, row)) && row->latency.median > 0 && row->latency.median < 1e9;
}

static bool applies(const qb_run *run) {
    int32_t points = 0;
    for (int32_t i = 0; i < run->n_rows; i++) points += has_point(run, &run->row[i]);
    return points > 1;
}

static bool beaten(const qb_run *run, const qb_run_row *row) {
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_run_row *other = &run->row[i];
        if (has_point(run, other) && other->latency.median < row->latency.median &&
            value_of(run, other) > value_of(run, row))
            return true;
    }
    return false;
}

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    const axis y = axis_of(run);
    fprintf(stream, "precision\tmedian_ms\tlow\thigh\t%s\tlow\thigh\tbeaten\n", y.name);
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_run_row *r = &run->row[i];
        const qb_interval ci = qb_run_metric_ci(r, y.name), ms = r->latency.median_ci;
        if (!has_point(run, r)) continue;
        const double value = value_of(run, r);
        const double cells[] = {r->latency.median,
                                isnan(ms.lo) ? r->latency.median : ms.lo,
                                isnan(ms.hi) ? r->latency.median : ms.hi,
                                value,
                                isnan(ci.lo) ? value : ci.lo,
                                isnan(ci.hi) ? value : ci.hi,
                                beaten(run, r)};
        qb_tsv_name(stream, r->precision);
        for (size_t k = 0; k < sizeof cells / sizeof cells[0]; k++) qb_tsv_finite(stream, cells[k]);
        fputc('\n', stream);
    }
    return QB_OK;
}

/* Room around the points; a record may say anything. */
static void extent(const qb_run *run, double *low, double *high) {
    *low = INFINITY;
    *high = 0;
    for (int32_t i = 0; i < run->n_rows; i++) {
        const qb_latency *l = &run->row[i].latency;
        if (!has_point(run, &run->row[i])) continue;
        *low = fmin(*low, fmax(fmin(l->median, l->median_ci.lo), l->median / 2));
        *high = fmax(*high, fmin(fmax(l->median, l->median_ci.hi), l->median * 2));
    }
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    double low, high;
    int32_t point = 0;
    extent(run, &low, &high);
    qb_gnuplot_title(stream, "Accuracy against latency; lines are 95 % intervals");
    qb_gnuplot_key_below(stream, qb_key_lines(run));
    fprintf(stream,
            "set xlabel 'median milliseconds a batch (logarithmic)'\n"
            "set ylabel '%s'\n"
            "set logscale x\n"
            "set xrange [%.6g:%.6g]\n"
            "set offsets 0, 0, graph 0.08, graph 0.08\n"
            "set grid lc rgb '#d0d0d0'\n"
            "set border 3\n"
            "set tics nomirror out\n",
            axis_of(run).label, low / 1.2, high * 1.2);
    qb_gnuplot_log_ticks(stream, low / 1.2, high * 1.2);
    fprintf(stream,
            "plot '%s' skip 1 using 2:5:3:4:6:7 with xyerrorbars pt 0 lw 1.2 lc rgb '#909090' "
            "notitle",
            tsv);
    for (int32_t i = 0; i < run->n_rows; i++) {
        if (!has_point(run, &run->row[i])) continue;
        fprintf(stream,
                ", \\\n     '' skip 1 every ::%d::%d using 2:5 with points pt %d ps 1.4 lc rgb "
                "'%s' title ",
                point, point, qb_point(qb_backend_index(run, i), !beaten(run, &run->row[i])),
                qb_color(point));
        qb_gnuplot_row_title(stream, run, i);
        point++;
    }
    fputc('\n', stream);
    return QB_OK;
}

static int height(const qb_run *run) { return 420 + qb_key_extra(run); }

const qb_figure qb_figure_pareto = {.name = "pareto",
                                    .title = "Accuracy against latency",
                                    .applies = applies,
                                    .height = height,
                                    .data = data,
                                    .script = script};
