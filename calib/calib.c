#include "calib/calib.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "calib/checkpoint.h"
#include "calib/collect.h"
#include "calib/gather.h"
#include "calib/holdout.h"
#include "engine/backends.h"

/* A run and where it saves its progress. */
typedef struct calibration {
    const qb_graph *graph;
    qb_graph *apart; /* with the inner values that other engines hold in memory */
    const qb_calib_options *options;
    qb_loader_options loader; /* with the place to start from */
    qb_gather gather;
    qb_hash plan;
} calibration;

/* The origin of a table's statistics. */
static qb_status describe(qb_ctx *cx, const calibration *c, qb_table *table) {
    char preprocess[512];
    qb_loader_text(&c->loader, preprocess, sizeof preprocess);
    table->model = qb_strdup(cx, c->graph->source ? qb_path_base(c->graph->source) : "");
    table->dataset = qb_strdup(cx, "");
    table->preprocess = qb_strdup(cx, preprocess);
    if (!table->model || !table->dataset || !table->preprocess) return cx->code;
    table->model_hash = c->graph->hash;
    table->shards = c->options->shards;
    return QB_OK;
}

static qb_status save_progress(qb_ctx *cx, void *user, const qb_loader_progress *progress) {
    const calibration *c = user;
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    QB_TRY(qb_gather_table(cx, &c->gather, &table));
    if (describe(cx, c, table) != QB_OK ||
        qb_checkpoint_save(cx, c->options->checkpoint, c->plan, progress, c->loader.seen, table) !=
            QB_OK)
        return qb_wrap(cx, "save the checkpoint");
    return QB_OK;
}

static qb_status resume(qb_ctx *cx, calibration *c) {
    const char *path = c->options->checkpoint;
    if (!c->options->resume) return QB_OK;
    if (!qb_path_exists(path)) {
        qb_info(cx, "no checkpoint %s: calibrating from the beginning", path);
        return QB_OK;
    }
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    QB_FREED uint64_t *seen = NULL;
    QB_TRY(qb_checkpoint_load(cx, path, c->plan, &c->loader.start, &seen, &table));
    const int64_t n = c->loader.start.next;
    if (n > qb_dataset_count(c->loader.dataset))
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: damaged: it is behind %lld samples of %lld", path,
                       (long long)n, (long long)qb_dataset_count(c->loader.dataset));
    QB_TRY_WRAP(cx, qb_loader_check_seen(cx, &c->loader, seen, n),
                "%s: what it was made from has changed: remove it, or run without --resume", path);
    memcpy(c->loader.seen, seen, (size_t)n * sizeof *seen);
    qb_info(cx, "going on at sample %lld of %lld", (long long)c->loader.start.next + 1,
            (long long)qb_dataset_count(c->loader.dataset));
    return qb_gather_add(cx, &c->gather, table);
}

static qb_status on_sample(qb_ctx *cx, void *user, const qb_stream_sample *sample) {
    calibration *c = user;
    if (qb_is_held_back(sample->index, c->options->hold_back)) return QB_OK;
    return qb_gather_sample(cx, &c->gather, sample);
}

static bool leaves_out(void *user, int64_t index) {
    const calibration *c = user;
    return qb_is_held_back(index, c->options->hold_back);
}

/* *done is false where the values can only be observed on the host. */
static qb_status run_on_device(qb_ctx *cx, calibration *c, bool *done, qb_stream_result *result) {
    const qb_calib_options *o = c->options;
    const qb_collect_options collect = {.graph = c->apart,
                                        .spec = o->spec,
                                        .devices = o->devices,
                                        .loader = &c->loader,
                                        .label = "calibrate",
                                        .leaves_out = leaves_out,
                                        .pause = o->checkpoint ? save_progress : NULL,
                                        .pause_s = o->checkpoint_s,
                                        .user = c};
    bool begun;
    qb_status status = qb_collect(cx, &collect, &c->gather, &begun, result);
    *done = begun || status != QB_STATUS_UNSUPPORTED;
    if (*done) return status;
    qb_info(cx, "statistics are gathered by the processor: %s", cx->message);
    qb_ctx_clear(cx);
    return QB_OK;
}

static qb_status run_on_host(qb_ctx *cx, calibration *c, qb_stream_result *result) {
    const qb_calib_options *o = c->options;
    qb_stream_model model = {.graph = c->apart, .spec = o->spec, .devices = o->devices};
    model.spec.observable = model.spec.first_tactic = true;
    const qb_stream_options stream = {.model = &model,
                                      .n_models = 1,
                                      .loader = &c->loader,
                                      .workers = c->gather.workers,
                                      .label = "calibrate",
                                      .sample = on_sample,
                                      .user = c,
                                      .pause = o->checkpoint ? save_progress : NULL,
                                      .pause_s = o->checkpoint_s};
    return qb_stream(cx, &stream, result);
}

static qb_status run(qb_ctx *cx, calibration *c, qb_stream_result *result) {
    bool done = false;
    if (qb_backends_name_device(c->options->spec.backends) && !c->options->per_channel)
        QB_TRY(run_on_device(cx, c, &done, result));
    if (!done) QB_TRY(run_on_host(cx, c, result));
    if (result->samples > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_NOTFOUND, "no usable sample (%lld could not be read)",
                   (long long)result->skipped);
}

/* Before the start: what the statistics will take. */
static void tell_memory(qb_ctx *cx, const calibration *c) {
    const qb_calib_memory m = qb_gather_memory(&c->gather, qb_dataset_count(c->loader.dataset));
    qb_info(cx,
            "statistics: %d tensors x %zu KiB = %.1f MiB%s, extremes of %lld samples: "
            "%.1f MiB",
            m.tensors, m.histogram / 1024, (double)m.tensors * (double)m.histogram / 0x1p20,
            m.threads > 1 ? " a thread" : "", (long long)m.samples,
            (double)m.tensors * (double)m.samples * sizeof(qb_range) / 0x1p20);
    if (m.channels > 0)
        qb_info(cx, "extremes of %lld channels: %.1f KiB%s", (long long)m.channels,
                (double)m.channels * sizeof(qb_range) / 0x1p10, m.threads > 1 ? " a thread" : "");
    if (c->options->memory) *c->options->memory = m;
}

qb_status qb_calib_gather(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                          qb_table **out) {
    calibration c = {.graph = graph, .options = options, .loader = options->loader};
    const int32_t wanted = options->workers > 0 ? options->workers : qb_threads(cx);
    const int32_t least = qb_devices_count(&options->devices); /* one each */
    qb_stream_result result;
    qb_table *table = NULL;
    qb_status status = QB_OK;
    QB_GO(qb_graph_clone_sharing(cx, graph, &c.apart));
    QB_GO(qb_keep_inner(cx, c.apart));
    QB_GO(qb_gather_init(cx, c.apart, wanted > least ? wanted : least, least, options->per_channel,
                         &c.gather));
    tell_memory(cx, &c);
    if (options->checkpoint) {
        const int64_t n = qb_dataset_count(c.loader.dataset);
        QB_GO_NEW(cx, c.loader.seen = qb_alloc(cx, (size_t)n + 1, sizeof *c.loader.seen));
        c.plan = qb_checkpoint_plan(graph->hash, &c.loader, options->per_channel);
        QB_GO(resume(cx, &c));
    }
    QB_GO(run(cx, &c, &result));
    QB_GO(qb_gather_table(cx, &c.gather, &table));
    QB_GO(describe(cx, &c, table));
    table->skipped = result.skipped;
    table->blank = result.blank;
    table->data_hash = result.data_hash;
    table->data_sum = result.data_sum;
    *out = QB_MOVE(table);
out:
    qb_table_free(table);
    qb_free(c.loader.seen);
    qb_gather_release(&c.gather);
    qb_graph_free(c.apart);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "calibrate");
}

/* Reports values that are not finite. A tensor of nothing but infinities, what a mask is made of,
 * is left out; where there is NaN as well, something is wrong. */
static qb_status check_finite(qb_ctx *cx, const char *name, const qb_stats *s) {
    const uint64_t odd = s->nan + s->pos_inf + s->neg_inf;
    if (s->count == 0 && s->nan > 0)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "tensor '%s' has no finite value: %llu NaN, %llu inf, %llu -inf", name,
                       (unsigned long long)s->nan, (unsigned long long)s->pos_inf,
                       (unsigned long long)s->neg_inf);
    if (s->count > 0 && odd > 0)
        qb_warn(cx, "tensor '%s': %llu NaN, %llu inf and %llu -inf of %llu values are left out",
                name, (unsigned long long)s->nan, (unsigned long long)s->pos_inf,
                (unsigned long long)s->neg_inf, (unsigned long long)(s->count + odd));
    return QB_OK;
}

/* Checks all tensors and drops those that never held a value. */
static qb_status check_tensors(qb_ctx *cx, qb_table *table) {
    int32_t kept = 0;
    for (int32_t i = 0; i < table->n_entries; i++)
        QB_TRY(check_finite(cx, table->entry[i].name, table->entry[i].stats));
    for (int32_t i = 0; i < table->n_entries; i++) {
        const qb_table_entry entry = table->entry[i];
        if (entry.stats->count > 0) {
            table->entry[kept++] = entry;
        } else {
            qb_table_entry_release(&table->entry[i]);
        }
    }
    table->n_entries = kept;
    return QB_OK;
}

qb_status qb_calib_finish(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                          int32_t n_methods) {
    qb_status status = check_tensors(cx, table);
    if (status == QB_OK) status = qb_table_choose(cx, table, methods, n_methods);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "calibrate");
}

qb_status qb_calibrate(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                       qb_table **out) {
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    QB_TRY(qb_calib_gather(cx, graph, options, &table));
    QB_TRY(qb_calib_finish(cx, table, options->methods, options->n_methods));
    *out = QB_MOVE(table);
    return QB_OK;
}
