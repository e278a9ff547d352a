/* Random graphs of elementwise chains, views, reductions and normalizations, with quantized values
 * in places: an engine against the one of kernels/ref and the operators' definitions. For each
 * value it is known how large it can be and how far off, so that functions that jump are applied to
 * exact values alone and the tolerance is an error bound. */
#ifndef RANDOM_GRAPHS_H
#define RANDOM_GRAPHS_H

#include <stdint.h>

#include "engine/engine.h"

/* `count` graphs, or as many as QB_RANDOM_GRAPHS says, by engines of `backends`
 * (qb_build_spec.backends); QB_RANDOM_GRAPH: this one alone, printed. Ends after three that are
 * wrong, each printed. */
void random_graphs_agree(const char *backends, uint64_t count);
/* Builds engines of as many, and runs none: as the spec says. */
void random_graphs_build(const qb_build_spec *spec, uint64_t count);

#endif
