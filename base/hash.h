/* Content hashes (XXH3, 128 bit): they tell artifacts apart, they are not a signature. */
#ifndef QB_BASE_HASH_H
#define QB_BASE_HASH_H

#include <stdint.h>

#include "ctx.h"

typedef struct qb_hash {
    uint8_t byte[16];
} qb_hash;

/* Sum of 128-bit numbers (little-endian bytes) modulo 2^128: the order of the terms is of no
 * consequence, and unlike with XOR two equal terms do not cancel. */
void qb_hash_sum(qb_hash *sum, qb_hash term);

typedef struct qb_hasher qb_hasher;

qb_hash qb_hash_bytes(const void *data, size_t n);
bool qb_hash_equal(qb_hash a, qb_hash b);
bool qb_hash_is_zero(qb_hash a);
/* 32 lower-case hexadecimal digits and a terminating zero. */
void qb_hash_hex(qb_hash hash, char text[33]);
/* Reads what qb_hash_hex wrote; false when the text is not 32 hexadecimal digits. */
bool qb_hash_parse(const char *text, qb_hash *out);

qb_status qb_hasher_create(qb_ctx *cx, qb_hasher **out);
void qb_hasher_update(qb_hasher *hasher, const void *data, size_t n);
/* qb_hasher_update and qb_hash_bytes of much data: they look now and then whether the user asked to
 * stop (QB_STATUS_CANCELLED). */
qb_status qb_hasher_update_all(qb_ctx *cx, qb_hasher *hasher, const void *data, size_t n);
qb_status qb_hash_all(qb_ctx *cx, const void *data, size_t n, qb_hash *out);
/* Length-prefixed, so that "ab","c" and "a","bc" differ. */
void qb_hasher_string(qb_hasher *hasher, const char *text);
qb_hash qb_hasher_digest(const qb_hasher *hasher);
void qb_hasher_free(qb_hasher *hasher);
QB_RELEASE_AT(qb_hasher, qb_hasher_free)
#endif
