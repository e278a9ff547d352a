/* What is known of plugins, for `qbench plugin list` and `inspect`. */
#ifndef QB_CLI_PLUGIN_JSON_H
#define QB_CLI_PLUGIN_JSON_H

#include <jansson.h>

#include "graph/plugin.h"

/* Loads the libraries that a command was given as arguments, after those of --plugin. At least one
 * must be loaded then. */
qb_status qb_plugin_arguments(qb_ctx *cx, const char *command, const char *const *path, int n);
/* All of the context's plugins with their operators; NULL when memory runs out. */
json_t *qb_plugins_json(const qb_ctx *cx);

#endif
