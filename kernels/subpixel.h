/* Transposed convolutions as convolutions (sub-pixel convolution; Shi et al. 2016, "Is the
 * deconvolution layer the same as a convolutional layer?"). With stride s, output pixels whose
 * number (plus pads) is a modulo s, a phase, all see the same kernel elements, those that are a
 * modulo s, and their neighbours of the data in the same way: they are an output channel of a dense
 * convolution over the data. So a convolution with s times as many channels (for each axis) makes
 * all pixels, and a copy puts them where they belong. Elements that a pixel does not have are
 * weights of zero; integer sums are the same, and so is the epilogue, which the convolution does.
 */
#ifndef QB_KERNELS_SUBPIXEL_H
#define QB_KERNELS_SUBPIXEL_H

#include "kernels/problem.h"

/* Axes are depth, height and width; missing ones in front have stride and size 1. Pixel y of the
 * result along an axis is phase (y + pad) % stride of the convolution's pixel
 * (y + pad) / stride - first. */
typedef struct qb_subpixel {
    int64_t group, per_group, phases; /* outputs a group; channels of one output */
    int64_t first[3], stride[3], pad[3];
    int64_t made[3], out[3]; /* pixels of the convolution, of the result */
    qb_window window;        /* of the convolution */
} qb_subpixel;

/* Of a CONV_TRANSPOSE of known sizes. False where the result begins or ends inside of the data, or
 * the strides have more than 4,096 phases. */
bool qb_subpixel_of(const qb_problem *p, qb_subpixel *out);
/* Channels of the convolution: [group][phase][per_group]. */
int64_t qb_subpixel_channels(const qb_subpixel *s);
/* The output that a channel of the convolution belongs to, and its number in the group. */
int64_t qb_subpixel_output(const qb_subpixel *s, int64_t channel, int64_t *in_group);
/* The convolution, channels last, as a CONV with operands in[2] or, with a bias, in[3]. Scales and
 * zero points of weight and bias are those of `p`: channel c's are those of its output. */
void qb_subpixel_conv(const qb_problem *p, const qb_subpixel *s, qb_problem *conv, qb_desc *in);
/* The convolution's constants from those of `p`. The weight is written where it has an element of
 * the kernel: what it holds beforehand stays as the others. Elements of a bias have four bytes. */
void qb_subpixel_weight(const qb_problem *p, const qb_subpixel *s, const char *from, char *to);
void qb_subpixel_bias(const qb_subpixel *s, const char *from, char *to);

#endif
