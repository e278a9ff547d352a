/* Resampling as Pillow does it, and with OpenCV's weights where a filter is OpenCV's: two passes,
 * one along the rows and one along the columns, each a convolution whose support grows with the
 * scale when it shrinks (antialiasing). The weights of one output pixel are computed in double,
 * divided by their sum and rounded to 22 fractional bits; sums are integers, rounded to 8 bits
 * after each pass. Integer sums make the result the same for every vector width.
 *
 * Filters: bilinear is the triangle; bicubic is Keys' kernel with a = -0.5 (R. G. Keys, "Cubic
 * convolution interpolation for digital image processing", 1981); lanczos is sinc windowed by sinc,
 * three lobes. */
#include <math.h>
#include <string.h>

#include "datasets_internal.h"

#define FRACTION_BITS 22
#define BLOCK 64 /* bytes that one vector step works on */
#define TILE 16

/* Machines with narrower registers split these. */
typedef uint32_t v16u __attribute__((vector_size(64)));
typedef int32_t v16i __attribute__((vector_size(64)));
typedef uint8_t v16b __attribute__((vector_size(16)));
#define INLINE static inline __attribute__((always_inline))

static double triangle(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

/* Keys' kernel. */
static double keys(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static double cubic(double x) { return keys(x, -0.5); }
static double cubic_cv(double x) { return keys(x, -0.75); } /* as OpenCV has it */

/* Half open, so that a pixel on the border counts once. */
static double flat(double x) { return x > -0.5 && x <= 0.5 ? 1 : 0; }

static double sinc(double x) {
    if (x == 0) return 1;
    x *= 3.14159265358979323846;
    return sin(x) / x;
}

static double lanczos(double x) { return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const struct {
    double (*weight)(double x); /* NULL: weights of its own, see fill_nearest and fill_area */
    double support;
    bool sharp;  /* no antialiasing; past the border the last pixel repeats */
    bool opencv; /* OpenCV's, not Pillow's */
} kernels[] = {
    [QB_FILTER_BILINEAR] = {triangle, 1, false, false},
    [QB_FILTER_BICUBIC] = {cubic, 2, false, false},
    [QB_FILTER_LANCZOS] = {lanczos, 3, false, false},
    [QB_FILTER_BOX] = {flat, 0.5, false, false},
    [QB_FILTER_NEAREST] = {NULL, 0.5, true, false},
    [QB_FILTER_LINEAR] = {triangle, 1, true, true},
    [QB_FILTER_CUBIC] = {cubic_cv, 2, true, true},
    [QB_FILTER_AREA] = {NULL, 1, false, true},
};

/* For each output position: which input positions, with which weights. */
typedef struct taps {
    int32_t n;      /* output positions */
    int32_t most;   /* weights stored for each */
    int32_t *first; /* n */
    int32_t *count; /* n, at most `most` */
    int32_t *weight;
} taps;

static void taps_release(taps *t) { QB_FREE_ALL(t->first, t->count, t->weight); }

/* What the taps of one axis are made from. */
typedef struct axis {
    int32_t in_size;
    double scale; /* input pixels an output pixel */
    double spread, support;
    qb_filter filter;
    bool enlarges; /* this axis or the other one: AREA then interpolates */
} axis;

/* Rounds n weights, which add up to `sum`, for output i from input position `first` on. */
static void store_taps(taps *t, int32_t i, int32_t first, int32_t n, const double *w, double sum) {
    for (int32_t k = 0; k < n; k++) {
        double fixed = (sum != 0 ? w[k] / sum : w[k]) * (1 << FRACTION_BITS);
        t->weight[(size_t)i * (size_t)t->most + (size_t)k] =
            (int32_t)(fixed < 0 ? fixed - 0.5 : fixed + 0.5);
    }
    t->first[i] = first;
    t->count[i] = n;
}

static void fill_smooth(taps *t, int32_t i, int32_t at, const axis *a, double *w) {
    const double center = (at + 0.5) * a->scale;
    double low = center - a->support + 0.5, high = center + a->support + 0.5;
    int32_t first = low < 0 ? 0 : (int32_t)low;
    int32_t end = high > a->in_size ? a->in_size : (int32_t)high;
    double sum = 0;
    for (int32_t k = 0; k < end - first; k++) {
        w[k] = kernels[a->filter].weight((k + first - center + 0.5) * (1 / a->spread));
        sum += w[k];
    }
    store_taps(t, i, first, end - first, w, sum);
}

static int32_t inside(int64_t at, int32_t size) {
    return at < 0 ? 0 : at >= size ? size - 1 : (int32_t)at;
}

/* Weights at `n` positions from `from` on, those past the border added to the last pixel's. */
static void fill_clamped(taps *t, int32_t i, int64_t from, int32_t n, const double *weight,
                         int32_t in_size, double *w) {
    const int32_t first = inside(from, in_size), end = inside(from + n - 1, in_size) + 1;
    double sum = 0;
    for (int32_t k = 0; k < end - first; k++) w[k] = 0;
    for (int32_t k = 0; k < n; k++) {
        w[inside(from + k, in_size) - first] += weight[k];
        sum += weight[k];
    }
    store_taps(t, i, first, end - first, w, sum);
}

static void fill_sharp(taps *t, int32_t i, int32_t at, const axis *a, double *w) {
    const int32_t reach = (int32_t)a->support, n = 2 * reach;
    const double center = (at + 0.5) * a->scale - 0.5;
    const int64_t from = (int64_t)floor(center) - reach + 1;
    double weight[4];
    for (int32_t k = 0; k < n; k++)
        weight[k] = kernels[a->filter].weight((double)(from + k) - center);
    fill_clamped(t, i, from, n, weight, a->in_size, w);
}

/* Pillow adds the step up, so its error does, too. */
static void fill_nearest(taps *t, int32_t begin, const axis *a) {
    double at = 0.5 * a->scale;
    const double one = 1;
    for (int32_t i = -begin; i < t->n; i++, at += a->scale)
        if (i >= 0) store_taps(t, i, inside((int64_t)at, a->in_size), 1, &one, 1);
}

/* Each input pixel by the share of it that the output pixel covers; enlarging, OpenCV interpolates
 * between two, with a weight of its own. */
static void fill_area(taps *t, int32_t i, int32_t at, const axis *a, double *w) {
    if (a->enlarges) {
        const int64_t from = (int64_t)floor(at * a->scale);
        double f = (at + 1) - (double)(from + 1) / a->scale;
        f = f <= 0 ? 0 : f - floor(f);
        const double weight[] = {1 - f, f};
        fill_clamped(t, i, from, 2, weight, a->in_size, w);
        return;
    }
    const double low = at * a->scale, high = fmin(low + a->scale, a->in_size);
    const int32_t first = (int32_t)low, end = (int32_t)ceil(high);
    for (int32_t k = first; k < end; k++) w[k - first] = fmin(high, k + 1) - fmax(low, k);
    store_taps(t, i, first, end - first, w, high - low);
}

/* Weights of output positions [begin, begin + n) when in_size becomes out_size. */
static qb_status taps_init(qb_ctx *cx, int32_t in_size, int32_t out_size, int32_t begin, int32_t n,
                           qb_filter filter, bool enlarges, taps *t) {
    const double scale = (double)in_size / out_size;
    const bool sharp = kernels[filter].sharp;
    axis a = {in_size, scale, scale < 1 || sharp ? 1 : scale, 0, filter, enlarges};
    a.support = kernels[filter].support * a.spread;
    *t = (taps){.n = n, .most = (int32_t)ceil(a.support) * 2 + 1};
    t->first = qb_alloc(cx, (size_t)n, sizeof *t->first);
    t->count = qb_alloc(cx, (size_t)n, sizeof *t->count);
    t->weight = qb_alloc(cx, (size_t)n * (size_t)t->most, sizeof *t->weight);
    double *w = qb_alloc(cx, (size_t)t->most, sizeof *w);
    const bool ok = t->first && t->count && t->weight && w;
    if (ok && filter == QB_FILTER_NEAREST) fill_nearest(t, begin, &a);
    for (int32_t i = 0; ok && filter != QB_FILTER_NEAREST && i < n; i++)
        (filter == QB_FILTER_AREA ? fill_area
         : sharp                  ? fill_sharp
                                  : fill_smooth)(t, i, begin + i, &a, w);
    qb_free(w);
    if (ok) return QB_OK;
    taps_release(t);
    memset(t, 0, sizeof *t);
    return cx->code;
}

static const uint32_t half = 1u << (FRACTION_BITS - 1);

INLINE void start_sums(v16u sum[4]) {
    for (int i = 0; i < 4; i++) sum[i] = (v16u){0} + half;
}

/* Adds 64 bytes times a weight. Sum number i has every fourth byte from byte i on, which takes a
 * shift and a mask of 32-bit lanes; in the order of memory it would take shuffles. */
INLINE void add_bytes(v16u sum[4], const uint8_t *from, int32_t weight) {
    v16u bytes;
    memcpy(&bytes, from, sizeof bytes);
    for (int i = 0; i < 4; i++) sum[i] += (bytes >> (8 * i) & 255) * (uint32_t)weight;
}

/* Drops the fractions, limits to 0..255 and puts the bytes back in order. */
INLINE void store_bytes(uint8_t *to, const v16u sum[4]) {
    v16u bytes = {0};
    for (int i = 0; i < 4; i++) {
        v16i v = (v16i)sum[i] >> FRACTION_BITS;
        v &= ~(v >> 31);
        v |= (255 - v) >> 31;
        bytes |= ((v16u)v & 255) << (8 * i);
    }
    memcpy(to, &bytes, sizeof bytes);
}

static uint8_t limit_byte(int32_t sum) {
    sum >>= FRACTION_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* to[i][j] = from[j][i] for 16 x 16 bytes. Interleaving the first half with the second four times
 * is a transposition. */
INLINE void transpose_tile(const uint8_t *const from[TILE], uint8_t *const to[TILE]) {
    v16b a[TILE], b[TILE];
    for (int i = 0; i < TILE; i++) memcpy(&a[i], from[i], sizeof a[i]);
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < TILE / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                               21, 6, 22, 7, 23);
            b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                   28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(a, b, sizeof a);
    }
    for (int i = 0; i < TILE; i++) memcpy(to[i], &a[i], sizeof a[i]);
}

/* lanes[b][r] = row[r][b] for n bytes of 64 rows. */
INLINE void rows_to_lanes(const uint8_t *const row[BLOCK], size_t n, uint8_t *lanes) {
    for (size_t b = 0; n < TILE && b < n; b++)
        for (size_t r = 0; r < BLOCK; r++) lanes[b * BLOCK + r] = row[r][b];
    for (size_t b = 0; n >= TILE && b < n; b += TILE) {
        size_t at = b + TILE <= n ? b : n - TILE; /* the last tile overlaps the one before */
        for (size_t r = 0; r < BLOCK; r += TILE) {
            const uint8_t *from[TILE];
            uint8_t *to[TILE];
            for (size_t i = 0; i < TILE; i++) {
                from[i] = row[r + i] + at;
                to[i] = lanes + (at + i) * BLOCK + r;
            }
            transpose_tile(from, to);
        }
    }
}

INLINE void lanes_to_rows(const uint8_t *lanes, size_t n, uint8_t *const row[BLOCK]) {
    for (size_t b = 0; n < TILE && b < n; b++)
        for (size_t r = 0; r < BLOCK; r++) row[r][b] = lanes[b * BLOCK + r];
    for (size_t b = 0; n >= TILE && b < n; b += TILE) {
        size_t at = b + TILE <= n ? b : n - TILE;
        for (size_t r = 0; r < BLOCK; r += TILE) {
            const uint8_t *from[TILE];
            uint8_t *to[TILE];
            for (size_t i = 0; i < TILE; i++) {
                from[i] = lanes + (at + i) * BLOCK + r;
                to[i] = row[r + i] + at;
            }
            transpose_tile(from, to);
        }
    }
}

/* 64 rows at once: turned so that a vector holds one byte of each row, convolved, turned back. */
QB_LOOP(horizontal_rows,
        (const taps *t, const uint8_t *const from[BLOCK], size_t in_bytes, int channels,
         uint8_t *in_lanes, uint8_t *out_lanes, uint8_t *const to[BLOCK]),
        (t, from, in_bytes, channels, in_lanes, out_lanes, to)) {
    rows_to_lanes(from, in_bytes, in_lanes);
    uint8_t *out = out_lanes;
    for (int32_t x = 0; x < t->n; x++) {
        const int32_t *weight = t->weight + (size_t)x * (size_t)t->most;
        for (int c = 0; c < channels; c++, out += BLOCK) {
            const uint8_t *in = in_lanes + (size_t)(t->first[x] * channels + c) * BLOCK;
            v16u sum[4];
            start_sums(sum);
            for (int32_t k = 0; k < t->count[x]; k++, in += channels * BLOCK)
                add_bytes(sum, in, weight[k]);
            store_bytes(out, sum);
        }
    }
    lanes_to_rows(out_lanes, (size_t)t->n * (size_t)channels, to);
}

/* Resamples each row of `in` into out (in->height x t->n). */
static qb_status horizontal(qb_ctx *cx, const qb_frame *in, const taps *t, uint8_t *out) {
    size_t in_bytes = (size_t)in->width * (size_t)in->channels;
    size_t out_bytes = (size_t)t->n * (size_t)in->channels;
    QB_FREED uint8_t *lanes = qb_alloc_aligned(cx, (in_bytes + out_bytes) * BLOCK + out_bytes, 1);
    if (!lanes) return cx->code;
    uint8_t *out_lanes = lanes + in_bytes * BLOCK, *spare = out_lanes + out_bytes * BLOCK;
    for (int32_t y = 0; y < in->height; y += BLOCK) {
        const uint8_t *from[BLOCK];
        uint8_t *to[BLOCK];
        for (int32_t i = 0; i < BLOCK; i++) { /* past the end: the last row, thrown away */
            bool inside = y + i < in->height;
            from[i] = in->pixel + (size_t)(inside ? y + i : in->height - 1) * in->stride;
            to[i] = inside ? out + (size_t)(y + i) * out_bytes : spare;
        }
        horizontal_rows(t, from, in_bytes, in->channels, lanes, out_lanes, to);
    }
    return QB_OK;
}

/* One output row of n bytes from `count` input rows. */
QB_LOOP(vertical_row,
        (const uint8_t *in, size_t stride, const int32_t *weight, int32_t count, size_t n,
         uint8_t *out),
        (in, stride, weight, count, n, out)) {
    for (size_t x = 0; n >= BLOCK && x < n; x += BLOCK) {
        size_t at = x + BLOCK <= n ? x : n - BLOCK; /* the last step overlaps the one before */
        const uint8_t *from = in + at;
        v16u sum[4];
        start_sums(sum);
        for (int32_t k = 0; k < count; k++, from += stride) add_bytes(sum, from, weight[k]);
        store_bytes(out + at, sum);
    }
    for (size_t x = 0; n < BLOCK && x < n; x++) {
        int32_t sum = (int32_t)half;
        for (int32_t k = 0; k < count; k++) sum += in[x + (size_t)k * stride] * weight[k];
        out[x] = limit_byte(sum);
    }
}

/* Resamples each column of `in` into out (t->n x in->width). */
static void vertical(const qb_frame *in, const taps *t, uint8_t *out) {
    size_t n = (size_t)in->width * (size_t)in->channels;
    for (int32_t y = 0; y < t->n; y++)
        vertical_row(in->pixel + (size_t)t->first[y] * in->stride, in->stride,
                     t->weight + (size_t)y * (size_t)t->most, t->count[y], n, out + (size_t)y * n);
}

/* The input positions [*begin, *begin + *n) that are needed at all: those of the taps, which then
 * count from *begin, or the window's where the size does not change. */
static void needed(taps *t, int32_t window_begin, int32_t window_size, int32_t *begin, int32_t *n) {
    *begin = t->n ? t->first[0] : window_begin;
    *n = t->n ? t->first[t->n - 1] + t->count[t->n - 1] - *begin : window_size;
    for (int32_t i = 0; i < t->n; i++) t->first[i] -= *begin;
}

static qb_frame view_of(const uint8_t *pixel, size_t stride, int32_t width, int32_t height,
                        int32_t channels) {
    return (qb_frame){
        .pixel = pixel, .stride = stride, .width = width, .height = height, .channels = channels};
}

/* Both passes with an 8-bit image between them. */
static qb_status both_passes(qb_ctx *cx, const qb_frame *in, const taps *h, const taps *v,
                             bool vertical_first, uint8_t *out) {
    QB_RELEASED(qb_image_release) qb_image between = {0};
    int32_t width = vertical_first ? in->width : h->n, height = vertical_first ? v->n : in->height;
    QB_TRY(
        qb_image_create(cx, "resize, between the passes", width, height, in->channels, &between));
    qb_frame view =
        view_of(between.pixel, (size_t)width * (size_t)in->channels, width, height, in->channels);
    if (vertical_first) {
        vertical(in, v, between.pixel);
        QB_TRY(horizontal(cx, &view, h, out));
    } else {
        QB_TRY(horizontal(cx, in, h, between.pixel));
        vertical(&view, v, out);
    }
    return QB_OK;
}

#define WIDE_BITS 7 /* of the fractions between the passes */

/* Both passes without rounding to 8 bits between them, as OpenCV does. */
static qb_status both_wide(qb_ctx *cx, const qb_frame *in, const taps *h, const taps *v,
                           uint8_t *out) {
    const int32_t c = in->channels, n = h->n * c;
    QB_FREED int32_t *wide = QB_NEW(cx, qb_alloc(cx, (size_t)in->height * (size_t)n, sizeof *wide));
    for (int32_t y = 0; y < in->height; y++)
        for (int32_t x = 0; x < n; x++) {
            const uint8_t *from = in->pixel + (size_t)y * in->stride + h->first[x / c] * c + x % c;
            const int32_t *weight = h->weight + (size_t)(x / c) * (size_t)h->most;
            int64_t sum = 0;
            for (int32_t k = 0; k < h->count[x / c]; k++) sum += (int64_t)weight[k] * from[k * c];
            wide[(size_t)y * (size_t)n + (size_t)x] = (int32_t)(sum >> (FRACTION_BITS - WIDE_BITS));
        }
    for (int32_t y = 0; y < v->n; y++)
        for (int32_t x = 0; x < n; x++) {
            const int32_t *weight = v->weight + (size_t)y * (size_t)v->most;
            int64_t sum = (int64_t)1 << (FRACTION_BITS + WIDE_BITS - 1);
            for (int32_t k = 0; k < v->count[y]; k++)
                sum += (int64_t)weight[k] * wide[(size_t)(v->first[y] + k) * (size_t)n + (size_t)x];
            sum >>= FRACTION_BITS + WIDE_BITS;
            *out++ = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
        }
    return QB_OK;
}

/* Each pass only where the size changes, and only on the pixels that the window needs. */
static qb_status resample(qb_ctx *cx, const qb_frame *in, const qb_region *window, taps *h, taps *v,
                          qb_filter filter, bool vertical_first, uint8_t *out) {
    int32_t x, y, width, height;
    needed(h, window->x, window->width, &x, &width);
    needed(v, window->y, window->height, &y, &height);
    qb_frame view = view_of(in->pixel + (size_t)y * in->stride + (size_t)x * (size_t)in->channels,
                            in->stride, width, height, in->channels);
    if (h->n && v->n && kernels[filter].opencv) return both_wide(cx, &view, h, v, out);
    if (h->n && v->n) return both_passes(cx, &view, h, v, vertical_first, out);
    if (h->n) return horizontal(cx, &view, h, out);
    if (v->n) {
        vertical(&view, v, out);
        return QB_OK;
    }
    size_t n = (size_t)width * (size_t)in->channels;
    for (int32_t row = 0; row < height; row++)
        memcpy(out + (size_t)row * n, view.pixel + (size_t)row * view.stride, n);
    return QB_OK;
}

/* Which pass comes first changes the rounding between them. Pillow 13 begins with the columns where
 * the height shrinks by more than twice what the width does; before, rows were always first. */
static bool is_vertical_first(const qb_frame *in, int32_t width, int32_t height) {
    int64_t fewer_columns = (int64_t)in->width - width, fewer_rows = (int64_t)in->height - height;
    return fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
}

qb_status qb_resize_region(qb_ctx *cx, const qb_frame *in, int32_t width, int32_t height,
                           const qb_region *window, qb_filter filter, qb_image *out) {
    QB_TRY(qb_image_check_size(cx, "resize", width, height));
    QB_RELEASED(qb_image_release) qb_image image = {0};
    QB_RELEASED(taps_release) taps h = {0}, v = {0};
    const bool enlarges = width > in->width || height > in->height;
    if (width != in->width)
        QB_TRY(taps_init(cx, in->width, width, window->x, window->width, filter, enlarges, &h));
    if (height != in->height)
        QB_TRY(taps_init(cx, in->height, height, window->y, window->height, filter, enlarges, &v));
    QB_TRY(qb_image_create(cx, "resize", window->width, window->height, in->channels, &image));
    QB_TRY(resample(cx, in, window, &h, &v, filter, is_vertical_first(in, width, height),
                    image.pixel));
    *out = QB_MOVE(image);
    return QB_OK;
}

qb_status qb_image_resize(qb_ctx *cx, const qb_image *in, int32_t width, int32_t height,
                          qb_filter filter, qb_image *out) {
    if (in->channels != 1 && in->channels != 3)
        return qb_fail(cx, QB_STATUS_INVALID, "resize: expected 1 or 3 channels, got %d",
                       in->channels);
    qb_frame frame = view_of(in->pixel, (size_t)in->width * (size_t)in->channels, in->width,
                             in->height, in->channels);
    qb_region all = {0, 0, width, height};
    return qb_resize_region(cx, &frame, width, height, &all, filter, out);
}
