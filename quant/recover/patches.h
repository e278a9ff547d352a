/* What the weights of a layer meet: the elements of its input under one position of the window, or
 * a row of a product's data, a "patch" of groups x n_in x taps elements in the order of (group,
 * input channel, tap). */
#ifndef QB_QUANT_RECOVER_PATCHES_H
#define QB_QUANT_RECOVER_PATCHES_H

#include "graph/layer.h"

typedef struct qb_patches {
    int64_t groups, n_in, taps, positions; /* positions: of all items */
    int64_t items;
    bool product;
    qb_window window;
    int64_t in[3], out[3]; /* sizes, ones in front */
} qb_patches;

/* Of a layer of a graph with known shapes; UNSUPPORTED for kinds without patches. */
qb_status qb_patches_of(qb_ctx *cx, const qb_graph *graph, const qb_layer *layer, qb_patches *out);
/* Patch number `at` of one group into row[n_in x taps]. */
void qb_patch(const qb_patches *p, const float *x, int64_t group, int64_t at, float *row);

#endif
