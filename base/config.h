/* qbench.yaml as a tree of mappings, lists and scalars, with line and column for errors (libyaml).
 * Aliases and anchors are refused: a small file must not grow into a large one. */
#ifndef QB_BASE_CONFIG_H
#define QB_BASE_CONFIG_H

#include <stdint.h>

#include "ctx.h"

typedef struct qb_config qb_config;
typedef struct qb_config_node qb_config_node;

/* Parses at most 1 MiB. `name` is the file's name for messages. */
qb_status qb_config_parse(qb_ctx *cx, const char *name, const char *text, size_t size,
                          qb_config **out);
qb_status qb_config_load(qb_ctx *cx, const char *path, qb_config **out);
void qb_config_free(qb_config *config);
QB_RELEASE_AT(qb_config, qb_config_free)

/* The node at a dotted path ("calibration.method") below the root; NULL when absent. */
const qb_config_node *qb_config_find(const qb_config *config, const char *path);
int qb_config_size(const qb_config_node *node);                            /* list or mapping */
const qb_config_node *qb_config_at(const qb_config_node *node, int index); /* list item / value */
const char *qb_config_key(const qb_config_node *node, int index);          /* mapping key */
const char *qb_config_text(const qb_config_node *node); /* of a scalar; NULL for other nodes */

/* Scalars by path: *out is left alone when the path is absent or empty ("key:", null, ~); wrong
 * types are errors with file, line and column. Strings live as long as the config. */
qb_status qb_config_string(qb_ctx *cx, const qb_config *config, const char *path, const char **out);
qb_status qb_config_int(qb_ctx *cx, const qb_config *config, const char *path, int64_t *out);
qb_status qb_config_double(qb_ctx *cx, const qb_config *config, const char *path, double *out);
qb_status qb_config_bool(qb_ctx *cx, const qb_config *config, const char *path, bool *out);
/* At most `capacity` numbers of a list (or one scalar); *n is 0 when the path is absent. */
qb_status qb_config_doubles(qb_ctx *cx, const qb_config *config, const char *path, double *out,
                            int capacity, int *n);
/* Fails (QB_STATUS_INVALID) with the position of what stands at `path`, or the file alone where
 * nothing does, the path and the text. */
qb_status qb_config_fail(qb_ctx *cx, const qb_config *config, const char *path, const char *fmt,
                         ...) QB_PRINTF(4, 5);
/* Fails with the position of the first key that none of `known` (dotted paths, NULL-terminated;
 * "a.*" allows any child) names, and the nearest known key. */
qb_status qb_config_check_keys(qb_ctx *cx, const qb_config *config, const char *const *known);
#endif
