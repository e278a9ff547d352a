/* im2col: the pixels under each window as a row of a matrix. */
#ifndef QB_CUDA_IM2COL_H
#define QB_CUDA_IM2COL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Images [batch][in[0]][in[1]][row elements], channels last; axes are planes, rows and elements of
 * a row. A window has lines[0] x lines[1] x lines[2] lines, `dilation` apart along each axis, of
 * `line` elements that lie together; windows are `stride` apart, out[0] x out[1] x out[2] of them,
 * and the first one begins `pad` before the image. */
typedef struct qb_cuda_im2col {
    int32_t batch, in[3], lines[3], line;
    int32_t out[3], stride[3], dilation[3], pad[3];
    int32_t size;   /* bytes of an element: 1, 2 or 4 */
    int32_t pieces; /* of 16 bytes, of a window */
    uint32_t fill;  /* elements that lie around the image, as many as four bytes have */
} qb_cuda_im2col;

/* out [batch out][pieces], 16 bytes each; behind a window's elements `fill`. Returns a code of the
 * CUDA runtime. */
int qb_cuda_im2col_run(const qb_cuda_im2col *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif
