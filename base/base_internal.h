/* Shared by the files of base/ only. */
#ifndef QB_BASE_INTERNAL_H
#define QB_BASE_INTERNAL_H

#include "ctx.h"

/* Counts one allocation for the failure hook of the tests (qb_ctx.fail_alloc_at). False, with the
 * error recorded, when it is the one that has to fail. */
bool qb_alloc_permit(qb_ctx *cx, size_t bytes);

/* Opens `path`, which has no "..", below the folder `root`: part by part, through no link. -1 with
 * errno. */
int qb_open_walk(int root, const char *path);

#endif
