#include "calib/collect.h"

#include <string.h>

#include "base/log.h"
#include "engine/collect.h"

/* Samples of one combination of input shapes, on their way. */
typedef struct lane {
    qb_shape *shape; /* of the inputs of one sample */
    int32_t n_inputs;
    int64_t batch;
    qb_engine *engine;
    qb_collector *collector;
    qb_collector_slot *slot; /* being filled */
    int64_t filled;
    int64_t *at[2]; /* number of each sample in the gather, by slot */
    int32_t turn;
    uint64_t used;
} lane;

typedef struct collect {
    qb_ctx *cx;
    const qb_collect_options *options;
    qb_gather *gather;
    lane lane[QB_COLLECT_SHAPES];
    int32_t n_lanes;
    uint64_t clock;
} collect;

/* ---- lanes ---- */

static void lane_close(lane *l) {
    qb_collector_free(l->collector);
    qb_engine_free(l->engine);
    qb_free(l->shape);
    qb_free(l->at[0]);
    qb_free(l->at[1]);
    *l = (lane){0};
}

/* What came back of the samples that the slot last held goes to the gather. */
static qb_status harvest(const collect *c, lane *l) {
    for (int32_t v = 0; v < qb_collector_count(l->collector); v++) {
        const char *name = qb_collector_name(l->collector, v);
        for (int64_t i = 0; qb_gather_wants(c->gather, name) && i < l->slot->n_items; i++) {
            qb_range own;
            qb_collector_extremes(l->collector, l->slot, v, i, &own.lo, &own.hi);
            QB_TRY(qb_gather_extremes(c->cx, c->gather, name, l->at[l->turn][i], own));
        }
    }
    l->slot->n_items = 0;
    return QB_OK;
}

static qb_status next_slot(const collect *c, lane *l) {
    l->turn = !l->turn;
    l->filled = 0;
    QB_TRY(qb_collector_turn(c->cx, l->collector, &l->slot));
    return harvest(c, l);
}

static qb_status start(const collect *c, lane *l) {
    if (l->filled == 0) return QB_OK;
    QB_TRY(qb_collector_start(c->cx, l->collector, l->filled));
    return next_slot(c, l);
}

/* All of a lane's samples into the gather. */
static qb_status settle(const collect *c, lane *l) {
    QB_TRY(start(c, l));
    QB_TRY(next_slot(c, l));
    for (int32_t v = 0; v < qb_collector_count(l->collector); v++) {
        qb_stats *stats;
        const char *name = qb_collector_name(l->collector, v);
        if (!qb_gather_wants(c->gather, name)) continue;
        QB_TRY(qb_gather_stats(c->cx, c->gather, name, &stats));
        QB_TRY(qb_collector_take(c->cx, l->collector, v, stats));
    }
    return QB_OK;
}

static qb_status settle_all(const collect *c) {
    for (int32_t i = 0; i < c->n_lanes; i++) QB_TRY(settle(c, (lane *)(uintptr_t)&c->lane[i]));
    return QB_OK;
}

/* ---- opening a lane ---- */

static qb_status open_with(const collect *c, int64_t batch, lane *l) {
    qb_ctx *cx = c->cx;
    qb_shape *shape = qb_alloc(cx, (size_t)l->n_inputs, sizeof *shape);
    if (!shape) return cx->code;
    for (int32_t i = 0; i < l->n_inputs; i++) {
        shape[i] = l->shape[i];
        if (batch > 1) shape[i].dim[0] *= batch;
    }
    const qb_engine_options build = {.backends = c->options->backends,
                                     .input_shapes = shape,
                                     .threads = 1,
                                     .observable = true,
                                     .first_tactic = true,
                                     .items_apart = batch > 1};
    qb_status status = qb_engine_build(cx, c->options->graph, &build, &l->engine);
    qb_free(shape);
    l->batch = batch;
    if (status != QB_OK) return status;
    status = qb_collector_create(cx, l->engine, &l->collector);
    if (status != QB_OK) {
        qb_engine_free(l->engine);
        l->engine = NULL;
    }
    return status;
}

/* Only single samples can be put together. */
static int64_t largest_batch(const lane *l) {
    for (int32_t i = 0; i < l->n_inputs; i++)
        if (l->shape[i].rank < 1 || l->shape[i].dim[0] != 1) return 1;
    return QB_COLLECT_BATCH;
}

static qb_status open_lane(const collect *c, const qb_tensor *input, int32_t n_inputs, lane *l) {
    qb_ctx *cx = c->cx;
    *l = (lane){.n_inputs = n_inputs};
    l->shape = qb_alloc(cx, (size_t)n_inputs, sizeof *l->shape);
    if (!l->shape) return cx->code;
    for (int32_t i = 0; i < n_inputs; i++) l->shape[i] = input[i].desc.shape;
    int64_t batch = largest_batch(l);
    qb_status status = open_with(c, batch, l);
    while (status != QB_OK && status != QB_STATUS_CANCELLED && batch > 1) {
        qb_info(cx, "calibrating fewer than %lld samples at once: %s", (long long)batch,
                cx->message);
        qb_ctx_clear(cx);
        batch = status == QB_STATUS_NOMEM ? batch / 2 : 1; /* a batch that is fixed, or mixed */
        status = open_with(c, batch, l);
    }
    for (int i = 0; i < 2 && status == QB_OK; i++) {
        l->at[i] = qb_alloc(cx, (size_t)l->batch, sizeof *l->at[i]);
        if (!l->at[i]) status = cx->code;
    }
    return status == QB_OK ? next_slot(c, l) : status;
}

static bool fits(const lane *l, const qb_tensor *input) {
    for (int32_t i = 0; i < l->n_inputs; i++)
        if (!qb_shape_equal(&l->shape[i], &input[i].desc.shape)) return false;
    return true;
}

static qb_status find_lane(collect *c, const qb_tensor *input, int32_t n_inputs, lane **out) {
    lane *l = NULL;
    for (int32_t i = 0; i < c->n_lanes && !l; i++)
        if (fits(&c->lane[i], input)) l = &c->lane[i];
    if (!l && c->n_lanes == QB_COLLECT_SHAPES) { /* the one unused for longest makes room */
        lane *oldest = &c->lane[0];
        for (int32_t i = 1; i < c->n_lanes; i++)
            if (c->lane[i].used < oldest->used) oldest = &c->lane[i];
        QB_TRY(settle(c, oldest));
        lane_close(oldest);
        *oldest = c->lane[--c->n_lanes];
    }
    if (!l) {
        l = &c->lane[c->n_lanes];
        qb_status status = open_lane(c, input, n_inputs, l);
        if (status != QB_OK) {
            lane_close(l);
            return status;
        }
        c->n_lanes++;
    }
    l->used = ++c->clock;
    *out = l;
    return QB_OK;
}

/* ---- samples ---- */

static qb_status add_sample(collect *c, const qb_batch *batch, int32_t i) {
    const qb_tensor *input = batch->input + (size_t)i * (size_t)batch->n_inputs;
    lane *l;
    QB_TRY(find_lane(c, input, batch->n_inputs, &l));
    for (int32_t k = 0; k < batch->n_inputs; k++) {
        const size_t bytes = qb_desc_bytes(&input[k].desc);
        memcpy((char *)l->slot->input[k] + (size_t)l->filled * bytes, input[k].data, bytes);
    }
    QB_TRY(qb_gather_count(c->cx, c->gather, qb_gather_key(&batch->hash[i]),
                           &l->at[l->turn][l->filled]));
    return ++l->filled == l->batch ? start(c, l) : QB_OK;
}

static qb_status add_batch(collect *c, const qb_batch *batch) {
    const qb_collect_options *o = c->options;
    for (int32_t i = 0; i < batch->n; i++) {
        QB_TRY(qb_check_cancel(c->cx));
        if (o->leaves_out && o->leaves_out(o->user, batch->index[i])) continue;
        QB_TRY_WRAP(c->cx, add_sample(c, batch, i), "sample '%s'",
                    qb_dataset_sample_name(o->loader->dataset, batch->index[i]));
    }
    return QB_OK;
}

static qb_status make_pause(const collect *c, const qb_loader *loader) {
    qb_loader_progress progress;
    QB_TRY(settle_all(c));
    qb_loader_progress_of(loader, &progress);
    return c->options->pause(c->cx, c->options->user, &progress);
}

static qb_status stream(collect *c, qb_loader *loader, qb_progress *bar) {
    const qb_collect_options *o = c->options;
    double next_pause = qb_now() + o->pause_s;
    int32_t n = 1;
    while (n > 0) {
        qb_batch batch;
        QB_TRY(qb_loader_next(c->cx, loader, &batch));
        n = batch.n;
        qb_status status = add_batch(c, &batch);
        qb_loader_give_back(loader, &batch);
        if (status != QB_OK) return status;
        qb_progress_step(bar, n);
        if (n == 0 || !o->pause || qb_now() < next_pause) continue;
        QB_TRY(make_pause(c, loader));
        next_pause = qb_now() + o->pause_s;
    }
    return settle_all(c);
}

qb_status qb_collect(qb_ctx *cx, const qb_collect_options *options, qb_gather *gather, bool *begun,
                     qb_stream_result *out) {
    collect c = {.cx = cx, .options = options, .gather = gather};
    qb_loader *loader = NULL;
    qb_progress bar = {0};
    qb_loader_progress progress;
    qb_status status = QB_OK;
    QB_GO(qb_loader_create(cx, options->loader, &loader));
    qb_progress_begin(cx, &bar, options->label, "samples",
                      qb_dataset_count(options->loader->dataset) - options->loader->start.next);
    QB_GO(stream(&c, loader, &bar));
    qb_loader_progress_of(loader, &progress);
    *out = (qb_stream_result){.samples = progress.samples,
                              .skipped = qb_loader_skipped(loader),
                              .blank = progress.blank,
                              .data_hash = qb_loader_progress_hash(&progress),
                              .data_sum = progress.sum};
out:
    *begun = c.clock > 0;
    qb_progress_end(&bar);
    for (int32_t i = 0; i < c.n_lanes; i++) lane_close(&c.lane[i]);
    qb_loader_free(loader);
    return status;
}
