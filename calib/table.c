#include "calib/table.h"

#include <stdlib.h>
#include <string.h>

qb_status qb_table_create(qb_ctx *cx, int32_t n_entries, qb_table **out) {
    if (n_entries < 0 || n_entries > QB_TABLE_ENTRIES)
        return qb_fail(cx, QB_STATUS_INVALID, "calibration table: expected 0 to %d tensors, got %d",
                       QB_TABLE_ENTRIES, n_entries);
    QB_RELEASED(qb_table_free_at) qb_table *table = QB_NEW(cx, qb_alloc(cx, 1, sizeof *table));
    QB_TRY_NEW(cx, table->entry = qb_alloc(cx, (size_t)n_entries, sizeof *table->entry));
    table->n_entries = n_entries;
    table->capacity = (size_t)n_entries;
    for (int32_t i = 0; i < n_entries; i++) {
        QB_TRY_NEW(cx, table->entry[i].stats = qb_alloc(cx, 1, sizeof(qb_stats)));
        qb_stats_init(table->entry[i].stats);
    }
    *out = QB_MOVE(table);
    return QB_OK;
}

qb_status qb_table_record(qb_ctx *cx, qb_table *table, int64_t n_samples) {
    if (n_samples < 0 || n_samples > QB_TABLE_SAMPLES)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "calibration table: extremes of 0 to %d samples can be recorded, got %lld",
                       QB_TABLE_SAMPLES, (long long)n_samples);
    if (n_samples == 0) return QB_OK;
    const size_t n = (size_t)n_samples;
    if (!table->sample) table->sample = qb_alloc(cx, n, sizeof *table->sample);
    if (!table->sample) return cx->code;
    for (int32_t i = 0; i < table->n_entries; i++) {
        QB_TRY_NEW(cx, table->entry[i].sample_min = qb_alloc(cx, n, sizeof(float)));
        QB_TRY_NEW(cx, table->entry[i].sample_max = qb_alloc(cx, n, sizeof(float)));
    }
    table->n_recorded = n_samples;
    return QB_OK;
}

void qb_table_entry_release(qb_table_entry *entry) {
    QB_FREE_ALL(entry->name, entry->stats, entry->sample_min, entry->sample_max);
    qb_channels_release(&entry->channels);
}

void qb_table_free(qb_table *table) {
    if (!table) return;
    for (int32_t i = 0; i < table->n_entries; i++) qb_table_entry_release(&table->entry[i]);
    QB_FREE_ALL(table->entry, table->sample, table->model, table->dataset, table->preprocess,
                table->doctor, table);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const qb_table_entry *)a)->name, ((const qb_table_entry *)b)->name);
}

void qb_table_sort(qb_table *table) {
    qsort(table->entry, (size_t)table->n_entries, sizeof *table->entry, by_name);
}

static int name_and_entry(const void *name, const void *entry) {
    return strcmp(name, ((const qb_table_entry *)entry)->name);
}

const qb_table_entry *qb_table_find(const qb_table *table, const char *name) {
    return bsearch(name, table->entry, (size_t)table->n_entries, sizeof *table->entry,
                   name_and_entry);
}

/* Index of the first entry whose name is not below `name`. */
static int32_t lower_bound(const qb_table *table, const char *name) {
    int32_t low = 0, high = table->n_entries;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (strcmp(table->entry[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static qb_status insert(qb_ctx *cx, qb_table *table, int32_t at, const char *name) {
    if (table->n_entries >= QB_TABLE_ENTRIES)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "calibration table: more than %d tensors",
                       QB_TABLE_ENTRIES);
    QB_TRY(qb_grow(cx, &table->entry, &table->capacity, (size_t)table->n_entries + 1,
                   sizeof *table->entry));
    qb_table_entry fresh = {.name = qb_strdup(cx, name)};
    fresh.stats = fresh.name ? qb_alloc(cx, 1, sizeof *fresh.stats) : NULL;
    if (!fresh.stats) {
        qb_free(fresh.name);
        return cx->code;
    }
    qb_stats_init(fresh.stats);
    qb_table_entry *place = &table->entry[at];
    memmove(place + 1, place, (size_t)(table->n_entries - at) * sizeof *place);
    *place = fresh;
    table->n_entries++;
    return QB_OK;
}

qb_status qb_table_slot(qb_ctx *cx, qb_table *table, const char *name, qb_table_entry **out) {
    const int32_t at = lower_bound(table, name);
    if (at == table->n_entries || strcmp(table->entry[at].name, name) != 0)
        QB_TRY(insert(cx, table, at, name));
    *out = &table->entry[at];
    return QB_OK;
}

int32_t qb_table_method(const qb_table *table, const char *text) {
    const size_t length = strlen(text);
    int32_t bare = -1, n_bare = 0;
    for (int32_t i = 0; i < table->n_methods; i++) {
        const char *method = table->method[i];
        if (strcmp(method, text) == 0) return i;
        if (strncmp(method, text, length) == 0 && method[length] == ':') {
            bare = i;
            n_bare++;
        }
    }
    return n_bare == 1 ? bare : -1;
}

bool qb_table_is_imported(const qb_table *table) {
    return table->n_entries > 0 && table->entry[0].stats->count == 0;
}

qb_status qb_table_check_model(qb_ctx *cx, const qb_table *table, const char *model,
                               qb_hash model_hash) {
    if (qb_hash_equal(table->model_hash, model_hash)) return QB_OK;
    char made_from[33], given[33];
    qb_hash_hex(table->model_hash, made_from);
    qb_hash_hex(model_hash, given);
    return qb_fail(cx, QB_STATUS_MISMATCH,
                   "artifacts do not belong together: the calibration was made from model %s "
                   "(hash %s), expected %s (hash %s)",
                   table->model ? table->model : "?", made_from, model, given);
}
