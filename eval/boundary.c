#include "eval/boundary.h"

#include <math.h>

typedef struct field {
    int32_t width, height, far; /* `far`: a distance that is too far */
    int32_t *down;              /* [pixels]: rows to the nearest border pixel of the column */
} field;

static bool is_border(const uint8_t *mask, const uint8_t *first, int32_t width, int32_t height,
                      int32_t x, int32_t y, uint8_t value, uint8_t ignored) {
    const int64_t at = (int64_t)y * width + x;
    if (mask[at] != value || first[at] == ignored) return false;
    const int64_t next[] = {x > 0 ? at - 1 : at, x + 1 < width ? at + 1 : at,
                            y > 0 ? at - width : at, y + 1 < height ? at + width : at};
    for (int i = 0; i < 4; i++)
        if (mask[next[i]] != value && first[next[i]] != ignored) return true;
    return false;
}

/* Rows from each pixel to the nearest set one above or below, at most f->far. */
static void fill(field *f, const uint8_t *set) {
    for (int32_t x = 0; x < f->width; x++) {
        int32_t d = f->far;
        for (int32_t y = 0; y < f->height; y++) {
            const int64_t i = (int64_t)y * f->width + x;
            d = set[i] ? 0 : d < f->far ? d + 1 : d;
            f->down[i] = d;
        }
        d = f->far;
        for (int32_t y = f->height - 1; y >= 0; y--) {
            const int64_t i = (int64_t)y * f->width + x;
            d = set[i] ? 0 : d < f->far ? d + 1 : d;
            if (d < f->down[i]) f->down[i] = d;
        }
    }
}

/* Is a set pixel within `radius` of this one? */
static bool is_near(const field *f, int32_t x, int32_t y, int32_t radius) {
    const int32_t from = x > radius ? x - radius : 0,
                  to = x + radius < f->width ? x + radius : f->width - 1;
    for (int32_t k = from; k <= to; k++) {
        const int64_t d = f->down[(int64_t)y * f->width + k];
        if (d < f->far && d * d + (int64_t)(k - x) * (k - x) <= (int64_t)radius * radius)
            return true;
    }
    return false;
}

/* Pixels set in `own`, and those near to one set in `other`. */
static void count(field *f, const uint8_t *own, const uint8_t *other, int32_t radius, uint32_t *all,
                  uint32_t *near) {
    *all = *near = 0;
    fill(f, other);
    for (int32_t y = 0; y < f->height; y++)
        for (int32_t x = 0; x < f->width; x++) {
            if (!own[(int64_t)y * f->width + x]) continue;
            ++*all;
            *near += is_near(f, x, y, radius);
        }
}

qb_status qb_boundary_compare(qb_ctx *cx, const uint8_t *first, const uint8_t *second,
                              int32_t width, int32_t height, uint8_t value, uint8_t ignored,
                              qb_boundary *out) {
    const size_t n = (size_t)width * (size_t)height;
    const int32_t radius = (int32_t)ceil(0.0075 * hypot(width, height));
    QB_FREED uint8_t *set = QB_NEW(cx, qb_alloc(cx, 2 * n, 1));
    QB_FREED int32_t *down = QB_NEW(cx, qb_alloc(cx, n, sizeof *down));
    field f = {width, height, radius + 1, down};
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++) {
            const size_t i = (size_t)y * (size_t)width + (size_t)x;
            set[i] = is_border(first, first, width, height, x, y, value, ignored);
            set[n + i] = is_border(second, first, width, height, x, y, value, ignored);
        }
    count(&f, set, set + n, radius, &out->first, &out->first_near);
    count(&f, set + n, set, radius, &out->second, &out->second_near);
    return QB_OK;
}
