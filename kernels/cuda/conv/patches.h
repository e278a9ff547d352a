/* Pixels under windows that do not overlap, as rows of a matrix. */
#ifndef QB_CUDA_PATCHES_H
#define QB_CUDA_PATCHES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An image [batch][in_h][in_w][channels] of pieces of 16 bytes: a line of a window is `line` pieces
 * together. Windows are `lines` high and lie side by side, out_h x out_w of them. */
typedef struct qb_cuda_patches {
    int32_t batch, out_h, out_w, lines, line;
    int64_t row_pieces, image_pieces; /* of a row of the image, and of all of it */
} qb_cuda_patches;

/* out [batch out_h out_w][lines][line pieces]. Returns a code of the CUDA runtime. */
int qb_cuda_patches_run(const qb_cuda_patches *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif
