#include "cli/out/search.h"

#include <math.h>

#include "base/text.h"
#include "cli/out/json.h"
#include "reports/draw.h"

/* ---- the table ------------------------------------------------------------------------------- */

static void cell(int width, const char *format, double value) {
    char text[32];
    if (isnan(value))
        snprintf(text, sizeof text, "-");
    else if (isinf(value))
        snprintf(text, sizeof text, "inf");
    else
        snprintf(text, sizeof text, format, value);
    printf(" %*s", width, text);
}

static void interval(int width, qb_interval ci, const char *format) {
    char text[40] = "-", low[16], high[16];
    if (!isnan(ci.lo) && !isnan(ci.hi)) {
        snprintf(low, sizeof low, format, ci.lo);
        snprintf(high, sizeof high, format, ci.hi);
        snprintf(text, sizeof text, "%s to %s", low, high);
    }
    printf(" %*s", width, text);
}

static void print_point(const qb_searched *s, const qb_search_point *p, bool picked) {
    const int32_t n = qb_space_count_float(s->space, &p->a);
    printf("%c%5d %-4s", picked ? '*' : ' ', (int)n, n > 0 ? qb_dtype_text(p->a.floats) : "-");
    cell(7, "%.3f", p->time.ms);
    cell(5, "%.3f", p->time.ratio);
    interval(14, p->time.ratio_ci, "%.3f");
    cell(6, "%+.2f", p->score.drop);
    interval(14, p->score.drop_ci, "%+.2f");
    if (!isnan(p->score.agreement)) cell(6, "%.2f", p->score.agreement);
    cell(5, "%.1f", p->score.sqnr_db);
    if (s->n_ways > 1) printf(" %3d", (int)p->a.way + 1);
    putchar('\n');
}

static bool has_agreement(const qb_search *s) {
    return s->n_points > 0 && !isnan(s->point[0].score.agreement);
}

void qb_search_print(const qb_searched *searched, const qb_search_files *files) {
    const qb_search *s = &searched->search;
    printf("data %s: %lld samples; %d groups; %d plans were measured; the front:\n\n",
           QB_SHOWN(searched->data), (long long)s->samples, (int)s->n_groups, (int)s->n_points);
    printf(" float type      ms ratio  95 %% interval   drop  95 %% interval%s  SQNR%s\n",
           has_agreement(s) ? "  agree" : "", searched->n_ways > 1 ? " way" : "");
    for (int32_t i = 0; i < s->n_points; i++)
        if (s->point[i].on_front || i == s->picked)
            print_point(searched, &s->point[i], i == s->picked);
    printf("\nfloat: groups that stay in float, in which type. ratio: latency over that of all\n"
           "integers. drop: points of %s lost against the float model.\n",
           s->metric ? s->metric : "the task's metric (which could not be measured)");
    for (int32_t w = 0; w < searched->n_ways && searched->n_ways > 1; w++)
        printf("way %d: %s\n", (int)w + 1, QB_SHOWN(searched->name[w]));
    if (s->picked < 0) {
        printf("no plan meets the limits\n");
        return;
    }
    const qb_search_point *p = &s->point[s->picked];
    printf("* picked: %s%s", searched->way[p->a.way].name,
           qb_space_count_float(searched->space, &p->a) > 0 ? "; in float:" : "");
    for (int32_t g = 0; g < s->n_groups; g++)
        if (p->a.is_float[g]) printf(" %s", QB_SHOWN(searched->space->group[g].value));
    printf("\n");
    const char *const written[] = {files->plan, files->model, files->engine, files->record};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (written[i]) printf("%s\n", QB_SHOWN(written[i]));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *number(double value) {
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *score_json(const qb_search_score *s) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "sqnr_db", number(s->sqnr_db), "agreement",
                     number(s->agreement), "divergence", number(s->divergence), "metric",
                     number(s->metric), "drop", number(s->drop));
}

static json_t *group_json(const qb_space_group *group, const qb_search_group *cost) {
    return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o}", "value", qb_json_text(group->value), "node",
                     qb_json_text(group->node), "op", group->op, "float_alone",
                     score_json(&cost->back), "int8_alone", score_json(&cost->alone), "noise",
                     number(cost->noise));
}

static json_t *floats_json(const qb_space *space, const qb_alternative *a) {
    json_t *list = json_array();
    for (int32_t g = 0; g < space->n; g++)
        if (a->is_float[g]) json_array_append_new(list, qb_json_text(space->group[g].value));
    return list;
}

static json_t *point_json(const qb_space *space, const qb_search_point *p, bool picked) {
    json_t *json = score_json(&p->score);
    json_auto_t *more = json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b}", "way",
        space->way[p->a.way].name, "float_type", qb_dtype_text(p->a.floats), "float",
        floats_json(space, &p->a), "drop_low", number(p->score.drop_ci.lo), "drop_high",
        number(p->score.drop_ci.hi), "latency_ms", number(p->time.ms), "ratio",
        number(p->time.ratio), "ratio_low", number(p->time.ratio_ci.lo), "ratio_high",
        number(p->time.ratio_ci.hi), "on_front", p->on_front, "meets", p->meets, "picked", picked);
    json_object_update(json, more);
    return json;
}

static json_t *file_json(const char *path) { return path ? qb_json_text(path) : json_null(); }

json_t *qb_search_json(const qb_searched *searched, const qb_search_limits *l,
                       const qb_search_files *files) {
    const qb_search *s = &searched->search;
    json_t *groups = json_array(), *points = json_array();
    char model[33], data[33];
    qb_hash_hex(searched->graph->hash, model);
    qb_hash_hex(searched->way->table->data_hash, data);
    for (int32_t g = 0; g < s->n_groups; g++)
        json_array_append_new(groups, group_json(&searched->space->group[g], &s->group[g]));
    for (int32_t i = 0; i < s->n_points; i++)
        json_array_append_new(points, point_json(searched->space, &s->point[i], i == s->picked));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}",
                     "schema", "qbench.search/1", "model_hash", model, "calibration_hash", data,
                     "method", searched->way->options.method, "data", qb_json_text(searched->data),
                     "samples", (json_int_t)s->samples, "metric",
                     s->metric ? qb_json_text(s->metric) : json_null(), "limits",
                     json_pack("{s:o, s:o, s:o, s:o, s:b}", "max_drop", number(l->max_drop),
                               "min_agreement", number(l->min_agreement), "max_latency_ms",
                               number(l->max_latency_ms), "max_ratio", number(l->max_ratio), "sure",
                               l->sure),
                     "out_of_time", s->out_of_time, "groups", groups, "points", points, "plan",
                     file_json(files->plan), "model", file_json(files->model), "engine",
                     file_json(files->engine));
}

/* ---- the chart ------------------------------------------------------------------------------- */

typedef struct chart {
    const qb_searched *searched;
    const qb_search_limits *limits;
} chart;

/* What the y axis shows: what is limited, else SQNR. */
static double height_of(const chart *c, const qb_search_point *p) {
    if (!isnan(c->limits->max_drop)) return p->score.drop;
    if (!isnan(c->limits->min_agreement)) return p->score.agreement;
    return isinf(p->score.sqnr_db) ? NAN : p->score.sqnr_db;
}

static qb_status chart_data(qb_ctx *cx, const void *user, FILE *stream) {
    (void)cx;
    const chart *c = user;
    const qb_search *s = &c->searched->search;
    fprintf(stream, "ratio\tlow\thigh\taccuracy\ton_front\tpicked\tfloat\n");
    for (int32_t i = 0; i < s->n_points; i++) {
        const qb_search_point *p = &s->point[i];
        fprintf(stream, "%.6g\t%.6g\t%.6g\t%.6g\t%d\t%d\t%d\n", p->time.ratio, p->time.ratio_ci.lo,
                p->time.ratio_ci.hi, height_of(c, p), p->on_front, i == s->picked,
                (int)qb_space_count_float(c->searched->space, &p->a));
    }
    return QB_OK;
}

static qb_status chart_script(qb_ctx *cx, const void *user, const char *tsv, FILE *stream) {
    (void)cx;
    const chart *c = user;
    char title[160];
    const char *metric = c->searched->search.metric;
    if (!isnan(c->limits->max_drop))
        snprintf(title, sizeof title, "points of %.100s lost", metric ? metric : "the metric");
    else
        snprintf(title, sizeof title, "%s",
                 isnan(c->limits->min_agreement) ? "output SQNR, dB" : "agreement, %");
    fprintf(stream, "set xlabel 'latency, times all integers'\nset ylabel ");
    qb_gnuplot_string(stream, title);
    fprintf(stream, "\nset border 3\nset tics nomirror out\nset key top right\n");
    if (!isnan(c->limits->max_drop))
        fprintf(stream,
                "set yrange [*:*] reverse\nset arrow from graph 0, first %.9g to graph 1, "
                "first %.9g nohead dt 2 lc rgb '#808080'\n",
                c->limits->max_drop, c->limits->max_drop);
    fprintf(stream,
            "plot '%s' skip 1 using 1:4:2:3 with xerrorbars pt 6 lc rgb '#B0B0B0' title "
            "'measured', \\\n"
            "     '' skip 1 using 1:($5 == 1 ? $4 : NaN) with points pt 7 lc rgb '#0072B2' title "
            "'front', \\\n"
            "     '' skip 1 using 1:($6 == 1 ? $4 : NaN) with points pt 7 ps 2 lc rgb '#E69F00' "
            "title 'picked'\n",
            tsv);
    return QB_OK;
}

qb_status qb_search_draw(qb_ctx *cx, const qb_searched *searched, const qb_search_limits *limits,
                         const char *folder) {
    const chart c = {searched, limits};
    const qb_drawing drawing = {
        .name = "search", .height = 420, .data = chart_data, .script = chart_script, .user = &c};
    return qb_draw(cx, &drawing, folder);
}
