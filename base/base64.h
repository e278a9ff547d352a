/* Bytes as text, RFC 4648, section 4. */
#ifndef QB_BASE_BASE64_H
#define QB_BASE_BASE64_H

#include <stddef.h>

#include "ctx.h"

/* New memory. */
qb_status qb_base64_encode(qb_ctx *cx, const void *data, size_t n, char **out);
/* The bytes of a text, new memory; `name` is for messages. Errors: QB_STATUS_FORMAT for other
 * characters and lengths that no bytes have. */
qb_status qb_base64_decode(qb_ctx *cx, const char *name, const char *text, void **out, size_t *n);
#endif
