/* Values of an image at places between its pixels, as ONNX's GridSample defines them: a place is in
 * [-1, 1] along each spatial dimension, the last dimension first. Interpolation is separable: a few
 * taps along each dimension. */
#ifndef QB_KERNELS_GRID_H
#define QB_KERNELS_GRID_H

#include <math.h>

#include "kernels/problem.h"

/* For host and device code. */
#ifdef __CUDACC__
#define QB_GRID_FUNCTION static __device__ __forceinline__
#else
#define QB_GRID_FUNCTION static inline
#endif

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
int32_t qb_grid_taps_of(qb_grid_mode mode); /* taps along each dimension */

#ifdef __cplusplus
}
#endif
QB_GRID_FUNCTION qb_grid_tap qb_grid_tap_of(int64_t at, double weight) {
    qb_grid_tap tap;
    tap.at = at;
    tap.weight = weight;
    return tap;
}

/* Mirrored at the borders until it lies between them. */
QB_GRID_FUNCTION float qb_grid_reflect(const qb_grid_axis *a, float x) {
    const float span = a->high - a->low;
    if (x >= a->low && x <= a->high) return x;
    if (span <= 0) return a->low;
    const float beyond = x < a->low ? a->low - x : x - a->high;
    const float times = floorf(beyond / span), rest = beyond - times * span;
    const bool from_low = (x < a->low) == (fmodf(times, 2.0f) == 0.0f);
    return from_low ? a->low + rest : a->high - rest;
}

QB_GRID_FUNCTION float qb_grid_clamp(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

QB_GRID_FUNCTION float qb_grid_pad(const qb_grid_axis *a, float x) {
    if (a->grid.outside == QB_GRID_BORDER) return qb_grid_clamp(x, 0, (float)(a->size - 1));
    return a->grid.outside == QB_GRID_REFLECTION ? qb_grid_reflect(a, x) : x;
}

QB_GRID_FUNCTION qb_grid_tap qb_grid_pixel(const qb_grid_axis *a, float x, double weight) {
    const bool zeros = a->grid.outside == QB_GRID_ZEROS;
    if (a->size == 0 || (zeros && (x < 0 || x > (float)(a->size - 1))))
        return qb_grid_tap_of(-1, weight);
    int64_t i =
        (int64_t)qb_grid_pad(a, x); /* reflection may leave a fraction, or half a pixel too much */
    i = i < 0 ? 0 : i >= a->size ? a->size - 1 : i;
    return qb_grid_tap_of(i * a->stride, weight);
}

/* Keys' cubic convolution with a = -0.75, `x` away from the tap. */
QB_GRID_FUNCTION double qb_grid_cubic(double x) {
    const double a = -0.75;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((x - 5) * x + 8) * x * a - 4 * a;
}

/* Where place `g` along a dimension lies, in pixels. Infinite and undefined places are far outside.
 */
QB_GRID_FUNCTION float qb_grid_pixels(const qb_grid_axis *a, float g) {
    const float far = 0x1p30f, size = (float)a->size;
    const float x = a->grid.corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    return x > -far ? (x < far ? x : far) : -far;
}

/* The taps for it; returns their number: 1, 2 or 4, by the mode. */
QB_GRID_FUNCTION int32_t qb_grid_taps(const qb_grid_axis *a, float g,
                                      qb_grid_tap out[QB_GRID_TAPS]) {
    float x = qb_grid_pixels(a, g);
    const qb_grid_mode mode = a->grid.mode;
    if (mode == QB_GRID_NEAREST) {
        out[0] = qb_grid_pixel(a, rintf(x), 1);
        return 1;
    }
    /* Cubic taps reach over the border: there pixels are repeated, the place stays (as in PyTorch).
     */
    if (mode != QB_GRID_CUBIC || a->grid.outside != QB_GRID_BORDER) x = qb_grid_pad(a, x);
    const float first = floorf(x), part = x - first;
    if (mode == QB_GRID_LINEAR) {
        out[0] = qb_grid_pixel(a, first, 1.0 - (double)part);
        out[1] = qb_grid_pixel(a, first + 1, (double)part);
        return 2;
    }
    for (int32_t k = 0; k < QB_GRID_TAPS; k++)
        out[k] =
            qb_grid_pixel(a, first + (float)(k - 1), qb_grid_cubic(fabs((double)part - (k - 1))));
    return QB_GRID_TAPS;
}

#endif
