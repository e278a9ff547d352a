/* Images of other sizes, in either layout and up to three dimensions. What an output position takes
 * from each axis is computed once: its neighbours and the share of each. Channels last, the
 * neighbours of a pixel are blended block by block of channels; row by row, the rows are blended
 * first and then what lies in them. */
#include <math.h>

#include "base/vector_loop.h"
#include "chain_internal.h"
#include "convert.h"

#define SPATIAL 3
#define TAPS_MAX (1 << 24) /* of one axis: longer ones are left to the definition */
#define NEIGHBOURS 4       /* along an axis */
#define CORNERS 64         /* NEIGHBOURS ** SPATIAL */
#define BYTES_PER_TASK 65536
#define ROOM 2048 /* floats of a blended row */

/* In ascending order; a kernel's have as many neighbours each. */
typedef struct tap {
    int32_t at[NEIGHBOURS];
    float part[NEIGHBOURS];
} tap;

typedef struct resize {
    bool nearest, pixels, truncates;
    int32_t neighbours;
    int64_t outer, channels; /* images, and their channels; row by row all planes are images */
    int64_t in[SPATIAL], out[SPATIAL];
    int64_t rows_a_task;
    qb_dtype dtype;
    float scale;
    int32_t zero;
    int64_t in_size, out_size;
    qb_convert convert; /* nearest */
    qb_chain_quantized quantized;
    const tap *at[SPATIAL];
    tap taps[];
} resize;

/* ---- blending ---- */

/* Neighbours of a position over some axes: offsets in pixels, and weights that are not 0. */
typedef struct corners {
    int n;
    int64_t at[CORNERS];
    float weight[CORNERS];
} corners;

static void add_axis(const resize *r, corners *c, const tap *t, int64_t step) {
    const corners before = *c;
    c->n = 0;
    for (int i = 0; i < before.n; i++)
        for (int32_t k = 0; k < r->neighbours; k++) {
            if (t->part[k] == 0.0f) continue;
            c->at[c->n] = before.at[i] + t->at[k] * step;
            c->weight[c->n++] = before.weight[i] * t->part[k];
        }
}

QB_LOOP(blend, (const float *from, float weight, int64_t n, bool first, float *to),
        (from, weight, n, first, to)) {
    if (first)
        for (int64_t i = 0; i < n; i++) to[i] = from[i] * weight;
    else
        for (int64_t i = 0; i < n; i++) to[i] += from[i] * weight;
}

/* n elements at each corner, whose numbers are in elements / step. */
static void blend_all(const resize *r, const char *data, const corners *c, int64_t step, int64_t n,
                      float *to) {
    float made[ROOM];
    for (int k = 0; k < c->n; k++) {
        const char *from = data + c->at[k] * step * r->in_size;
        const float *x = (const float *)(const void *)from;
        if (r->dtype != QB_DTYPE_F32) {
            qb_chain_load(r->dtype, r->scale, r->zero, from, n, made);
            x = made;
        }
        blend(x, c->weight[k], n, k == 0, to);
    }
}

/* ---- rows of the result ---- */

/* Quantized, as floats, or as integers, whose fractions go. */
static void put(const resize *r, float *from, int64_t n, char *to) {
    if (r->truncates)
        for (int64_t i = 0; i < n; i++) from[i] = truncf(from[i]);
    qb_chain_write(&r->quantized, from, n, to);
}

/* The neighbours of a pixel in a line that begins with number `first`, in all its channels. */
static inline __attribute__((always_inline)) void blend_some(const tap *t, int32_t neighbours,
                                                             const float *line, int64_t first,
                                                             int64_t channels, float *to) {
    for (int64_t c = 0; c < channels; c++) {
        float sum = line[(t->at[0] - first) * channels + c] * t->part[0];
        for (int32_t k = 1; k < neighbours; k++)
            sum += line[(t->at[k] - first) * channels + c] * t->part[k];
        to[c] = sum;
    }
}

static void blend_neighbours(const resize *r, const tap *t, const float *line, int64_t first,
                             int64_t channels, float *to) {
    if (r->neighbours == 2)
        blend_some(t, 2, line, first, channels, to);
    else
        blend_some(t, NEIGHBOURS, line, first, channels, to);
}

typedef struct row {
    int64_t image, at[2];
} row;

static row row_of(const resize *r, int64_t number) {
    return (row){number / (r->out[0] * r->out[1]),
                 {number / r->out[1] % r->out[0], number % r->out[1]}};
}

static corners above(const resize *r, const row *w) {
    corners c = {.n = 1, .weight = {1.0f}};
    add_axis(r, &c, &r->at[0][w->at[0]], r->in[1] * r->in[2]);
    add_axis(r, &c, &r->at[1][w->at[1]], r->in[2]);
    return c;
}

static void blend_pixels(const resize *r, const row *w, const char *data, char *out) {
    const corners lines = above(r, w);
    float to[QB_CHAIN_BLOCK] = {0};
    for (int64_t x = 0; x < r->out[2]; x++) {
        corners c = lines;
        add_axis(r, &c, &r->at[2][x], 1);
        for (int64_t k = 0; k < r->channels; k += QB_CHAIN_BLOCK) {
            const int64_t n = qb_min64(QB_CHAIN_BLOCK, r->channels - k);
            blend_all(r, data + k * r->in_size, &c, r->channels, n, to);
            put(r, to, n, out + (x * r->channels + k) * r->out_size);
        }
    }
}

/* The same where a few pixels fit the room: lines are blended first, and then their pixels. */
static void blend_few_channels(const resize *r, const row *w, const char *data, char *out) {
    const corners lines = above(r, w);
    const tap *t = r->at[2];
    const int32_t last = r->neighbours - 1;
    const int64_t size = r->channels, most = ROOM / size, at_once = QB_CHAIN_BLOCK / size;
    float line[ROOM], to[QB_CHAIN_BLOCK] = {0};
    for (int64_t x = 0, end; x < r->out[2]; x = end) {
        const int64_t first = t[x].at[0];
        end = x + 1;
        while (end < r->out[2] && t[end].at[last] - first < most) end++;
        blend_all(r, data + first * size * r->in_size, &lines, size,
                  (t[end - 1].at[last] - first + 1) * size, line);
        for (int64_t k = x, n; k < end; k += n) {
            n = qb_min64(at_once, end - k);
            for (int64_t i = 0; i < n; i++)
                blend_neighbours(r, &t[k + i], line, first, size, to + i * size);
            put(r, to, n * size, out + k * size * r->out_size);
        }
    }
}

static void blend_line(const resize *r, const row *w, const char *data, char *out) {
    const corners lines = above(r, w);
    const tap *t = r->at[2];
    const int32_t last = r->neighbours - 1;
    float line[ROOM], to[QB_CHAIN_BLOCK] = {0};
    for (int64_t x = 0, n; x < r->out[2]; x += n) {
        const int32_t first = t[x].at[0];
        n = 1;
        while (n < QB_CHAIN_BLOCK && x + n < r->out[2] && t[x + n].at[last] - first < ROOM) n++;
        blend_all(r, data + first * r->in_size, &lines, 1, t[x + n - 1].at[last] - first + 1, line);
        for (int64_t i = 0; i < n; i++) blend_neighbours(r, &t[x + i], line, first, 1, to + i);
        put(r, to, n, out + x * r->out_size);
    }
}

static void pick_pixels(const resize *r, const char *line, char *out) {
    const qb_convert *c = &r->convert;
    for (int64_t x = 0; x < r->out[2]; x++)
        c->run(c, line + r->at[2][x].at[0] * r->channels * r->in_size,
               out + x * r->channels * r->out_size, r->channels);
}

#define PICK(BITS)                                                                                 \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((uint##BITS##_t *)(void *)picked)[i] =                                                    \
            ((const uint##BITS##_t *)(const void *)line)[t[x + i].at[0]];                          \
    break

static void pick_line(const resize *r, const char *line, char *out) {
    const tap *t = r->at[2];
    _Alignas(8) char picked[QB_CHAIN_BLOCK * 8];
    for (int64_t x = 0; x < r->out[2]; x += QB_CHAIN_BLOCK) {
        const int64_t n = qb_min64(QB_CHAIN_BLOCK, r->out[2] - x);
        switch (r->in_size) {
        case 1: PICK(8);
        case 2: PICK(16);
        case 4: PICK(32);
        default: PICK(64);
        }
        r->convert.run(&r->convert, picked, out + x * r->out_size, n);
    }
}

static void one_row(const qb_cpu_job *j, int64_t number) {
    const resize *r = j->state;
    const row w = row_of(r, number);
    const int64_t image = r->in[0] * r->in[1] * r->in[2] * r->channels;
    const char *data = j->data + w.image * image * r->in_size;
    char *out = j->out + number * r->out[2] * r->channels * r->out_size;
    if (!r->nearest) {
        if (!r->pixels)
            blend_line(r, &w, data, out);
        else if (r->channels <= QB_CHAIN_BLOCK / 4)
            blend_few_channels(r, &w, data, out);
        else
            blend_pixels(r, &w, data, out);
        return;
    }
    const int64_t line =
        (r->at[0][w.at[0]].at[0] * r->in[1] + r->at[1][w.at[1]].at[0]) * r->in[2] * r->channels;
    (r->pixels ? pick_pixels : pick_line)(r, data + line * r->in_size, out);
}

static void run_task(int64_t task, void *argument) {
    const qb_cpu_job *j = argument;
    const resize *r = j->state;
    const int64_t end = qb_min64((task + 1) * r->rows_a_task, r->outer * r->out[0] * r->out[1]);
    for (int64_t k = task * r->rows_a_task; k < end; k++) one_row(j, k);
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const resize *r = kernel->state;
    return qb_cpu_run(kernel, args, qb_ceil64(r->outer * r->out[0] * r->out[1], r->rows_a_task),
                      run_task);
}

/* ---- the tactic ---- */

static bool is_cubic(qb_resize_kind kind) {
    return kind == QB_RESIZE_CUBIC || kind == QB_RESIZE_CUBIC_CORNERS;
}

/* Keys' cubic convolution with a = -0.75, `x` away from the neighbour. */
static double cubic(double x) {
    return x <= 1.0 ? (1.25 * x - 2.25) * x * x + 1.0 : ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0;
}

static tap tap_of(qb_resize_kind kind, int64_t in, int64_t out, int64_t o) {
    const bool ends = kind == QB_RESIZE_LINEAR_CORNERS || kind == QB_RESIZE_CUBIC_CORNERS;
    double at = ((double)o + 0.5) * (double)in / (double)out - 0.5;
    tap t = {.part = {1.0f}};
    if (kind == QB_RESIZE_NEAREST) at = (double)(o * in / out);
    if (kind == QB_RESIZE_LINEAR_ASYMMETRIC) at = (double)o * (double)in / (double)out;
    if (ends) at = out > 1 ? (double)o * (double)(in - 1) / (double)(out - 1) : 0.0;
    if (!is_cubic(kind)) at = fmin(fmax(at, 0.0), (double)(in - 1));
    const double low = floor(at);
    if (!is_cubic(kind)) {
        const int64_t first = (int64_t)low;
        t.at[0] = (int32_t)first;
        t.at[1] = (int32_t)(first + (first + 1 < in));
        t.part[1] = (float)(at - low);
        t.part[0] = 1.0f - t.part[1];
        return t;
    }
    for (int32_t k = 0; k < NEIGHBOURS; k++) {
        const double place = low + (double)(k - 1);
        t.at[k] = (int32_t)fmin(fmax(place, 0.0), (double)(in - 1));
        t.part[k] = (float)cubic(fabs(at - place));
    }
    return t;
}

static bool is_image(const qb_desc *d) {
    return d->channel_total == 0 && d->shape.rank >= 3 && d->shape.rank <= 2 + SPATIAL &&
           (d->layout == QB_LAYOUT_ROW || d->layout == QB_LAYOUT_NHWC) &&
           qb_shape_count(&d->shape) > 0;
}

static bool is_number(const qb_desc *d) { return qb_cpu_is_f32(d) || qb_cpu_is_quantized(d); }

/* Both of 8-bit integers that stand for themselves? */
static bool are_integers(const qb_desc *x, const qb_desc *y) {
    return x->dtype == y->dtype && x->q.n == 0 && y->q.n == 0 &&
           (x->dtype == QB_DTYPE_U8 || x->dtype == QB_DTYPE_S8);
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    (void)constant;
    if (!is_image(x) || !is_image(y) || x->layout != y->layout || x->shape.rank != y->shape.rank ||
        x->shape.dim[0] != y->shape.dim[0] || x->shape.dim[1] != y->shape.dim[1])
        return false;
    for (int32_t d = 2; d < x->shape.rank; d++)
        if (x->shape.dim[d] > INT32_MAX || y->shape.dim[d] > TAPS_MAX) return false;
    return p->resize == QB_RESIZE_NEAREST ? qb_convert_supports(x, y)
                                          : (is_number(x) && is_number(y)) || are_integers(x, y);
}

static qb_status create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p,
                        const bool *constant, int threads, qb_kernel **out) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    const int32_t n = x->shape.rank - 2;
    size_t taps = SPATIAL;
    (void)constant, (void)threads;
    for (int32_t d = 0; d < n; d++) taps += (size_t)y->shape.dim[2 + d];
    QB_TRY(qb_cpu_kernel_create(cx, tactic, p, sizeof(resize) + taps * sizeof(tap), out));
    resize *r = (*out)->state;
    r->nearest = p->resize == QB_RESIZE_NEAREST;
    r->truncates = are_integers(x, y);
    r->neighbours = is_cubic(p->resize) ? NEIGHBOURS : r->nearest ? 1 : 2;
    r->pixels = x->layout == QB_LAYOUT_NHWC;
    r->outer = x->shape.dim[0] * (r->pixels ? 1 : x->shape.dim[1]);
    r->channels = r->pixels ? x->shape.dim[1] : 1;
    r->dtype = x->dtype;
    r->scale = x->q.n > 0 ? x->q.scale[0] : 1.0f;
    r->zero = qb_cpu_zero(x);
    r->in_size = (int64_t)qb_dtype_size(x->dtype);
    r->out_size = (int64_t)qb_dtype_size(y->dtype);
    if (r->nearest) r->convert = qb_convert_of(x, y);
    r->quantized = r->truncates ? (qb_chain_quantized){1.0f, 0, y->dtype, false}
                                : qb_chain_quantized_of(y, true);
    tap *next = r->taps;
    for (int32_t d = 0; d < SPATIAL; d++) {
        const int32_t own = d - (SPATIAL - n);
        r->in[d] = own < 0 ? 1 : x->shape.dim[2 + own];
        r->out[d] = own < 0 ? 1 : y->shape.dim[2 + own];
        r->at[d] = next;
        for (int64_t o = 0; o < r->out[d]; o++) *next++ = tap_of(p->resize, r->in[d], r->out[d], o);
    }
    r->rows_a_task = qb_max64(1, BYTES_PER_TASK / (r->out[2] * r->channels * r->out_size));
    (*out)->launch = launch;
    return QB_OK;
}

QB_TACTIC(cpu_resize, "cpu.resize", "cpu", QB_KIND_RESIZE, QB_WITHIN_1_LSB, supports, create);
