/* Work on many things by several threads. */
#ifndef QB_BASE_EACH_H
#define QB_BASE_EACH_H

#include <stdint.h>

#include "ctx.h"

/* fn(worker, i) for each i in 0 .. n - 1, by at most qb_threads(cx) workers; calls with the same
 * worker never overlap. The first error stops all and is returned. */
typedef qb_status (*qb_each_fn)(qb_ctx *cx, void *user, int32_t worker, int32_t i);
qb_status qb_each(qb_ctx *cx, int32_t n, qb_each_fn fn, void *user);

#endif
