#include "base64.h"

#include <stdint.h>
#include <string.h>

#include "strbuf.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

qb_status qb_base64_encode(qb_ctx *cx, const void *bytes, size_t n, char **out) {
    const uint8_t *data = bytes;
    qb_strbuf text = {0};
    qb_strbuf_add(&text, "");
    for (size_t i = 0; i < n; i += 3) {
        const unsigned bits = (unsigned)data[i] << 16 |
                              (i + 1 < n ? (unsigned)data[i + 1] << 8 : 0) |
                              (i + 2 < n ? data[i + 2] : 0u);
        const char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                              i + 1 < n ? digits[bits >> 6 & 63] : '=',
                              i + 2 < n ? digits[bits & 63] : '='};
        qb_strbuf_addn(&text, four, sizeof four);
    }
    return qb_strbuf_take(cx, &text, out);
}

qb_status qb_base64_decode(qb_ctx *cx, const char *name, const char *text, void **out, size_t *n) {
    int8_t value[256];
    const size_t length = strlen(text);
    const size_t pad = length < 2 ? 0 : (text[length - 1] == '=') + (text[length - 2] == '=');
    memset(value, -1, sizeof value);
    for (int i = 0; i < 64; i++) value[(uint8_t)digits[i]] = (int8_t)i;
    bool sound = length % 4 == 0;
    QB_FREED uint8_t *data = QB_NEW(cx, qb_alloc(cx, length / 4 * 3 + 1, 1));
    for (size_t i = 0; i < length && sound; i += 4) {
        unsigned bits = 0;
        for (size_t k = 0; k < 4; k++) {
            const int8_t v = i + k >= length - pad ? 0 : value[(uint8_t)text[i + k]];
            sound = sound && v >= 0;
            bits = bits << 6 | (unsigned)(v & 63);
        }
        for (size_t k = 0; k < 3; k++) data[i / 4 * 3 + k] = (uint8_t)(bits >> (16 - 8 * k));
    }
    if (!sound) return qb_fail(cx, QB_STATUS_FORMAT, "%s: damaged: not base64", name);
    *out = QB_MOVE(data);
    *n = length / 4 * 3 - pad;
    return QB_OK;
}
