/* Keys and signatures: up to the first NUL a PEM file with either half of a key, behind it a
 * signature. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "what is signed";

static void use(qb_ctx *cx, const char *path, const uint8_t *given, size_t n) {
    uint8_t signature[QB_SIGNATURE_BYTES];
    if (qb_sign(cx, path, text, sizeof text, signature) == QB_OK) {
        if (qb_sign_check(cx, path, "text", text, sizeof text, signature, sizeof signature) !=
            QB_OK)
            qb_ctx_clear(cx); /* the private half alone may be no public one */
        signature[0] ^= 1;
        if (qb_sign_check(cx, path, "text", text, sizeof text, signature, sizeof signature) ==
            QB_OK)
            abort();
    }
    if (cx->message[0] == '\0') abort();
    qb_ctx_clear(cx);
    const qb_status status = qb_sign_check(cx, path, "text", text, sizeof text, given, n);
    if (status == QB_OK || cx->message[0] == '\0') abort(); /* nobody guesses one */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qb_ctx cx;
    char path[64];
    const uint8_t *end = memchr(data, 0, size);
    const size_t n = end ? (size_t)(end - data) : size;
    qb_ctx_init(&cx);
    const int fd = memfd_create("key.pem", 0);
    if (fd < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, data, n) == (ssize_t)n) use(&cx, path, data + n, size - n);
    close(fd);
    return 0;
}
