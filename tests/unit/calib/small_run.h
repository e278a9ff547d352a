/* A small data set and a small model, for tests that run calibration. */
#ifndef SMALL_RUN_H
#define SMALL_RUN_H

#include "calib/calib.h"
#include "qb_test.h"
#include "small_graphs.h"

#define RUN_IMAGES 21

/* Writes an HDF5 data set of seeded RGB images with labels; `path` (QB_TEST_PATH) is where. */
void run_images(char *path);
/* The same, open. */
qb_dataset *run_dataset(qb_ctx *cx);
/* Pixel values that run_dataset wrote: RUN_IMAGES x RUN_SIDE x RUN_SIDE x 3. */
void run_pixels(uint8_t *pixel);
qb_loader_options run_loader(const qb_dataset *dataset, int32_t batch, int32_t threads);

#endif
