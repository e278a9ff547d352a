#include "kernels/subpixel.h"

#include <string.h>

#define MAX_PHASES 4096

/* Axis d of p->window.n. */
static bool set_axis(const qb_problem *p, int32_t d, qb_subpixel *s) {
    const qb_window *from = &p->window;
    qb_window *w = &s->window;
    const int32_t at = 3 - from->n + d;
    const int64_t in = p->in[QB_IN_DATA].shape.dim[2 + d], stride = from->stride[d];
    const int64_t taps = (from->kernel[d] - 1) * from->dilation[d] / stride + 1;
    s->stride[at] = stride;
    s->pad[at] = from->pad_begin[d];
    s->out[at] = p->out.shape.dim[2 + d];
    if (s->pad[at] < 0 || in < 1 || s->out[at] < 1) return false;
    s->first[at] = s->pad[at] / stride;
    s->made[at] = (s->out[at] - 1 + s->pad[at]) / stride - s->first[at] + 1;
    w->kernel[d] = taps;
    w->stride[d] = w->dilation[d] = 1;
    w->pad_begin[d] = taps - 1 - s->first[at];
    w->pad_end[d] = s->made[at] - in - w->pad_begin[d] + taps - 1;
    s->phases *= stride;
    return w->pad_begin[d] >= 0 && w->pad_end[d] >= 0 && w->pad_begin[d] < taps &&
           w->pad_end[d] < taps && s->phases <= MAX_PHASES;
}

bool qb_subpixel_of(const qb_problem *p, qb_subpixel *out) {
    *out = (qb_subpixel){.group = p->group,
                         .per_group = p->in[QB_IN_WEIGHT].shape.dim[1],
                         .phases = 1,
                         .window.n = p->window.n};
    for (int32_t d = 0; d < 3; d++) out->stride[d] = out->made[d] = out->out[d] = 1;
    for (int32_t d = 0; d < p->window.n; d++)
        if (!set_axis(p, d, out)) return false;
    return out->group >= 1 && qb_subpixel_channels(out) <= INT32_MAX / 64;
}

int64_t qb_subpixel_channels(const qb_subpixel *s) { return s->group * s->per_group * s->phases; }

int64_t qb_subpixel_output(const qb_subpixel *s, int64_t channel, int64_t *in_group) {
    const int64_t each = s->per_group * s->phases;
    *in_group = channel % each % s->per_group;
    return channel / each * s->per_group + *in_group;
}

void qb_subpixel_conv(const qb_problem *p, const qb_subpixel *s, qb_problem *conv, qb_desc *in) {
    const int64_t made = qb_subpixel_channels(s);
    const qb_window *w = &s->window;
    *conv = *p;
    conv->kind = QB_KIND_CONV;
    conv->in = in;
    conv->n_in = qb_problem_has(p, QB_IN_BIAS) ? 3 : 2;
    conv->window = *w;
    for (int32_t i = 0; i < conv->n_in; i++) in[i] = p->in[i];
    in[QB_IN_DATA].layout = QB_LAYOUT_NHWC;
    qb_desc *weight = &in[QB_IN_WEIGHT], *out = &conv->out;
    weight->shape.dim[1] = p->in[QB_IN_WEIGHT].shape.dim[0] / p->group;
    weight->shape.dim[0] = made;
    for (int32_t d = 0; d < w->n; d++) weight->shape.dim[2 + d] = w->kernel[d];
    weight->q.axis = weight->q.n > 1 ? 0 : -1;
    if (conv->n_in > QB_IN_BIAS) in[QB_IN_BIAS].shape = (qb_shape){1, {made}};
    out->shape.dim[1] = made;
    for (int32_t d = 0; d < w->n; d++) out->shape.dim[2 + d] = s->made[3 - w->n + d];
    out->layout = QB_LAYOUT_NHWC;
    out->channel_offset = out->channel_total = 0;
    out->padded = false;
}

/* Element k of each axis of the kernel goes to phase k dilation % stride, tap (k dilation) / stride
 * from the end. */
static void place_of(const qb_window *w, const qb_window *made, int64_t k, int64_t *phase,
                     int64_t *tap) {
    int64_t before = 1;
    *phase = *tap = 0;
    for (int32_t d = 0; d < w->n; d++) before *= w->kernel[d];
    for (int32_t d = 0; d < w->n; d++) {
        before /= w->kernel[d];
        const int64_t at = k / before * w->dilation[d];
        k %= before;
        *phase = *phase * w->stride[d] + at % w->stride[d];
        *tap = *tap * made->kernel[d] + made->kernel[d] - 1 - at / w->stride[d];
    }
}

/* Element k of all channels' kernels; steps in elements of `size` bytes, 4 or 1. */
static void spread_element(const qb_subpixel *s, const char *from, int64_t elements, char *to,
                           int64_t taps, int64_t inputs, size_t size) {
    for (int64_t c = 0; c < s->group * inputs; c++) {
        const char *x = from + (size_t)(c * s->per_group * elements) * size;
        const int64_t first = c / inputs * s->phases * s->per_group * inputs + c % inputs;
        char *y = to + (size_t)(first * taps) * size;
        for (int64_t m = 0; m < s->per_group; m++) {
            const int64_t at = m * elements, there = m * inputs * taps;
            if (size == 4)
                memcpy(y + there * 4, x + at * 4, 4);
            else
                y[there] = x[at];
        }
    }
}

void qb_subpixel_weight(const qb_problem *p, const qb_subpixel *s, const char *from, char *to) {
    const qb_desc *weight = &p->in[QB_IN_WEIGHT];
    const qb_window *w = &p->window, *made = &s->window;
    const size_t size = qb_dtype_size(weight->dtype);
    const int64_t inputs = weight->shape.dim[0] / s->group;
    int64_t elements = 1, taps = 1, phase, tap;
    for (int32_t d = 0; d < w->n; d++) elements *= w->kernel[d], taps *= made->kernel[d];
    for (int64_t k = 0; k < elements; k++) {
        place_of(w, made, k, &phase, &tap);
        spread_element(s, from + (size_t)k * size, elements,
                       to + (size_t)(phase * s->per_group * inputs * taps + tap) * size, taps,
                       inputs, size);
    }
}

void qb_subpixel_bias(const qb_subpixel *s, const char *from, char *to) {
    for (int64_t c = 0; c < qb_subpixel_channels(s); c++) {
        int64_t in_group;
        memcpy(to + c * 4, from + qb_subpixel_output(s, c, &in_group) * 4, 4);
    }
}
