/* The demo's images: ten classes of shapes and textures that the program draws itself.
 *
 * An image is a pure function of (seed, index, label): only integer operations, + - * / and sqrt on
 * doubles are used (all exactly defined by IEEE 754), so every machine draws the same bytes. */
#ifndef QB_DEMO_DRAW_H
#define QB_DEMO_DRAW_H

#include "datasets/dataset.h"

enum { QB_DEMO_CLASSES = 10, QB_DEMO_SIDE = 32, QB_DEMO_CHANNELS = 3 };

/* Seeds of the image sets that the documented accuracies refer to. Calibration and test images are
 * never those that the model was trained on. */
enum { QB_DEMO_SEED_TRAIN = 1, QB_DEMO_SEED_CALIB = 2, QB_DEMO_SEED_TEST = 3 };

/* Class names, in alphabetical order so that class folders number themselves. NULL outside
 * 0..QB_DEMO_CLASSES-1. Static storage. */
const char *qb_demo_class_name(int32_t label);

/* Draws one image into QB_DEMO_SIDE x QB_DEMO_SIDE x 3 bytes (row-major RGB). `label` must be
 * valid: this is the core that the training script shares, qb_demo_draw is the checked form. */
void qb_demo_pixels(uint64_t seed, int64_t index, int32_t label, uint8_t *pixel);

/* Draws image number `index` of class `label`. *out is owned by the caller (qb_image_release).
 * Thread safe. QB_STATUS_INVALID for a label or an index out of range. */
qb_status qb_demo_draw(qb_ctx *cx, uint64_t seed, int64_t index, int32_t label, qb_image *out);

/* Writes folder/CLASS/NNNN.png for each class and index 0..per_class-1, making the folders. Files
 * that are there already are replaced, those of higher numbers removed. Stops with
 * QB_STATUS_CANCELLED when asked to. */
qb_status qb_demo_write(qb_ctx *cx, const char *folder, uint64_t seed, int64_t per_class);
#endif
