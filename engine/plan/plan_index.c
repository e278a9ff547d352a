/* The index of a plan's rows. A row has one entry for what it makes or copies (2 row), and one for
 * the group that is part of it (2 row + 1). */
#include <string.h>

#include "engine/plan/plan_internal.h"

static uint32_t hash_text(const char *text) { return qb_index_hash(text, strlen(text)); }

static uint32_t mix(uint32_t hash, int64_t number) {
    const uint64_t mixed = (hash ^ (uint64_t)number) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(mixed >> 32);
}

static uint32_t hash_layout(uint32_t hash, const qb_plan_layout *l) {
    hash = mix(mix(hash, l->dtype), l->layout);
    return mix(mix(hash, l->channel_offset), l->channel_total);
}

static uint32_t hash_copy(const qb_plan_row *row) {
    const uint32_t hash = mix(hash_text(row->value), 2 + row->on_device);
    return hash_layout(hash_layout(hash, row->in), &row->out);
}

static bool same_copy(const qb_plan_row *row, const qb_plan_row *like) {
    return row->is_copy && row->on_device == like->on_device &&
           qb_plan_layout_equal(row->in, like->in) && qb_plan_layout_equal(&row->out, &like->out) &&
           strcmp(row->value, like->value) == 0;
}

static bool is_same(const qb_plan_row *row, bool fuses, const qb_plan_row *like) {
    if (fuses) return strcmp(row->fuses, like->fuses) == 0;
    if (like->is_copy) return same_copy(row, like);
    return !row->is_copy && strcmp(row->value, like->value) == 0;
}

static uint32_t hash_of(const qb_plan_row *row, bool fuses) {
    if (fuses) return mix(hash_text(row->fuses), 1);
    return row->is_copy ? hash_copy(row) : hash_text(row->value);
}

static int32_t find(const qb_plan_table *table, bool fuses, const qb_plan_row *like) {
    const uint32_t hash = hash_of(like, fuses);
    int32_t i;
    for (size_t at = 0; (i = qb_index_next(&table->index, hash, &at)) >= 0;)
        if (i % 2 == fuses && is_same(&table->rows[i / 2], fuses, like)) return i / 2;
    return -1;
}

int32_t qb_plan_find(const qb_plan_table *table, const char *value) {
    return find(table, false, &(qb_plan_row){.value = value});
}

int32_t qb_plan_find_copy(const qb_plan_table *table, const qb_plan_row *like) {
    qb_plan_row copy = *like;
    copy.is_copy = true;
    return find(table, false, &copy);
}

int32_t qb_plan_find_fused(const qb_plan_table *table, const char *value) {
    return find(table, true, &(qb_plan_row){.fuses = value});
}

static qb_status enter(qb_ctx *cx, qb_plan_table *table, int32_t row, bool fuses) {
    const qb_plan_row *added = &table->rows[row];
    if (find(table, fuses, added) >= 0) return QB_OK; /* the first one is found */
    return qb_index_add(cx, &table->index, hash_of(added, fuses), 2 * row + fuses);
}

qb_status qb_plan_index_add(qb_ctx *cx, qb_plan_table *table) {
    const int32_t row = table->n_rows - 1;
    if (row >= QB_INDEX_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "a plan of more than %d rows", QB_INDEX_MAX);
    QB_TRY(enter(cx, table, row, false));
    return table->rows[row].fuses ? enter(cx, table, row, true) : QB_OK;
}
