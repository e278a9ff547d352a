/* Group and instance normalization of images in either layout. The data are cut into parts that do
 * not depend on the number of threads; each gives mean and squares around it for its channels,
 * which are joined in double, and the result is written part by part. */
#include <math.h>
#include <string.h>

#include "base/vector_loop.h"
#include "chain_internal.h"
#include "cpu_internal.h"

#define PART 16384 /* elements, about */

typedef struct moments {
    double mean, squares;
} moments;

typedef struct norm {
    bool pixels; /* channels last */
    int64_t images, channels, plane, group;
    int64_t chunk, chunks; /* pixels of a part, parts of an image */
    int64_t together;      /* planes (row-major) of a task */
    float epsilon, scale;  /* of the data's quantized values */
    int32_t zero;
    qb_dtype dtype;
    int64_t in_size, out_size;
    qb_chain_quantized quantized;
    size_t factors; /* in the workspace: mean, factor and shift of each image's channels */
} norm;

typedef struct job {
    const norm *w;
    const char *data;
    const float *gain, *shift;
    moments *part;  /* [images][chunks][channels] */
    float *factors; /* [images][3][channels] */
    char *out;
} job;

/* A block of the data as floats: its own memory, or `made`. */
static const float *block(const norm *w, const char *from, int64_t n, float *made) {
    if (w->dtype == QB_DTYPE_F32) return (const float *)(const void *)from;
    qb_chain_load(w->dtype, w->scale, w->zero, from, n, made);
    return made;
}

/* sum[i] += x[i] - center[i], or its square. */
QB_LOOP(add_rows, (const float *x, const float *center, int64_t n, bool square, float *sum),
        (x, center, n, square, sum)) {
    if (square)
        for (int64_t i = 0; i < n; i++) sum[i] += (x[i] - center[i]) * (x[i] - center[i]);
    else
        for (int64_t i = 0; i < n; i++) sum[i] += x[i] - center[i];
}

QB_LOOP(apply,
        (const float *x, const float *mean, const float *factor, const float *shift, int64_t n,
         float *to),
        (x, mean, factor, shift, n, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = (x[i] - mean[i]) * factor[i] + shift[i];
}

static void spread(float *to, float v) {
    for (int i = 0; i < QB_CHAIN_BLOCK; i++) to[i] = v;
}

/* ---- row-major: a channel's plane is one run ---- */

/* Of a run, lane by lane in floats, block by block in double. */
static double sum_run(const norm *w, const char *from, int64_t n, const float *center,
                      bool square) {
    float made[QB_CHAIN_BLOCK], sum[QB_CHAIN_BLOCK] = {0};
    double all = 0;
    for (int64_t at = 0; at < n; at += QB_CHAIN_BLOCK) {
        const int64_t some = qb_min64(QB_CHAIN_BLOCK, n - at);
        add_rows(block(w, from + at * w->in_size, some, made), center, some, square, sum);
    }
    for (int i = 0; i < qb_min64(QB_CHAIN_BLOCK, n); i++) all += (double)sum[i];
    return all;
}

static void plane_moments(const job *j, int64_t image, int64_t chunk, int64_t channel) {
    const norm *w = j->w;
    const int64_t first = chunk * w->chunk, n = qb_min64(w->chunk, w->plane - first);
    const char *from = j->data + ((image * w->channels + channel) * w->plane + first) * w->in_size;
    float center[QB_CHAIN_BLOCK] = {0};
    moments *m = &j->part[(image * w->chunks + chunk) * w->channels + channel];
    m->mean = sum_run(w, from, n, center, false) / (double)n;
    spread(center, (float)m->mean);
    const double off = m->mean - (double)center[0];
    m->squares = sum_run(w, from, n, center, true) - (double)n * off * off;
}

static void plane_apply(const job *j, int64_t image, int64_t chunk, int64_t channel) {
    const norm *w = j->w;
    const int64_t first = chunk * w->chunk, n = qb_min64(w->chunk, w->plane - first);
    const int64_t start = (image * w->channels + channel) * w->plane + first;
    float made[QB_CHAIN_BLOCK], to[QB_CHAIN_BLOCK] = {0}, by[3][QB_CHAIN_BLOCK];
    for (int i = 0; i < 3; i++) spread(by[i], j->factors[(image * 3 + i) * w->channels + channel]);
    for (int64_t at = 0; at < n; at += QB_CHAIN_BLOCK) {
        const int64_t some = qb_min64(QB_CHAIN_BLOCK, n - at);
        apply(block(w, j->data + (start + at) * w->in_size, some, made), by[0], by[1], by[2], some,
              to);
        qb_chain_write(&w->quantized, to, some, j->out + (start + at) * w->out_size);
    }
}

/* ---- channels last: blocks of channels, and of as many pixels as have few ---- */

typedef struct pixel_block {
    int64_t first, n;       /* pixels of the chunk */
    int64_t some, together; /* channels, pixels of a block */
} pixel_block;

static pixel_block pixels_of(const norm *w, int64_t chunk, int64_t channel) {
    pixel_block b = {.first = chunk * w->chunk, .together = 1};
    b.n = qb_min64(w->chunk, w->plane - b.first);
    b.some = qb_min64(QB_CHAIN_BLOCK, w->channels - channel);
    if (b.some == w->channels) b.together = QB_CHAIN_BLOCK / b.some;
    return b;
}

/* The channels' numbers for each pixel of a block. */
static void repeat(const pixel_block *b, const float *channels, float *to) {
    for (int64_t i = 0; i < b->together; i++)
        memcpy(to + i * b->some, channels, (size_t)b->some * sizeof(float));
}

static void pixel_moments(const job *j, int64_t image, int64_t chunk, int64_t channel) {
    const norm *w = j->w;
    const pixel_block b = pixels_of(w, chunk, channel);
    const char *from =
        j->data + ((image * w->plane + b.first) * w->channels + channel) * w->in_size;
    float made[QB_CHAIN_BLOCK], mean[QB_CHAIN_BLOCK], center[QB_CHAIN_BLOCK] = {0};
    moments *m = &j->part[(image * w->chunks + chunk) * w->channels + channel];
    for (int pass = 0; pass < 2; pass++) {
        float sum[QB_CHAIN_BLOCK] = {0};
        for (int64_t p = 0; p < b.n; p += b.together) {
            const int64_t n = qb_min64(b.together, b.n - p) * b.some;
            add_rows(block(w, from + p * w->channels * w->in_size, n, made), center, n, pass == 1,
                     sum);
        }
        for (int64_t i = b.some; i < b.together * b.some; i++) sum[i % b.some] += sum[i];
        for (int64_t c = 0; c < b.some; c++)
            if (pass == 0)
                mean[c] = sum[c] / (float)b.n;
            else
                m[c] = (moments){(double)mean[c], (double)sum[c]};
        repeat(&b, mean, center);
    }
}

static void pixel_apply(const job *j, int64_t image, int64_t chunk, int64_t channel) {
    const norm *w = j->w;
    const pixel_block b = pixels_of(w, chunk, channel);
    const int64_t start = (image * w->plane + b.first) * w->channels + channel;
    float made[QB_CHAIN_BLOCK], to[QB_CHAIN_BLOCK] = {0}, by[3][QB_CHAIN_BLOCK];
    for (int i = 0; i < 3; i++)
        repeat(&b, j->factors + (image * 3 + i) * w->channels + channel, by[i]);
    for (int64_t p = 0; p < b.n; p += b.together) {
        const int64_t at = start + p * w->channels, n = qb_min64(b.together, b.n - p) * b.some;
        apply(block(w, j->data + at * w->in_size, n, made), by[0], by[1], by[2], n, to);
        qb_chain_write(&w->quantized, to, n, j->out + at * w->out_size);
    }
}

/* ---- tasks ---- */

typedef void (*part_fn)(const job *j, int64_t image, int64_t chunk, int64_t channel);

/* Channels of a task: together (planes), or all of them, block by block (pixels). */
static void each_part(const job *j, int64_t task, part_fn run) {
    const norm *w = j->w;
    const int64_t step = w->pixels ? QB_CHAIN_BLOCK : 1;
    const int64_t width = w->pixels ? w->channels : w->together;
    const int64_t blocks = qb_ceil64(w->channels, width), first = task % blocks * width;
    const int64_t chunk = task / blocks % w->chunks, image = task / blocks / w->chunks;
    for (int64_t c = first; c < qb_min64(first + width, w->channels); c += step)
        run(j, image, chunk, c);
}

static void measure_task(int64_t task, void *argument) {
    const job *j = argument;
    each_part(j, task, j->w->pixels ? pixel_moments : plane_moments);
}

static void apply_task(int64_t task, void *argument) {
    const job *j = argument;
    each_part(j, task, j->w->pixels ? pixel_apply : plane_apply);
}

/* All parts of a group are joined in their order. */
static void join_task(int64_t task, void *argument) {
    const job *j = argument;
    const norm *w = j->w;
    const int64_t each = w->channels / w->group, image = task / w->group;
    const int64_t first = task % w->group * each;
    double n = 0, mean = 0, squares = 0;
    for (int64_t chunk = 0; chunk < w->chunks; chunk++) {
        const double more = (double)qb_min64(w->chunk, w->plane - chunk * w->chunk);
        for (int64_t c = 0; c < each; c++) {
            const moments *m = &j->part[(image * w->chunks + chunk) * w->channels + first + c];
            const double distance = m->mean - mean, both = n + more;
            mean += distance * more / both;
            squares += m->squares + distance * distance * n * more / both;
            n = both;
        }
    }
    const double inverse = 1.0 / sqrt(squares / n + (double)w->epsilon);
    float *to = j->factors + image * 3 * w->channels + first;
    for (int64_t c = 0; c < each; c++) {
        to[c] = (float)mean;
        to[w->channels + c] = (float)((double)j->gain[first + c] * inverse);
        to[2 * w->channels + c] = j->shift[first + c];
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    (void)cx;
    const norm *w = kernel->state;
    char *workspace = args->workspace;
    job j = {.w = w,
             .data = args->in[0],
             .gain = args->in[1],
             .shift = args->in[2],
             .part = (moments *)(void *)workspace,
             .factors = (float *)(void *)(workspace + w->factors),
             .out = args->out};
    const int64_t blocks = w->pixels ? 1 : qb_ceil64(w->channels, w->together);
    qb_workers_run(args->workers, w->images * w->chunks * blocks, measure_task, &j);
    qb_workers_run(args->workers, w->images * w->group, join_task, &j);
    qb_workers_run(args->workers, w->images * w->chunks * blocks, apply_task, &j);
    return QB_OK;
}

/* ---- the tactic ---- */

static bool is_number(const qb_desc *d) {
    return (qb_cpu_is_f32(d) || qb_cpu_is_quantized(d)) && d->channel_total == 0 &&
           (d->layout == QB_LAYOUT_ROW || (d->layout == QB_LAYOUT_NHWC && d->shape.rank >= 3));
}

static bool is_factor(const qb_desc *d, int64_t channels) {
    return qb_cpu_is_f32(d) && qb_shape_count(&d->shape) == channels;
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_desc *x = &p->in[0], *y = &p->out;
    (void)constant;
    return p->n_in == 3 && is_number(x) && is_number(y) && x->layout == y->layout &&
           x->shape.rank >= 2 && qb_shape_count(&x->shape) > 0 && p->group > 0 &&
           x->shape.dim[1] % p->group == 0 && is_factor(&p->in[1], x->shape.dim[1]) &&
           is_factor(&p->in[2], x->shape.dim[1]);
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    const qb_desc *x = &p->in[0], *y = &p->out;
    norm *w = kernel->state;
    *w = (norm){.pixels = x->layout == QB_LAYOUT_NHWC,
                .images = x->shape.dim[0],
                .channels = x->shape.dim[1],
                .group = p->group,
                .epsilon = p->epsilon,
                .scale = x->q.n > 0 ? x->q.scale[0] : 1.0f,
                .zero = qb_cpu_zero(x),
                .dtype = x->dtype,
                .in_size = (int64_t)qb_dtype_size(x->dtype),
                .out_size = (int64_t)qb_dtype_size(y->dtype)};
    w->plane = qb_shape_count(&x->shape) / (w->images * w->channels);
    w->chunk = qb_min64(w->plane, w->pixels ? qb_max64(16, PART / w->channels) : PART);
    w->chunks = qb_ceil64(w->plane, w->chunk);
    w->together = qb_max64(1, PART / w->plane);
    w->quantized = qb_chain_quantized_of(y, true);
    w->factors = qb_pad64((size_t)(w->images * w->chunks * w->channels) * sizeof(moments));
    kernel->workspace_bytes =
        w->factors + (size_t)(w->images * 3 * w->channels + QB_CHAIN_BLOCK) * sizeof(float);
    kernel->in_place_inputs = x->dtype == y->dtype;
    kernel->launch = launch;
}

QB_TACTIC(cpu_group_norm, "cpu.group_norm", "cpu", QB_KIND_GROUP_NORM, QB_WITHIN_1_LSB, supports,
          qb_cpu_create, .state_bytes = sizeof(norm), .fill = fill);
