/* Samples in memory, as the model gets them. */
#ifndef QB_QUANT_RECOVER_SAMPLES_H
#define QB_QUANT_RECOVER_SAMPLES_H

#include "base/each.h"
#include "datasets/loader.h"
#include "graph/graph.h"

typedef struct qb_samples {
    int32_t n, n_inputs;
    qb_shape *shape; /* [n_inputs], of all samples */
    void **data;     /* [n x n_inputs] row-major */
} qb_samples;

/* At most `most` of the samples that are held back (see calib/holdout.h), or of the others, evenly
 * spread, and no more than fit into `bytes` (but one). Of the first one's shapes: those of others
 * are left out. */
qb_status qb_samples_load(qb_ctx *cx, const qb_loader_options *loader, int64_t every,
                          bool held_back, int32_t most, size_t bytes, qb_samples *out);
void qb_samples_release(qb_samples *samples); /* accepts zeroed */

#endif
