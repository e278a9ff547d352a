#include "kernels/cuda/vendor/cudnn_text/cudnn_text.h"

#include <ctype.h>
#include <string.h>

#include "base/strbuf.h"

/* Copies what lies before a key's number, then the other number; returns what lies behind. */
static const char *put_number(qb_strbuf *out, const char *at, const char *end, const char *key,
                              int32_t number) {
    const char *found = memmem(at, (size_t)(end - at), key, strlen(key));
    if (!found) return at;
    found += strlen(key);
    qb_strbuf_addn(out, at, (size_t)(found - at));
    qb_strbuf_addf(out, "%d", (int)number);
    while (found < end && isdigit((unsigned char)*found)) found++;
    return found;
}

qb_status qb_cudnn_text_on(qb_ctx *cx, const char *text, size_t bytes, int32_t ordinal,
                           int32_t place, char **out) {
    const char *end = text + bytes, *at = text;
    qb_strbuf buf = {0};
    at = put_number(&buf, at, end, "\"pciDeviceId\":", place);
    at = put_number(&buf, at, end, "\"cudaDeviceId\":", ordinal);
    qb_strbuf_addn(&buf, at, (size_t)(end - at));
    const qb_status status = qb_strbuf_take(cx, &buf, out);
    qb_strbuf_release(&buf);
    return status;
}
