/* qbench calib plot: each tensor's histogram with every method's range drawn into it. */
#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "calib/spectrum.h"
#include "cli/calib/named.h"
#include "cli/out/json.h"
#include "reports/draw.h"

#define BARS 512        /* most that the axis is divided into */
#define NAME_LETTERS 80 /* of a tensor's name in a file's name */

typedef struct options {
    qb_common common;
    const char *tensor;
    bool symmetric;
} options;

static const qb_opt table[] = {
    QB_COMMON_OPTIONS,
    QB_TEXT(options, "tensor", tensor, "NAME", "only tensors of this name (glob)", .letter = 't'),
    QB_FLAG(options, "symmetric", symmetric, "judge ranges as symmetric int8 (default: affine)"),
    {0},
};

/* One tensor's figure. */
typedef struct picture {
    const qb_table *table;
    const qb_table_entry *entry;
    const qb_spectrum *spectrum;
    bool symmetric;
} picture;

/* ---- the figure ---- */

/* Bars of equal width over the bins that hold something, zero among them. Exact zeros are apart:
 * their spike would dwarf all else. */
static qb_status write_data(qb_ctx *cx, const void *user, FILE *stream) {
    (void)cx;
    const picture *p = user;
    const qb_stats *s = p->entry->stats;
    const int32_t zero = QB_STATS_BINS / 2;
    const int32_t first = p->spectrum->first < zero ? p->spectrum->first : zero;
    const int32_t last = p->spectrum->last > zero ? p->spectrum->last : zero;
    const int32_t width = (last - first) / BARS + 1;
    fprintf(stream, "value\tcount\n");
    for (int32_t at = first; at <= last; at += width) {
        const int32_t end = at + width < QB_STATS_BINS ? at + width : QB_STATS_BINS;
        const double count = p->spectrum->count[end] - p->spectrum->count[at];
        const double center = (qb_stats_edge(s, at) + qb_stats_edge(s, end)) / 2;
        if (count > 0) fprintf(stream, "%.9g\t%.17g\n", center, count);
    }
    return QB_OK;
}

static const char *color(int32_t method) {
    static const char *const colors[] = {"#D55E00", "#0072B2", "#009E73", "#CC79A7",
                                         "#E69F00", "#56B4E9", "#000000", "#8A6D00"};
    return colors[method % 8];
}

static int dashes(int32_t method) { return method / 8 + 1; }

static void write_range(const picture *p, int32_t m, FILE *stream) {
    const qb_range r = p->entry->range[m];
    const float ends[2] = {r.lo, r.hi};
    for (int k = 0; k < 2; k++)
        if (k == 1 || r.lo < 0) /* a range from zero has one end to see */
            fprintf(stream,
                    "set arrow from %.9g, graph 0 to %.9g, graph %.3f nohead lw 2 dt %d lc rgb "
                    "'%s' front\n",
                    (double)ends[k], (double)ends[k], 0.98 - 0.03 * (m % 8), dashes(m), color(m));
}

static void write_legend(const picture *p, int32_t m, FILE *stream) {
    qb_range_quality q;
    char text[160];
    const qb_range r = p->entry->range[m];
    qb_range_quality_of(p->spectrum, r, p->symmetric, &q);
    snprintf(text, sizeof text,
             "%s: %.5g to %.5g, %.2f dB, %.3g %% saturated, %.3g %% values unused",
             p->table->method[m], (double)r.lo, (double)r.hi, q.sqnr_db, 100 * q.saturated,
             100 * q.unused);
    fprintf(stream, ", \\\n     NaN with lines lw 2 dt %d lc rgb '%s' title ", dashes(m), color(m));
    qb_gnuplot_string(stream, text);
}

static qb_status write_script(qb_ctx *cx, const void *user, const char *tsv, FILE *stream) {
    (void)cx;
    const picture *p = user;
    const qb_stats *s = p->entry->stats;
    char text[320];
    snprintf(text, sizeof text, "%.160s: %llu values, %.1f %% zeros (not drawn)", p->entry->name,
             (unsigned long long)s->count, 100.0 * (double)s->zeros / (double)s->count);
    fprintf(stream, "set title ");
    qb_gnuplot_string(stream, text);
    const double low = fmin(s->min, 0), high = fmax(s->max, 0);
    const double margin = high > low ? 0.02 * (high - low) : 1;
    fprintf(stream,
            "\nset xlabel 'value' offset 0,0.4\n"
            "set ylabel 'values a bar (logarithmic)'\n"
            "set logscale y\n"
            "set format y '1e%%T'\n"
            "set xrange [%.9g:%.9g]\n"
            "set yrange [0.5:*]\n"
            "set border 3\n"
            "set tics nomirror out\n"
            "set key below left Left reverse vertical maxcols 1\n"
            "set style fill solid 1.0 noborder\n",
            low - margin, high + margin);
    for (int32_t m = 0; m < p->table->n_methods; m++) write_range(p, m, stream);
    fprintf(stream, "plot '%s' skip 1 using 1:2 with impulses lw 1.5 lc rgb '#B0B0B0' notitle",
            tsv);
    for (int32_t m = 0; m < p->table->n_methods; m++) write_legend(p, m, stream);
    fputc('\n', stream);
    return QB_OK;
}

/* ---- the command ---- */

/* "histogram_003_conv1_relu": unique, and made of what every file system takes. */
static char *picture_name(qb_ctx *cx, int32_t number, const char *tensor) {
    char safe[NAME_LETTERS + 1];
    size_t n = 0;
    for (; tensor[n] && n < NAME_LETTERS; n++)
        safe[n] = isalnum((unsigned char)tensor[n]) || strchr(".-", tensor[n]) ? tensor[n] : '_';
    safe[n] = '\0';
    return qb_format(cx, "histogram_%03d_%s", number, safe);
}

static qb_status draw(qb_ctx *cx, const options *o, const qb_table *t, int32_t number,
                      const char *folder, qb_spectrum *spectrum, json_t *files) {
    const qb_table_entry *e = &t->entry[number];
    QB_FREED char *name = QB_NEW(cx, picture_name(cx, number, e->name));
    qb_spectrum_init(e->stats, spectrum);
    const picture p = {t, e, spectrum, o->symmetric};
    const qb_drawing drawing = {.name = name,
                                .height = 420 + 22 * t->n_methods,
                                .data = write_data,
                                .script = write_script,
                                .user = &p};
    QB_TRY(qb_draw(cx, &drawing, folder));
    QB_FREED char *path = QB_NEW(cx, qb_format(cx, "%s/%s.svg", folder, name));
    if (!qb_json_on_stdout(&o->common)) printf("%s\n", path);
    json_array_append_new(files, json_pack("{s:o, s:o}", "tensor", qb_json_text(e->name), "file",
                                           qb_json_text(path)));
    return QB_OK;
}

static qb_status plot(qb_ctx *cx, const options *o, const qb_table *t, const char *folder) {
    QB_FREED qb_spectrum *spectrum = QB_NEW(cx, qb_alloc(cx, 1, sizeof *spectrum));
    json_auto_t *files = json_array();
    bool any = false;
    QB_TRY(qb_make_dirs(cx, folder));
    for (int32_t i = 0; i < t->n_entries; i++) {
        if (o->tensor && fnmatch(o->tensor, t->entry[i].name, 0) != 0) continue;
        any = true;
        if (t->entry[i].stats->count == 0)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                           "tensor '%s' was imported: it has no histogram to draw",
                           t->entry[i].name);
        QB_TRY(draw(cx, o, t, i, folder, spectrum, files));
    }
    if (!any)
        return qb_fail(cx, QB_STATUS_NOTFOUND, "no tensor is called '%s': see qbench calib show",
                       o->tensor);
    return qb_json_out(cx, &o->common,
                       json_pack("{s:s, s:O}", "schema", "qbench.calib-plot/1", "files", files));
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    QB_RELEASED(qb_table_free_at) qb_table *t = NULL;
    QB_FREED char *path = NULL;
    QB_TRY(qb_calibration_path(cx, &o->common, arguments, &path));
    QB_TRY(qb_table_load(cx, path, &t));
    QB_FREED char *folder = QB_NEW(cx, qb_path_join(cx, o->common.out, "figures"));
    return plot(cx, o, t, folder);
}

const qb_command qb_calib_command_plot = {
    .name = "calib plot",
    .usage = "[FILE.calib.h5] [options]",
    .summary = "histogram of each tensor with all ranges (figures/histogram_*)",
    .example = "qbench calib plot squeezenet1.1.calib.h5 --tensor 'fire9*' -o release/",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
