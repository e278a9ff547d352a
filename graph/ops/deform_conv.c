/* DeformConv in two spatial dimensions: a convolution whose samples are each moved by an offset of
 * their own, read by bilinear interpolation and weighted by a mask. */
#include <math.h>

#include "ops_internal.h"

typedef struct deform_attrs {
    qb_ints kernel_shape, strides, pads, dilations;
    int64_t group, offset_group;
} deform_attrs;
QB_ATTRS(deform_table, QB_A_WINDOW(deform_attrs),
         QB_A_INT(deform_attrs, group, "group", 1, 1, QB_ATTR_BIG),
         QB_A_INT(deform_attrs, offset_group, "offset_group", 1, 1, QB_ATTR_BIG));

enum { IN_X, IN_WEIGHT, IN_OFFSET, IN_BIAS, IN_MASK };

/* The window and the output's size from the shapes of X and W. */
static qb_status window_of(qb_ctx *cx, const deform_attrs *attrs, const qb_shape *x,
                           const qb_shape *weight, qb_window *window, int64_t out[2]) {
    qb_window_spec spec = {.strides = attrs->strides,
                           .pads = attrs->pads,
                           .dilations = attrs->dilations,
                           .n = 2,
                           .kernel = {weight->dim[2], weight->dim[3]}};
    QB_TRY(qb_attr_list_check(cx, "kernel_shape", &attrs->kernel_shape, 2, 1));
    for (int32_t d = 0; d < attrs->kernel_shape.n; d++)
        if (spec.kernel[d] >= 0 && attrs->kernel_shape.v[d] != spec.kernel[d])
            return qb_fail(cx, QB_STATUS_INVALID,
                           "kernel_shape: expected the weight's %lld, got %lld",
                           (long long)spec.kernel[d], (long long)attrs->kernel_shape.v[d]);
    QB_TRY(qb_window_begin(cx, &spec, window));
    return qb_window_resolve(cx, &spec, x->dim + 2, window, out);
}

static qb_status check_channels(qb_ctx *cx, const qb_infer_args *args, const qb_shape *x,
                                const qb_shape *weight) {
    const deform_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *bias = qb_infer_in(args, IN_BIAS);
    const int64_t c = x->dim[1], m = weight->dim[0];
    if (c >= 0 && (c % attrs->group || c % attrs->offset_group))
        return qb_fail(cx, QB_STATUS_INVALID,
                       "%lld input channels are not divisible by group %lld and offset_group %lld",
                       (long long)c, (long long)attrs->group, (long long)attrs->offset_group);
    if (m >= 0 && m % attrs->group)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "%lld output channels are not divisible by group %lld", (long long)m,
                       (long long)attrs->group);
    if (bias && bias->shape.rank == 1)
        QB_TRY(qb_expect_dim(cx, "bias size (output channels)", m, bias->shape.dim[0]));
    return qb_expect_dim(cx, "weight dimension 1 (input channels / group)",
                         c < 0 ? c : c / attrs->group, weight->dim[1]);
}

/* The offset has two channels a sample, the mask one. */
static qb_status check_samples(qb_ctx *cx, const qb_infer_args *args, const qb_shape *out,
                               const qb_shape *weight, int32_t input, int64_t per_sample) {
    const deform_attrs *attrs = qb_infer_at(args)->attrs;
    const qb_value *x = qb_infer_in(args, input);
    const char *what = input == IN_MASK ? "mask" : "offset";
    int64_t channels;
    if (!x || x->shape.rank != 4) return QB_OK;
    QB_TRY(qb_dim_mul(cx, weight->dim[2], weight->dim[3], &channels));
    QB_TRY(qb_dim_mul(cx, channels, attrs->offset_group * per_sample, &channels));
    QB_TRY_WRAP(cx, qb_expect_dim(cx, "batch", out->dim[0], x->shape.dim[0]), "%s", what);
    QB_TRY_WRAP(cx, qb_expect_dim(cx, "channels", channels, x->shape.dim[1]), "%s", what);
    QB_TRY_WRAP(cx, qb_expect_dim(cx, "height", out->dim[2], x->shape.dim[2]), "%s", what);
    QB_TRY_WRAP(cx, qb_expect_dim(cx, "width", out->dim[3], x->shape.dim[3]), "%s", what);
    return QB_OK;
}

static qb_status infer_deform(qb_ctx *cx, const qb_infer_args *args) {
    const qb_value *x = qb_infer_in(args, IN_X), *w = qb_infer_in(args, IN_WEIGHT);
    qb_shape out = {.rank = -1};
    for (int32_t i = 0; i <= IN_MASK; i++) {
        QB_TRY(qb_infer_rank(cx, args, i, i == IN_BIAS ? 1 : 4, i == IN_BIAS ? 1 : 4));
        QB_TRY(qb_infer_same_type(cx, args, i));
    }
    if (x->shape.rank < 0 || w->shape.rank < 0) return qb_infer_set(cx, args, 0, x->dtype, &out);
    qb_window window;
    out = (qb_shape){.rank = 4, .dim = {x->shape.dim[0], w->shape.dim[0]}};
    QB_TRY(check_channels(cx, args, &x->shape, &w->shape));
    QB_TRY(window_of(cx, qb_infer_at(args)->attrs, &x->shape, &w->shape, &window, out.dim + 2));
    QB_TRY(check_samples(cx, args, &out, &w->shape, IN_OFFSET, 2));
    QB_TRY(check_samples(cx, args, &out, &w->shape, IN_MASK, 1));
    return qb_infer_set(cx, args, 0, x->dtype, &out);
}

/* One pixel of the output: where its sample k of an offset group is read. */
typedef struct place {
    const float *offset, *mask; /* of this pixel; the channels are `pixels` apart */
    int64_t pixels, y, x;
} place;

/* A channel at (y, x); pixels outside count as 0. */
static double read_between(const float *plane, const qb_shape *shape, double y, double x) {
    const int64_t height = shape->dim[2], width = shape->dim[3];
    if (!(y > -1.0 && x > -1.0 && y < (double)height && x < (double)width)) return 0.0;
    const int64_t y0 = (int64_t)floor(y), x0 = (int64_t)floor(x);
    const double part_y = y - (double)y0, part_x = x - (double)x0;
    double sum = 0.0;
    for (int64_t i = 0; i < 2; i++)
        for (int64_t k = 0; k < 2; k++) {
            const int64_t at_y = y0 + i, at_x = x0 + k;
            if (at_y < 0 || at_x < 0 || at_y >= height || at_x >= width) continue;
            sum += (i ? part_y : 1.0 - part_y) * (k ? part_x : 1.0 - part_x) *
                   (double)plane[at_y * width + at_x];
        }
    return sum;
}

/* The samples of all channels of one pixel: [channels, kernel]. */
static void take_samples(const deform_attrs *attrs, const qb_window *w, const qb_shape *shape,
                         const float *image, const place *at, double *samples) {
    const int64_t kernel = w->kernel[0] * w->kernel[1], plane = shape->dim[2] * shape->dim[3];
    const int64_t share = shape->dim[1] / attrs->offset_group;
    for (int64_t c = 0; c < shape->dim[1]; c++)
        for (int64_t k = 0; k < kernel; k++) {
            const int64_t sample = c / share * kernel + k;
            const double y = (double)(at->y * w->stride[0] - w->pad_begin[0] +
                                      k / w->kernel[1] * w->dilation[0]);
            const double x = (double)(at->x * w->stride[1] - w->pad_begin[1] +
                                      k % w->kernel[1] * w->dilation[1]);
            const double dy = (double)at->offset[2 * sample * at->pixels];
            const double dx = (double)at->offset[(2 * sample + 1) * at->pixels];
            samples[c * kernel + k] = read_between(image + c * plane, shape, y + dy, x + dx);
            if (at->mask) samples[c * kernel + k] *= (double)at->mask[sample * at->pixels];
        }
}

static qb_status eval_deform(qb_ctx *cx, const qb_node *node, const qb_tensor *in, qb_tensor *out) {
    const deform_attrs *attrs = node->attrs;
    QB_EVAL_IN_F32(eval_deform);
    const qb_shape *x = &in[IN_X].desc.shape, *y = &out[0].desc.shape;
    const float *weight = in[IN_WEIGHT].data;
    const float *bias = qb_eval_has(node, in, IN_BIAS) ? in[IN_BIAS].data : NULL;
    const float *mask = qb_eval_has(node, in, IN_MASK) ? in[IN_MASK].data : NULL;
    qb_window w;
    int64_t size[2];
    QB_TRY(window_of(cx, attrs, x, &in[IN_WEIGHT].desc.shape, &w, size));
    const int64_t kernel = w.kernel[0] * w.kernel[1], pixels = y->dim[2] * y->dim[3];
    const int64_t n = x->dim[1] / attrs->group * kernel; /* products an output */
    QB_RELEASED(qb_temp_give_at)
    double *samples = QB_NEW(cx, qb_temp_take(cx, (size_t)(x->dim[1] * kernel), sizeof *samples));
    for (int64_t i = 0; i < y->dim[0] * pixels; i++) {
        const int64_t b = i / pixels, p = i % pixels;
        const int64_t first = b * attrs->offset_group * kernel * pixels + p;
        const place at = {(const float *)in[IN_OFFSET].data + 2 * (first - p) + p,
                          mask ? mask + first : NULL, pixels, p / y->dim[3], p % y->dim[3]};
        const float *image = (const float *)in[IN_X].data + b * x->dim[1] * x->dim[2] * x->dim[3];
        take_samples(attrs, &w, x, image, &at, samples);
        for (int64_t m = 0; m < y->dim[1]; m++) {
            const double *from = samples + m / (y->dim[1] / attrs->group) * n;
            double sum = bias ? (double)bias[m] : 0.0;
            for (int64_t k = 0; k < n; k++) sum += from[k] * (double)weight[m * n + k];
            ((float *)out[0].data)[(b * y->dim[1] + m) * pixels + p] = (float)sum;
        }
    }
    return QB_OK;
}

QB_OP_SIMPLE(deform_conv, "DeformConv", 19, 3, 5, 1, sizeof(deform_attrs), deform_table, FLOAT,
             infer_deform, eval_deform, .types = QB_TYPES_FLOATS, .traits = QB_TRAIT_WINDOW);
