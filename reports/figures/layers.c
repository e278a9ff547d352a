/* Errors of the layers of one integer engine: alone, and inside the engine. Those that only move
 * values have none of their own. */
#include <math.h>

#include "reports/figure_internal.h"

enum { LAYERS_MAX = 120 };

static bool applies(const qb_run *run) { return qb_layered_row(run) >= 0; }

static int32_t shown(const qb_run *run) {
    const qb_run_row *row = &run->row[qb_layered_row(run)];
    int32_t n = 0;
    for (int32_t i = 0; i < row->n_layers && n < LAYERS_MAX; i++) n += !isnan(row->layer[i].own_db);
    return n;
}

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    if (!applies(run)) return QB_OK;
    const qb_run_row *row = &run->row[qb_layered_row(run)];
    fprintf(stream, "layer\town_db\ttotal_db\tshare\n");
    for (int32_t i = 0, left = shown(run); left > 0; i++) {
        const qb_run_layer *l = &row->layer[i];
        if (isnan(l->own_db)) continue;
        left--;
        qb_tsv_name(stream, l->name[0] ? l->name : l->value);
        qb_tsv_finite(stream, l->own_db);
        qb_tsv_finite(stream, l->total_db);
        qb_tsv_finite(stream, l->share);
        fputc('\n', stream);
    }
    return QB_OK;
}

/* dB from tick to tick: a handful of them. */
static int tick_of(const qb_run *run) {
    const qb_run_row *row = &run->row[qb_layered_row(run)];
    double low = INFINITY, high = -INFINITY;
    for (int32_t i = 0; i < row->n_layers; i++) {
        const qb_run_layer *l = &row->layer[i];
        if (!isfinite(l->own_db) || !isfinite(l->total_db)) continue;
        low = fmin(low, fmin(l->own_db, l->total_db));
        high = fmax(high, fmax(l->own_db, l->total_db));
    }
    return high - low > 120 ? 50 : high - low > 60 ? 20 : 10;
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    if (!applies(run)) return QB_OK;
    char *title = QB_NEW(
        cx, qb_format(cx, "Error of the layers of %s", run->row[qb_layered_row(run)].precision));
    qb_gnuplot_title(stream, title);
    qb_free(title);
    /* Beside long names the graph is narrower than this. */
    fprintf(stream,
            "set xlabel ' '\nset label 98 'SQNR against FP32, dB (right is better)' at screen "
            "0.5, graph 0 center offset 0, -3\n"
            "set xtics %d\n",
            tick_of(run));
    qb_gnuplot_rows(stream, shown(run));
    fprintf(stream,
            "set grid ytics lc rgb '#d0d0d0'\n"
            "set key at screen 0.5, screen 0.985 center top horizontal\nset tmargin 5.6\n"
            "plot '%s' skip 1 using 3:0:($2-$3):(0):ytic(line(strcol(1))) with vectors nohead lw "
            "1.5 lc rgb "
            "'#909090' notitle, \\\n"
            "     '' skip 1 using 2:0 with points pt 7 ps 0.9 lc rgb " QB_BLUE
            " title 'alone, fed with FP32 values', \\\n"
            "     '' skip 1 using 3:0 with points pt 5 ps 0.8 lc rgb " QB_ORANGE
            " title 'inside the engine'\n",
            tsv);
    return QB_OK;
}

static int height(const qb_run *run) { return 210 + 20 * shown(run); }

const qb_figure qb_figure_layers = {.name = "layers",
                                    .title = "Where accuracy goes",
                                    .section = QB_SECTION_LAYERS,
                                    .applies = applies,
                                    .height = height,
                                    .data = data,
                                    .script = script};
