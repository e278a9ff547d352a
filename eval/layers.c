#include "eval/layers.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "eval/probe.h"
#include "kernels/ref.h"
#include "stream/stream.h"

enum { LEVELS = 256, INPUTS_MAX = 8 };

/* One layer and how to run it alone. */
typedef struct layer {
    int32_t step;                       /* of the integer engine */
    int32_t integer_value, float_value; /* observed numbers in both engines */
    const qb_qparams *q;                /* of the value; n == 0: it is float */
    qb_engine *alone;                   /* NULL: cannot */
    int32_t n_in, in[INPUTS_MAX];       /* the reference's observed numbers */
} layer;

/* What is summed over samples, a worker and a layer. */
typedef struct sums {
    double signal, total, own;
    int64_t n, outside;
    float low, high;
    int64_t level[LEVELS];
} sums;

/* What one worker needs: the reference's values of one sample, room for one value, contexts. */
typedef struct bench {
    float *values, *scratch;
    qb_context **alone; /* [n_layers]; NULL entries where a layer cannot */
    sums *sum;          /* [n_layers] */
} bench;

typedef struct survey {
    qb_engine *reference, *integer;
    qb_graph *bound; /* the quantized graph with known shapes; layers refer to it */
    qb_groups groups;
    layer *layer;
    int32_t n_layers, n_workers;
    int32_t *layer_of; /* [observed values of the integer engine] -1: none */
    int64_t *offset;   /* [observed values of the reference] in bench.values, in floats */
    int64_t *size;     /* [the same] elements; 0 until seen or not float */
    int64_t total, largest;
    bench *bench;
    void **no_outputs; /* NULLs */
} survey;

/* ---- which layers ---- */

static int32_t observed_named(const qb_engine *engine, const char *name) {
    for (int32_t i = 0; i < qb_engine_n_observed(engine); i++)
        if (strcmp(qb_engine_observed_name(engine, i), name) == 0) return i;
    return -1;
}

static qb_build_spec spec_of(const qb_candidate *c, const qb_shape *shapes, bool observable) {
    qb_build_spec spec = c->spec;
    spec.input_shapes = shapes;
    spec.threads = 1;
    spec.observable = observable;
    return spec;
}

/* Builds the layer's own engine; a layer that cannot run alone is no error. */
static qb_status build_alone(qb_ctx *cx, const survey *s, const qb_candidate *c,
                             const qb_group *group, layer *l) {
    const qb_build_spec spec = spec_of(c, NULL, false);
    qb_graph *graph = NULL;
    qb_status status = QB_OK;
    if (group->kind == QB_KIND_NODE) return QB_OK;
    QB_GO(qb_group_extract(cx, s->bound, group, &graph));
    QB_GO(qb_engine_build(cx, graph, &spec, &l->alone));
    l->n_in = qb_engine_n_inputs(l->alone);
    bool known = l->n_in <= INPUTS_MAX;
    for (int32_t i = 0; known && i < l->n_in; i++) {
        l->in[i] = observed_named(s->reference, qb_engine_input_name(l->alone, i));
        known = l->in[i] >= 0;
    }
    if (!known) qb_engine_free(QB_MOVE(l->alone));
out:
    qb_graph_free(graph);
    if (status == QB_STATUS_NOMEM || status == QB_STATUS_CANCELLED) return status;
    if (status != QB_OK) qb_debug(cx, "layer alone: %s", cx->message);
    qb_ctx_clear(cx);
    return QB_OK;
}

static const qb_group *group_writing(const survey *s, int32_t value) {
    for (int32_t g = 0; g < s->groups.n; g++)
        if (s->groups.group[g].out == value) return &s->groups.group[g];
    return NULL;
}

/* A step is a layer when it computes in integers or leaves integers, and the reference has its
 * value too. */
static qb_status add_layer(qb_ctx *cx, survey *s, const qb_candidate *c, int32_t step) {
    qb_step_info info;
    qb_engine_step(s->integer, step, &info);
    const int32_t value = info.output ? qb_graph_find_value(s->bound, info.output) : -1;
    const qb_group *group = value >= 0 ? group_writing(s, value) : NULL;
    if (!group) return QB_OK;
    layer l = {.step = step,
               .integer_value = observed_named(s->integer, info.output),
               .float_value = observed_named(s->reference, info.output),
               .q = &s->bound->values[value].q};
    const bool integer = l.q->n > 0 || info.dtype == QB_DTYPE_S8 || info.dtype == QB_DTYPE_U8;
    if (!integer || l.integer_value < 0 || l.float_value < 0) return QB_OK;
    if (s->layer_of[l.integer_value] >= 0) return QB_OK; /* a later step of the same value */
    QB_TRY(build_alone(cx, s, c, group, &l));
    s->layer_of[l.integer_value] = s->n_layers;
    s->layer[s->n_layers++] = l;
    return QB_OK;
}

static qb_status bind(qb_ctx *cx, const qb_candidate *c, survey *s) {
    qb_shape shape[16];
    const int32_t n = qb_engine_n_inputs(s->integer);
    if (n > 16) return qb_fail(cx, QB_STATUS_UNSUPPORTED, "layers: more than 16 inputs");
    for (int32_t i = 0; i < n; i++) shape[i] = qb_engine_input(s->integer, i)->shape;
    QB_TRY(qb_graph_bind(cx, c->graph, shape, &s->bound));
    return qb_fuse(cx, s->bound, &s->groups);
}

/* Both engines, for samples of the first one's shapes. */
static qb_status build_pair(qb_ctx *cx, const qb_candidate *reference, const qb_candidate *c,
                            const qb_loader_options *loader, survey *s) {
    QB_RELEASED(qb_probe_release) qb_probe probe = {0};
    QB_TRY(qb_probe_load(cx, reference->graph, loader, 1, &probe));
    const qb_build_spec own = spec_of(reference, probe.shape, true),
                        other = spec_of(c, probe.shape, true);
    QB_TRY(qb_engine_build(cx, reference->graph, &own, &s->reference));
    return qb_engine_build(cx, c->graph, &other, &s->integer);
}

static qb_status survey_init(qb_ctx *cx, const qb_candidate *reference, const qb_candidate *c,
                             const qb_loader_options *loader, survey *s) {
    QB_TRY(build_pair(cx, reference, c, loader, s));
    QB_TRY(bind(cx, c, s));
    const int32_t n_float = qb_engine_n_observed(s->reference),
                  n_integer = qb_engine_n_observed(s->integer),
                  n_steps = qb_engine_n_steps(s->integer);
    const int32_t outputs = qb_engine_n_outputs(s->reference) + qb_engine_n_outputs(s->integer);
    QB_TRY_NEW(cx, s->layer = qb_alloc(cx, (size_t)n_steps, sizeof *s->layer));
    QB_TRY_NEW(cx, s->layer_of = qb_alloc(cx, (size_t)n_integer, sizeof *s->layer_of));
    QB_TRY_NEW(cx, s->offset = qb_alloc(cx, (size_t)n_float, sizeof *s->offset));
    QB_TRY_NEW(cx, s->size = qb_alloc(cx, (size_t)n_float, sizeof *s->size));
    QB_TRY_NEW(cx, s->no_outputs = qb_alloc(cx, (size_t)outputs, sizeof *s->no_outputs));
    for (int32_t i = 0; i < n_integer; i++) s->layer_of[i] = -1;
    for (int32_t i = 0; i < n_steps; i++) QB_TRY(add_layer(cx, s, c, i));
    for (int32_t i = 0; i < n_float; i++) {
        const int32_t value =
            qb_graph_find_value(s->bound, qb_engine_observed_name(s->reference, i));
        s->offset[i] = s->total;
        s->size[i] = value >= 0 ? qb_shape_count(&s->bound->values[value].shape) : 0;
        s->total += s->size[i];
        if (s->size[i] > s->largest) s->largest = s->size[i];
    }
    return QB_OK;
}

static qb_status bench_init(qb_ctx *cx, const survey *s, bench *b) {
    QB_TRY_NEW(cx, b->values = qb_alloc_aligned(cx, (size_t)s->total, sizeof *b->values));
    QB_TRY_NEW(cx, b->scratch = qb_alloc_aligned(cx, (size_t)s->largest, sizeof *b->scratch));
    QB_TRY_NEW(cx, b->alone = qb_alloc(cx, (size_t)s->n_layers, sizeof(qb_context *)));
    QB_TRY_NEW(cx, b->sum = qb_alloc(cx, (size_t)s->n_layers, sizeof *b->sum));
    for (int32_t i = 0; i < s->n_layers; i++) {
        b->sum[i].low = INFINITY;
        b->sum[i].high = -INFINITY;
        if (s->layer[i].alone) QB_TRY(qb_context_create(cx, s->layer[i].alone, &b->alone[i]));
    }
    return QB_OK;
}

static void survey_release(survey *s) {
    for (int32_t w = 0; s->bench && w < s->n_workers; w++) {
        bench *b = &s->bench[w];
        for (int32_t i = 0; b->alone && i < s->n_layers; i++) qb_context_free(b->alone[i]);
        QB_FREE_ALL(b->alone, b->values, b->scratch, b->sum);
    }
    for (int32_t i = 0; i < s->n_layers; i++) qb_engine_free(s->layer[i].alone);
    QB_FREE_ALL(s->bench, s->layer, s->layer_of, s->offset, s->size, s->no_outputs);
    qb_groups_release(&s->groups);
    qb_graph_free(s->bound);
    qb_engine_free(s->reference);
    qb_engine_free(s->integer);
}

/* ---- one sample ---- */

typedef struct observer {
    const survey *survey;
    bench *bench;
} observer;

static bool fits(const survey *s, int32_t value, const qb_tensor *t) {
    return qb_shape_count(&t->desc.shape) == s->size[value];
}

static qb_status keep_float(qb_ctx *cx, void *user, int32_t observed, const char *name,
                            const qb_tensor *tensor) {
    (void)cx, (void)name;
    const observer *o = user;
    if (qb_dtype_is_float(tensor->desc.dtype) && fits(o->survey, observed, tensor))
        qb_tensor_floats(tensor, o->bench->values + o->survey->offset[observed]);
    return QB_OK;
}

static double noise_of(const float *reference, const float *value, int64_t n) {
    double noise = 0;
    for (int64_t i = 0; i < n; i++) {
        const double error = (double)reference[i] - (double)value[i];
        noise += error * error;
    }
    return noise;
}

/* The reference's values of one layer: signal, extremes, and what the quantized values cannot
 * represent. */
static void add_reference(const layer *l, const float *value, int64_t n, sums *sum) {
    double low = -INFINITY, high = INFINITY;
    if (l->q->n > 0) {
        const int32_t zero = l->q->zero ? l->q->zero[0] : 0;
        const int32_t least = l->q->dtype == QB_DTYPE_U8 ? 0 : -128;
        low = (double)l->q->scale[0] * (least - zero - 0.5);
        high = (double)l->q->scale[0] * (least + 255 - zero + 0.5);
    }
    sums all = {.signal = sum->signal, .low = sum->low, .high = sum->high};
    for (int64_t i = 0; i < n; i++) {
        const float v = value[i];
        all.signal += (double)v * (double)v;
        all.low = v < all.low ? v : all.low;
        all.high = v > all.high ? v : all.high;
        all.outside += ((double)v < low) | ((double)v > high);
    }
    sum->signal = all.signal;
    sum->low = all.low;
    sum->high = all.high;
    sum->outside += all.outside;
    sum->n += n;
}

static void count_quantized(const layer *l, const float *value, int64_t n, sums *sum) {
    const float scale = l->q->scale[0];
    const int32_t zero = l->q->zero ? l->q->zero[0] : 0;
    const int32_t least = l->q->dtype == QB_DTYPE_U8 ? 0 : -128;
    for (int64_t i = 0; i < n; i++) {
        const int32_t level = (int32_t)lrintf(value[i] / scale) + zero - least;
        if (level >= 0 && level < LEVELS) sum->level[level]++;
    }
}

static qb_status compare_integer(qb_ctx *cx, void *user, int32_t observed, const char *name,
                                 const qb_tensor *tensor) {
    (void)cx, (void)name;
    const observer *o = user;
    const survey *s = o->survey;
    const int32_t at = s->layer_of[observed];
    if (at < 0 || !fits(s, s->layer[at].float_value, tensor)) return QB_OK;
    const layer *l = &s->layer[at];
    const float *reference = o->bench->values + s->offset[l->float_value];
    const int64_t n = s->size[l->float_value];
    sums *sum = &o->bench->sum[at];
    qb_tensor_floats(tensor, o->bench->scratch);
    add_reference(l, reference, n, sum);
    sum->total += noise_of(reference, o->bench->scratch, n);
    if (l->q->n > 0) count_quantized(l, o->bench->scratch, n, sum);
    return QB_OK;
}

static qb_status run_alone(qb_ctx *cx, const survey *s, bench *b, int32_t at) {
    const layer *l = &s->layer[at];
    const void *inputs[INPUTS_MAX];
    void *outputs[1] = {b->scratch};
    for (int32_t i = 0; i < l->n_in; i++) inputs[i] = b->values + s->offset[l->in[i]];
    QB_TRY(qb_context_run(cx, b->alone[at], inputs, outputs));
    b->sum[at].own +=
        noise_of(b->values + s->offset[l->float_value], b->scratch, s->size[l->float_value]);
    return QB_OK;
}

static qb_status on_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    const survey *s = user;
    bench *b = &s->bench[sample->worker];
    observer o = {s, b};
    QB_TRY(
        qb_context_observe(cx, sample->context[0], sample->inputs, s->no_outputs, keep_float, &o));
    QB_TRY(qb_context_observe(cx, sample->context[1], sample->inputs, s->no_outputs,
                              compare_integer, &o));
    for (int32_t i = 0; i < s->n_layers; i++)
        if (b->alone[i]) QB_TRY(run_alone(cx, s, b, i));
    return QB_OK;
}

/* ---- the result ---- */

static sums merged(const survey *s, int32_t at) {
    sums all = s->bench[0].sum[at];
    for (int32_t w = 1; w < s->n_workers; w++) {
        const sums *one = &s->bench[w].sum[at];
        all.signal += one->signal;
        all.total += one->total;
        all.own += one->own;
        all.n += one->n;
        all.outside += one->outside;
        all.low = fminf(all.low, one->low);
        all.high = fmaxf(all.high, one->high);
        for (int c = 0; c < LEVELS; c++) all.level[c] += one->level[c];
    }
    return all;
}

static double level(double signal, double noise) {
    return noise > 0 ? 10 * log10(signal / noise) : noise == 0 ? INFINITY : NAN;
}

static int32_t unused(const layer *l, const sums *sum) {
    int32_t n = 0;
    for (int c = 0; c < LEVELS; c++) n += sum->level[c] == 0;
    return l->q->n > 0 ? n : -1;
}

static qb_status describe(qb_ctx *cx, const survey *s, const layer *l, const sums *sum,
                          const qb_run_row *row, qb_run_layer *out) {
    qb_step_info info;
    qb_engine_step(s->integer, l->step, &info);
    const int32_t zero = l->q->n > 0 && l->q->zero ? l->q->zero[0] : 0;
    const int32_t least = l->q->dtype == QB_DTYPE_U8 ? 0 : -128;
    const double scale = l->q->n > 0 ? (double)l->q->scale[0] : NAN;
    *out = (qb_run_layer){.name = qb_strdup(cx, info.name),
                          .op = qb_strdup(cx, info.op),
                          .value = qb_strdup(cx, info.output),
                          .precision = qb_strdup(cx, qb_dtype_text(info.dtype)),
                          .own_db = l->alone ? level(sum->signal, sum->own) : NAN,
                          .total_db = level(sum->signal, sum->total),
                          .saturated = 100 * (double)sum->outside / (double)sum->n,
                          .range_lo = scale * (least - zero),
                          .range_hi = scale * (least + 255 - zero),
                          .seen_lo = (double)sum->low,
                          .seen_hi = (double)sum->high,
                          .unused_codes = unused(l, sum),
                          .method = qb_strdup(cx, row->calibration),
                          .float_db = NAN,
                          .float_drop = NAN,
                          .share = NAN};
    return out->name && out->op && out->value && out->precision && out->method ? QB_OK : cx->code;
}

static qb_status fill(qb_ctx *cx, const survey *s, qb_run_row *row) {
    double all = 0;
    QB_TRY_NEW(cx, row->layer = qb_alloc(cx, (size_t)s->n_layers, sizeof *row->layer));
    for (int32_t i = 0; i < s->n_layers; i++) {
        const sums sum = merged(s, i);
        qb_run_layer *out = &row->layer[row->n_layers++];
        QB_TRY(describe(cx, s, &s->layer[i], &sum, row, out));
        if (s->layer[i].alone && sum.signal > 0) out->share = 100 * sum.own / sum.signal;
        if (out->share > 0) all += out->share / 100;
    }
    for (int32_t i = 0; i < row->n_layers && all > 0; i++) row->layer[i].share /= all;
    return QB_OK;
}

qb_status qb_layers_measure(qb_ctx *cx, const qb_candidate *reference,
                            const qb_candidate *quantized, const qb_loader_options *loader,
                            int32_t workers, qb_run_row *row) {
    survey s = {.n_workers = workers};
    qb_stream_result result;
    char label[96];
    snprintf(label, sizeof label, "layers of %s", row->precision);
    qb_status status = QB_OK;
    QB_GO(survey_init(cx, reference, quantized, loader, &s));
    if (s.n_layers == 0) goto out;
    QB_GO_NEW(cx, s.bench = qb_alloc(cx, (size_t)workers, sizeof *s.bench));
    for (int32_t w = 0; w < workers; w++) QB_GO(bench_init(cx, &s, &s.bench[w]));
    const qb_engine *engines[] = {s.reference, s.integer};
    const qb_stream_options stream = {.engine = engines,
                                      .n_engines = 2,
                                      .loader = loader,
                                      .workers = workers,
                                      .label = label,
                                      .sample = on_sample,
                                      .user = &s};
    QB_GO(qb_stream(cx, &stream, &result));
    QB_GO(fill(cx, &s, row));
out:
    survey_release(&s);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "layers of %s", row->precision);
}
