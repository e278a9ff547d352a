/* Shapes and contents of an engine's inputs, in trtexec's spelling. */
#ifndef QB_CLI_SETTINGS_INPUTS_H
#define QB_CLI_SETTINGS_INPUTS_H

#include "engine/engine.h"

/* The model's own shape of an input; a first dimension without a size is the batch. */
qb_status qb_bench_own_shape(qb_ctx *cx, const qb_value *input, int64_t batch, qb_shape *out);

/* Open dimensions of a model's inputs by --shapes, `text`; for qb_onnx_part. */
qb_status qb_size_inputs(qb_ctx *cx, qb_graph *graph, const void *text);
/* Inputs of the graph that `texts` (NAME=V,V..., NULL at the end) name become constants: what a
 * model asks for beside an image. One number stands for all elements. QB_STATUS_USAGE lists the
 * inputs that there are. */
qb_status qb_fix_inputs(qb_ctx *cx, const char *const *texts, qb_graph *graph);
/* Such texts for a model that takes one image and, beside it, pairs of numbers: its own height and
 * width, and factors of 1 for what is called scale. None for other models, or for images of any
 * size. At most `most` texts, new memory, NULL at the end. */
qb_status qb_guess_fixed(qb_ctx *cx, const qb_graph *graph, int32_t most, char **texts);
/* One shape an input of the graph, new memory. `text`: "in:1x3x224x224,in2:8x128", the part before
 * the last colon is the name; NULL or an input left out: the model's own shape with a symbolic
 * first dimension = batch. */
qb_status qb_bench_shapes(qb_ctx *cx, const qb_graph *graph, const char *text, int64_t batch,
                          qb_shape **out);

/* One buffer an input of the engine, free with qb_bench_inputs_free. `text`: "in:FILE,in2:FILE",
 * raw row-major data of exactly the input's size; what is not named is filled with seeded values:
 * uniform in -1..1, integers 0 or 1. */
qb_status qb_bench_inputs(qb_ctx *cx, const qb_engine *engine, const char *text, void ***out);
void qb_bench_inputs_free(const qb_engine *engine, void **inputs);

#endif
