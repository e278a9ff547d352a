/* Images at places of their own for each pixel of the result: where a block of places lies and with
 * which weights its taps count is computed once for all channels. */
#include <math.h>

#include "base/vector_loop.h"
#include "chain_internal.h"
#include "cpu_internal.h"
#include "kernels/grid.h"

#define BLOCK 64 /* places at once: all corners of a block stay in the cache */

typedef struct sampler {
    qb_grid_axis axis[QB_GRID_SPATIAL];
    int32_t spatial, taps;
    int64_t channels, pixels, places, blocks; /* of an image; blocks of places */
    qb_chain_quantized quantized;
    size_t out_size;
} sampler;

typedef struct job {
    const sampler *s;
    const float *data, *grid;
    char *out;
} job;

typedef struct taps {
    int32_t at[QB_GRID_TAPS][BLOCK];
    float weight[QB_GRID_TAPS][BLOCK]; /* 0: outside */
} taps;

typedef struct corners {
    int32_t n;
    int32_t at[QB_GRID_CORNERS][BLOCK];
    float weight[QB_GRID_CORNERS][BLOCK];
} corners;

/* Between two pixels, those outside repeated or left out. */
QB_LOOP(linear_taps, (const qb_grid_axis *axis, const float *grid, int32_t step, taps *t),
        (axis, grid, step, t)) {
    const float end = (float)(axis->size - 1), size = (float)axis->size, far = 0x1p30f;
    const bool border = axis->grid.outside == QB_GRID_BORDER, ends = axis->grid.corners;
    const int32_t last = (int32_t)(axis->size - 1), stride = (int32_t)axis->stride;
    for (int i = 0; i < BLOCK; i++) {
        const float g = grid[i * step];
        float x = ends ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
        x = x > -far ? x : -far;
        x = x < far ? x : far;
        if (border) {
            x = x < 0 ? 0 : x;
            x = x > end ? end : x;
        }
        const float first = floorf(x), part = x - first;
        const int32_t low = (int32_t)first, high = low + 1;
        const bool low_in = low >= 0 && low <= last, high_in = high >= 0 && high <= last;
        t->at[0][i] = (low < 0 ? 0 : low > last ? last : low) * stride;
        t->at[1][i] = (high < 0 ? 0 : high > last ? last : high) * stride;
        t->weight[0][i] = border || low_in ? 1.0f - part : 0.0f;
        t->weight[1][i] = border || high_in ? part : 0.0f;
    }
}

static void taps_along(const sampler *s, int32_t d, const float *grid, taps *t) {
    const qb_grid_axis *axis = &s->axis[d];
    const int32_t at = s->spatial - 1 - d;
    if (axis->grid.mode == QB_GRID_LINEAR && axis->grid.outside != QB_GRID_REFLECTION) {
        linear_taps(axis, grid + at, s->spatial, t);
        return;
    }
    for (int i = 0; i < BLOCK; i++) {
        qb_grid_tap tap[QB_GRID_TAPS];
        qb_grid_taps(axis, grid[i * s->spatial + at], tap);
        for (int32_t k = 0; k < s->taps; k++) {
            t->at[k][i] = tap[k].at < 0 ? 0 : (int32_t)tap[k].at;
            t->weight[k][i] = tap[k].at < 0 ? 0.0f : (float)tap[k].weight;
        }
    }
}

/* All products of the taps of the dimensions. */
static void corners_of(const sampler *s, const float *grid, corners *c) {
    c->n = 1;
    for (int i = 0; i < BLOCK; i++) {
        c->at[0][i] = 0;
        c->weight[0][i] = 1.0f;
    }
    for (int32_t d = 0; d < s->spatial; d++) {
        taps t;
        taps_along(s, d, grid, &t);
        for (int32_t k = s->taps - 1; k >= 0; k--) /* the first tap's go where they are read */
            for (int32_t from = 0; from < c->n; from++) {
                const int32_t to = k * c->n + from;
                for (int i = 0; i < BLOCK; i++) {
                    c->at[to][i] = c->at[from][i] + t.at[k][i];
                    c->weight[to][i] = c->weight[from][i] * t.weight[k][i];
                }
            }
        c->n *= s->taps;
    }
}

QB_LOOP(sum_corners, (const float *x, const corners *c, float *to), (x, c, to)) {
    for (int i = 0; i < BLOCK; i++) to[i] = x[c->at[0][i]] * c->weight[0][i];
    for (int32_t k = 1; k < c->n; k++)
        for (int i = 0; i < BLOCK; i++) to[i] += x[c->at[k][i]] * c->weight[k][i];
}

static void run_task(int64_t task, void *argument) {
    const job *j = argument;
    const sampler *s = j->s;
    const int64_t image = task / s->blocks, first = task % s->blocks * BLOCK;
    const int64_t n = qb_min64(BLOCK, s->places - first);
    float grid[BLOCK * QB_GRID_SPATIAL] = {0}, made[QB_CHAIN_BLOCK] = {0};
    corners c;
    for (int64_t i = 0; i < n * s->spatial; i++)
        grid[i] = j->grid[(image * s->places + first) * s->spatial + i];
    corners_of(s, grid, &c);
    for (int64_t k = image * s->channels; k < (image + 1) * s->channels; k++) {
        sum_corners(j->data + k * s->pixels, &c, made);
        qb_chain_write(&s->quantized, made, n,
                       j->out + (size_t)(k * s->places + first) * s->out_size);
    }
}

static qb_status launch(qb_ctx *cx, const qb_kernel *kernel, const qb_launch *args) {
    const sampler *s = kernel->state;
    job j = {s, args->in[0], args->in[1], args->out};
    (void)cx;
    qb_workers_run(args->workers, kernel->problem.in[0].shape.dim[0] * s->blocks, run_task, &j);
    return QB_OK;
}

static bool supports(const qb_problem *p, const bool *constant) {
    const qb_shape *x = &p->in[0].shape;
    (void)constant;
    return qb_cpu_is_filled_rows(&p->in[0]) && qb_cpu_is_filled_rows(&p->in[1]) &&
           qb_cpu_is_filled_rows(&p->out) && qb_cpu_is_f32(&p->in[0]) && qb_cpu_is_f32(&p->in[1]) &&
           (qb_cpu_is_f32(&p->out) || qb_cpu_is_quantized(&p->out)) && x->rank >= 3 &&
           x->rank <= 2 + QB_GRID_SPATIAL &&
           qb_shape_count(x) / (x->dim[0] * x->dim[1]) <= INT32_MAX;
}

static void fill(const qb_problem *p, int threads, qb_kernel *kernel) {
    (void)threads;
    const qb_shape *x = &p->in[0].shape;
    sampler *s = kernel->state;
    s->spatial = qb_grid_axes(&p->grid, x, s->axis);
    s->taps = qb_grid_taps_of(p->grid.mode);
    s->channels = x->dim[1];
    s->pixels = qb_shape_count(x) / (x->dim[0] * x->dim[1]);
    s->places = qb_shape_count(&p->out.shape) / (x->dim[0] * x->dim[1]);
    s->blocks = qb_ceil64(s->places, BLOCK);
    s->quantized = qb_chain_quantized_of(&p->out, true);
    s->out_size = qb_dtype_size(p->out.dtype);
    kernel->launch = launch;
}

QB_TACTIC(cpu_grid_sample, "cpu.grid_sample", "cpu", QB_KIND_GRID_SAMPLE, QB_WITHIN_1_LSB, supports,
          qb_cpu_create, .state_bytes = sizeof(sampler), .fill = fill);
