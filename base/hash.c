#include "hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

struct qb_hasher {
    XXH3_state_t state;
};

/* The canonical (big-endian) form, so that texts agree on every machine. */
static qb_hash from_xxh(XXH128_hash_t value) {
    XXH128_canonical_t canonical;
    qb_hash hash;
    XXH128_canonicalFromHash(&canonical, value);
    memcpy(hash.byte, canonical.digest, sizeof hash.byte);
    return hash;
}

qb_hash qb_hash_bytes(const void *data, size_t n) {
    static const char none[1];
    return from_xxh(XXH3_128bits(data ? data : none, n));
}

bool qb_hash_equal(qb_hash a, qb_hash b) { return memcmp(a.byte, b.byte, sizeof a.byte) == 0; }

bool qb_hash_is_zero(qb_hash a) {
    static const qb_hash zero;
    return qb_hash_equal(a, zero);
}

void qb_hash_hex(qb_hash hash, char text[33]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        text[2 * i] = digits[hash.byte[i] >> 4];
        text[2 * i + 1] = digits[hash.byte[i] & 15];
    }
    text[32] = '\0';
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool qb_hash_parse(const char *text, qb_hash *out) {
    qb_hash hash;
    for (int i = 0; i < 16; i++) {
        int high = digit_value(text[2 * i]);
        if (high < 0) return false;
        int low = digit_value(text[2 * i + 1]);
        if (low < 0) return false;
        hash.byte[i] = (uint8_t)(high << 4 | low);
    }
    if (text[32] != '\0') return false;
    *out = hash;
    return true;
}

void qb_hash_sum(qb_hash *sum, qb_hash term) {
    unsigned carry = 0;
    for (size_t i = 0; i < sizeof sum->byte; i++) {
        carry += (unsigned)sum->byte[i] + term.byte[i];
        sum->byte[i] = (uint8_t)carry;
        carry >>= 8;
    }
}

qb_status qb_hasher_create(qb_ctx *cx, qb_hasher **out) {
    qb_hasher *hasher = qb_alloc_aligned(cx, 1, sizeof *hasher); /* XXH3 wants 64-byte alignment */
    if (!hasher) return cx->code;
    XXH3_128bits_reset(&hasher->state);
    *out = hasher;
    return QB_OK;
}

void qb_hasher_update(qb_hasher *hasher, const void *data, size_t n) {
    if (n) XXH3_128bits_update(&hasher->state, data, n);
}

qb_status qb_hasher_update_all(qb_ctx *cx, qb_hasher *hasher, const void *data, size_t n) {
    enum { CHUNK = 64 << 20 };
    for (size_t at = 0; at < n; at += CHUNK) {
        QB_TRY(qb_check_cancel(cx));
        qb_hasher_update(hasher, (const char *)data + at, n - at < CHUNK ? n - at : CHUNK);
    }
    return QB_OK;
}

qb_status qb_hash_all(qb_ctx *cx, const void *data, size_t n, qb_hash *out) {
    QB_RELEASED(qb_hasher_free_at) qb_hasher *hasher = NULL;
    QB_TRY(qb_hasher_create(cx, &hasher));
    QB_TRY(qb_hasher_update_all(cx, hasher, data, n));
    *out = qb_hasher_digest(hasher);
    return QB_OK;
}

void qb_hasher_string(qb_hasher *hasher, const char *text) {
    size_t n = strlen(text);
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (uint8_t)((uint64_t)n >> (8 * i));
    qb_hasher_update(hasher, prefix, sizeof prefix);
    qb_hasher_update(hasher, text, n);
}

qb_hash qb_hasher_digest(const qb_hasher *hasher) {
    return from_xxh(XXH3_128bits_digest(&hasher->state));
}

void qb_hasher_free(qb_hasher *hasher) { qb_free(hasher); }
