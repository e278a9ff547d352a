/* Which engine files a command takes: options of those that read them. */
#ifndef QB_CLI_SETTINGS_TRUST_H
#define QB_CLI_SETTINGS_TRUST_H

#include <stdlib.h>

#include "base/opt.h"

typedef struct qb_trust_flags {
    const char *verify;
    bool require, no_machine_code;
} qb_trust_flags;

/* Rows of an option struct with a member `qb_trust_flags trust`. */
#define QB_TRUST_OPTIONS(STRUCT)                                                                   \
    QB_TEXT(STRUCT, "verify", trust.verify, "KEY",                                                 \
            "engine files must be signed (FILE.sig) by this public key, PEM"),                     \
        QB_FLAG(STRUCT, "require-signature", trust.require,                                        \
                "the same by the key that $QBENCH_VERIFY_KEY names, unless --verify does"),        \
        QB_FLAG(STRUCT, "no-machine-code", trust.no_machine_code,                                  \
                "a GPU's engine files: compile kernels here, run none that the file holds")

/* For the rest of the command. QB_STATUS_USAGE where a signature is required and no key is named.
 */
static inline qb_status qb_trust_apply(qb_ctx *cx, const qb_trust_flags *flags) {
    const char *key = flags->verify    ? flags->verify
                      : flags->require ? getenv("QBENCH_VERIFY_KEY")
                                       : NULL;
    if (flags->require && (!key || !*key))
        return qb_fail(cx, QB_STATUS_USAGE,
                       "--require-signature: name the public key by --verify KEY or "
                       "QBENCH_VERIFY_KEY");
    cx->engine_key = key;
    cx->no_machine_code = flags->no_machine_code;
    return QB_OK;
}

#endif
