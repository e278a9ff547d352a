/* Graphs with operators of plugins, for tests and for the models of tests/cli. */
#ifndef PLUGIN_GRAPH_H
#define PLUGIN_GRAPH_H

#include "graph/plugin.h"

/* A plugin that the build made: "gate", "sampler", "skeleton", "kit". */
qb_status plugin_graph_load(qb_ctx *cx, const char *name);
/* Path of its library. */
void plugin_graph_library(char *path, size_t n, const char *name);

/* A small classifier of 10 classes on [N, 3, 32, 32] with one squeeze-and-excitation block that
 * ends in the plugin's gate, or (`plain`) in HardSigmoid and Mul. Weights by seed. */
qb_status plugin_graph_gate(qb_ctx *cx, bool plain, qb_graph **out);
/* image [1, channels, side, side] and grid [1, points, points, 2] into the sampler, then Relu. */
qb_status plugin_graph_sampler(qb_ctx *cx, int64_t channels, int64_t side, int64_t points,
                               qb_graph **out);
/* x [2, 3] and, where `both`, y of that shape, into the kit; attribute mode is `mode`. */
qb_status plugin_graph_kit(qb_ctx *cx, bool both, const char *mode, qb_graph **out);
/* x [N, 2, H, W] resized to `size`, by the plugin "resize_to": a constant 4 x 6, the last two sizes
 * of another input `like` [N, 1, U, V], or an input. */
typedef enum plugin_size { SIZE_CONSTANT, SIZE_LIKE, SIZE_INPUT } plugin_size;
qb_status plugin_graph_resize(qb_ctx *cx, plugin_size from, qb_graph **out);
/* The last node's attribute. */
void *plugin_graph_attr(qb_graph *graph, const char *name);

#endif
