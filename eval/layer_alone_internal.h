/* One layer of a graph as a graph of its own. */
#ifndef QB_EVAL_LAYER_ALONE_INTERNAL_H
#define QB_EVAL_LAYER_ALONE_INTERNAL_H

#include "graph/fusion.h"

/* A graph whose nodes are those of `group` alone: its inputs are the group's inputs that are not
 * constant (float for the caller, quantized inside, where they carry parameters), its output is
 * group->out. `graph` must have known shapes. */
qb_status qb_layer_extract(qb_ctx *cx, const qb_graph *graph, const qb_group *group,
                           qb_graph **out);

#endif
