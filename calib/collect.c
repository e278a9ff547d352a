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
    int64_t *at[2];  /* number of each sample in the gather, by slot */
    int32_t slot_at; /* 0 or 1, of `at` */
    uint64_t used;
} lane;

/* One device; a thread each feeds it. */
typedef struct feed {
    const qb_collect_options *options;
    qb_gather *gather;
    int32_t worker; /* of the gather */
    int32_t device;
    lane lane[QB_COLLECT_SHAPES];
    int32_t n_lanes;
    uint64_t clock;
} feed;

typedef struct collect {
    const qb_collect_options *options;
    feed *feed;
    int32_t n;
} collect;

/* ---- lanes ---- */

static void lane_close(lane *l) {
    qb_collector_free(l->collector);
    qb_engine_free(l->engine);
    QB_FREE_ALL(l->shape, l->at[0], l->at[1]);
    *l = (lane){0};
}

/* What came back of the samples that the slot last held goes to the gather. */
static qb_status harvest(qb_ctx *cx, const feed *f, lane *l) {
    for (int32_t v = 0; v < qb_collector_count(l->collector); v++) {
        const char *name = qb_collector_name(l->collector, v);
        for (int64_t i = 0; qb_gather_wants(f->gather, name) && i < l->slot->n_items; i++) {
            qb_range own;
            qb_collector_extremes(l->collector, l->slot, v, i, &own.lo, &own.hi);
            QB_TRY(qb_gather_extremes(cx, f->gather, f->worker, name, l->at[l->slot_at][i], own));
        }
    }
    l->slot->n_items = 0;
    return QB_OK;
}

static qb_status next_slot(qb_ctx *cx, const feed *f, lane *l) {
    l->slot_at = !l->slot_at;
    l->filled = 0;
    QB_TRY(qb_collector_swap(cx, l->collector, &l->slot));
    return harvest(cx, f, l);
}

static qb_status start(qb_ctx *cx, const feed *f, lane *l) {
    if (l->filled == 0) return QB_OK;
    QB_TRY(qb_collector_start(cx, l->collector, l->filled));
    return next_slot(cx, f, l);
}

/* All of a lane's samples into the gather. */
static qb_status finalize(qb_ctx *cx, const feed *f, lane *l) {
    QB_TRY(start(cx, f, l));
    QB_TRY(next_slot(cx, f, l));
    for (int32_t v = 0; v < qb_collector_count(l->collector); v++) {
        qb_stats *stats;
        const char *name = qb_collector_name(l->collector, v);
        if (!qb_gather_wants(f->gather, name)) continue;
        QB_TRY(qb_gather_stats(cx, f->gather, f->worker, name, &stats));
        QB_TRY(qb_collector_take(cx, l->collector, v, stats));
    }
    return QB_OK;
}

/* Which device it was, where there are several. */
static qb_status named(qb_ctx *cx, const feed *f, qb_status status) {
    const bool tell = status != QB_OK && status != QB_STATUS_CANCELLED && f->options->devices.n > 1;
    return tell ? qb_wrap(cx, "device %d", (int)f->device) : status;
}

/* Nobody may be feeding; whoever calls goes to all devices in turn, which work on meanwhile. */
static qb_status finalize_all(qb_ctx *cx, collect *c) {
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < c->feed[i].n_lanes; k++)
            QB_TRY(named(cx, &c->feed[i], finalize(cx, &c->feed[i], &c->feed[i].lane[k])));
    return QB_OK;
}

/* ---- opening a lane ---- */

static qb_status open_with(qb_ctx *cx, const feed *f, int64_t batch, lane *l) {
    qb_shape *shape = QB_NEW(cx, qb_alloc(cx, (size_t)l->n_inputs, sizeof *shape));
    for (int32_t i = 0; i < l->n_inputs; i++) {
        shape[i] = l->shape[i];
        if (batch > 1) shape[i].dim[0] *= batch;
    }
    qb_build_spec spec = f->options->spec;
    spec.device = f->device;
    spec.input_shapes = shape;
    spec.threads = 1;
    spec.observable = spec.first_tactic = true;
    spec.items_apart = batch > 1;
    qb_status status = qb_engine_build(cx, f->options->graph, &spec, &l->engine);
    qb_free(shape);
    l->batch = batch;
    if (status != QB_OK) return status;
    status = qb_collector_create(cx, l->engine, &l->collector);
    if (status != QB_OK) qb_engine_free(QB_MOVE(l->engine));
    return status;
}

/* Only single samples can be put together. */
static int64_t largest_batch(const lane *l) {
    for (int32_t i = 0; i < l->n_inputs; i++)
        if (l->shape[i].rank < 1 || l->shape[i].dim[0] != 1) return 1;
    return QB_COLLECT_BATCH;
}

static qb_status open_lane(qb_ctx *cx, const feed *f, const qb_tensor *input, int32_t n_inputs,
                           lane *l) {
    *l = (lane){.n_inputs = n_inputs};
    QB_TRY_NEW(cx, l->shape = qb_alloc(cx, (size_t)n_inputs, sizeof *l->shape));
    for (int32_t i = 0; i < n_inputs; i++) l->shape[i] = input[i].desc.shape;
    int64_t batch = largest_batch(l);
    qb_status status = open_with(cx, f, batch, l);
    while (status != QB_OK && status != QB_STATUS_CANCELLED && batch > 1) {
        qb_info(cx, "calibrating fewer than %lld samples at once: %s", (long long)batch,
                cx->message);
        qb_ctx_clear(cx);
        batch = status == QB_STATUS_NOMEM ? batch / 2 : 1; /* a batch that is fixed, or mixed */
        status = open_with(cx, f, batch, l);
    }
    for (int i = 0; i < 2 && status == QB_OK; i++) {
        l->at[i] = qb_alloc(cx, (size_t)l->batch, sizeof *l->at[i]);
        if (!l->at[i]) status = cx->code;
    }
    return status == QB_OK ? next_slot(cx, f, l) : status;
}

static bool fits(const lane *l, const qb_tensor *input) {
    for (int32_t i = 0; i < l->n_inputs; i++)
        if (!qb_shape_equal(&l->shape[i], &input[i].desc.shape)) return false;
    return true;
}

static qb_status find_lane(qb_ctx *cx, feed *f, const qb_tensor *input, int32_t n_inputs,
                           lane **out) {
    lane *l = NULL;
    for (int32_t i = 0; i < f->n_lanes && !l; i++)
        if (fits(&f->lane[i], input)) l = &f->lane[i];
    if (!l && f->n_lanes == QB_COLLECT_SHAPES) { /* the one unused for longest makes room */
        lane *oldest = &f->lane[0];
        for (int32_t i = 1; i < f->n_lanes; i++)
            if (f->lane[i].used < oldest->used) oldest = &f->lane[i];
        QB_TRY(finalize(cx, f, oldest));
        lane_close(oldest);
        *oldest = f->lane[--f->n_lanes];
    }
    if (!l) {
        l = &f->lane[f->n_lanes];
        qb_status status = open_lane(cx, f, input, n_inputs, l);
        if (status != QB_OK) {
            lane_close(l);
            return status;
        }
        f->n_lanes++;
    }
    l->used = ++f->clock;
    *out = l;
    return QB_OK;
}

/* ---- samples ---- */

static qb_status add_sample(qb_ctx *cx, feed *f, const qb_batch *batch, int32_t i) {
    const qb_tensor *input = batch->input + (size_t)i * (size_t)batch->n_inputs;
    lane *l;
    QB_TRY(find_lane(cx, f, input, batch->n_inputs, &l));
    for (int32_t k = 0; k < batch->n_inputs; k++) {
        const size_t bytes = qb_desc_bytes(&input[k].desc);
        memcpy((char *)l->slot->input[k] + (size_t)l->filled * bytes, input[k].data, bytes);
    }
    QB_TRY(qb_gather_count(cx, f->gather, f->worker, batch->key[i], &l->at[l->slot_at][l->filled]));
    return ++l->filled == l->batch ? start(cx, f, l) : QB_OK;
}

static qb_status on_sample(qb_ctx *cx, void *user, int32_t worker, const qb_batch *batch,
                           int32_t i) {
    const collect *c = user;
    const qb_collect_options *o = c->options;
    feed *f = &c->feed[worker];
    if (o->leaves_out && o->leaves_out(o->user, batch->index[i])) return QB_OK;
    return named(cx, f, add_sample(cx, f, batch, i));
}

static qb_status on_pause(qb_ctx *cx, void *user, const qb_loader_progress *progress) {
    collect *c = user;
    QB_TRY(finalize_all(cx, c));
    return c->options->pause(cx, c->options->user, progress);
}

/* ---- */

static qb_status open_feeds(qb_ctx *cx, const qb_collect_options *o, qb_gather *gather,
                            collect *c) {
    QB_TRY_NEW(cx, c->feed = qb_alloc(cx, (size_t)qb_devices_count(&o->devices), sizeof *c->feed));
    for (; c->n < qb_devices_count(&o->devices); c->n++)
        c->feed[c->n] = (feed){.options = o,
                               .gather = gather,
                               .worker = c->n,
                               .device = qb_device_number(&o->devices, c->n, &o->spec)};
    return QB_OK;
}

qb_status qb_collect(qb_ctx *cx, const qb_collect_options *options, qb_gather *gather, bool *begun,
                     qb_stream_result *out) {
    collect c = {.options = options};
    qb_status status = QB_OK;
    *begun = false;
    QB_TRY(qb_devices_check(cx, options->spec.backends, &options->devices));
    QB_TRY(open_feeds(cx, options, gather, &c));
    const qb_stream_workers_options workers = {.loader = options->loader,
                                               .workers = c.n,
                                               .label = options->label,
                                               .sample = on_sample,
                                               .pause = options->pause ? on_pause : NULL,
                                               .pause_s = options->pause_s,
                                               .user = &c};
    QB_GO(qb_stream_workers_run(cx, &workers, out));
    QB_GO(finalize_all(cx, &c));
out:
    for (int32_t i = 0; i < c.n; i++) {
        *begun = *begun || c.feed[i].clock > 0;
        for (int32_t k = 0; k < c.feed[i].n_lanes; k++) lane_close(&c.feed[i].lane[k]);
    }
    qb_free(c.feed);
    return status;
}
