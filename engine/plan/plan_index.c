/* The index of a plan's rows: open addressing with linear probing, at most half full. A row has one
 * entry for what it makes or copies, and one for the group that is part of it. */
#include <string.h>

#include "base/hash.h"
#include "engine/plan/plan_internal.h"

/* What an entry says of its row: slots hold 1 + 2 row + ENTRY_FUSES, 0 where they are empty. */
enum { ENTRY_ROW, ENTRY_FUSES };

static int32_t row_of(int32_t slot) { return (slot - 1) / 2; }

static size_t hash_text(const char *text) {
    const qb_hash hash = qb_hash_bytes(text, strlen(text));
    size_t value;
    memcpy(&value, hash.byte, sizeof value);
    return value;
}

static size_t mix(size_t hash, int64_t number) {
    hash = (hash ^ (size_t)number) * (size_t)UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static size_t hash_layout(size_t hash, const qb_plan_layout *l) {
    hash = mix(mix(hash, l->dtype), l->layout);
    return mix(mix(hash, l->channel_offset), l->channel_total);
}

static size_t hash_copy(const qb_plan_row *row) {
    const size_t hash = mix(hash_text(row->value), 2 + row->on_device);
    return hash_layout(hash_layout(hash, row->in), &row->out);
}

static bool same_copy(const qb_plan_row *row, const qb_plan_row *like) {
    return row->is_copy && row->on_device == like->on_device &&
           qb_plan_layout_equal(row->in, like->in) && qb_plan_layout_equal(&row->out, &like->out) &&
           strcmp(row->value, like->value) == 0;
}

static bool is_same(const qb_plan_table *table, int32_t slot, bool fuses, const qb_plan_row *like) {
    const qb_plan_row *row = &table->rows[row_of(slot)];
    if (((slot - 1) % 2 == ENTRY_FUSES) != fuses) return false;
    if (fuses) return strcmp(row->fuses, like->fuses) == 0;
    if (like->is_copy) return same_copy(row, like);
    return !row->is_copy && strcmp(row->value, like->value) == 0;
}

static size_t hash_of(const qb_plan_row *row, bool fuses) {
    if (fuses) return mix(hash_text(row->fuses), 1);
    return row->is_copy ? hash_copy(row) : hash_text(row->value);
}

/* The slot of a row like this one, or the empty one where it would be. The table is not empty. */
static int32_t *slot_of(const qb_plan_table *table, bool fuses, const qb_plan_row *like) {
    const size_t mask = table->n_slots - 1;
    size_t i = hash_of(like, fuses) & mask;
    while (table->slots[i] && !is_same(table, table->slots[i], fuses, like)) i = (i + 1) & mask;
    return &table->slots[i];
}

static int32_t find(const qb_plan_table *table, bool fuses, const qb_plan_row *like) {
    if (!table->n_slots) return -1;
    const int32_t slot = *slot_of(table, fuses, like);
    return slot ? row_of(slot) : -1;
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

static void enter(qb_plan_table *table, int32_t row, bool fuses) {
    int32_t *slot = slot_of(table, fuses, &table->rows[row]);
    if (*slot) return; /* the first one is found */
    *slot = 1 + 2 * row + (fuses ? ENTRY_FUSES : ENTRY_ROW);
    table->n_used++;
}

static void enter_row(qb_plan_table *table, int32_t row) {
    enter(table, row, false);
    if (table->rows[row].fuses) enter(table, row, true);
}

static qb_status grow(qb_ctx *cx, qb_plan_table *table) {
    const size_t n = table->n_slots ? table->n_slots * 2 : 64;
    int32_t *slots = QB_NEW(cx, qb_alloc(cx, n, sizeof *slots));
    qb_free(table->slots);
    table->slots = slots;
    table->n_slots = n;
    table->n_used = 0;
    for (int32_t i = 0; i < table->n_rows - 1; i++) enter_row(table, i);
    return QB_OK;
}

qb_status qb_plan_index_add(qb_ctx *cx, qb_plan_table *table) {
    if (table->n_rows > INT32_MAX / 4)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "a plan of more than %d rows", INT32_MAX / 4);
    if (table->n_used + 2 > table->n_slots / 2) QB_TRY(grow(cx, table));
    enter_row(table, table->n_rows - 1);
    return QB_OK;
}

void qb_plan_index_clear(qb_plan_table *table) {
    if (table->n_slots) memset(table->slots, 0, table->n_slots * sizeof *table->slots);
    table->n_used = 0;
}
