#include "calib/gather.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fusion.h"

/* Workers are few enough to keep their statistics below this. */
#define STATS_LIMIT ((size_t)192 << 20)

static qb_status add_slot(qb_ctx *cx, const qb_graph *graph, int32_t value, qb_table *table) {
    qb_table_entry *entry;
    if (value < 0 || graph->values[value].dtype != QB_DTYPE_F32) return QB_OK;
    return qb_table_slot(cx, table, graph->values[value].name, &entry);
}

static int64_t count_channels(const qb_gather *g, const qb_graph *graph) {
    int64_t sum = 0;
    for (int32_t i = 0; i < graph->n_values; i++) {
        const qb_value *value = &graph->values[i];
        const int64_t n = qb_channels_of(&value->shape);
        if (n > 0 && n <= QB_CHANNELS_MOST && !qb_unions_has(&g->unions, value->name) &&
            qb_table_find(g->part[0].table, value->name))
            sum += n;
    }
    return sum;
}

/* An entry for each value that an engine shows. */
static qb_status add_slots(qb_ctx *cx, const qb_graph *graph, const qb_groups *groups,
                           qb_table *table) {
    for (int32_t i = 0; i < graph->n_inputs; i++)
        QB_TRY(add_slot(cx, graph, graph->inputs[i], table));
    for (int32_t g = 0; g < groups->n; g++) {
        const qb_group *group = &groups->group[g];
        const qb_node *last = &graph->nodes[group->node[group->n_nodes - 1]];
        for (int32_t o = 0; o < last->n_out; o++) QB_TRY(add_slot(cx, graph, last->out[o], table));
    }
    return QB_OK;
}

qb_status qb_gather_init(qb_ctx *cx, const qb_graph *graph, int32_t workers, int32_t least,
                         bool per_channel, qb_gather *out) {
    QB_RELEASED(qb_gather_release) qb_gather g = {.workers = 1, .per_channel = per_channel};
    QB_RELEASED(qb_groups_release) qb_groups groups = {0};
    QB_TRY(qb_fuse(cx, graph, &groups));
    QB_TRY(qb_unions_find(cx, graph, &groups, &g.unions));
    QB_TRY_NEW(cx, g.part = qb_alloc(cx, (size_t)workers, sizeof *g.part));
    QB_TRY_NEW(cx, g.no_outputs = qb_alloc(cx, (size_t)graph->n_outputs, sizeof *g.no_outputs));
    for (int32_t i = 0; i < workers; i++) {
        const int32_t n = i > 0 ? g.part[0].table->n_entries : 0;
        if (i >= least && (size_t)(i + 1) * (size_t)n * sizeof(qb_stats) > STATS_LIMIT) break;
        g.workers = i + 1;
        QB_TRY(qb_table_create(cx, 0, &g.part[i].table));
        QB_TRY(add_slots(cx, graph, &groups, g.part[i].table));
    }
    if (g.part[0].table->n_entries == 0)
        return qb_fail(
            cx, QB_STATUS_UNSUPPORTED,
            "the model computes nothing in f32 to calibrate (integers, f64, or layers that have "
            "their scales)");
    if (per_channel) g.channels = count_channels(&g, graph);
    *out = QB_MOVE(g);
    return QB_OK;
}

void qb_gather_release(qb_gather *gather) {
    for (int32_t i = 0; gather->part && i < gather->workers; i++) {
        qb_table_free(gather->part[i].table);
        qb_free(gather->part[i].key);
    }
    qb_unions_release(&gather->unions);
    QB_FREE_ALL(gather->part, gather->no_outputs);
    *gather = (qb_gather){0};
}

qb_calib_memory qb_gather_memory(const qb_gather *gather, int64_t n_samples) {
    qb_calib_memory m = {.tensors = gather->part[0].table->n_entries,
                         .threads = gather->workers,
                         .histogram = sizeof(qb_stats),
                         .samples = n_samples <= QB_TABLE_SAMPLES ? n_samples : QB_TABLE_SAMPLES};
    const size_t extremes = (size_t)m.samples * sizeof(qb_range);
    m.channels = gather->channels;
    m.bytes = (size_t)m.tensors * ((size_t)m.threads * m.histogram + extremes) +
              (size_t)m.threads * (size_t)m.channels * sizeof(qb_range);
    return m;
}

/* ---- samples of one worker ---- */

static bool records(const qb_gather_part *part) { return part->n <= QB_TABLE_SAMPLES; }

/* An array of `old` values becomes one of `wanted`, filled up with `empty`. */
static qb_status widen(qb_ctx *cx, float **array, int64_t old, int64_t wanted, float empty) {
    float *wide = QB_NEW(cx, qb_alloc(cx, (size_t)wanted, sizeof *wide));
    if (*array) memcpy(wide, *array, (size_t)old * sizeof *wide);
    for (int64_t i = *array ? old : 0; i < wanted; i++) wide[i] = empty;
    qb_free(*array);
    *array = wide;
    return QB_OK;
}

static qb_status widen_entry(qb_ctx *cx, qb_table_entry *entry, int64_t old, int64_t wanted) {
    QB_TRY(widen(cx, &entry->sample_min, old, wanted, INFINITY));
    return widen(cx, &entry->sample_max, old, wanted, -INFINITY);
}

/* Room for the extremes of one more sample in all entries. */
static qb_status make_capacity(qb_ctx *cx, qb_gather_part *part) {
    if (!records(part) || (int64_t)part->n <= part->capacity) return QB_OK;
    const int64_t wanted = part->capacity > 0 ? 2 * part->capacity : 64;
    for (int32_t i = 0; i < part->table->n_entries; i++)
        if (part->table->entry[i].sample_min)
            QB_TRY(widen_entry(cx, &part->table->entry[i], part->capacity, wanted));
    part->capacity = wanted;
    return QB_OK;
}

static qb_status add_keys(qb_ctx *cx, qb_gather_part *part, const uint64_t *key, size_t n) {
    QB_TRY(qb_grow(cx, &part->key, &part->key_capacity, part->n + n, sizeof *part->key));
    memcpy(part->key + part->n, key, n * sizeof *key);
    part->n += n;
    return QB_OK;
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

typedef struct visit {
    const qb_gather *gather;
    qb_gather_part *part;
} visit;

static qb_status put_extremes(qb_ctx *cx, const qb_gather_part *part, qb_table_entry *entry,
                              int64_t at, qb_range own) {
    if (!entry->sample_min) QB_TRY(widen_entry(cx, entry, 0, part->capacity));
    entry->sample_min[at] = own.lo;
    entry->sample_max[at] = own.hi;
    return QB_OK;
}

/* Values that are not float (shapes, indices) have no range to choose. */
static qb_status on_value(qb_ctx *cx, void *user, int32_t observed, const char *value,
                          const qb_tensor *tensor) {
    (void)observed;
    const visit *v = user;
    qb_gather_part *part = v->part;
    qb_table_entry *entry;
    if (tensor->desc.dtype != QB_DTYPE_F32 || qb_unions_has(&v->gather->unions, value))
        return QB_OK;
    QB_TRY(qb_table_slot(cx, part->table, value, &entry));
    const qb_range own = add_values(entry->stats, tensor);
    if (v->gather->per_channel) QB_TRY(qb_channels_add(cx, &entry->channels, tensor));
    return records(part) ? put_extremes(cx, part, entry, (int64_t)part->n - 1, own) : QB_OK;
}

qb_status qb_gather_sample(qb_ctx *cx, qb_gather *gather, const qb_stream_sample *sample) {
    qb_gather_part *part = &gather->part[sample->worker];
    visit v = {gather, part};
    QB_TRY(add_keys(cx, part, &sample->key, 1));
    QB_TRY(make_capacity(cx, part));
    return qb_context_observe(cx, sample->context[0], sample->inputs, gather->no_outputs, on_value,
                              &v);
}

/* ---- what a device gathered ---- */

bool qb_gather_wants(const qb_gather *gather, const char *value) {
    return !qb_unions_has(&gather->unions, value);
}

qb_status qb_gather_count(qb_ctx *cx, qb_gather *gather, int32_t worker, uint64_t key,
                          int64_t *at) {
    qb_gather_part *part = &gather->part[worker];
    *at = (int64_t)part->n;
    QB_TRY(add_keys(cx, part, &key, 1));
    return make_capacity(cx, part);
}

qb_status qb_gather_extremes(qb_ctx *cx, qb_gather *gather, int32_t worker, const char *value,
                             int64_t at, qb_range own) {
    qb_gather_part *part = &gather->part[worker];
    qb_table_entry *entry;
    if (!records(part)) return QB_OK;
    QB_TRY(qb_table_slot(cx, part->table, value, &entry));
    return put_extremes(cx, part, entry, at, own);
}

qb_status qb_gather_stats(qb_ctx *cx, qb_gather *gather, int32_t worker, const char *value,
                          qb_stats **out) {
    qb_table_entry *entry;
    QB_TRY(qb_table_slot(cx, gather->part[worker].table, value, &entry));
    *out = entry->stats;
    return QB_OK;
}

/* ---- all of them ---- */

/* A sample and who saw it. */
typedef struct seen {
    uint64_t key;
    const qb_gather_part *part;
    int64_t at;
} seen;

static int by_key(const void *a, const void *b) {
    const uint64_t left = ((const seen *)a)->key, right = ((const seen *)b)->key;
    return left < right ? -1 : left > right;
}

/* All samples in ascending order; equal keys stand for equal content, so their order is of no
 * consequence. New memory. */
static seen *sort_samples(qb_ctx *cx, const qb_gather *gather, int64_t *n) {
    *n = 0;
    for (int32_t i = 0; i < gather->workers; i++) *n += (int64_t)gather->part[i].n;
    seen *all = qb_alloc(cx, (size_t)*n, sizeof *all);
    int64_t at = 0;
    for (int32_t i = 0; all && i < gather->workers; i++)
        for (size_t k = 0; k < gather->part[i].n; k++)
            all[at++] = (seen){gather->part[i].key[k], &gather->part[i], (int64_t)k};
    if (all && *n > 1) qsort(all, (size_t)*n, sizeof *all, by_key);
    return all;
}

static qb_status add_stats(qb_ctx *cx, qb_table *into, const qb_table *from) {
    for (int32_t i = 0; i < from->n_entries; i++) {
        qb_table_entry *entry;
        QB_TRY(qb_table_slot(cx, into, from->entry[i].name, &entry));
        qb_stats_merge(entry->stats, from->entry[i].stats);
        QB_TRY(qb_channels_merge(cx, &entry->channels, &from->entry[i].channels));
    }
    return QB_OK;
}

static void fill_extremes(const seen *all, int64_t n, qb_table_entry *entry) {
    for (int64_t i = 0; i < n; i++) {
        const qb_table_entry *from = qb_table_find(all[i].part->table, entry->name);
        const bool there = from && from->sample_min;
        entry->sample_min[i] = there ? from->sample_min[all[i].at] : INFINITY;
        entry->sample_max[i] = there ? from->sample_max[all[i].at] : -INFINITY;
    }
}

static qb_status add_samples(qb_ctx *cx, const seen *all, int64_t n, qb_table *table) {
    QB_TRY_NEW(cx, table->sample = qb_alloc(cx, (size_t)n, sizeof *table->sample));
    for (int64_t i = 0; i < n; i++) table->sample[i] = all[i].key;
    table->samples = n;
    if (n > QB_TABLE_SAMPLES) return QB_OK;
    QB_TRY(qb_table_record(cx, table, n));
    for (int32_t i = 0; i < table->n_entries && n > 0; i++) fill_extremes(all, n, &table->entry[i]);
    return QB_OK;
}

qb_status qb_gather_table(qb_ctx *cx, const qb_gather *gather, qb_table **out) {
    QB_RELEASED(qb_table_free_at) qb_table *table = NULL;
    int64_t n;
    QB_FREED seen *all = QB_NEW(cx, sort_samples(cx, gather, &n));
    QB_TRY(qb_table_create(cx, 0, &table));
    for (int32_t i = 0; i < gather->workers; i++)
        QB_TRY(add_stats(cx, table, gather->part[i].table));
    QB_TRY(add_samples(cx, all, n, table));
    table->per_channel = gather->per_channel;
    qb_unions_fill(&gather->unions, table);
    *out = QB_MOVE(table);
    return QB_OK;
}

qb_status qb_gather_add(qb_ctx *cx, qb_gather *gather, const qb_table *table) {
    qb_gather_part *part = &gather->part[0];
    QB_TRY(add_stats(cx, part->table, table));
    QB_TRY(add_keys(cx, part, table->sample, (size_t)table->samples));
    if (table->n_recorded == 0) return QB_OK;
    part->capacity = table->n_recorded;
    for (int32_t i = 0; i < table->n_entries; i++) {
        qb_table_entry *entry;
        const size_t bytes = (size_t)table->n_recorded * sizeof(float);
        QB_TRY(qb_table_slot(cx, part->table, table->entry[i].name, &entry));
        QB_TRY(widen_entry(cx, entry, 0, part->capacity));
        memcpy(entry->sample_min, table->entry[i].sample_min, bytes);
        memcpy(entry->sample_max, table->entry[i].sample_max, bytes);
    }
    return QB_OK;
}
