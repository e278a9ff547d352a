/* The index of names: open addressing with linear probing, at most half full. */
#include <stdio.h>
#include <string.h>

#include "graph_internal.h"

#define REMOVED (-1)

typedef struct qb_name_slot {
    const char *name; /* NULL: never used */
    int32_t id;       /* REMOVED: keeps the probing chain together */
} qb_name_slot;

static size_t hash_name(const char *name) {
    qb_hash hash = qb_hash_bytes(name, strlen(name));
    size_t value;
    memcpy(&value, hash.byte, sizeof value);
    return value;
}

static qb_name_slot *find_slot(const qb_names *names, const char *name) {
    if (!names->n_slots) return NULL;
    size_t mask = names->n_slots - 1;
    for (size_t i = hash_name(name) & mask;; i = (i + 1) & mask) {
        qb_name_slot *slot = &names->slot[i];
        if (!slot->name) return NULL;
        if (slot->id != REMOVED && strcmp(slot->name, name) == 0) return slot;
    }
}

static void insert(qb_names *names, const char *name, int32_t id) {
    size_t mask = names->n_slots - 1, i = hash_name(name) & mask;
    while (names->slot[i].name) i = (i + 1) & mask;
    names->slot[i] = (qb_name_slot){name, id};
    names->n_used++;
}

static qb_status grow(qb_ctx *cx, qb_arena *arena, qb_names *names, size_t n_slots) {
    qb_names larger = {.n_slots = n_slots};
    QB_TRY_NEW(cx, larger.slot = qb_arena_alloc(cx, arena, larger.n_slots, sizeof *larger.slot));
    for (size_t i = 0; i < names->n_slots; i++) {
        const qb_name_slot *slot = &names->slot[i];
        if (slot->name && slot->id != REMOVED) insert(&larger, slot->name, slot->id);
    }
    *names = larger;
    return QB_OK;
}

qb_status qb_names_reserve(qb_ctx *cx, qb_arena *arena, qb_names *names, size_t n) {
    size_t n_slots = 64;
    while (n_slots / 2 < n + 1) n_slots *= 2;
    return grow(cx, arena, names, n_slots);
}

int32_t qb_names_find(const qb_names *names, const char *name) {
    const qb_name_slot *slot = find_slot(names, name);
    return slot ? slot->id : -1;
}

qb_status qb_names_put(qb_ctx *cx, qb_arena *arena, qb_names *names, const char *name, int32_t id) {
    if (names->n_used >= names->n_slots / 2)
        QB_TRY(grow(cx, arena, names, names->n_slots ? names->n_slots * 2 : 64));
    insert(names, name, id);
    return QB_OK;
}

void qb_names_remove(qb_names *names, const char *name) {
    qb_name_slot *slot = find_slot(names, name);
    if (slot) slot->id = REMOVED;
}

void qb_names_renumber(qb_names *names, const char *name, int32_t id) {
    qb_name_slot *slot = find_slot(names, name);
    if (slot) slot->id = id;
}

const char *qb_names_unique(qb_ctx *cx, qb_arena *arena, const qb_names *names, const char *name) {
    if (!name || !*name) name = "value";
    if (qb_names_find(names, name) < 0) return qb_arena_strdup(cx, arena, name);
    size_t length = strlen(name);
    char *text = qb_arena_alloc(cx, arena, length + 24, 1);
    if (!text) return NULL;
    /* After a few small numbers the count of names gives one that is almost surely free: many equal
     * names must not take quadratic time. */
    for (size_t k = 1;; k = k < 8 ? k + 1 : k == 8 ? names->n_used + 9 : k + 1) {
        snprintf(text, length + 24, "%s_%zu", name, k);
        if (qb_names_find(names, text) < 0) return text;
    }
}

qb_status qb_names_of_nodes(qb_ctx *cx, qb_arena *arena, const qb_graph *graph, qb_names *names,
                            const char **out) {
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        out[i] = graph->nodes[i].op ? graph->nodes[i].name : "";
        if (*out[i] && qb_names_find(names, out[i]) < 0)
            QB_TRY(qb_names_put(cx, arena, names, out[i], i));
    }
    for (int32_t i = 0; i < graph->n_nodes; i++) {
        if (!*out[i] || qb_names_find(names, out[i]) == i) continue;
        QB_TRY_NEW(cx, out[i] = qb_names_unique(cx, arena, names, out[i]));
        QB_TRY(qb_names_put(cx, arena, names, out[i], i));
    }
    return QB_OK;
}
