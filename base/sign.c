#include "sign.h"

#include "file.h"

#ifdef QB_HAVE_CRYPTO
#include <openssl/evp.h>
#include <openssl/pem.h>

#define KEY_MAX ((size_t)1 << 16)

/* Nobody is asked for a password. */
static int no_password(char *text, int size, int writing, void *user) {
    (void)text, (void)size, (void)writing, (void)user;
    return -1;
}

static qb_status load_key(qb_ctx *cx, const char *path, bool private, EVP_PKEY **out) {
    char *text;
    size_t size;
    QB_TRY(qb_file_read(cx, path, KEY_MAX, &text, &size));
    BIO *bio = BIO_new_mem_buf(text, (int)size);
    EVP_PKEY *key = !bio      ? NULL
                    : private ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL)
                              : PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL);
    BIO_free(bio);
    qb_free(text);
    if (key && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519) {
        *out = key;
        return QB_OK;
    }
    EVP_PKEY_free(key);
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "%s: expected %s Ed25519 key as PEM, without a password ('openssl genpkey "
                   "-algorithm ed25519' makes one, 'openssl pkey -pubout' its public half)",
                   path, private ? "a private" : "a public");
}

qb_status qb_sign_ready(qb_ctx *cx, const char *key) {
    EVP_PKEY *loaded;
    QB_TRY(load_key(cx, key, true, &loaded));
    EVP_PKEY_free(loaded);
    return QB_OK;
}

qb_status qb_sign(qb_ctx *cx, const char *key, const void *data, size_t n,
                  uint8_t signature[QB_SIGNATURE_BYTES]) {
    EVP_PKEY *loaded;
    QB_TRY(load_key(cx, key, true, &loaded));
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t size = QB_SIGNATURE_BYTES;
    const bool done = context && EVP_DigestSignInit(context, NULL, NULL, NULL, loaded) == 1 &&
                      EVP_DigestSign(context, signature, &size, data, n) == 1 &&
                      size == QB_SIGNATURE_BYTES;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(loaded);
    return done ? QB_OK : qb_fail(cx, QB_STATUS_INTERNAL, "%s: OpenSSL could not sign", key);
}

qb_status qb_sign_check(qb_ctx *cx, const char *key, const char *name, const void *data, size_t n,
                        const uint8_t *signature, size_t signature_size) {
    EVP_PKEY *loaded;
    QB_TRY(load_key(cx, key, false, &loaded));
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const bool right = context && signature_size == QB_SIGNATURE_BYTES &&
                       EVP_DigestVerifyInit(context, NULL, NULL, NULL, loaded) == 1 &&
                       EVP_DigestVerify(context, signature, signature_size, data, n) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(loaded);
    return right
               ? QB_OK
               : qb_fail(cx, QB_STATUS_MISMATCH, "%s: the signature is not that of %s", name, key);
}
#else
static qb_status missing(qb_ctx *cx) {
    return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                   "this qbench was built without OpenSSL: it has no signatures");
}

qb_status qb_sign_ready(qb_ctx *cx, const char *key) {
    (void)key;
    return missing(cx);
}

qb_status qb_sign(qb_ctx *cx, const char *key, const void *data, size_t n,
                  uint8_t signature[QB_SIGNATURE_BYTES]) {
    (void)key, (void)data, (void)n, (void)signature;
    return missing(cx);
}

qb_status qb_sign_check(qb_ctx *cx, const char *key, const char *name, const void *data, size_t n,
                        const uint8_t *signature, size_t signature_size) {
    (void)key, (void)name, (void)data, (void)n, (void)signature, (void)signature_size;
    return missing(cx);
}
#endif
