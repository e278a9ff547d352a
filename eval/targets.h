/* Ground truth for models that make images: what each sample should have become. */
#ifndef QB_EVAL_TARGETS_H
#define QB_EVAL_TARGETS_H

#include "datasets/loader.h"

/* `targets`: images, as many as the data has samples and in the same order. Else an error. */
qb_status qb_targets_check(qb_ctx *cx, const qb_dataset *data, const qb_dataset *targets);

/* The target of a sample as pixels in 0..255, row-major channels x height x width of the output's
 * shape (1 x {1, 3} x H x W), in the colours of the model's inputs (`inputs` says which). It must
 * have exactly that size: nothing is resized or cropped. */
qb_status qb_target_read(qb_ctx *cx, const qb_dataset *targets, int64_t index,
                         const qb_preprocess *inputs, const qb_shape *shape, float *out);

/* Sum over n values of squared differences from the target, in pixels of 0..255: a model puts out
 * what it is fed, (pixel - mean) / std, and what no pixel can hold is cut off, as on saving. */
double qb_target_error(const float *output, const float *target, const qb_preprocess *inputs,
                       const qb_shape *shape);
#endif
