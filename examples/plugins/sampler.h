/* What the two files of the sampler share. */
#ifndef SAMPLER_H
#define SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One bilinear sampling, row-major: image [items, channels, in_height, in_width], grid [items,
 * height, width, 2] with x, y in [-1, 1], out [items, channels, height, width]. */
typedef struct sampling {
    int64_t items, channels, in_height, in_width, height, width;
    int align_corners; /* -1 and 1 are the centres of the corner pixels, not their outer edges */
} sampling;

/* Launches it on the stream, on device memory; `half`: image and out are float16. Returns NULL, or
 * what CUDA says. */
const char *sampler_launch(const sampling *s, const void *image, const float *grid, void *out,
                           int half, void *stream);

#ifdef __cplusplus
}
#endif
#endif
