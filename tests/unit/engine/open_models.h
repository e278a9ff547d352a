/* Graphs with open shapes: a fully convolutional one, one over sequences, one of products. */
#ifndef OPEN_MODELS_H
#define OPEN_MODELS_H

#include "qb_test.h"

#include "engine/profiles.h"

/* Input "image" [N, 3, H, W] -> Conv, Relu, Conv of stride 2, Relu, Conv -> "y". */
void open_image_model(qb_ctx *cx, qb_graph **out);
/* Input "tokens" [N, S, 16] -> one attention block with LayerNormalization left out -> "y". */
void open_sequence_model(qb_ctx *cx, qb_graph **out);
/* Input "tokens" [N, S, 16] -> attention of two heads over three products of it with biases; a
 * Shape reads the first one before its bias -> "y" [N, S, 32]. */
void open_attention_model(qb_ctx *cx, qb_graph **out);
/* Input "rows" [N, S, 16] -> mean of each row, for which S > 1 takes a step more, products -> "y".
 */
void open_products_model(qb_ctx *cx, qb_graph **out);

/* Runs on seeded values and gives the first output, new memory (qb_free); *n is its size. */
float *open_run(qb_ctx *cx, qb_context *context, uint64_t seed, size_t *n);

#endif
