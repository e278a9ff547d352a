/* A bump allocator: many small allocations, one release. Memory is zeroed. Not thread safe. */
#ifndef QB_BASE_ARENA_H
#define QB_BASE_ARENA_H

#include "ctx.h"

typedef struct qb_arena qb_arena;

qb_status qb_arena_create(qb_ctx *cx, qb_arena **out);
void qb_arena_free(qb_arena *arena); /* accepts NULL */
QB_RELEASE_AT(qb_arena, qb_arena_free)
/* n elements of `size` bytes, 64-byte aligned, zeroed; NULL with an error recorded on failure. */
void *qb_arena_alloc(qb_ctx *cx, qb_arena *arena, size_t n, size_t size);
/* The same, aligned for pointers and numbers only: for many small structs. */
void *qb_arena_pack(qb_ctx *cx, qb_arena *arena, size_t n, size_t size);
char *qb_arena_strdup(qb_ctx *cx, qb_arena *arena, const char *text);
/* Copy of `n` bytes plus a terminating zero. */
char *qb_arena_strndup(qb_ctx *cx, qb_arena *arena, const char *text, size_t n);
char *qb_arena_format(qb_ctx *cx, qb_arena *arena, const char *fmt, ...) QB_PRINTF(3, 4);
/* Bytes handed out so far. */
size_t qb_arena_bytes(const qb_arena *arena);
#endif
