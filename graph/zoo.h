/* The model zoo: well-known architectures with seeded weights, built through the graph's own calls.
 * Shapes and parameter counts are those of the originals; the weights are random (He et al. 2015,
 * "Delving deep into rectifiers"), and the statistics of normalization layers come from running the
 * growing model over a few drawn images, so that activations keep their scale through any depth and
 * outputs differ between inputs. For speed, memory and correctness; they classify nothing. */
#ifndef QB_GRAPH_ZOO_H
#define QB_GRAPH_ZOO_H

#include "graph/graph.h"

struct qb_zoo;

typedef struct qb_zoo_model {
    const char *name;
    const char *summary;
    int64_t channels, side; /* input "image" [N, channels, side, side]; channels 0: int64 token
                               numbers "input_ids" [N, length], `side` being the usual length */
    /* Adds the layers after the input and returns the value of the output; -1 on failure. */
    int32_t (*build)(struct qb_zoo *zoo, int32_t input);
    const char *output; /* name of the output; NULL: "logits" */
    bool plain;         /* weights need no drawn images: LayerNormalization keeps the scale */
    int64_t drawn_side; /* of the drawn images, 0: 64. Where windows are as large as the last maps,
                           small images would show them mostly padding */
} qb_zoo_model;

extern const qb_zoo_model *const qb_zoo_models[];  /* ends with NULL */
const qb_zoo_model *qb_zoo_find(const char *name); /* NULL when unknown */

typedef struct qb_zoo_options {
    const char *batch; /* name of the symbolic batch dimension; NULL: "N" */
    int64_t side;      /* height and width of images, 0: the model's own; number of tokens, 0: a
                          symbol "length" */
} qb_zoo_options;

/* The same name, seed and options give the same bytes wherever log, sin and cos round alike (same C
 * library). `options` may be NULL. */
qb_status qb_zoo_build(qb_ctx *cx, const char *name, uint64_t seed, const qb_zoo_options *options,
                       qb_graph **out);
#endif
