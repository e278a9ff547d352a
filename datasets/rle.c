#include "datasets/rle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/datasets_internal.h"

/* Runs under construction. */
typedef struct runs {
    uint32_t *run;
    size_t n, capacity;
} runs;

static qb_status add_run(qb_ctx *cx, runs *r, uint32_t length) {
    QB_TRY(qb_grow(cx, &r->run, &r->capacity, r->n + 1, sizeof *r->run));
    r->run[r->n++] = length;
    return QB_OK;
}

void qb_rle_release(qb_rle *rle) {
    qb_free(rle->run);
    *rle = (qb_rle){0};
}

static qb_status check_size(qb_ctx *cx, int32_t height, int32_t width) {
    if (height > 0 && width > 0 && (int64_t)height * width <= QB_IMAGE_PIXELS_MAX) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "mask: a size of %d x %d", (int)width, (int)height);
}

static void runs_release(runs *r) { qb_free(r->run); }

/* Takes the runs where they fill the image. */
static qb_status finish(qb_ctx *cx, runs *r, int32_t height, int32_t width, qb_rle *out) {
    uint64_t sum = 0;
    for (size_t i = 0; i < r->n; i++) sum += r->run[i];
    if (sum != (uint64_t)height * (uint64_t)width)
        return qb_fail(cx, QB_STATUS_FORMAT, "mask: runs of %llu pixels, the image has %lld",
                       (unsigned long long)sum, (long long)height * width);
    *out = (qb_rle){height, width, r->n, QB_MOVE(r->run)};
    return QB_OK;
}

/* ---- polygons ---- */

#define SCALE 5
#define COORDINATE_MAX 1e5
#define OUTLINE_LEAST 1e6 /* pixels that any outline may be long */

static int by_value(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* A step of the boundary from column u0 to its neighbour u1 of the fine grid; where it crosses the
 * middle of a pixel's column, the mask begins or ends there. */
static qb_status cross(qb_ctx *cx, const int32_t from[2], const int32_t to[2], int32_t height,
                       int32_t width, runs *at) {
    const double x = ((to[0] < from[0] ? to[0] : to[0] - 1) + .5) / SCALE - .5;
    if (floor(x) != x || x < 0 || x > width - 1) return QB_OK;
    double y = ((to[1] < from[1] ? to[1] : from[1]) + .5) / SCALE - .5;
    y = ceil(y < 0 ? 0 : y > height ? height : y);
    return add_run(cx, at, (uint32_t)((int64_t)x * height + (int64_t)y));
}

/* Every point of the line a - b on the fine grid, in its direction. */
static qb_status follow(qb_ctx *cx, const int32_t a[2], const int32_t b[2], int32_t height,
                        int32_t width, int32_t last[2], bool *any, runs *at) {
    const int32_t wide = abs(b[0] - a[0]), high = abs(b[1] - a[1]);
    const int main = wide >= high ? 0 : 1, other = 1 - main;
    const int32_t steps = wide >= high ? wide : high;
    /* The line is drawn from its lower end, so that both directions give the same points. */
    const bool flip = a[main] > b[main];
    const int32_t *start = flip ? b : a, *end = flip ? a : b;
    const double slope = steps ? (double)(end[other] - start[other]) / steps : 0;
    for (int32_t d = 0; d <= steps; d++) {
        const int32_t t = flip ? steps - d : d;
        int32_t point[2];
        point[main] = start[main] + t;
        point[other] = (int32_t)(start[other] + slope * t + .5);
        if (*any && point[0] != last[0]) QB_TRY(cross(cx, last, point, height, width, at));
        memcpy(last, point, sizeof point);
        *any = true;
    }
    return QB_OK;
}

/* Each point of the outline is looked at: one that goes over the image again and again is none. */
static qb_status check_outline(qb_ctx *cx, const double *xy, size_t n, int32_t height,
                               int32_t width) {
    double length = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        const double *p = xy + i / 2 * 2, *q = xy + (i / 2 * 2 + 2) % (2 * n);
        if (!(fabs(xy[i]) <= COORDINATE_MAX))
            return qb_fail(cx, QB_STATUS_FORMAT, "mask: a polygon with the coordinate %g", xy[i]);
        length += fmax(fabs(q[0] - p[0]), fabs(q[1] - p[1])) / 2; /* x and y of each point */
    }
    if (length <= OUTLINE_LEAST + 4.0 * height * width) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "mask: a polygon whose outline is %.3g pixels long, in an image of %d x %d",
                   length, (int)width, (int)height);
}

static qb_status crossings(qb_ctx *cx, const double *xy, size_t n, int32_t height, int32_t width,
                           runs *at) {
    int32_t last[2] = {0};
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        const double *p = xy + 2 * i, *q = xy + 2 * ((i + 1) % n);
        const int32_t a[] = {(int32_t)(SCALE * p[0] + .5), (int32_t)(SCALE * p[1] + .5)};
        const int32_t b[] = {(int32_t)(SCALE * q[0] + .5), (int32_t)(SCALE * q[1] + .5)};
        QB_TRY(follow(cx, a, b, height, width, last, &any, at));
    }
    return add_run(cx, at, (uint32_t)height * (uint32_t)width);
}

/* Ascending positions to runs; two at one position cancel out. */
static qb_status positions_to_runs(qb_ctx *cx, const runs *at, runs *out) {
    uint32_t before = 0;
    for (size_t i = 0; i < at->n; i++) {
        const uint32_t length = at->run[i] - before;
        before = at->run[i];
        if (i == 0 || length > 0)
            QB_TRY(add_run(cx, out, length));
        else if (++i < at->n) {
            out->run[out->n - 1] += at->run[i] - before;
            before = at->run[i];
        }
    }
    return QB_OK;
}

qb_status qb_rle_of_polygon(qb_ctx *cx, const double *xy, size_t n, int32_t height, int32_t width,
                            qb_rle *out) {
    QB_TRY(check_size(cx, height, width));
    QB_TRY(check_outline(cx, xy, n, height, width));
    QB_RELEASED(runs_release) runs at = {0}, result = {0};
    QB_TRY(crossings(cx, xy, n, height, width, &at));
    qsort(at.run, at.n, sizeof *at.run, by_value);
    QB_TRY(positions_to_runs(cx, &at, &result));
    return finish(cx, &result, height, width, out);
}

/* ---- run lengths ---- */

static qb_status read_text(qb_ctx *cx, const char *text, size_t n, runs *r) {
    for (size_t i = 0; i < n;) {
        int64_t value = 0;
        bool more = true;
        for (int shift = 0; more; shift += 5) {
            const int bits = i < n ? text[i++] - '0' : -1;
            if (bits < 0 || bits > 63 || shift > 30)
                return qb_fail(cx, QB_STATUS_FORMAT, "mask: malformed run lengths");
            value |= (int64_t)(bits & 31) << shift;
            more = bits & 32;
            if (!more && (bits & 16)) value -= (int64_t)1 << (shift + 5);
        }
        if (r->n > 2) value += r->run[r->n - 2];
        if (value < 0 || value > UINT32_MAX)
            return qb_fail(cx, QB_STATUS_FORMAT, "mask: a run of %lld pixels", (long long)value);
        QB_TRY(add_run(cx, r, (uint32_t)value));
    }
    return QB_OK;
}

qb_status qb_rle_of_text(qb_ctx *cx, const char *text, size_t n, int32_t height, int32_t width,
                         qb_rle *out) {
    QB_TRY(check_size(cx, height, width));
    QB_RELEASED(runs_release) runs result = {0};
    QB_TRY(read_text(cx, text, n, &result));
    return finish(cx, &result, height, width, out);
}

qb_status qb_rle_of_runs(qb_ctx *cx, const uint32_t *run, size_t n, int32_t height, int32_t width,
                         qb_rle *out) {
    QB_TRY(check_size(cx, height, width));
    QB_RELEASED(runs_release) runs copy = {.n = n};
    QB_TRY(qb_grow(cx, &copy.run, &copy.capacity, n + 1, sizeof *copy.run));
    if (n > 0) memcpy(copy.run, run, n * sizeof *run);
    return finish(cx, &copy, height, width, out);
}

/* Two masks side by side, one stretch at a time in which neither changes. */
typedef struct walk {
    const qb_rle *mask[2];
    size_t next[2];
    uint32_t left[2]; /* of the current runs */
    bool inside[2];
} walk;

static bool walk_on(walk *w, uint32_t *length) {
    for (int k = 0; k < 2; k++)
        while (w->left[k] == 0) {
            if (w->next[k] >= w->mask[k]->n) return false;
            w->inside[k] = w->next[k] & 1;
            w->left[k] = w->mask[k]->run[w->next[k]++];
        }
    *length = w->left[0] < w->left[1] ? w->left[0] : w->left[1];
    w->left[0] -= *length;
    w->left[1] -= *length;
    return true;
}

int64_t qb_rle_overlap(const qb_rle *a, const qb_rle *b) {
    walk w = {.mask = {a, b}};
    int64_t sum = 0;
    for (uint32_t length; walk_on(&w, &length);)
        if (w.inside[0] && w.inside[1]) sum += length;
    return sum;
}

static qb_status unite(qb_ctx *cx, const qb_rle *a, const qb_rle *b, qb_rle *out) {
    walk w = {.mask = {a, b}};
    QB_RELEASED(runs_release) runs result = {0};
    for (uint32_t length; walk_on(&w, &length);) {
        const bool inside = w.inside[0] || w.inside[1];
        if (inside && result.n == 0) QB_TRY(add_run(cx, &result, 0));
        if (result.n > 0 && inside == !(result.n & 1))
            result.run[result.n - 1] += length;
        else
            QB_TRY(add_run(cx, &result, length));
    }
    return finish(cx, &result, a->height, a->width, out);
}

qb_status qb_rle_union(qb_ctx *cx, const qb_rle *mask, size_t n, int32_t height, int32_t width,
                       qb_rle *out) {
    const uint32_t all = (uint32_t)((int64_t)height * width);
    QB_RELEASED(qb_rle_release) qb_rle sum = {0};
    QB_TRY(qb_rle_of_runs(cx, &all, 1, height, width, &sum));
    for (size_t i = 0; i < n; i++) {
        qb_rle next;
        QB_TRY(unite(cx, &sum, &mask[i], &next));
        qb_rle_release(&sum);
        sum = next;
    }
    *out = QB_MOVE(sum);
    return QB_OK;
}

int64_t qb_rle_area(const qb_rle *rle) {
    int64_t sum = 0;
    for (size_t i = 1; i < rle->n; i += 2) sum += rle->run[i];
    return sum;
}

void qb_rle_box(const qb_rle *rle, double box[4]) {
    int64_t left = rle->width, top = rle->height, right = -1, bottom = -1, at = 0;
    for (size_t i = 0; i < rle->n; at += rle->run[i++]) {
        if (!(i & 1) || rle->run[i] == 0) continue;
        const int64_t end = at + rle->run[i] - 1, x0 = at / rle->height, x1 = end / rle->height;
        const bool wraps = x1 > x0; /* into the next column: from top to bottom */
        const int64_t y0 = wraps ? 0 : at % rle->height;
        const int64_t y1 = wraps ? rle->height - 1 : end % rle->height;
        if (x0 < left) left = x0;
        if (x1 > right) right = x1;
        if (y0 < top) top = y0;
        if (y1 > bottom) bottom = y1;
    }
    const bool empty = right < 0;
    box[0] = empty ? 0 : (double)left;
    box[1] = empty ? 0 : (double)top;
    box[2] = empty ? 0 : (double)(right - left + 1);
    box[3] = empty ? 0 : (double)(bottom - top + 1);
}

void qb_rle_paint(const qb_rle *rle, uint8_t value, uint8_t *pixel) {
    int64_t at = 0;
    for (size_t i = 0; i < rle->n; at += rle->run[i++])
        for (int64_t k = at; (i & 1) && k < at + rle->run[i]; k++)
            pixel[k % rle->height * rle->width + k / rle->height] = value;
}
