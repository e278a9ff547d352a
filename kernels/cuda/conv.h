/* Convolutions on the device, of 8-bit codes and of f16: what host code and device code agree on.
 *
 * Data and result are NHWC. A zero point of the data is folded into the bias: padding is filled
 * with code 0, so acc = sum over valid taps of x w, and what is missing, -Zx sum over valid taps of
 * w, depends only on which taps are valid. Output rows (and columns) with the same valid taps form
 * a class; there is a bias for each pair of classes. With Zx = 0 there is one class. */
#ifndef QB_CUDA_CONV_H
#define QB_CUDA_CONV_H

#include <stdint.h>

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the packed weight lies. */
typedef enum qb_cuda_form {
    QB_CUDA_FORM_DIRECT, /* s16 [M][taps][C / g], zero points subtracted */
    /* s8 (f16 for f16 data) [n_pad][taps][k_pad], channels of each 64 in the order in which the
     * accumulators of the Tensor Cores come to a thread: thread q of four holds columns 8 j + 2 q +
     * e, and row 8 j + 2 q + e of the packed weight is channel 16 q + 2 j + e, so that each thread
     * ends up with 16 consecutive channels: one 16-byte store. */
    QB_CUDA_FORM_TENSOR,
    /* [rows of the kernel][KW / 4][C] words of four taps s8, or [rows][KW][C] floats for f16 */
    QB_CUDA_FORM_DEPTHWISE,
    /* Operands of mma in the order in which they are read, see conv_stem.cu; channels as in TENSOR
     */
    QB_CUDA_FORM_STEM,
    /* The same for a kernel that fills the padding with the data's zero point: one class */
    QB_CUDA_FORM_STEM_FILLED
} qb_cuda_form;

/* How accumulators become results; kernels are compiled for each. All but GENERAL write 16 results
 * at once; ReLU and Clip are bounds of the code, or of the real value where the result is one. Code
 * that does not fit the caches of instructions takes more time than it computes: the frequent ends
 * are unrolled, each a kernel of 20 to 60 KB; of GENERAL, REAL and RAGGED, which are long, those on
 * the Tensor Cores loop over a thread's rows (qb_take16). */
typedef enum qb_cuda_mode {
    QB_CUDA_PLAIN,         /* int32 bias, one class */
    QB_CUDA_PLAIN_ZERO,    /* ... and the code less its zero point is 0 to 255: packing saturates */
    QB_CUDA_RESIDUAL,      /* PLAIN and a residual of codes */
    QB_CUDA_RESIDUAL_ZERO, /* ... with the bounds of PLAIN_ZERO */
    QB_CUDA_BORDER,        /* a bias for each class */
    QB_CUDA_GENERAL,       /* everything, element by element */
    QB_CUDA_REAL,          /* GENERAL where `real` is set: 16 real values at once */
    QB_CUDA_SILU,          /* coarse SiLU to codes, then maybe a residual of codes */
    QB_CUDA_FLOAT,         /* PLAIN with a float bias */
    QB_CUDA_FLOAT_RESIDUAL,   /* ... and a residual of codes */
    QB_CUDA_TO_HALF,          /* bounds of the real value, or none, to f16; float bias or none */
    QB_CUDA_TO_HALF_RESIDUAL, /* ... and a residual of codes before the bounds */
    QB_CUDA_GELU,             /* coarse GELU to codes; float bias or none */
    QB_CUDA_RAGGED,           /* bounds, or none; to channels on no boundary, or f32 */
    QB_CUDA_HALF,             /* f16: float bias and bounds to f16 */
    QB_CUDA_HALF_RESIDUAL,    /* ... and a residual in f16 */
    QB_CUDA_HALF_GENERAL,     /* f16 data to everything, element by element */
    QB_CUDA_HALF_REAL,        /* HALF_GENERAL where `real` is set */
    QB_CUDA_HALF_GELU,        /* GELU to f16 */
    QB_CUDA_HALF_SILU,        /* SiLU to f16, then maybe a residual in f16 */
    QB_CUDA_HALF_RAGGED       /* RAGGED of f16 data */
} qb_cuda_mode;

/* What the coarse SiLU and GELU may be off by: see qb_silu_coarse and qb_gelu_coarse. */
#define QB_CUDA_SILU_COARSE 2.5e-3f
#define QB_CUDA_GELU_COARSE 1.2e-3f

/* Passed by value to the kernels. Sizes in elements, offsets into `packed` in bytes. */
typedef struct qb_cuda_conv {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, group;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int32_t in_total, in_offset, out_total, out_offset, res_total, res_offset; /* channel slices */
    int32_t rows;         /* batch out_h out_w */
    int32_t k_pad, n_pad; /* of the packed weight */
    int32_t col_classes;  /* classes of columns */
    int32_t classes;      /* pairs of classes; 1: no look-up */
    int32_t middle;       /* the pair that the pixel in the middle of the result has */
    int32_t splits;       /* of K; 1: none */
    int32_t in_signed;    /* data is s8 */
    int32_t narrow;       /* channels come in pieces of 8 bytes, not 16 */
    int32_t half;         /* data is f16: weight f16 or float, float sums and bias */
    int32_t mode;         /* qb_cuda_mode, one of those without activations */
    int32_t brief; /* `mode`, and where that is a general one the shortest that takes the problem */
    int32_t out_dtype, res_dtype; /* qb_dtype; res_dtype NONE: no residual */
    int32_t act, act_first;
    float act_alpha, act_beta;
    float inverse, lowest, highest; /* 1 / Sy; bounds of the code less its zero point, or of the
                                       real value where the result is no code */
    int32_t out_zero;
    float res_scale;
    int32_t res_zero;
    int32_t has_float_bias;
    int32_t wide;   /* 16 channels of the result lie together and on a boundary */
    int32_t real;   /* in the general modes: result and residual codes or f16, wide (else any result
                       and no residual), and an activation that is a bound, GELU or SiLU; kernels
                       may take (HALF_)REAL */
    int32_t fill;   /* the code of padding */
    int32_t paired; /* two neighbouring results of 32 channels are taken as one of 64: see
                       pair_results */
    int64_t at_multiplier, at_bias, at_float_bias, at_row_class, at_col_class, packed_bytes;
} qb_cuda_conv;

typedef struct qb_cuda_conv_io {
    const void *in, *residual;
    void *out;
    const char *packed;
    void *workspace;
} qb_cuda_conv_io;

/* Fills *conv from the problem; false when it is no 2-D (or 1-D) convolution of 8-bit codes (or
 * f16) with a constant weight. `block_k`, `block_n`: what k_pad and n_pad are multiples of, in
 * elements. */
bool qb_cuda_conv_of(const qb_problem *p, const bool *constant, qb_cuda_form form, int32_t block_k,
                     int32_t block_n, qb_cuda_conv *conv);
/* Fills in the sizes, the window and the channel slices alone, of data of any type; false when it
 * is no 2-D (or 1-D) convolution of known size. */
bool qb_cuda_conv_geometry(const qb_problem *p, qb_cuda_conv *conv);
/* Does no output reach beyond the data, of windows up to 63 x 63? Then a zero point of the data
 * means the same everywhere. Only for data whose zero point is not 0. */
bool qb_cuda_conv_is_inside(const qb_cuda_conv *conv);
/* qb_kernel.packed_form: borders that have a bias of their own are those of one size of image, and
 * where all outputs have the same bias it is that of the taps on the data. */
uint64_t qb_cuda_conv_packed_form(const qb_cuda_conv *conv);
/* Writes all constants (host memory, conv->packed_bytes). */
void qb_cuda_conv_pack(const qb_problem *p, const qb_cuda_conv *conv, qb_cuda_form form,
                       const void *const *constants, void *packed);

/* The driver's cuTensorMapEncodeIm2col and cuTensorMapEncodeTiled. */
typedef struct qb_cuda_encode {
    void *im2col, *tiled;
} qb_cuda_encode;

/* The launchers return a code of the CUDA runtime (0: fine). `prepare` comes before a launch; the
 * first one on a device is outside of any capture, since it loads code. */
int qb_cuda_conv_direct(const qb_cuda_conv *conv, const qb_cuda_conv_io *io, void *stream);

int qb_cuda_conv_depthwise(const qb_cuda_conv *conv, const qb_cuda_conv_io *io,
                           const qb_cuda_encode *encode, int32_t multiprocessors, void *stream);
int qb_cuda_conv_stem(const qb_cuda_conv *conv, const qb_cuda_conv_io *io,
                      const qb_cuda_encode *encode, int32_t multiprocessors, void *stream);
int qb_cuda_conv_stem_shared(const qb_cuda_conv *conv); /* bytes of shared memory */

/* Compute capability 9.0; modes PLAIN, PLAIN_ZERO, REAL and SILU. A block computes so many rows;
 * its shared memory holds 2 KiB of weight for each row of the kernel, and lines of entries of 16
 * bytes.
 */
#define QB_CUDA_STEM_ROWS 4
#define QB_CUDA_STEM_ENTRIES 132
#define QB_CUDA_STEM_LINES(conv) ((QB_CUDA_STEM_ROWS - 1) * (conv)->stride_h + (conv)->kernel_h)
/* 1 KiB more: compute-sanitizer takes an operand whose halves overlap for 2 KiB in one piece. */
#define QB_CUDA_STEM_SHARED(conv)                                                                  \
    ((conv)->kernel_h * 2048 + QB_CUDA_STEM_LINES(conv) * QB_CUDA_STEM_ENTRIES * 16 + 1024)
#define QB_CUDA_STEM_SHARED_MOST 75776 /* three blocks find room */
/* Can conv_stem_wgmma.cu compute it? */
bool qb_cuda_stem_fits(const qb_cuda_conv *conv);
int qb_cuda_conv_stem_wgmma_prepare(qb_cuda_mode mode);
int qb_cuda_conv_stem_wgmma(const qb_cuda_conv *conv, const qb_cuda_conv_io *io,
                            const qb_cuda_encode *encode, int32_t multiprocessors, void *stream);

/* The same with a max pool of its codes behind it, of which two windows share a row and a column at
 * most. `conv` writes where the pool does; `rows`, `columns`: of the pool's result, that a block
 * computes. */
typedef struct qb_cuda_stem_pool {
    qb_cuda_conv conv;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, out_h, out_w, rows, columns;
} qb_cuda_stem_pool;
#define QB_CUDA_STEM_POOL_LINES(p, rows)                                                           \
    ((((rows)-1) * (p)->stride_h + (p)->kernel_h - 1) * (p)->conv.stride_h + (p)->conv.kernel_h)
#define QB_CUDA_STEM_POOL_STAGE 8320 /* a row of the convolution's codes, twice */
#define QB_CUDA_STEM_POOL_SHARED(p, rows)                                                          \
    ((p)->conv.kernel_h * 2048 + QB_CUDA_STEM_POOL_LINES(p, rows) * QB_CUDA_STEM_ENTRIES * 16 +    \
     2 * QB_CUDA_STEM_POOL_STAGE)
#define QB_CUDA_STEM_POOL_SHARED_MOST 115712 /* two blocks find room */
int qb_cuda_conv_stem_pool_wgmma_prepare(qb_cuda_mode mode);
int qb_cuda_conv_stem_pool_wgmma(const qb_cuda_stem_pool *p, const qb_cuda_conv_io *io,
                                 void *stream);

/* Tiles of the mma.sync kernels (compute capability 8.0 and later). */
typedef enum qb_cuda_mma_tile {
    QB_CUDA_MMA_128X128,
    QB_CUDA_MMA_128X64,
    QB_CUDA_MMA_64X64,
    QB_CUDA_MMA_TILES
} qb_cuda_mma_tile;
/* Bytes of shared memory: four steps of 64 bytes of K. */
#define QB_CUDA_MMA_SHARED(rows, channels) (4 * ((rows) + (channels)) * 64)
int qb_cuda_conv_mma_prepare(qb_cuda_mma_tile tile, qb_cuda_mode mode);
int qb_cuda_conv_mma(qb_cuda_mma_tile tile, const qb_cuda_conv *conv, const qb_cuda_conv_io *io,
                     void *stream);

/* The end of a step on int32 sums without bias in the workspace, [splits][rows][n_pad], by the
 * constants of form TENSOR: what the splitting kernels do last. */
int qb_cuda_conv_finish(const qb_cuda_conv *conv, const qb_cuda_conv_io *io, void *stream);

/* Tiles of the wgmma kernels (compute capability 9.0): rows x channels x bytes of K, groups of
 * warps, whether they share a tile, and whether there are kernels of the modes GENERAL, REAL, SILU
 * and GELU. */
#define QB_CUDA_WGMMA_LIST(X)                                                                      \
    X(64, 128, 64, 3, 0, 0)                                                                        \
    X(64, 128, 128, 3, 0, 0)                                                                       \
    X(128, 64, 64, 3, 0, 1)                                                                        \
    X(128, 64, 128, 3, 0, 0)                                                                       \
    X(128, 128, 128, 2, 0, 1)                                                                      \
    X(128, 256, 128, 2, 1, 1)                                                                      \
    X(256, 64, 64, 2, 1, 0)                                                                        \
    X(256, 128, 128, 2, 1, 1)
#define QB_CUDA_WGMMA_SHARED 232448 /* bytes of shared memory that they share out, at most */
qb_status qb_cuda_encode_find(qb_ctx *cx, qb_cuda_encode *out);
#define X(m, n, k, groups, share, general)                                                         \
    int qb_cuda_conv_wgmma_##m##x##n##x##k##_prepare(qb_cuda_mode mode);                           \
    int qb_cuda_conv_wgmma_##m##x##n##x##k(const qb_cuda_conv *conv, const qb_cuda_conv_io *io,    \
                                           const qb_cuda_encode *encode, int32_t multiprocessors,  \
                                           void *stream);
QB_CUDA_WGMMA_LIST(X)
#undef X

/* The kernels that keep the weight in shared memory, for windows of one pixel and the first four
 * modes: channels x bytes of K a step, groups of warps. */
#define QB_CUDA_RESIDENT_LIST(X)                                                                   \
    X(64, 64, 4)                                                                                   \
    X(64, 128, 4)                                                                                  \
    X(128, 64, 3)                                                                                  \
    X(128, 128, 3)
/* Shared memory beside the rings: 1024 to align them, the weight, 128 for its barrier. */
#define QB_CUDA_RESIDENT_FIXED(conv, channels) (1024 + (channels) * (conv)->k_pad + 128)
#define QB_CUDA_RESIDENT_LEAST 3
#define QB_CUDA_RESIDENT_MOST 12
/* Places in the ring of each group, of 64 rows of a step or of a result and two barriers: as many
 * as fit, MOST at most. With fewer than LEAST, copies do not run ahead. */
int32_t qb_cuda_resident_places(const qb_cuda_conv *conv, int32_t channels, int32_t block_k,
                                int32_t groups);
#define X(n, k, groups)                                                                            \
    int qb_cuda_conv_resident_64x##n##x##k##_prepare(qb_cuda_mode mode);                           \
    int qb_cuda_conv_resident_64x##n##x##k(const qb_cuda_conv *conv, const qb_cuda_conv_io *io,    \
                                           const qb_cuda_encode *encode, int32_t multiprocessors,  \
                                           void *stream);
QB_CUDA_RESIDENT_LIST(X)
#undef X

/* The kernels that bring a box of the data for each column of the window: pixels x channels of a
 * tile, and the modes up to BORDER, and SILU. */
#define QB_CUDA_WINDOW_LIST(X)                                                                     \
    X(256, 64)                                                                                     \
    X(128, 128)
#define QB_CUDA_BOXES_LEAST 3
#define QB_CUDA_BOXES_MOST 12
/* A tile: lines x pixels of one image, eights of them. The ring's places hold a box each: as many
 * as fit, MOST at most. With fewer than LEAST, copies do not run ahead. */
typedef struct qb_cuda_boxes {
    int32_t rows, columns, stages, stage_bytes, shared_bytes;
} qb_cuda_boxes;
/* The tile of at most so many pixels that brings and multiplies the least. False where the kernel
 * does not take the problem, or its ring has no room. */
bool qb_cuda_boxes_of(const qb_cuda_conv *conv, int32_t channels, int32_t pixels,
                      qb_cuda_boxes *out);
#define X(pixels, n)                                                                               \
    int qb_cuda_conv_window_##pixels##x##n##x64_prepare(qb_cuda_mode mode);                        \
    int qb_cuda_conv_window_##pixels##x##n##x64(                                                   \
        const qb_cuda_conv *conv, const qb_cuda_conv_io *io, const qb_cuda_encode *encode,         \
        int32_t multiprocessors, void *stream);
QB_CUDA_WINDOW_LIST(X)
#undef X

/* The wgmma kernels for f16, K still in bytes; all have a kernel of mode HALF_GENERAL. */
#define QB_CUDA_WGMMA_HALF_LIST(X)                                                                 \
    X(64, 128, 128, 3, 0)                                                                          \
    X(128, 64, 128, 3, 0)                                                                          \
    X(128, 128, 128, 2, 0)                                                                         \
    X(256, 128, 128, 2, 1)
#define X(m, n, k, groups, share)                                                                  \
    int qb_cuda_conv_half_##m##x##n##x##k##_prepare(qb_cuda_mode mode);                            \
    int qb_cuda_conv_half_##m##x##n##x##k(const qb_cuda_conv *conv, const qb_cuda_conv_io *io,     \
                                          const qb_cuda_encode *encode, int32_t multiprocessors,   \
                                          void *stream);
QB_CUDA_WGMMA_HALF_LIST(X)
#undef X

#ifdef __cplusplus
}
#endif
#endif
