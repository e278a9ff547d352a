/* Shared by the files of base/ only. */
#ifndef QB_BASE_INTERNAL_H
#define QB_BASE_INTERNAL_H

#include "ctx.h"

/* May so much more be allocated (qb_ctx.max_memory)? Counts it for the failure hook of the tests
 * (qb_ctx.fail_alloc_at), too. False with the error recorded. */
bool qb_alloc_permit(qb_ctx *cx, size_t bytes);

/* Opens `path`, which has no "..", below the folder `root`: part by part, through no link. -1 with
 * errno. */
int qb_open_walk(int root, const char *path);

#endif
