/* Progress of a recovery on disk: what each step led to, a record each, so that one that was cut
 * off, even by kill -9, goes on behind the last step that it had ended. What is read is what was
 * computed, so that the result has the same bytes. */
#ifndef QB_QUANT_RECOVER_TRIALS_H
#define QB_QUANT_RECOVER_TRIALS_H

#include "base/file.h"
#include "base/hash.h"
#include "base/pack.h"

typedef struct qb_trials {
    char *path;     /* NULL: nothing is kept */
    FILE *stream;   /* records are appended to it */
    qb_map map;     /* the records that were there */
    size_t at, end; /* of those that are still to be taken */
} qb_trials;

/* `plan` is what the records depend on. With `resume` those of the file are taken over, if there is
 * one; of another plan it is QB_STATUS_MISMATCH. What was cut at its end is left out. Otherwise the
 * file begins anew. `path` NULL: nothing is kept. */
qb_status qb_trials_open(qb_ctx *cx, const char *path, qb_hash plan, bool resume, qb_trials *out);
void qb_trials_close(qb_trials *trials); /* accepts zeroed */
/* The next of the records that were taken over, to be read from *pack; false: there is none. */
bool qb_trials_next(qb_ctx *cx, qb_trials *trials, qb_pack *pack);
/* Appends what was written to the pack; it is in the file when this returns. */
qb_status qb_trials_add(qb_ctx *cx, qb_trials *trials, qb_pack *pack);

#endif
