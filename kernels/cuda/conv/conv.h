/* Convolutions on the device, of 8-bit values and of f16: what host code and device code
 * agree on.
 *
 * Data and result are NHWC. A zero point of the data is folded into the bias: padding is filled
 * with 0, so acc = sum over valid taps of x w, and what is missing, -Zx sum over valid taps of w,
 * depends only on which taps are valid. Output rows (and columns) with the same valid taps form a
 * class; there is a bias for each pair of classes. With Zx = 0 there is one class. */
#ifndef QB_CUDA_CONV_H
#define QB_CUDA_CONV_H

#include <stdint.h>

#include "kernels/cuda/common/tensor_map.h"
#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the weight is packed. */
typedef enum qb_cuda_packing {
    /* s8 (f16 for f16 data) [n_pad][taps][k_pad], channels of each 64 in the order in which the
     * accumulators of the Tensor Cores come to a thread: thread q of four holds columns 8 j + 2 q +
     * e, and row 8 j + 2 q + e of the packed weight is channel 16 q + 2 j + e, so that each thread
     * ends up with 16 consecutive channels: one 16-byte store. With groups, the rows of each 64
     * channels begin at input channel QB_CUDA_CONV_FIRST, and are 0 where another group's data
     * meets them. */
    QB_CUDA_PACKING_TENSOR,
    /* [rows of the kernel][KW / 4][C] words of four taps s8, or [rows][KW][C] floats for f16 */
    QB_CUDA_PACKING_DEPTHWISE,
    /* Operands of mma in the order in which they are read, see conv_stem.cu; channels as in TENSOR.
     * The kernel fills the padding with the data's zero point: one class */
    QB_CUDA_PACKING_STEM,
    /* The same with few channels side by side, see merge_results */
    QB_CUDA_PACKING_STEM_MERGED
} qb_cuda_packing;

/* How accumulators become results. */
typedef enum qb_cuda_epilogue {
#define QB_CUDA_EPILOGUE(NAME, SUMS, BIAS, ACTIVATION, RESIDUAL, STORE, NEXT) QB_EPILOGUE_##NAME,
#include "kernels/cuda/conv/epilogues.def"
#undef QB_CUDA_EPILOGUE
    QB_EPILOGUES
} qb_cuda_epilogue;

/* The sets of epilogues that kernels are compiled for, a bit each. */
#define QB_EPILOGUE_BIT(NAME) (1u << QB_EPILOGUE_##NAME)
#define QB_EPILOGUES_PLAIN (QB_EPILOGUE_BIT(PLAIN) | QB_EPILOGUE_BIT(SATURATE))
#define QB_EPILOGUES_BASIC                                                                         \
    (QB_EPILOGUES_PLAIN | QB_EPILOGUE_BIT(RESIDUAL) | QB_EPILOGUE_BIT(RESIDUAL_SATURATE) |         \
     QB_EPILOGUE_BIT(RESIDUAL_ROUNDED))
#define QB_EPILOGUES_HALO                                                                          \
    (QB_EPILOGUES_BASIC | QB_EPILOGUE_BIT(CLASS) | QB_EPILOGUE_BIT(SILU) | QB_EPILOGUE_BIT(EXACT))
#define QB_EPILOGUES_SHORT                                                                         \
    (QB_EPILOGUES_BASIC | QB_EPILOGUE_BIT(CLASS) | QB_EPILOGUE_BIT(FLOAT_BIAS) |                   \
     QB_EPILOGUE_BIT(FLOAT_BIAS_RESIDUAL) | QB_EPILOGUE_BIT(TO_F16) |                              \
     QB_EPILOGUE_BIT(TO_F16_RESIDUAL) | QB_EPILOGUE_BIT(UNALIGNED))
#define QB_EPILOGUES_ALL                                                                           \
    (QB_EPILOGUES_SHORT | QB_EPILOGUE_BIT(GENERAL) | QB_EPILOGUE_BIT(VECTOR) |                     \
     QB_EPILOGUE_BIT(SILU) | QB_EPILOGUE_BIT(EXACT) | QB_EPILOGUE_BIT(GELU) |                      \
     QB_EPILOGUE_BIT(GELU_COARSE) | QB_EPILOGUE_BIT(TO_F16_GELU))
#define QB_EPILOGUES_F16 (QB_EPILOGUE_BIT(F16) * ((1u << (QB_EPILOGUES - QB_EPILOGUE_F16)) - 1))
#define QB_EPILOGUES_LONG                                                                          \
    (QB_EPILOGUE_BIT(CLASS) | QB_EPILOGUE_BIT(GENERAL) | QB_EPILOGUE_BIT(F16) |                    \
     QB_EPILOGUE_BIT(F16_GENERAL))
#define QB_EPILOGUES_STEM                                                                          \
    (QB_EPILOGUES_PLAIN | QB_EPILOGUE_BIT(GENERAL) | QB_EPILOGUE_BIT(VECTOR) |                     \
     QB_EPILOGUE_BIT(F16) | QB_EPILOGUE_BIT(F16_GENERAL) | QB_EPILOGUE_BIT(F16_VECTOR) |           \
     QB_EPILOGUE_BIT(F16_SILU))
#define QB_EPILOGUES_STEM_WGMMA                                                                    \
    (QB_EPILOGUES_PLAIN | QB_EPILOGUE_BIT(VECTOR) | QB_EPILOGUE_BIT(SILU) | QB_EPILOGUE_BIT(EXACT))
#define QB_EPILOGUES_SPLITK                                                                        \
    (QB_EPILOGUES_LONG | QB_EPILOGUE_BIT(RESIDUAL) | QB_EPILOGUE_BIT(F16_RESIDUAL))

/* What the coarse SiLU and GELU may be off by: see qb_silu_coarse and qb_gelu_coarse. */
#define QB_CUDA_SILU_COARSE 2.5e-3f
#define QB_CUDA_GELU_COARSE 1.2e-3f

/* Passed by value to the kernels. Sizes in elements, offsets into `packed` in bytes. */
typedef struct qb_cuda_conv {
    int32_t batch, in_h, in_w, in_c, out_h, out_w, out_c, group;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    int32_t in_total, in_offset, out_total, out_offset, res_total, res_offset; /* channel slices */
    int32_t rows;                 /* batch out_d out_h out_w */
    int32_t k_pad, n_pad;         /* of the packed weight */
    int32_t col_classes;          /* classes of columns */
    int32_t classes;              /* of pixels; 1: no look-up */
    int32_t middle;               /* the class of the pixel in the middle of the result */
    int32_t splits;               /* of K; 1: none */
    int32_t in_signed;            /* data is s8 */
    int32_t in_pieces_of_8;       /* channels come in pieces of 8 bytes, not 16 */
    int32_t epilogue;             /* qb_cuda_epilogue: the shortest that takes the problem */
    int32_t out_dtype, res_dtype; /* qb_dtype; res_dtype NONE: no residual */
    int32_t act, act_first;
    float act_alpha, act_beta;
    float inverse, lowest, highest; /* 1 / Sy; bounds of the quantized value less its zero point, or
                                       of the float where the result is one */
    int32_t out_zero;
    float res_scale;
    int32_t res_zero;
    int32_t has_float_bias;
    int32_t wide;   /* 16 channels of the result lie together and on a boundary */
    int32_t eights; /* 8 do, of the residual, too */
    int32_t fill;   /* the value of padding */
    int32_t merged; /* neighbouring results that are taken as one: see merge_results */
    /* of volumes; behind the others, whose places decide about registers of the wgmma kernels */
    int32_t in_d, out_d, kernel_d, stride_d, pad_d, dilation_d;
    int32_t taps; /* of the kernel */
    /* values that are rounded before the residual is added (qb_problem.rounding), their bounds as
       `lowest` and `highest`; an activation before the residual is among these */
    int32_t rounds;
    float first_inverse, first_scale, first_lowest, first_highest;
    int64_t at_multiplier, at_bias, at_float_bias, at_row_class, at_col_class, packed_bytes;
} qb_cuda_conv;

typedef struct qb_cuda_conv_io {
    const void *in, *residual;
    void *out;
    const char *packed;
    void *workspace;
} qb_cuda_conv_io;

/* Fills *conv from the problem; false when it is no convolution of 8-bit values (or f16) with a
 * constant weight. Volumes of which the kernel looks at planes or at lines alone become images;
 * others (qb_cuda_conv_is_volume) are for packing TENSOR. `block_k`, `block_n`: what k_pad and
 * n_pad are multiples of, in elements. */
bool qb_cuda_conv_of(const qb_problem *p, const bool *constant, qb_cuda_packing packing,
                     int32_t block_k, int32_t block_n, qb_cuda_conv *conv);
/* Fills in the sizes, the window and the channel slices alone, of data of any type; false when it
 * is no convolution of known size. */
bool qb_cuda_conv_geometry(const qb_problem *p, qb_cuda_conv *conv);
static inline bool qb_cuda_conv_is_volume(const qb_cuda_conv *conv) {
    /* padding alone: a plane outside of the data */
    return conv->in_d > 1 || conv->kernel_d > 1 || conv->out_d > 1 || conv->pad_d > 0;
}
/* Input channel at which the packed weight of the 64 output channels from `channel` on begins: the
 * first of their groups, from a boundary of 16 on. */
#define QB_CUDA_CONV_FIRST(conv, channel)                                                          \
    ((channel) / ((conv)->out_c / (conv)->group) * ((conv)->in_c / (conv)->group) / 16 * 16)
/* Input channels that 64 output channels meet, the most of all; all of them with one group. */
int32_t qb_cuda_conv_span(const qb_cuda_conv *conv);
/* Is the data f16? Then the weight is f16 or float, and sums and bias are floats. */
static inline bool qb_cuda_conv_is_f16(const qb_cuda_conv *conv) {
    return conv->epilogue >= QB_EPILOGUE_F16;
}
/* The epilogue of the set that takes the problem: its own, or the next one that is more general;
 * QB_EPILOGUES: none. */
qb_cuda_epilogue qb_cuda_conv_epilogue(const qb_cuda_conv *conv, uint32_t set);
/* Does no output reach beyond the data, of windows up to 63 x 63? Then a zero point of the data
 * means the same everywhere. Only for data whose zero point is not 0. */
bool qb_cuda_conv_is_inside(const qb_cuda_conv *conv);
/* qb_kernel.packing_id: borders that have a bias of their own are those of one size of image, and
 * where all outputs have the same bias it is that of the taps on the data. */
uint64_t qb_cuda_conv_packing_id(const qb_cuda_conv *conv);
/* Writes all constants (host memory, conv->packed_bytes). */
void qb_cuda_conv_pack(const qb_problem *p, const qb_cuda_conv *conv, qb_cuda_packing packing,
                       const void *const *constants, void *packed);

/* What a launcher gets. `io` NULL: it loads the kernel's code and asks for its shared memory, which
 * comes before the first launch on a device, outside of any capture. */
typedef struct qb_cuda_conv_call {
    const qb_cuda_conv *conv;
    const qb_cuda_conv_io *io;
    const qb_cuda_tensor_maps *maps;
    int32_t multiprocessors;
    void *stream;
} qb_cuda_conv_call;
/* Returns a code of the CUDA runtime (0: fine). */
typedef int qb_cuda_conv_run(const qb_cuda_conv_call *call);

qb_cuda_conv_run qb_cuda_conv_depthwise, qb_cuda_conv_stem, qb_cuda_conv_stem_wgmma;
/* Whether a tile takes a problem that is lowered to its sizes and epilogues. */
typedef bool qb_cuda_conv_fits(const qb_cuda_conv *conv);
#define QB_CUDA_TILE(ARCHITECTURE, KERNEL, TYPE, M, N, K, ...)                                     \
    qb_cuda_conv_run qb_cuda_conv_##TYPE##_##KERNEL##_##M##x##N##x##K;                             \
    qb_cuda_conv_fits qb_cuda_fits_##TYPE##_##KERNEL##_##M##x##N##x##K;
#include "kernels/cuda/conv/tiles.def"
#undef QB_CUDA_TILE

int qb_cuda_conv_stem_shared(const qb_cuda_conv *conv); /* bytes of shared memory */

/* Compute capability 9.0. A block computes so many rows; its shared memory holds 2 KiB of weight
 * for each row of the kernel, and lines of entries of 16 bytes. */
#define QB_CUDA_STEM_ROWS 4
#define QB_CUDA_STEM_ENTRIES 132
#define QB_CUDA_STEM_LINES(conv) ((QB_CUDA_STEM_ROWS - 1) * (conv)->stride_h + (conv)->kernel_h)
/* 1 KiB more: compute-sanitizer takes an operand whose halves overlap for 2 KiB in one piece. */
#define QB_CUDA_STEM_SHARED(conv)                                                                  \
    ((conv)->kernel_h * 2048 + QB_CUDA_STEM_LINES(conv) * QB_CUDA_STEM_ENTRIES * 16 + 1024)
#define QB_CUDA_STEM_SHARED_MOST 75776 /* three blocks fit */
/* Can conv_stem_wgmma.cu compute it? */
bool qb_cuda_stem_fits(const qb_cuda_conv *conv);

/* The same with a max pool of its values behind it, of which two windows share a row and a column
 * at most. `conv` writes where the pool does; `rows`, `columns`: of the pool's result, that a block
 * computes. */
typedef struct qb_cuda_stem_pool {
    qb_cuda_conv conv;
    int32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, out_h, out_w, rows, columns;
} qb_cuda_stem_pool;
#define QB_CUDA_STEM_POOL_LINES(p, rows)                                                           \
    ((((rows)-1) * (p)->stride_h + (p)->kernel_h - 1) * (p)->conv.stride_h + (p)->conv.kernel_h)
#define QB_CUDA_STEM_POOL_STAGE 8320 /* a row of the convolution's values, twice */
#define QB_CUDA_STEM_POOL_SHARED(p, rows)                                                          \
    ((p)->conv.kernel_h * 2048 + QB_CUDA_STEM_POOL_LINES(p, rows) * QB_CUDA_STEM_ENTRIES * 16 +    \
     2 * QB_CUDA_STEM_POOL_STAGE)
#define QB_CUDA_STEM_POOL_SHARED_MOST 115712 /* two blocks fit */
/* `io` NULL: only loads the quantized value, see qb_cuda_conv_call. */
int qb_cuda_conv_stem_pool_wgmma(const qb_cuda_stem_pool *p, const qb_cuda_conv_io *io,
                                 void *stream);

#define QB_CUDA_MMA_STAGES(k) ((k) == 64 ? 4 : 3) /* of k bytes, in shared memory */
#define QB_CUDA_MMA_SHARED(rows, channels, k) (QB_CUDA_MMA_STAGES(k) * ((rows) + (channels)) * (k))
/* The epilogue of sums, int32 or float, without bias in the workspace, [splits][rows][n_pad], by
 * the constants of packing TENSOR: what the split-K kernels do last. */
int qb_cuda_conv_reduce(const qb_cuda_conv *conv, const qb_cuda_conv_io *io, void *stream);

/* Bytes of shared memory that a block of the wgmma kernels shares out, at most. */
#define QB_CUDA_WGMMA_SHARED 232448

/* The weight-stationary kernels, for windows of one pixel. Shared memory beside the rings: 1024 to
 * align them, the weight, 128 for its barrier. */
#define QB_CUDA_STATIONARY_FIXED(conv, channels) (1024 + (channels) * (conv)->k_pad + 128)
#define QB_CUDA_STATIONARY_LEAST 3
#define QB_CUDA_STATIONARY_MOST 12
/* Stages in the ring of each warp group, of 64 rows of a step or of a result and two barriers: as
 * many as fit, MOST at most. With fewer than LEAST, copies do not run ahead. */
int32_t qb_cuda_stationary_stages(const qb_cuda_conv *conv, int32_t channels, int32_t block_k,
                                  int32_t groups);

/* The halo kernels, which copy a tile of the data and its halo for each column of the window. */
#define QB_CUDA_HALO_LEAST 3
#define QB_CUDA_HALO_MOST 12
/* A tile: lines x pixels of one image, eights of them. A stage of the ring holds the lines of one
 * column of the window: as many stages as fit, MOST at most. With fewer than LEAST, copies do not
 * run ahead. */
typedef struct qb_cuda_halo {
    int32_t rows, columns, stages, stage_bytes, shared_bytes;
} qb_cuda_halo;
/* The tile of at most so many pixels that copies and multiplies the least. False where the kernel
 * does not take the problem, or its ring does not fit. */
bool qb_cuda_halo_of(const qb_cuda_conv *conv, int32_t channels, int32_t pixels, qb_cuda_halo *out);

#ifdef __cplusplus
}
#endif
#endif
