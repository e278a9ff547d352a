/* im2col: the pixels under each window as a row of a matrix. */
#ifndef QB_CUDA_IM2COL_H
#define QB_CUDA_IM2COL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Images [batch][in_h][row elements], channels last. A window has `lines` lines of `line` elements
 * that lie together; windows are `stride_h` rows and `step` elements apart, out_h x out_w of them,
 * and the first one begins `pad_h` rows and `pad` elements before the image. */
typedef struct qb_cuda_im2col {
    int32_t batch, in_h, row, lines, line;
    int32_t out_h, out_w, stride_h, step, pad_h, pad;
    int32_t size;   /* bytes of an element: 1, 2 or 4 */
    int32_t pieces; /* of 16 bytes, of a window */
    uint32_t fill;  /* elements that lie around the image, as many as four bytes have */
} qb_cuda_im2col;

/* out [batch out_h out_w][pieces], 16 bytes each; behind a window's elements `fill`. Returns a code
 * of the CUDA runtime. */
int qb_cuda_im2col_run(const qb_cuda_im2col *p, const void *in, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif
