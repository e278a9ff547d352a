#include "calib/calib.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "calib/holdout.h"
#include "calib/stream.h"

/* Workers are few enough to keep their statistics below this. */
#define STATS_LIMIT ((size_t)192 << 20)

/* What the observers fill: statistics by worker and observed value. */
typedef struct gatherer {
    const qb_engine *engine;
    int32_t n_values, workers;
    int64_t hold_back;
    int64_t n_samples;  /* of the dataset, where extremes by sample are recorded; else 0 */
    qb_stats **stats;   /* [workers x n_values] */
    qb_range *extremes; /* [n_values x n_samples]; lo > hi: nothing finite */
    bool *seen;         /* [n_samples] */
    void **no_outputs;  /* NULLs: outputs are not copied out */
} gatherer;

typedef struct observer {
    const gatherer *gatherer;
    int32_t worker;
    int64_t sample;
} observer;

static qb_stats *stats_of(const gatherer *g, int32_t worker, int32_t value) {
    return g->stats[(size_t)worker * (size_t)g->n_values + (size_t)value];
}

/* Adds a tensor's values and tells their own extremes. */
static qb_range add_values(qb_stats *stats, const qb_tensor *tensor) {
    const float min = stats->min, max = stats->max;
    stats->min = INFINITY;
    stats->max = -INFINITY;
    qb_stats_add_tensor(stats, tensor, -1);
    const qb_range own = {stats->min, stats->max};
    stats->min = fminf(min, own.lo);
    stats->max = fmaxf(max, own.hi);
    return own;
}

/* Values that are not float (shapes, indices) have no range to choose. */
static qb_status on_value(qb_ctx *cx, void *user, int32_t observed, const char *value,
                          const qb_tensor *tensor) {
    (void)cx, (void)value;
    const observer *o = user;
    const gatherer *g = o->gatherer;
    if (tensor->desc.dtype != QB_DTYPE_F32) return QB_OK;
    const qb_range own = add_values(stats_of(g, o->worker, observed), tensor);
    if (g->n_samples > 0) g->extremes[observed * g->n_samples + o->sample] = own;
    return QB_OK;
}

static qb_status on_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    const gatherer *g = user;
    if (qb_is_held_back(sample->index, g->hold_back)) return QB_OK;
    observer o = {g, sample->worker, sample->index};
    const void *inputs[1] = {sample->input};
    if (g->n_samples > 0) g->seen[sample->index] = true;
    return qb_context_observe(cx, sample->context[0], inputs, g->no_outputs, on_value, &o);
}

static void gatherer_release(gatherer *g) {
    for (size_t i = 0; g->stats && i < (size_t)g->workers * (size_t)g->n_values; i++)
        qb_free(g->stats[i]);
    qb_free(g->stats);
    qb_free(g->extremes);
    qb_free(g->seen);
    qb_free(g->no_outputs);
}

/* Memory is taken before the first sample and does not grow: it can be told. */
static void tell_memory(qb_ctx *cx, const gatherer *g) {
    const double stats = (double)g->workers * sizeof(qb_stats);
    const double samples = (double)g->n_samples * sizeof(qb_range);
    char recorded[64] = "";
    if (g->n_samples > 0)
        snprintf(recorded, sizeof recorded, " + %lld samples x %zu B", (long long)g->n_samples,
                 sizeof(qb_range));
    qb_info(cx, "statistics: %d tensors x (%zu KiB x %d thread%s%s) = %.1f MiB", g->n_values,
            sizeof(qb_stats) / 1024, g->workers, g->workers == 1 ? "" : "s", recorded,
            g->n_values * (stats + samples) / 0x1p20);
}

static qb_status gatherer_init(qb_ctx *cx, gatherer *g, const qb_engine *engine, int32_t workers,
                               int64_t n_samples) {
    *g = (gatherer){.engine = engine, .n_values = qb_engine_n_observed(engine)};
    const size_t each = (size_t)g->n_values * sizeof(qb_stats);
    while (workers > 1 && (size_t)workers * each > STATS_LIMIT) workers--;
    g->workers = workers;
    g->n_samples = n_samples <= QB_TABLE_SAMPLES ? n_samples : 0;
    tell_memory(cx, g);
    const size_t n = (size_t)workers * (size_t)g->n_values, recorded = (size_t)g->n_samples;
    g->stats = qb_alloc(cx, n, sizeof *g->stats);
    g->no_outputs = qb_alloc(cx, (size_t)qb_engine_n_outputs(engine), sizeof *g->no_outputs);
    g->extremes = qb_alloc(cx, (size_t)g->n_values * recorded + 1, sizeof *g->extremes);
    g->seen = qb_alloc(cx, recorded + 1, sizeof *g->seen);
    if (!g->stats || !g->no_outputs || !g->extremes || !g->seen) return cx->code;
    for (size_t i = 0; i < n; i++) {
        g->stats[i] = qb_alloc(cx, 1, sizeof(qb_stats));
        if (!g->stats[i]) return cx->code;
        qb_stats_init(g->stats[i]);
    }
    for (size_t i = 0; i < (size_t)g->n_values * recorded; i++)
        g->extremes[i] = (qb_range){INFINITY, -INFINITY};
    return QB_OK;
}

/* Reports values that are not finite; a tensor of nothing else cannot be quantized. */
static qb_status check_finite(qb_ctx *cx, const char *name, const qb_stats *s) {
    const uint64_t odd = s->nan + s->pos_inf + s->neg_inf;
    if (s->count == 0 && odd > 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "tensor '%s' has no finite value: %llu NaN, %llu inf, %llu -inf", name,
                       (unsigned long long)s->nan, (unsigned long long)s->pos_inf,
                       (unsigned long long)s->neg_inf);
    if (odd > 0)
        qb_warn(cx, "tensor '%s': %llu NaN, %llu inf and %llu -inf of %llu values are left out",
                name, (unsigned long long)s->nan, (unsigned long long)s->pos_inf,
                (unsigned long long)s->neg_inf, (unsigned long long)(s->count + odd));
    return QB_OK;
}

/* The samples that were used, in the dataset's order. */
static qb_status record_samples(qb_ctx *cx, const gatherer *g, qb_table *table) {
    int64_t n = 0;
    for (int64_t i = 0; i < g->n_samples; i++) n += g->seen[i];
    QB_TRY(qb_table_record(cx, table, n));
    n = 0;
    for (int64_t i = 0; i < g->n_samples; i++)
        if (g->seen[i]) table->sample[n++] = i;
    return QB_OK;
}

static void copy_extremes(const gatherer *g, int32_t value, const qb_table *table,
                          qb_table_entry *entry) {
    for (int64_t i = 0; i < table->n_recorded; i++) {
        const qb_range own = g->extremes[value * g->n_samples + table->sample[i]];
        entry->sample_min[i] = own.lo;
        entry->sample_max[i] = own.hi;
    }
}

/* Merges the workers' statistics into a table of the values that had any. */
static qb_status make_table(qb_ctx *cx, const gatherer *g, qb_table **out) {
    qb_table *table = NULL;
    qb_status status = QB_OK;
    int32_t used = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        for (int32_t w = 1; w < g->workers; w++)
            qb_stats_merge(stats_of(g, 0, i), stats_of(g, w, i));
        QB_TRY(check_finite(cx, qb_engine_observed_name(g->engine, i), stats_of(g, 0, i)));
        used += stats_of(g, 0, i)->count > 0;
    }
    QB_TRY(qb_table_create(cx, used, &table));
    QB_GO(record_samples(cx, g, table));
    qb_table_entry *entry = table->entry;
    for (int32_t i = 0; i < g->n_values; i++) {
        if (stats_of(g, 0, i)->count == 0) continue;
        entry->name = qb_strdup(cx, qb_engine_observed_name(g->engine, i));
        if (!entry->name) QB_GO(cx->code);
        copy_extremes(g, i, table, entry);
        *entry++->stats = *stats_of(g, 0, i);
    }
    qb_table_sort(table);
    *out = table;
    table = NULL;
out:
    qb_table_free(table);
    return status;
}

static qb_status describe(qb_ctx *cx, const qb_graph *graph, const qb_stream_result *result,
                          qb_table *table) {
    table->model = qb_strdup(cx, graph->source ? qb_path_base(graph->source) : "");
    table->dataset = qb_strdup(cx, "");
    if (!table->model || !table->dataset) return cx->code;
    table->samples = result->samples;
    table->skipped = result->skipped;
    table->model_hash = graph->hash;
    table->data_hash = result->data_hash;
    return QB_OK;
}

static qb_status stream_samples(qb_ctx *cx, const qb_calib_options *options, gatherer *g,
                                qb_stream_result *result) {
    const qb_stream_options stream = {.engine = &g->engine,
                                      .n_engines = 1,
                                      .loader = &options->loader,
                                      .workers = g->workers,
                                      .label = "calibrate",
                                      .sample = on_sample,
                                      .user = g};
    QB_TRY(qb_stream(cx, &stream, result));
    if (result->samples > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "no usable sample (%lld could not be read)",
                   (long long)result->skipped);
}

qb_status qb_calibrate(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                       qb_table **out) {
    const qb_engine_options build = {
        .backends = options->backends, .batch = 1, .threads = 1, .observable = true};
    qb_graph *apart = NULL; /* with the inner values that other engines hold in memory */
    qb_engine *engine = NULL;
    gatherer g = {0};
    qb_table *table = NULL;
    qb_stream_result result;
    qb_status status = QB_OK;
    QB_GO(qb_graph_clone(cx, graph, &apart));
    QB_GO(qb_keep_inner(cx, apart));
    QB_GO(qb_engine_build(cx, apart, &build, &engine));
    QB_GO(gatherer_init(cx, &g, engine, options->workers > 0 ? options->workers : qb_threads(cx),
                        qb_dataset_count(options->loader.dataset)));
    g.hold_back = options->hold_back;
    QB_GO(stream_samples(cx, options, &g, &result));
    QB_GO(make_table(cx, &g, &table));
    QB_GO(describe(cx, graph, &result, table));
    QB_GO(qb_table_choose(cx, table, options->methods, options->n_methods));
    *out = table;
    table = NULL;
out:
    qb_table_free(table);
    gatherer_release(&g);
    qb_engine_free(engine);
    qb_graph_free(apart);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "calibrate");
}
