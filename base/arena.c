#include "arena.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base_internal.h"

#define ALIGNMENT 64u
#define FIRST_CHUNK ((size_t)16 << 10)
#define LARGEST_CHUNK ((size_t)1 << 20)

/* The header takes one alignment unit, so that what follows it is aligned as well. */
typedef struct chunk {
    struct chunk *next;
    size_t used, size; /* of the bytes after the header */
} chunk;

struct qb_arena {
    chunk *head;
    size_t next_size, bytes;
};

_Static_assert(sizeof(chunk) <= ALIGNMENT, "the chunk header outgrew its place");

qb_status qb_arena_create(qb_ctx *cx, qb_arena **out) {
    qb_arena *arena = QB_NEW(cx, qb_alloc(cx, 1, sizeof *arena));
    arena->next_size = FIRST_CHUNK;
    *out = arena;
    return QB_OK;
}

void qb_arena_free(qb_arena *arena) {
    if (!arena) return;
    for (chunk *c = arena->head, *next; c; c = next) {
        next = c->next;
        qb_free(c);
    }
    qb_free(arena);
}

/* A chunk of its own for a large request goes behind the head, whose free space stays in use. */
static chunk *add_chunk(qb_ctx *cx, qb_arena *arena, size_t bytes) {
    bool own = bytes > arena->next_size / 4;
    size_t size = own ? bytes : arena->next_size;
    if (size > SIZE_MAX - 2 * ALIGNMENT) {
        qb_fail(cx, QB_STATUS_NOMEM, "out of memory: %zu bytes wanted", bytes);
        return NULL;
    }
    chunk *c = qb_alloc_aligned(cx, size + ALIGNMENT, 1);
    if (!c) return NULL;
    c->size = size;
    if (own && arena->head) {
        c->next = arena->head->next;
        arena->head->next = c;
    } else {
        c->next = arena->head;
        arena->head = c;
    }
    if (!own && arena->next_size < LARGEST_CHUNK) arena->next_size *= 2;
    return c;
}

static void *take(qb_ctx *cx, qb_arena *arena, size_t bytes, size_t alignment) {
    if (!qb_alloc_permit(cx, bytes)) return NULL; /* so that tests can fail each single request */
    chunk *c = arena->head;
    size_t start = c ? (c->used + alignment - 1) / alignment * alignment : 0;
    if (!c || start > c->size || bytes > c->size - start) {
        c = add_chunk(cx, arena, bytes);
        if (!c) return NULL;
        start = 0;
    }
    c->used = start + bytes;
    arena->bytes += bytes;
    return (char *)c + ALIGNMENT + start;
}

static void *take_items(qb_ctx *cx, qb_arena *arena, size_t n, size_t size, size_t alignment) {
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        qb_fail(cx, QB_STATUS_NOMEM, "out of memory: %zu elements of %zu bytes overflow", n, size);
        return NULL;
    }
    return take(cx, arena, bytes ? bytes : 1, alignment);
}

void *qb_arena_alloc(qb_ctx *cx, qb_arena *arena, size_t n, size_t size) {
    return take_items(cx, arena, n, size, ALIGNMENT);
}

void *qb_arena_pack(qb_ctx *cx, qb_arena *arena, size_t n, size_t size) {
    return take_items(cx, arena, n, size, alignof(max_align_t));
}

char *qb_arena_strndup(qb_ctx *cx, qb_arena *arena, const char *text, size_t n) {
    if (n == SIZE_MAX) {
        qb_fail(cx, QB_STATUS_NOMEM, "out of memory: %zu bytes wanted", n);
        return NULL;
    }
    char *copy = take(cx, arena, n + 1, 1);
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

char *qb_arena_strdup(qb_ctx *cx, qb_arena *arena, const char *text) {
    return qb_arena_strndup(cx, arena, text, strlen(text));
}

char *qb_arena_format(qb_ctx *cx, qb_arena *arena, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        qb_fail(cx, QB_STATUS_INTERNAL, "format \"%s\" failed", fmt);
        return NULL;
    }
    char *text = take(cx, arena, (size_t)n + 1, 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

size_t qb_arena_bytes(const qb_arena *arena) { return arena->bytes; }
