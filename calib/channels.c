#include "calib/channels.h"

#include <math.h>

#include "base/sort.h"

#define FEW_LEVELS 16.0f /* a channel that reaches less than this part of the widest */

static int32_t channel_axis(const qb_shape *shape) { return shape->rank > 3 ? 1 : shape->rank - 1; }

int64_t qb_channels_of(const qb_shape *shape) {
    return shape->rank > 0 ? shape->dim[channel_axis(shape)] : 0;
}

void qb_channels_release(qb_channels *channels) {
    QB_FREE_ALL(channels->min, channels->max);
    *channels = (qb_channels){0};
}

qb_status qb_channels_alloc(qb_ctx *cx, int32_t n, qb_channels *out) {
    QB_RELEASED(qb_channels_release) qb_channels c = {.n = n};
    QB_TRY_NEW(cx, c.min = qb_alloc(cx, (size_t)n, sizeof *c.min));
    QB_TRY_NEW(cx, c.max = qb_alloc(cx, (size_t)n, sizeof *c.max));
    for (int32_t i = 0; i < n; i++) {
        c.min[i] = INFINITY;
        c.max[i] = -INFINITY;
    }
    *out = QB_MOVE(c);
    return QB_OK;
}

static void mix(qb_channels *channels) {
    qb_channels_release(channels);
    channels->n = QB_CHANNELS_MIXED;
}

/* Makes it one of n channels; *there tells whether it can be. */
static qb_status expect(qb_ctx *cx, qb_channels *channels, int64_t n, bool *there) {
    if (channels->n == 0 && n > 0 && n <= QB_CHANNELS_MOST)
        QB_TRY(qb_channels_alloc(cx, (int32_t)n, channels));
    *there = channels->n == n && n > 0;
    if (!*there) mix(channels);
    return QB_OK;
}

/* ---- one tensor ---- */

/* `lanes` neighbouring values at each of n places `stride` apart; lane k is of channel k. Neither
 * infinities nor NaN pass the comparisons; -0 becomes 0, so that it does not show who came first.
 */
static void add_lanes(const float *value, int64_t n, int64_t lanes, int64_t stride, float *min,
                      float *max) {
    for (int64_t i = 0; i < n; i++, value += stride)
        for (int64_t k = 0; k < lanes; k++) {
            const float v = value[k] + 0.0f;
            min[k] = v < min[k] && v > -INFINITY ? v : min[k];
            max[k] = v > max[k] && v < INFINITY ? v : max[k];
        }
}

/* Values of one place in axis 1, `stride` apart; channels are the last of the axes behind it. */
static void add_last_axis(const float *value, int64_t n, int64_t stride, int64_t last, float *min,
                          float *max) {
    for (int64_t i = 0; i < n; i++)
        add_lanes(value + i * stride, 1, 1, 1, min + i % last, max + i % last);
}

/* Images: channels are axis 1. */
static void add_image(const float *item, const qb_channel_view *p, qb_layout layout,
                      qb_channels *c) {
    if (layout == QB_LAYOUT_NHWC) {
        add_lanes(item + p->offset, p->spatial, p->n, p->total, c->min, c->max);
        return;
    }
    for (int64_t at = 0, lanes; at < p->n; at += lanes) {
        const int64_t first = p->offset + at, inner = first % p->block;
        lanes = p->block - inner < p->n - at ? p->block - inner : p->n - at;
        add_lanes(item + (first - inner) * p->spatial + inner, p->spatial, lanes, p->block,
                  c->min + at, c->max + at);
    }
}

/* Tokens: channels are the last axis. */
static void add_tokens(const float *item, const qb_channel_view *p, qb_layout layout,
                       qb_channels *c) {
    for (int64_t at = 0; at < p->n; at++) {
        const int64_t first = p->offset + at, inner = first % p->block;
        if (layout == QB_LAYOUT_NHWC)
            add_last_axis(item + first, p->spatial, p->total, c->n, c->min, c->max);
        else
            add_last_axis(item + (first - inner) * p->spatial + inner, p->spatial, p->block, c->n,
                          c->min, c->max);
    }
}

qb_status qb_channels_add(qb_ctx *cx, qb_channels *channels, const qb_tensor *tensor) {
    const qb_desc *desc = &tensor->desc;
    const qb_shape *shape = &desc->shape;
    bool there;
    if (qb_shape_count(shape) == 0) return QB_OK;
    QB_TRY(expect(cx, channels, qb_channels_of(shape), &there));
    if (!there) return QB_OK;
    const qb_channel_view p = qb_desc_channels(desc);
    const int32_t axis = channel_axis(shape);
    for (int64_t i = 0; i < shape->dim[0]; i++) {
        const float *item = (const float *)tensor->data + i * p.stored;
        if (axis == 0)
            add_lanes(item, 1, 1, 1, channels->min + i, channels->max + i);
        else if (axis == 1)
            add_image(item, &p, desc->layout, channels);
        else
            add_tokens(item, &p, desc->layout, channels);
    }
    return QB_OK;
}

/* ---- several ---- */

qb_status qb_channels_merge(qb_ctx *cx, qb_channels *into, const qb_channels *from) {
    bool there;
    if (from->n == 0) return QB_OK;
    if (from->n == QB_CHANNELS_MIXED) {
        mix(into);
        return QB_OK;
    }
    QB_TRY(expect(cx, into, from->n, &there));
    for (int32_t i = 0; there && i < from->n; i++) {
        into->min[i] = fminf(into->min[i], from->min[i]);
        into->max[i] = fmaxf(into->max[i], from->max[i]);
    }
    return QB_OK;
}

bool qb_channels_spread_of(qb_ctx *cx, const qb_channels *channels, qb_channels_spread *out) {
    qb_channels_spread s = {0};
    int32_t n = 0;
    float *reach = channels->n > 0 ? qb_alloc(cx, (size_t)channels->n, sizeof *reach) : NULL;
    if (!reach) return false;
    for (int32_t i = 0; i < channels->n; i++) {
        if (channels->min[i] > channels->max[i]) continue;
        reach[n] = fmaxf(fabsf(channels->min[i]), fabsf(channels->max[i]));
        if (n == 0 || reach[n] > s.widest) {
            s.widest = reach[n];
            s.widest_at = i;
        }
        n++;
    }
    qb_sort_floats(reach, (size_t)n);
    if (n > 0) {
        s.narrowest = reach[0];
        s.median = reach[n / 2];
        for (int32_t i = 0; i < n; i++) s.few_levels += reach[i] * FEW_LEVELS < s.widest;
        *out = s;
    }
    qb_free(reach);
    return n > 0;
}
