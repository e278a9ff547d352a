/* Lists of NAME:VALUE, separated by commas, in trtexec's spelling. */
#ifndef QB_CLI_SETTINGS_PAIRS_H
#define QB_CLI_SETTINGS_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "base/ctx.h"

/* One element. Names may hold colons and commas never stand in values, so the name ends at the
 * element's last colon; without one `name` is NULL. Neither ends with a zero. */
typedef struct qb_pair {
    const char *name, *value;
    size_t name_length, value_length;
} qb_pair;

/* The next element of *at (NULL: none), which moves on; false at the end. */
bool qb_pair_next(const char **at, qb_pair *out);
bool qb_pair_is(const qb_pair *pair, const char *name);
/* Which of the inputs names[n] an element means; the only one needs no name. QB_STATUS_USAGE lists
 * them, or says that an element behind it means the same one; `option` is for that message. */
qb_status qb_pair_input(qb_ctx *cx, const char *option, const qb_pair *pair,
                        const char *const *names, int32_t n, int32_t *index);

#endif
