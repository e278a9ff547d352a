/* Signatures of files: Ed25519 (RFC 8032), by OpenSSL 3. A hash finds damage; a signature tells who
 * made a file. Keys are PEM files, as `openssl genpkey -algorithm ed25519` writes them. */
#ifndef QB_BASE_SIGN_H
#define QB_BASE_SIGN_H

#include <stdint.h>

#include "ctx.h"

#define QB_SIGNATURE_BYTES 64

/* Whether the file `key` holds a private key: errors as below. */
qb_status qb_sign_ready(qb_ctx *cx, const char *key);
/* Signs n bytes with the private key in the file `key`. Errors: QB_STATUS_FORMAT (no such key, or
 * one with a password), QB_STATUS_UNSUPPORTED (built without OpenSSL). */
qb_status qb_sign(qb_ctx *cx, const char *key, const void *data, size_t n,
                  uint8_t signature[QB_SIGNATURE_BYTES]);
/* QB_STATUS_MISMATCH unless the signature is that of n bytes by the key whose public half is in the
 * file `key`; `name` is for messages. Other errors as above. */
qb_status qb_sign_check(qb_ctx *cx, const char *key, const char *name, const void *data, size_t n,
                        const uint8_t *signature, size_t signature_size);
#endif
