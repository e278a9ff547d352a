/* What a file is by its first bytes, for errors that name it. */
#ifndef QB_BASE_FILE_KIND_H
#define QB_BASE_FILE_KIND_H

#include <stddef.h>

#include "ctx.h"

#define QB_FILE_KIND_BYTES 4096 /* that are looked at */

/* A row of base/file_kinds.inc; static. */
typedef struct qb_file_kind {
    size_t at; /* offset of `bytes` in the file */
    const char *bytes;
    size_t n;
    const char *within; /* text that its first QB_FILE_KIND_BYTES hold as well; "": none */
    const char *what;   /* "an engine of TensorRT" */
    const char *advice; /* what takes it, or what to give instead */
} qb_file_kind;

/* The kind of a file that starts with these `size` bytes; NULL: none that is known. */
const qb_file_kind *qb_file_kind_of(const void *data, size_t size);

/* Fails with QB_STATUS_FORMAT: "WHY: it is WHAT: ADVICE" where the kind is known, else `why`. */
qb_status qb_fail_kind(qb_ctx *cx, const char *why, const void *data, size_t size);
#endif
