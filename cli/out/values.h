/* Inputs and outputs of a graph as the commands show them. */
#ifndef QB_CLI_OUT_VALUES_H
#define QB_CLI_OUT_VALUES_H

#include <jansson.h>

#include "graph/graph.h"

/* A list of name, dtype and shape ("Nx3x224x224"); a new reference, NULL when memory runs out. */
json_t *qb_values_json(const qb_graph *graph, const int32_t *ids, int32_t n);
/* Prints that list, one value a line, the title in front of the first. */
void qb_print_values(const char *title, const json_t *list);

#endif
