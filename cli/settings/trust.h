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
    {.name = "verify",                                                                             \
     .type = QB_OPT_STRING,                                                                        \
     .offset = offsetof(STRUCT, trust.verify),                                                     \
     .argument = "KEY",                                                                            \
     .help = "engine files must be signed (FILE.sig) by this public key, PEM"},                    \
        {.name = "require-signature",                                                              \
         .type = QB_OPT_FLAG,                                                                      \
         .offset = offsetof(STRUCT, trust.require),                                                \
         .help = "the same by the key that $QBENCH_VERIFY_KEY names, unless --verify does"},       \
    {                                                                                              \
        .name = "no-machine-code", .type = QB_OPT_FLAG,                                            \
        .offset = offsetof(STRUCT, trust.no_machine_code),                                         \
        .help = "a GPU's engine files: compile kernels here, run none that the file holds"         \
    }

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
