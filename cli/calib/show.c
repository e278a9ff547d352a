/* qbench calib show: what a calibration knows of each tensor, and what each method's range costs.
 */
#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "calib/spectrum.h"
#include "cli/calib/named.h"
#include "cli/out/sampling.h"

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

static double percent(uint64_t part, uint64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- text ---- */

static void print_tensor(const qb_table *t, const qb_table_entry *e, const qb_spectrum *spectrum,
                         bool symmetric) {
    const qb_stats *s = e->stats;
    if (s->count == 0) {
        printf("\n%s: %s, %g to %g, without statistics\n", e->name, t->method[0],
               (double)e->range[0].lo, (double)e->range[0].hi);
        return;
    }
    printf("\n%s: %llu values from %g to %g, %.1f %% zeros", e->name, (unsigned long long)s->count,
           (double)s->min, (double)s->max, percent(s->zeros, s->count));
    if (s->nan + s->pos_inf + s->neg_inf > 0)
        printf("; not finite: %llu NaN, %llu inf, %llu -inf", (unsigned long long)s->nan,
               (unsigned long long)s->pos_inf, (unsigned long long)s->neg_inf);
    printf("\n  %-22s %11s %11s %8s %11s %9s\n", "method", "low", "high", "SQNR dB", "saturated %",
           "unused %");
    for (int32_t m = 0; m < t->n_methods; m++) {
        qb_range_quality q;
        qb_range_quality_of(spectrum, e->range[m], symmetric, &q);
        printf("  %-22s %11.5g %11.5g %8.2f %11.4f %9.1f\n", t->method[m], (double)e->range[m].lo,
               (double)e->range[m].hi, q.sqnr_db, 100 * q.saturated, 100 * q.unused);
    }
}

/* What one range for all channels means for the narrow ones. */
static void print_channels(qb_ctx *cx, const qb_channels *channels) {
    qb_channels_spread s;
    if (!qb_channels_spread_of(cx, channels, &s)) return;
    printf("  %d channels: reach %g (channel %d), median %g, least %g", channels->n,
           (double)s.widest, s.widest_at, (double)s.median, (double)s.narrowest);
    if (s.few_levels > 0)
        printf("; %d reach less than a sixteenth of it: below 4 bits in one range", s.few_levels);
    printf("\n");
}

/* ---- JSON ---- */

static json_t *numbers(const float *value, int32_t n) {
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) json_array_append_new(list, qb_json_finite((double)value[i]));
    return list;
}

/* NULL: not looked at. */
static json_t *channels_json(qb_ctx *cx, const qb_channels *c) {
    qb_channels_spread s;
    if (!qb_channels_spread_of(cx, c, &s)) return NULL;
    return json_pack("{s:i, s:f, s:i, s:f, s:f, s:i, s:o, s:o}", "count", c->n, "widest",
                     (double)s.widest, "widest_at", s.widest_at, "median", (double)s.median,
                     "narrowest", (double)s.narrowest, "below_4_bits", s.few_levels, "low",
                     numbers(c->min, c->n), "high", numbers(c->max, c->n));
}

static json_t *ranges_json(const qb_table *t, const qb_table_entry *e, const qb_spectrum *spectrum,
                           bool symmetric) {
    json_t *ranges = json_array();
    for (int32_t m = 0; m < t->n_methods; m++) {
        qb_range_quality q;
        qb_range_quality_of(spectrum, e->range[m], symmetric, &q);
        json_array_append_new(
            ranges, json_pack("{s:s, s:f, s:f, s:o, s:o, s:o}", "method", t->method[m], "low",
                              (double)e->range[m].lo, "high", (double)e->range[m].hi, "sqnr_db",
                              qb_json_finite(q.sqnr_db), "saturated", qb_json_finite(q.saturated),
                              "unused_codes", qb_json_finite(q.unused)));
    }
    return ranges;
}

static json_t *tensor_json(qb_ctx *cx, const qb_table *t, const qb_table_entry *e,
                           const qb_spectrum *spectrum, bool symmetric) {
    const qb_stats *s = e->stats;
    return json_pack(
        "{s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o*, s:o}", "name", qb_json_text(e->name),
        "values", (json_int_t)s->count, "zeros", (json_int_t)s->zeros, "nan", (json_int_t)s->nan,
        "inf", (json_int_t)s->pos_inf, "minus_inf", (json_int_t)s->neg_inf, "min",
        qb_json_finite((double)s->min), "max", qb_json_finite((double)s->max), "channels",
        channels_json(cx, &e->channels), "ranges", ranges_json(t, e, spectrum, symmetric));
}

/* ---- the command ---- */

static qb_status show(qb_ctx *cx, const options *o, const char *path, const qb_table *t) {
    qb_spectrum *spectrum = QB_NEW(cx, qb_alloc(cx, 1, sizeof *spectrum));
    const bool text = !qb_json_on_stdout(&o->common);
    qb_diagnosis diagnosis = {.common = &o->common}, before = {.common = &o->common};
    json_t *tensors = json_array();
    qb_status status = QB_OK;
    if (text)
        printf("%s: %d tensors, %lld samples of %s, model %s\n", QB_SHOWN(path), t->n_entries,
               (long long)t->samples, t->dataset, t->model);
    if (text && t->doctor) printf("before the run:\n");
    if (t->doctor) status = qb_diagnosis_again(cx, &before, path, t->doctor);
    if (text && t->doctor) printf("in the run:\n");
    if (status == QB_OK) status = qb_sampling_say(cx, t, &diagnosis);
    for (int32_t i = 0; i < t->n_entries; i++) {
        if (o->tensor && fnmatch(o->tensor, t->entry[i].name, 0) != 0) continue;
        qb_spectrum_init(t->entry[i].stats, spectrum);
        if (text) {
            print_tensor(t, &t->entry[i], spectrum, o->symmetric);
            print_channels(cx, &t->entry[i].channels);
        }
        json_array_append_new(tensors, tensor_json(cx, t, &t->entry[i], spectrum, o->symmetric));
    }
    qb_free(spectrum);
    json_t *doctor = t->doctor ? qb_diagnosis_take(&before) : json_null();
    json_t *root =
        json_pack("{s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o}", "schema", "qbench.calib-show/1",
                  "file", qb_json_text(path), "model", qb_json_text(t->model), "dataset",
                  qb_json_text(t->dataset), "samples", (json_int_t)t->samples, "doctor", doctor,
                  "findings", qb_diagnosis_take(&diagnosis), "tensors", tensors);
    if (status == QB_OK) return qb_json_out(cx, &o->common, root);
    json_decref(root);
    return status;
}

static qb_status run(qb_ctx *cx, void *opts, const qb_opt_list *arguments) {
    const options *o = opts;
    QB_RELEASED(qb_table_free_at) qb_table *t = NULL;
    QB_FREED char *path = NULL;
    QB_TRY(qb_calibration_path(cx, &o->common, arguments, &path));
    QB_TRY(qb_table_load(cx, path, &t));
    return show(cx, o, path, t);
}

const qb_command qb_calib_command_show = {
    .name = "calib show",
    .usage = "[FILE.calib.h5] [options]",
    .summary = "statistics by tensor; range, SQNR and saturation by method",
    .notes = "FILE: MODEL.calib.h5 here, as 'calib export' finds it, unless it is named. SQNR\n"
             "is that of the tensor itself after rounding to 8 bits, from its histogram. Of\n"
             "calibrations with --per-channel: how far the channels reach; where some reach\n"
             "far less than the widest one, one range leaves them few quantized values.",
    .example = "qbench calib show squeezenet1.1.calib.h5 --tensor 'conv1*'",
    .options = table,
    .options_size = sizeof(options),
    .max_arguments = 1,
    .run = run,
};
