/* Names of several files in one: "train-{00..09}.tar", "{train,val}.tar". */
#ifndef QB_DATASETS_SHARDS_NAMES_H
#define QB_DATASETS_SHARDS_NAMES_H

#include "base/ctx.h"

enum { QB_SHARDS_MAX = 65536 };

/* Is it no file's name but a pattern of several? */
bool qb_shards_is_pattern(const char *path);
/* The names, in their order: numbers of {00..09} have as many digits as they are written with, and
 * several braces give all combinations. A path without braces is one name. Free each and the list.
 * Errors: QB_STATUS_USAGE for braces that do not close, and for more than QB_SHARDS_MAX names. */
qb_status qb_shards_expand(qb_ctx *cx, const char *pattern, char ***names, size_t *n);
void qb_shards_free(char **names, size_t n);
#endif
