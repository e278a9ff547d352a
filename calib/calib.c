#include "calib/calib.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "calib/stream.h"

/* Workers are few enough to keep their statistics below this. */
#define STATS_LIMIT ((size_t)192 << 20)

/* What the observers fill: statistics by worker and observed value. */
typedef struct gatherer {
    const qb_engine *engine;
    int32_t n_values, workers;
    qb_stats **stats;  /* [workers x n_values] */
    void **no_outputs; /* NULLs: outputs are not copied out */
} gatherer;

typedef struct observer {
    const gatherer *gatherer;
    int32_t worker;
} observer;

static qb_stats *stats_of(const gatherer *g, int32_t worker, int32_t value) {
    return g->stats[(size_t)worker * (size_t)g->n_values + (size_t)value];
}

/* Values that are not float (shapes, indices) have no range to choose. */
static qb_status on_value(qb_ctx *cx, void *user, int32_t observed, const char *value,
                          const qb_tensor *tensor) {
    (void)cx, (void)value;
    const observer *o = user;
    if (tensor->desc.dtype == QB_DTYPE_F32)
        qb_stats_add_tensor(stats_of(o->gatherer, o->worker, observed), tensor, -1);
    return QB_OK;
}

static qb_status on_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    const gatherer *g = user;
    observer o = {g, sample->worker};
    const void *inputs[1] = {sample->input};
    return qb_context_observe(cx, sample->context[0], inputs, g->no_outputs, on_value, &o);
}

static void gatherer_release(gatherer *g) {
    for (size_t i = 0; g->stats && i < (size_t)g->workers * (size_t)g->n_values; i++)
        qb_free(g->stats[i]);
    qb_free(g->stats);
    qb_free(g->no_outputs);
}

static qb_status gatherer_init(qb_ctx *cx, gatherer *g, const qb_engine *engine, int32_t workers) {
    *g = (gatherer){.engine = engine, .n_values = qb_engine_n_observed(engine)};
    const size_t each = (size_t)g->n_values * sizeof(qb_stats);
    while (workers > 1 && (size_t)workers * each > STATS_LIMIT) workers--;
    g->workers = workers;
    qb_debug(cx, "calibrate: %d tensors x %zu KiB x %d workers = %.1f MiB", g->n_values,
             sizeof(qb_stats) / 1024, workers, (double)each * workers / 0x1p20);
    const size_t n = (size_t)workers * (size_t)g->n_values;
    g->stats = qb_alloc(cx, n, sizeof *g->stats);
    g->no_outputs = qb_alloc(cx, (size_t)qb_engine_n_outputs(engine), sizeof *g->no_outputs);
    if (!g->stats || !g->no_outputs) return cx->code;
    for (size_t i = 0; i < n; i++) {
        g->stats[i] = qb_alloc(cx, 1, sizeof(qb_stats));
        if (!g->stats[i]) return cx->code;
        qb_stats_init(g->stats[i]);
    }
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
    qb_table_entry *entry = table->entry;
    for (int32_t i = 0; i < g->n_values; i++) {
        if (stats_of(g, 0, i)->count == 0) continue;
        entry->name = qb_strdup(cx, qb_engine_observed_name(g->engine, i));
        if (!entry->name) QB_GO(cx->code);
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
    QB_GO(gatherer_init(cx, &g, engine, options->workers > 0 ? options->workers : qb_threads(cx)));
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
