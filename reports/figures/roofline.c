/* Layers against what the machine reaches: operations a second over operations a byte (Williams,
 * Waterman and Patterson, "Roofline", CACM 52, 2009). */
#include <math.h>
#include <string.h>

#include "reports/figure_internal.h"

static bool is_point(const qb_run_step *s) { return s->flops > 0 && s->bytes > 0 && s->ms > 0; }

static bool has_points(const qb_run *run) {
    for (int32_t r = 0; r < run->n_rows; r++)
        for (int32_t i = 0; i < run->row[r].n_steps; i++)
            if (is_point(&run->row[r].step[i])) return true;
    return false;
}

static bool applies(const qb_run *run) {
    const qb_ceilings *c = &run->ceilings;
    return c->f32_gops > 0 && c->s8_gops > 0 && c->memory_gbs > 0 && c->f32_gops < 1e9 &&
           c->s8_gops < 1e9 && c->memory_gbs < 1e9 && has_points(run);
}

static bool is_integer(const qb_run_step *step) {
    return strcmp(step->dtype, "s8") == 0 || strcmp(step->dtype, "u8") == 0;
}

/* Roofs and points are of one machine: a layer that is above a measured ceiling shows that the
 * machine reaches more. */
static void raise_to(double *ceiling, double reached) {
    if (isfinite(reached) && reached > *ceiling) *ceiling = reached;
}

qb_ceilings qb_report_roof(const qb_run *run) {
    qb_ceilings c = run->ceilings;
    for (int32_t r = 0; r < run->n_rows; r++)
        for (int32_t i = 0; i < run->row[r].n_steps; i++) {
            const qb_run_step *s = &run->row[r].step[i];
            if (!is_point(s)) continue;
            raise_to(is_integer(s) ? &c.s8_gops : &c.f32_gops, s->flops / s->ms * 1e-6);
            raise_to(&c.memory_gbs, s->bytes / s->ms * 1e-6);
        }
    return c;
}

static qb_status data(qb_ctx *cx, const qb_run *run, FILE *stream) {
    (void)cx;
    fprintf(stream, "precision\tlayer\tdtype\tops_per_byte\tgops\tf32_gops\ts8_gops\n");
    for (int32_t r = 0; r < run->n_rows; r++)
        for (int32_t i = 0; i < run->row[r].n_steps; i++) {
            const qb_run_step *s = &run->row[r].step[i];
            if (!is_point(s)) continue;
            const double gops = s->flops / s->ms * 1e-6;
            qb_tsv_name(stream, run->row[r].precision);
            fputc('\t', stream);
            qb_tsv_name(stream, s->name);
            fputc('\t', stream);
            qb_tsv_name(stream, s->dtype);
            qb_tsv_finite(stream, s->flops / s->bytes);
            qb_tsv_finite(stream, gops);
            qb_tsv_finite(stream, is_integer(s) ? NAN : gops);
            qb_tsv_finite(stream, is_integer(s) ? gops : NAN);
            fputc('\n', stream);
        }
    return QB_OK;
}

/* The slowest layer; at most a ten-thousandth of the roof, which leaves something to be seen. */
static double least_of(const qb_run *run) {
    const qb_ceilings roof = qb_report_roof(run);
    const double floor = 1e-4 * fmin(roof.f32_gops, roof.s8_gops);
    double least = fmin(roof.f32_gops, roof.s8_gops);
    for (int32_t r = 0; r < run->n_rows; r++)
        for (int32_t i = 0; i < run->row[r].n_steps; i++) {
            const qb_run_step *s = &run->row[r].step[i];
            if (is_point(s)) least = fmin(least, s->flops / s->ms * 1e-6);
        }
    return fmax(least, floor);
}

static qb_status script(qb_ctx *cx, const qb_run *run, const char *tsv, FILE *stream) {
    (void)cx;
    const qb_ceilings roof = qb_report_roof(run), *c = &roof;
    qb_gnuplot_title(stream, "Layers against what this machine reaches");
    qb_gnuplot_key_below(stream, 4);
    fprintf(stream,
            "set xlabel 'operations a byte (logarithmic)'\n"
            "set ylabel '10^9 operations a second'\n"
            "set logscale xy\n"
            "set samples 400\n"
            "set grid lc rgb '#d0d0d0'\n"
            "set border 3\n"
            "set tics nomirror out\n"
            "set format xy '%%g'\n"
            "set yrange [%.6g:%.6g]\n"
            "roof(x, peak) = x * %.6g < peak ? x * %.6g : peak\n"
            "plot '%s' skip 1 using 4:6 with points pt 7 ps 0.8 lc rgb " QB_BLUE
            " title 'FP32 layers', \\\n"
            "     '' skip 1 using 4:7 with points pt 5 ps 0.8 lc rgb " QB_ORANGE
            " title 'INT8 layers', \\\n"
            "     roof(x, %.6g) lw 2 lc rgb " QB_BLUE
            " title 'FP32 %.0f, memory and caches %.0f GB/s', \\\n"
            "     roof(x, %.6g) lw 2 lc rgb " QB_ORANGE " title 'INT8 %.0f'\n",
            least_of(run) / 2, 2 * fmax(c->f32_gops, c->s8_gops), c->memory_gbs, c->memory_gbs, tsv,
            c->f32_gops, c->f32_gops, c->memory_gbs, c->s8_gops, c->s8_gops);
    return QB_OK;
}

static int height(const qb_run *run) {
    (void)run;
    return 480;
}

const qb_figure qb_figure_roofline = {.name = "roofline",
                                      .title = "Layers against the machine",
                                      .section = QB_SECTION_STEPS,
                                      .applies = applies,
                                      .height = height,
                                      .data = data,
                                      .script = script};
