/* Convolution by F(2x2, 3x3) of Winograd (Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks", 2016): windows of 3 x 3 that move by 1 and have no dilation, with 16 products for four
 * outputs instead of 36.
 *
 *     Y = A^T [ sum over channels (G g G^T) * (B^T d B) ] A
 *
 * d are 4 x 4 inputs of a tile, g the window's weights, Y 2 x 2 outputs. Each of the 16 elements of
 * a tile is a matrix product of its own, [tiles, channels] x [channels, outputs], by the tiles of
 * conv_internal.h.
 *
 * Integers: quantized values less their zero point are 9 bits, transformed 11; weights are
 * transformed by 2G instead of G, 12 bits, so that all numbers are integers of 16 bits and sums are
 * four times the convolution's. All of it is exact modulo 2^32, and so is the result as long as
 * four times a sum fits in 32 bits.
 *
 * Floats: what is transformed is rounded. An output's error is that of sums over a tile's 16 inputs
 * instead of the window's 9, so an infinite input reaches the four outputs of its tile. The order
 * of all operations is that of one tile, so results are the same bits for any batch and number of
 * threads. */
#ifndef QB_CPU_WINOGRAD_INTERNAL_H
#define QB_CPU_WINOGRAD_INTERNAL_H

#include "conv_internal.h"

enum { QB_WINOGRAD_IN = 4, QB_WINOGRAD_OUT = 2, QB_WINOGRAD_PLANES = 16 };

/* The inputs of one tile. */
typedef struct qb_winograd_in {
    const char *from[QB_WINOGRAD_PLANES]; /* channels of each place */
    int64_t channels;
    int32_t zero; /* integers: of the data */
    bool is_signed;
    char *to;     /* element 0 of the tile; whole vectors are written */
    size_t plane; /* bytes to the next element */
} qb_winograd_in;

/* The outputs of one tile. */
typedef struct qb_winograd_out {
    const char *from;  /* element 0: sums of tile->vectors vectors */
    size_t plane;      /* bytes to the next element */
    const void *start; /* bias */
    int rows, columns; /* of the 2 x 2 outputs, those that exist */
    const qb_tile *tile;
} qb_winograd_out;

/* One way to compute them. */
typedef struct qb_winograd_arch {
    const qb_conv_arch *product; /* tiles of f32 or of pairs of int16 */
    void (*in)(const qb_winograd_in *in);
    void (*out)(const qb_winograd_out *out);
} qb_winograd_arch;

bool qb_winograd_supports(const qb_problem *p, const bool *constant, qb_dtype data);
qb_status qb_winograd_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                             const qb_winograd_arch *arch, qb_kernel **out);

#endif
