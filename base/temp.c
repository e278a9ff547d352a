#include "temp.h"

#include <stdint.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

static _Thread_local qb_temp *current;

void qb_temp_open(qb_temp *temp) {
    temp->used = temp->wanted = 0;
    current = temp;
}

qb_status qb_temp_close(qb_ctx *cx, qb_temp *temp) {
    current = NULL;
    if (temp->wanted <= temp->size) return QB_OK;
    qb_free(temp->memory);
    temp->size = 0;
    QB_TRY_NEW(cx, temp->memory = qb_alloc_aligned(cx, temp->wanted, 1));
    temp->size = temp->wanted;
    return QB_OK;
}

void qb_temp_free(qb_temp *temp) {
    qb_free(temp->memory);
    *temp = (qb_temp){0};
}

void *qb_temp_take(qb_ctx *cx, size_t n, size_t size) {
    size_t bytes;
    if (!current || __builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 4)
        return qb_alloc_aligned(cx, n, size);
    bytes = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    current->wanted += bytes;
    if (bytes > current->size - current->used) return qb_alloc_aligned(cx, n, size);
    char *memory = current->memory + current->used;
    current->used += bytes;
    return memset(memory, 0, bytes);
}

void qb_temp_give(void *memory) {
    const char *at = memory;
    if (current && current->size > 0 && at >= current->memory &&
        at < current->memory + current->size)
        return;
    qb_free(memory);
}

void qb_temp_give_at(const void *address) {
    void *memory;
    memcpy(&memory, address, sizeof memory);
    qb_temp_give(memory);
}
