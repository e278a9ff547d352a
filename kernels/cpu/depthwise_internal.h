/* Depthwise convolution (one input channel a group, and one output channel or a few) over
 * channels-last data. Each channel is its own small filter, so vectors run along the channels;
 * bound by loads and, for quantized values, by the shuffles that bring taps side by side. Of
 * several outputs a group each reads a copy of its channel.
 *
 * Grouped convolution of a few channels, as many outputs as inputs (cardinality 32 of ResNeXt), is
 * the same with more weights a tap: vectors run along the outputs of several groups, and a shuffle
 * brings a group's inputs to each of its outputs.
 *
 * Where channels do not fill vectors, output pixels side by side do: n of them are one pixel of n
 * times the channels (`fold`), whose taps lie side by side in a copy of the data with its padding.
 *
 * Taps outside the data read a row of zeros (of zero points), so there is one code path and one
 * correction for the zero point. */
#ifndef QB_CPU_DEPTHWISE_INTERNAL_H
#define QB_CPU_DEPTHWISE_INTERNAL_H

#include "cpu_internal.h"

#define QB_DW_TAPS 4096    /* most taps of a window: their addresses lie on the stack */
#define QB_DW_FEW_TAPS 256 /* whose addresses are worth keeping for all blocks */

typedef struct qb_dw_block { /* channels that go through the loops together */
    int64_t channel;
    int width, lanes; /* width: channels to store; lanes: 16, 32, 64 */
    size_t weight;    /* bytes in packed */
    size_t start;     /* sums, then multipliers and float biases, `lanes` of each */
} qb_dw_block;

typedef struct qb_dw qb_dw;

/* One row of output, or a few: where their taps are. */
typedef struct qb_dw_row {
    const char *in; /* the image, first channel of the slice */
    int64_t out_z, out_y;
    int rows;                       /* from out_y on, all in this plane */
    int32_t first_block, end_block; /* of these channels */
    char *out;                      /* the row's first pixel */
    const char *residual;
    const char *packed;
} qb_dw_row;

typedef struct qb_dw_arch {
    bool integer;
    bool wide_weights; /* it takes weights of 16 bits (qb_cpu_is_weight) */
    int lanes[3];      /* widths of blocks, largest first; 0: none */
    bool slides;       /* see qb_dw_slides */
    bool by_rows;      /* tap_group rows of a sliding window make groups, not neighbours in a row */
    int most_inputs;   /* of a group: all powers of two up to it; 0: one */
    int tap_group;     /* weights of a channel that are multiplied together */
    int group_bytes;   /* of theirs, for one channel */
    int rows_3x3;      /* most rows that `row` takes at once for a 3x3 window; 0: one */
    int32_t flip;      /* what reading s8 as unsigned quantized values adds to them */
    /* Packs one block: the weights of its channel i are weight[i * weights ...], floats or int16,
     * in the problem's order (see qb_dw_weight); `start` (int32 or float), multiplier and bias have
     * an entry for each of the block's lanes. */
    void (*pack)(const qb_dw *dw, const qb_dw_block *block, const void *weight, const void *start,
                 const float *multiplier, const float *bias, char *packed);
    /* The blocks named in `row` of one row, or of row->rows of them. */
    void (*row)(const qb_dw *dw, const qb_dw_row *row);
} qb_dw_arch;

struct qb_dw {
    const qb_dw_arch *arch;
    bool integer, is_s8, float_bias;
    int64_t images, channels, in[QB_SPATIAL], out[QB_SPATIAL];
    int64_t kernel[QB_SPATIAL], stride[QB_SPATIAL], dilation[QB_SPATIAL], pad[QB_SPATIAL];
    int64_t taps, inputs; /* of a window; channels of a group */
    int64_t weights;      /* of an output channel: taps * inputs */
    int64_t groups;       /* of arch->tap_group weights */
    int64_t repeats;      /* output channels of an input channel */
    /* Pixels of a row that are one: channels, out[2] and strides of results are of these. The data
     * are a copy with its padding, `in`, where columns stand in as many parts as the stride has
     * steps; `shift` bytes are from a folded pixel to the next one, tap[k] from it to tap k. */
    int64_t fold, shift, *tap;
    int64_t own_channels;                                  /* before folding */
    int64_t source[QB_SPATIAL], padding[QB_SPATIAL], part; /* the data's; pixels of a part */
    int64_t data_stride, data_offset;
    int64_t in_stride; /* of the data, or of their copy */
    int64_t out_stride, out_offset, residual_stride, residual_offset;
    size_t element;
    int32_t zero;
    qb_epilogue epilogue;
    int32_t n_blocks;
    qb_dw_block *blocks;
    size_t zeros, packed_bytes;
    int64_t row_parts, block_parts; /* a task is one of each */
    int threads;
};

bool qb_dw_supports(const qb_problem *p, const bool *constant, const qb_dw_arch *arch);
qb_status qb_dw_create(qb_ctx *cx, const qb_tactic *tactic, const qb_problem *p, int threads,
                       const qb_dw_arch *arch, qb_kernel **out);

/* Which of a channel's weights, as the problem has them, is number t where the inputs of each tap
 * follow each other. */
static inline int64_t qb_dw_weight(const qb_dw *dw, int64_t t) {
    return t % dw->inputs * dw->taps + t / dw->inputs;
}

/* A channel a group, and a pixel of the data a pixel. */
static inline bool qb_dw_is_plain(const qb_dw *dw) { return dw->inputs == 1 && dw->fold <= 1; }

/* Addresses of all taps of output pixel (out_z, out_y, out_x), row by row; missing ones point to
 * zeros, and so do entries up to a whole group. */
void qb_dw_taps(const qb_dw *dw, const qb_dw_row *row, int64_t out_x, const char **taps);

/* The row of data that row k of the window of output (out_z, out_y) reads; NULL outside. */
const char *qb_dw_tap_line(const qb_dw *dw, const qb_dw_row *row, int64_t k);
/* Which taps of a row of the window read inside the data where its first tap reads column `first`
 * to `last`, for different outputs: [begin, end), possibly empty. */
typedef struct qb_dw_span {
    int64_t begin, end;
} qb_dw_span;
qb_dw_span qb_dw_inside(const qb_dw *dw, int64_t first, int64_t last);

/* A row of data for a 3x3 window: its start, or zeros, and the bytes from pixel to pixel (0 for
 * zeros); the first n rows from the top of the window on. */
typedef struct qb_dw_line {
    const char *start;
    int64_t step;
} qb_dw_line;
void qb_dw_lines(const qb_dw *dw, const qb_dw_row *row, int n, qb_dw_line *line);
/* Plain, in one plane, without dilation, the same stride of 1 or 2 both ways. */
bool qb_dw_is_3x3(const qb_dw *dw);
/* A plain window of four columns or more, side by side in data and outputs, for a kernel
 * that reads each column once for several outputs: groups of taps end where rows of the window do.
 */
bool qb_dw_slides(const qb_dw *dw);

#endif
