/* Masks as run lengths: pixels column by column, the first run background. */
#ifndef QB_DATASETS_RLE_H
#define QB_DATASETS_RLE_H

#include <stdint.h>

#include "base/ctx.h"

typedef struct qb_rle {
    int32_t height, width;
    size_t n;
    uint32_t *run; /* [n], they add up to height x width; owned */
} qb_rle;

void qb_rle_release(qb_rle *rle); /* accepts zeroed */

/* The pixels of a polygon of n points x, y in pixels, as pycocotools 2.0.11 rasterizes it: the
 * boundary is followed at five times the resolution, and a column's run begins and ends where the
 * boundary crosses the column's middle. Coordinates beyond 100,000 are refused. */
qb_status qb_rle_of_polygon(qb_ctx *cx, const double *xy, size_t n, int32_t height, int32_t width,
                            qb_rle *out);
/* COCO's compressed text: differences to the run before the last, 5 bits a character. */
qb_status qb_rle_of_text(qb_ctx *cx, const char *text, size_t n, int32_t height, int32_t width,
                         qb_rle *out);
/* Copies n runs, which must add up to the size. */
qb_status qb_rle_of_runs(qb_ctx *cx, const uint32_t *run, size_t n, int32_t height, int32_t width,
                         qb_rle *out);
/* What is in any of n masks of one size; of no mask: nothing. */
qb_status qb_rle_union(qb_ctx *cx, const qb_rle *mask, size_t n, int32_t height, int32_t width,
                       qb_rle *out);
int64_t qb_rle_area(const qb_rle *rle); /* pixels */
/* Pixels in both; of masks of one size. */
int64_t qb_rle_overlap(const qb_rle *a, const qb_rle *b);
/* x, y, width, height of the pixels; zeros of an empty mask. */
void qb_rle_box(const qb_rle *rle, double box[4]);
/* Sets pixel[y * width + x] to `value` where the mask is. */
void qb_rle_paint(const qb_rle *rle, uint8_t value, uint8_t *pixel);
#endif
