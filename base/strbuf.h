/* A growing string. After an allocation failure further appends do nothing and `failed` is set, so
 * that callers check once at the end. */
#ifndef QB_BASE_STRBUF_H
#define QB_BASE_STRBUF_H

#include "ctx.h"

typedef struct qb_strbuf {
    char *data; /* always zero-terminated once something was appended; NULL before */
    size_t size, capacity;
    bool failed;
} qb_strbuf;

void qb_strbuf_add(qb_strbuf *buf, const char *text);
void qb_strbuf_addn(qb_strbuf *buf, const char *text, size_t n);
void qb_strbuf_addf(qb_strbuf *buf, const char *fmt, ...) QB_PRINTF(2, 3);
/* Hands the string over (never NULL on success) and empties the buffer. */
qb_status qb_strbuf_take(qb_ctx *cx, qb_strbuf *buf, char **out);
void qb_strbuf_release(qb_strbuf *buf);
#endif
