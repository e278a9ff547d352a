/* What a library compiled for kernels while the program runs, kept so that the same kernels are
 * made again without compiling. An entry belongs to the hash of all that it depends on; what its
 * bytes mean is the tactic's business. One object belongs to one thread at a time. */
#ifndef QB_KERNELS_COMPILED_H
#define QB_KERNELS_COMPILED_H

#include "base/hash.h"

typedef struct qb_compiled qb_compiled;

qb_status qb_compiled_create(qb_ctx *cx, qb_compiled **out);
void qb_compiled_free(qb_compiled *compiled); /* accepts NULL */

/* NULL: there is none. The bytes stay where they are until qb_compiled_free. */
const void *qb_compiled_find(const qb_compiled *compiled, qb_hash key, size_t *bytes);
/* Adds a copy of the bytes; nothing where the key has an entry. */
qb_status qb_compiled_add(qb_ctx *cx, qb_compiled *compiled, qb_hash key, const void *data,
                          size_t bytes);
/* The same without a copy: the bytes outlive the object. */
qb_status qb_compiled_borrow(qb_ctx *cx, qb_compiled *compiled, qb_hash key, const void *data,
                             size_t bytes);
/* The same for all that `from` has. */
qb_status qb_compiled_borrow_all(qb_ctx *cx, qb_compiled *compiled, const qb_compiled *from);
/* Adds what `from` has under this key, as it has it: what it was lent is lent on. */
qb_status qb_compiled_take(qb_ctx *cx, qb_compiled *compiled, const qb_compiled *from, qb_hash key);

/* The entries in the order in which they were added. */
int32_t qb_compiled_count(const qb_compiled *compiled);
const void *qb_compiled_entry(const qb_compiled *compiled, int32_t i, qb_hash *key, size_t *bytes);
#endif
