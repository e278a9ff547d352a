#include "strbuf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_internal.h"

/* Room for `n` more bytes and the terminating zero. */
static bool reserve(qb_strbuf *buf, size_t n) {
    if (buf->failed) return false;
    if (n > SIZE_MAX - buf->size - 1) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->size + n + 1;
    if (need <= buf->capacity) return true;
    size_t grown = buf->capacity + buf->capacity / 2;
    if (grown < need) grown = need;
    if (grown < 64) grown = 64;
    char *moved = realloc(buf->data, grown);
    if (!moved) {
        buf->failed = true;
        return false;
    }
    buf->data = moved;
    buf->capacity = grown;
    return true;
}

void qb_strbuf_addn(qb_strbuf *buf, const char *text, size_t n) {
    if (!reserve(buf, n)) return;
    if (n) memcpy(buf->data + buf->size, text, n);
    buf->size += n;
    buf->data[buf->size] = '\0';
}

void qb_strbuf_add(qb_strbuf *buf, const char *text) { qb_strbuf_addn(buf, text, strlen(text)); }

void qb_strbuf_addf(qb_strbuf *buf, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) {
        buf->failed = true;
        return;
    }
    if (!reserve(buf, (size_t)n)) return;
    va_start(args, fmt);
    vsnprintf(buf->data + buf->size, (size_t)n + 1, fmt, args);
    va_end(args);
    buf->size += (size_t)n;
}

qb_status qb_strbuf_take(qb_ctx *cx, qb_strbuf *buf, char **out) {
    qb_strbuf_addn(buf, "", 0); /* an empty string is a string too */
    if (buf->failed) {
        qb_fail(cx, QB_STATUS_NOMEM, "out of memory: text of more than %zu bytes", buf->size);
        qb_strbuf_release(buf);
        return cx->code;
    }
    /* Appending takes no context, so the failure hook of the tests counts here. */
    if (!qb_alloc_permit(cx, buf->size + 1)) {
        qb_strbuf_release(buf);
        return cx->code;
    }
    *out = buf->data;
    *buf = (qb_strbuf){0};
    return QB_OK;
}

void qb_strbuf_release(qb_strbuf *buf) {
    free(buf->data);
    *buf = (qb_strbuf){0};
}
