/* Random graphs of the kind that exporters write, with everything the optimizer looks for. */
#ifndef QB_RANDOM_GRAPH_H
#define QB_RANDOM_GRAPH_H

#include "build_graph.h"

/* One image input [N, C, H, W], `size` steps of one to five nodes, one to four outputs. */
void make_random_graph(maker *m, int size);

#endif
