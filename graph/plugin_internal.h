/* What plugin_load.c and plugin_call.c share. */
#ifndef QB_GRAPH_PLUGIN_INTERNAL_H
#define QB_GRAPH_PLUGIN_INTERNAL_H

#include "graph/plugin.h"

/* The row's functions for operators of plugins. */
qb_status qb_plugin_infer(qb_ctx *cx, const qb_infer_args *args);
qb_status qb_plugin_eval(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out);

#endif
