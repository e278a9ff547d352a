/* Values of an image at places between its pixels, as ONNX's GridSample defines them: a place is in
 * [-1, 1] along each spatial dimension, the last dimension first. Interpolation is separable: a few
 * taps along each dimension. */
#ifndef QB_KERNELS_GRID_H
#define QB_KERNELS_GRID_H

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_GRID_SPATIAL 3
#define QB_GRID_TAPS 4
#define QB_GRID_CORNERS 64 /* QB_GRID_TAPS ** QB_GRID_SPATIAL */

/* One spatial dimension: `low` and `high` are where its first and last pixel end. */
typedef struct qb_grid_axis {
    qb_grid_sampling grid;
    int64_t size, stride;
    float low, high;
} qb_grid_axis;

typedef struct qb_grid_tap {
    int64_t at; /* element; -1: outside, 0 is read */
    double weight;
} qb_grid_tap;

/* The spatial dimensions of an image [N, C, ...]; returns their number. */
int32_t qb_grid_axes(const qb_grid_sampling *grid, const qb_shape *x,
                     qb_grid_axis out[QB_GRID_SPATIAL]);
/* Where place `g` along a dimension lies, in pixels. Infinite and undefined places are far outside.
 */
float qb_grid_pixels(const qb_grid_axis *axis, float g);
/* The taps for it; returns their number. */
int32_t qb_grid_taps(const qb_grid_axis *axis, float g, qb_grid_tap out[QB_GRID_TAPS]);
int32_t qb_grid_taps_of(qb_grid_mode mode); /* that number */

#ifdef __cplusplus
}
#endif
#endif
