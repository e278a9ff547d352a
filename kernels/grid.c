#include "kernels/grid.h"

#include <math.h>

int32_t qb_grid_axes(const qb_grid_sampling *grid, const qb_shape *x,
                     qb_grid_axis out[QB_GRID_SPATIAL]) {
    int64_t stride = 1;
    for (int32_t d = x->rank - 1; d >= 2; d--) {
        const float half = grid->corners ? 0 : 0.5f;
        const int64_t size = x->dim[d];
        out[d - 2] = (qb_grid_axis){*grid, size, stride, -half, (float)(size - 1) + half};
        stride *= size;
    }
    return x->rank - 2;
}

int32_t qb_grid_taps_of(qb_grid_mode mode) {
    return mode == QB_GRID_NEAREST ? 1 : mode == QB_GRID_LINEAR ? 2 : QB_GRID_TAPS;
}

/* Mirrored at the borders until it lies between them. */
static float reflect(const qb_grid_axis *a, float x) {
    const float span = a->high - a->low;
    if (x >= a->low && x <= a->high) return x;
    if (span <= 0) return a->low;
    const float beyond = x < a->low ? a->low - x : x - a->high;
    const float times = floorf(beyond / span), rest = beyond - times * span;
    const bool from_low = (x < a->low) == (fmodf(times, 2.0f) == 0.0f);
    return from_low ? a->low + rest : a->high - rest;
}

static float clamp(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

static float pad(const qb_grid_axis *a, float x) {
    if (a->grid.outside == QB_GRID_BORDER) return clamp(x, 0, (float)(a->size - 1));
    return a->grid.outside == QB_GRID_REFLECTION ? reflect(a, x) : x;
}

static qb_grid_tap pixel(const qb_grid_axis *a, float x, double weight) {
    const bool zeros = a->grid.outside == QB_GRID_ZEROS;
    if (a->size == 0 || (zeros && (x < 0 || x > (float)(a->size - 1))))
        return (qb_grid_tap){-1, weight};
    int64_t i = (int64_t)pad(a, x); /* reflection may leave a fraction, or half a pixel too much */
    i = i < 0 ? 0 : i >= a->size ? a->size - 1 : i;
    return (qb_grid_tap){i * a->stride, weight};
}

/* Keys' cubic convolution with a = -0.75, `x` away from the tap. */
static double cubic(double x) {
    const double a = -0.75;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((x - 5) * x + 8) * x * a - 4 * a;
}

float qb_grid_pixels(const qb_grid_axis *a, float g) {
    const float far = 0x1p30f, size = (float)a->size;
    const float x = a->grid.corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    return x > -far ? (x < far ? x : far) : -far;
}

int32_t qb_grid_taps(const qb_grid_axis *a, float g, qb_grid_tap out[QB_GRID_TAPS]) {
    float x = qb_grid_pixels(a, g);
    const qb_grid_mode mode = a->grid.mode;
    if (mode == QB_GRID_NEAREST) {
        out[0] = pixel(a, rintf(x), 1);
        return 1;
    }
    /* Cubic taps reach over the border: there pixels are repeated, the place stays (as in PyTorch).
     */
    if (mode != QB_GRID_CUBIC || a->grid.outside != QB_GRID_BORDER) x = pad(a, x);
    const float first = floorf(x), part = x - first;
    if (mode == QB_GRID_LINEAR) {
        out[0] = pixel(a, first, 1.0 - (double)part);
        out[1] = pixel(a, first + 1, (double)part);
        return 2;
    }
    for (int32_t k = 0; k < QB_GRID_TAPS; k++)
        out[k] = pixel(a, first + (float)(k - 1), cubic(fabs((double)part - (k - 1))));
    return QB_GRID_TAPS;
}
