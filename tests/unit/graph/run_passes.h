/* Running optimizer passes in tests. */
#ifndef QB_RUN_PASSES_H
#define QB_RUN_PASSES_H

#include "graph/passes.h"
#include "random_graph.h"

#define MAX_PASSES 32
#define TOLERANCE 1e-5
/* Many rewrites on top of each other, in graphs that may amplify what was rounded. */
#define RANDOM_TOLERANCE 1e-4

/* Runs the pass of this name (NULL: all) on a copy, checks that outputs, names and invariants stay,
 * and leaves the result in the maker. Returns the number of changes. */
int32_t optimize(maker *m, const char *only, double tolerance);
/* For graphs that the reference evaluation does not run (quantized values) or that overflow. */
int32_t optimize_unchecked(maker *m, const char *only);

int32_t make_image(maker *m); /* input "x" [N, 4, 6, 6] */
int32_t make_conv(maker *m, const char *name, int32_t x, qb_shape weight, bool bias);
/* Input i of the node that writes one value is the other. */
void expect_input(const maker *m, const char *node_output, int32_t i, const char *value);

#endif
