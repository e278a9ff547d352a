#include "ctx.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_internal.h"
#include "memory.h"
#include "text.h"

#define ALIGNMENT 64u
#define HUGE_PAGE ((size_t)2 << 20)

void qb_ctx_init(qb_ctx *cx) { memset(cx, 0, sizeof *cx); }

void qb_ctx_child(const qb_ctx *parent, qb_ctx *child) {
    qb_ctx_init(child);
    child->log = parent->log;
    child->cancel = parent->cancel;
    child->plugins = parent->plugins;
    child->outside = parent->outside;
    child->n_outside = parent->n_outside;
    child->engine_key = parent->engine_key;
    child->no_machine_code = parent->no_machine_code;
    child->threads = parent->threads;
    child->max_memory = parent->max_memory;
}

void qb_ctx_take(qb_ctx *parent, const qb_ctx *child) {
    if (parent->code != QB_OK || child->code == QB_OK) return;
    parent->code = child->code;
    memcpy(parent->message, child->message, sizeof parent->message);
}

void qb_ctx_clear(qb_ctx *cx) {
    cx->code = QB_OK;
    cx->message[0] = '\0';
}

/* What does not fit is left out in the middle: names stand at the beginning, the reason at the end.
 */
static void join(char out[QB_MESSAGE_MAX], const char *text, const char *between, const char *end) {
    static const char left_out[] = " ... ";
    const char *const part[] = {text, between, end};
    const size_t head = QB_MESSAGE_MAX / 2, tail = head - sizeof left_out;
    const size_t total = strlen(text) + strlen(between) + strlen(end);
    const bool fits = total < QB_MESSAGE_MAX;
    size_t n = 0, at = 0;
    for (size_t k = 0; k < 3; k++)
        for (const char *c = part[k]; *c; c++, at++) {
            if (fits || at < head || at >= total - tail) out[n++] = *c;
            if (!fits && at == head) n += (size_t)sprintf(out + n, "%s", left_out);
        }
    out[n] = '\0';
}

/* The arguments may point into cx->message, so the text is built aside; a long one in memory of its
 * own where there is some. */
static void set_message(qb_ctx *cx, const char *prefix_end, const char *fmt, va_list args) {
    char text[QB_MESSAGE_MAX] = "", message[QB_MESSAGE_MAX];
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    char *whole = n >= (int)sizeof text ? malloc((size_t)n + 1) : NULL;
    if (whole) vsnprintf(whole, (size_t)n + 1, fmt, again);
    va_end(again);
    join(message, whole ? whole : text, prefix_end ? ": " : "", prefix_end ? prefix_end : "");
    free(whole);
    qb_text_clean_message(message, sizeof message); /* paths and names come from files */
    memcpy(cx->message, message, sizeof message);
}

qb_status qb_fail(qb_ctx *cx, qb_status code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    set_message(cx, NULL, fmt, args);
    va_end(args);
    cx->code = code;
    return code;
}

qb_status qb_fail_errno(qb_ctx *cx, const char *fmt, ...) {
    int error = errno;
    char buffer[128];
    const char *reason = strerror_r(error, buffer, sizeof buffer);
    va_list args;
    va_start(args, fmt);
    set_message(cx, reason, fmt, args);
    va_end(args);
    switch (error) {
    case ENOENT:
    case ENOTDIR: cx->code = QB_STATUS_NOTFOUND; break;
    case ENOMEM: cx->code = QB_STATUS_NOMEM; break;
    default: cx->code = QB_STATUS_IO; break;
    }
    return cx->code;
}

qb_status qb_wrap(qb_ctx *cx, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    set_message(cx, cx->message, fmt, args);
    va_end(args);
    return cx->code;
}

qb_status qb_check_cancel(qb_ctx *cx) {
    if (!cx->cancel || !__atomic_load_n(cx->cancel, __ATOMIC_RELAXED)) return QB_OK;
    __atomic_store_n(cx->cancel, QB_CANCEL_SEEN, __ATOMIC_RELAXED);
    return qb_fail(cx, QB_STATUS_CANCELLED, "interrupted");
}

int qb_threads(const qb_ctx *cx) {
    if (cx->threads > 0) return cx->threads;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > 1024 ? 1024 : (int)online;
}

static qb_status out_of_memory(qb_ctx *cx, size_t bytes) {
    return qb_fail(cx, QB_STATUS_NOMEM, "out of memory: %zu bytes wanted", bytes);
}

static bool byte_count(qb_ctx *cx, size_t n, size_t size, size_t *bytes) {
    if (!__builtin_mul_overflow(n, size, bytes)) return true;
    qb_fail(cx, QB_STATUS_NOMEM, "out of memory: %zu elements of %zu bytes overflow", n, size);
    return false;
}

/* Small blocks are not looked at: they come from larger ones or are few. */
#define BUDGET_FROM ((size_t)1 << 20)

static bool within_budget(qb_ctx *cx, size_t bytes) {
    if (cx->max_memory == 0 || bytes < BUDGET_FROM) return true;
    const double mb = 1e6;
    const size_t used = qb_memory_used();
    if (bytes <= cx->max_memory && used <= cx->max_memory - bytes) return true;
    qb_fail(cx, QB_STATUS_NOMEM,
            "out of memory: %.1f MB wanted beside %.1f MB in use, the limit is %.1f MB "
            "(--max-memory)",
            (double)bytes / mb, (double)used / mb, (double)cx->max_memory / mb);
    return false;
}

bool qb_alloc_permit(qb_ctx *cx, size_t bytes) {
    if (!within_budget(cx, bytes)) return false;
    if (cx->fail_alloc_at <= 0) return true;
    if (--cx->fail_alloc_at > 0) return true;
    out_of_memory(cx, bytes);
    return false;
}

void *qb_alloc(qb_ctx *cx, size_t n, size_t size) {
    size_t bytes;
    if (!byte_count(cx, n, size, &bytes) || !qb_alloc_permit(cx, bytes)) return NULL;
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) out_of_memory(cx, bytes);
    return memory;
}

void *qb_alloc_aligned(qb_ctx *cx, size_t n, size_t size) {
    size_t bytes;
    if (!byte_count(cx, n, size, &bytes)) return NULL;
    if (bytes > SIZE_MAX - ALIGNMENT) {
        out_of_memory(cx, bytes);
        return NULL;
    }
    bytes = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    if (!qb_alloc_permit(cx, bytes)) return NULL;
    const bool large = bytes >= HUGE_PAGE && bytes <= SIZE_MAX - HUGE_PAGE;
    size_t whole = large ? (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE : bytes;
    void *memory = aligned_alloc(large ? HUGE_PAGE : ALIGNMENT, whole);
    if (!memory) {
        out_of_memory(cx, bytes);
        return NULL;
    }
    if (large) madvise(memory, whole, MADV_HUGEPAGE); /* where not: the same, only slower */
    return memset(memory, 0, bytes);
}

qb_status qb_grow(qb_ctx *cx, void *array_pointer, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity) return QB_OK;
    size_t grown = *capacity + *capacity / 2;
    if (grown < need) grown = need; /* also when the sum wrapped */
    if (grown < 8) grown = 8;
    size_t bytes;
    if (!byte_count(cx, grown, size, &bytes)) return cx->code;
    if (!qb_alloc_permit(cx, bytes - *capacity * size)) return cx->code;
    void *array;
    memcpy(&array, array_pointer, sizeof array); /* any T ** comes in as void * */
    char *moved = realloc(array, bytes ? bytes : 1);
    if (!moved) return out_of_memory(cx, bytes);
    memset(moved + *capacity * size, 0, bytes - *capacity * size);
    memcpy(array_pointer, &moved, sizeof moved);
    *capacity = grown;
    return QB_OK;
}

char *qb_strdup(qb_ctx *cx, const char *text) {
    size_t n = strlen(text) + 1;
    char *copy = qb_alloc(cx, n, 1);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *qb_format(qb_ctx *cx, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        qb_fail(cx, QB_STATUS_INTERNAL, "format \"%s\" failed", fmt);
        return NULL;
    }
    char *text = qb_alloc(cx, (size_t)n + 1, 1);
    if (!text) return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

void qb_free(void *pointer) { free(pointer); }

void qb_free_each(const void *const *pointers, size_t n) {
    for (size_t i = 0; i < n; i++) free((void *)(uintptr_t)pointers[i]);
}

void qb_free_at(const void *address) {
    void *pointer;
    memcpy(&pointer, address, sizeof pointer); /* whatever it points to */
    free(pointer);
}
