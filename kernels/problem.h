/* Problems: what one step of an engine computes, without saying how.
 *
 * All kernels share these semantics. Inputs and outputs are described by qb_desc; a tensor whose
 * desc has quantization parameters (q.n > 0) stands for the dequantized values scale (q - zero).
 * The order inside a fused step is fixed:
 *
 *   f32 = anchor(inputs) + bias
 *   f32 = act(f32)              when act_first and there is a residual
 *   f32 = dequantize(quantize(f32))   when `rounding` says so, by its scale and zero point
 *   f32 = f32 + residual        when there is one
 *   f32 = act(f32)              otherwise
 *   out  = quantize(f32) or f32
 *
 * Integer anchors (CONV, CONV_TRANSPOSE, MATMUL with quantized data and weight) are defined bit for
 * bit by kernels/ref:
 *   acc  = sum (x - Zx) * w                         in int32 (weights symmetric) + bias (int32)
 *   f32 = (float)acc * (Sx * Sw[c])                one float multiply by the rounded product
 *   f32 = f32 + Sr * (float)(r - Zr)
 *   q    = clamp(round_half_even(act(f32) * (1 / Sy)) + Zy)      1 / Sy rounded to float
 * `rounding` is the last line, with its own scale and zero point, and S (q - Z) of what it gives.
 * Padding contributes the value zero (that is, code Zx). A float bias is added to `f32` before the
 * residual; MATMUL's `scale` multiplies Sx * Sw[c]; a weight with zero points counts as w - Zw[c].
 *
 * The other kinds compute in float on S * (float)(q - Z) and end in the same last line (POOL sums
 * an average in double; of quantized values it is (float)(sum (q - Z)) * (S / count), the quotient
 * rounded to float). COPY and CONCAT only move: quantized values stay where the parameters are
 * equal, other values become qb_quantize_value of the dequantized value. CONV_POOL is a CONV, and a
 * POOL of its result, bit for bit.
 *
 * Data, result and residual may be bf16, each for itself: constants stay f32 in the problem, a
 * weight is rounded to bf16 when it is packed, sums are in float, what is written is rounded.
 *
 * Devices also take data, residual and result in f16, each for itself. The constants (weight, bias)
 * stay f32 in the problem; a tactic of f16 data may round the weight to f16 when it packs. Sums are
 * in float, only what is written is rounded to half. MATMUL's second operand is f16 where it is no
 * constant. */
#ifndef QB_KERNELS_PROBLEM_H
#define QB_KERNELS_PROBLEM_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qb_kind {
    QB_KIND_NODE,           /* any operator through its reference `eval`; not fused */
    QB_KIND_CONV,           /* in: x, weight [M, C/g, k...], bias [M]?, residual? */
    QB_KIND_CONV_TRANSPOSE, /* in: x, weight [C, M/g, k...], bias? */
    QB_KIND_MATMUL,         /* in: a [..., m, k], b [..., k, n], bias [n]?, residual? */
    QB_KIND_POOL,           /* in: x */
    QB_KIND_CONV_POOL, /* CONV without a residual, and the max pool `after` of its quantized values:
                          what lies between has the type and the parameters of the result */
    QB_KIND_BINARY,    /* in: a, b with numpy broadcasting */
    QB_KIND_UNARY,     /* in: x; the function is `act` */
    QB_KIND_SOFTMAX,   /* in: x */
    QB_KIND_CONCAT,    /* in: x0 ... xn-1 */
    QB_KIND_COPY,      /* in: x; same values, another dtype, layout or quantization */
    /* Nodes that a tactic may run as well; where none does, the operator's eval runs them (see
       qb_node_problem), so that they have no reference tactic. No activation. */
    QB_KIND_LAYER_NORM,   /* in: x, scale, bias?; over the dimensions from `axis` on, `epsilon` */
    QB_KIND_STRIDED_COPY, /* in: x; the elements of `strided`, in this order */
    QB_KIND_RESIZE,       /* in: x [N, C, ...], up to three dimensions behind */
    QB_KIND_GATHER,    /* in: x, indices (s64 or s32, negative ones count from the end); `places` of
                          x; `axis`: the only one with an index, the indices' dimensions in its
                          place, or -1 */
    QB_KIND_ATTENTION, /* in: q, k, v, mask?: softmax(scale q k^T + mask) v; `group` heads. Each is
                          [N, tokens, heads size], or [N, heads, tokens, size]; the mask broadcasts
                          to [N, heads, queries, keys]. Where it is minus infinity for all keys of
                          a query, the result is 0. With `views`, all but the mask may be of any
                          shape, and the same tensor */
    QB_KIND_RECURRENT, /* in: x, W, R, B?, lengths? (s32), h?, c?, P? as ONNX's LSTM, GRU and RNN
                          have them; out: Y. qb_launch.more: Y_h and Y_c. See qb_recurrence */
    /* As ONNX's MatMulInteger. In: a [..., m, k], b [..., k, n], a_zero?, b_zero? (one, or [n]) of
       8-bit integers; out: sum (a - a_zero)(b - b_zero) in s32, which wraps */
    QB_KIND_MATMUL_INTEGER,
    /* As com.microsoft's MatMulIntegerToFloat: float(sum) (a_scale b_scale) + bias. In: a, b,
       a_scale, b_scale (one, or [n]), a_zero?, b_zero?, bias [n]? */
    QB_KIND_MATMUL_SCALED,
    /* As ONNX's DynamicQuantizeLinear. In: x; out: u8 quantized values of the range of x and 0.
       qb_launch.more: scale (f32) and zero point (u8) */
    QB_KIND_DYNAMIC_QUANTIZE,
    /* Elementwise functions one after the other (kernels/chain.h). In: 0 to 4 tensors that
       broadcast to the output. No activation: it is one of the functions */
    QB_KIND_CHAIN,
    QB_KIND_GROUP_NORM, /* in: x [N, C, ...], scale [C], bias [C]: each item's channels in `group`
                           groups, which have mean 0 and variance 1 before; `epsilon` */
    QB_KIND_REDUCE,     /* in: x; over the dimensions in the mask `axes` */
    QB_KIND_PAD,        /* in: x; with `padding` around it, or without its border */
    QB_KIND_SCATTER, /* in: x, indices as GATHER's, updates; x with the updates in its `places`, one
                        after the other: in the place of what is there (`reduce` NONE), or its
                        sum, product, maximum or minimum with it */
    QB_KIND_GRID_SAMPLE, /* in: x [N, C, ...], grid [N, ..., 2 or 3]: x at places of its own for
                            each pixel of the result, by `grid` (kernels/grid.h) */
    QB_KIND_SCAN,        /* in: x; sums of the elements along `axis` so far, as `scan` says */
    QB_KIND_ARG,         /* in: x; out (s64): where along `axis` what `extreme` puts first lies */
    QB_KIND_POOL_PLACES, /* in: x; out (s64): where in x (row-major) the maximum of each window of a
                            POOL lies, the first of equal ones */
    QB_KIND_FOURIER,     /* in: x, and of frames their step and window, as ONNX's DFT and STFT: its
                            spectrum, or from that to x, as `fourier` says */
    QB_KIND_FOLD, /* in: x [N, C window, blocks]; out [N, C, ...]: the sum of what `window` cut
                     out of it, block by block, sums in the order of the window's places */
    QB_KIND_COUNT
} qb_kind;
const char *qb_kind_text(qb_kind kind);

typedef enum qb_act_kind {
    QB_ACT_NONE,
    QB_ACT_RELU,
    QB_ACT_CLIP,       /* min(max(x, alpha), beta) */
    QB_ACT_LEAKY_RELU, /* x < 0 ? alpha x : x */
    QB_ACT_SIGMOID,
    QB_ACT_TANH,
    QB_ACT_HARD_SIGMOID, /* clamp(alpha x + beta, 0, 1) */
    QB_ACT_HARD_SWISH,   /* x clamp(x (1 / 6) + 0.5, 0, 1), 1 / 6 rounded: as ONNX has it */
    QB_ACT_SILU,         /* x sigmoid(x) */
    QB_ACT_GELU,         /* 0.5 x (1 + erf(x / sqrt 2)) */
    QB_ACT_GELU_TANH,
    QB_ACT_ELU, /* x < 0 ? alpha (exp x - 1) : x */
    QB_ACT_COUNT
} qb_act_kind;

typedef struct qb_act {
    qb_act_kind kind;
    float alpha, beta;
} qb_act;

/* The activation in float, as every kernel must compute it. SIGMOID, TANH, SILU, GELU, GELU_TANH
 * and ELU may differ by a few units in the last place, and so by one step where they are quantized.
 */
float qb_act_apply(qb_act act, float x);
const char *qb_act_text(qb_act_kind kind);

/* A sliding window over up to 3 spatial dimensions, with all defaults resolved. */
typedef struct qb_window {
    int32_t n; /* spatial dimensions, 1 to 3 */
    int64_t kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
} qb_window;

typedef enum qb_pool_kind { QB_POOL_MAX, QB_POOL_AVG, QB_POOL_AVG_INCLUDE_PAD } qb_pool_kind;
typedef enum qb_binary_kind {
    QB_BINARY_ADD,
    QB_BINARY_SUB,
    QB_BINARY_MUL,
    QB_BINARY_DIV,
    QB_BINARY_MIN,
    QB_BINARY_MAX
} qb_binary_kind;

/* From output pixel o to the input's position, for in and out pixels along an axis:
 *   NEAREST  floor(o in / out)
 *   LINEAR   (o + 0.5) in / out - 0.5, clamped to the image, between its two neighbours
 *   LINEAR_CORNERS   o (in - 1) / (out - 1), the same otherwise
 *   LINEAR_ASYMMETRIC   o in / out, the same otherwise
 *   CUBIC, CUBIC_CORNERS   where LINEAR and LINEAR_CORNERS lie, but not clamped, between its four
 *            neighbours by Keys' convolution with a = -0.75; beyond the image its border repeats
 * Integers without scales are computed as floats, whose fractions go. */
typedef enum qb_resize_kind {
    QB_RESIZE_NEAREST,
    QB_RESIZE_LINEAR,
    QB_RESIZE_LINEAR_CORNERS,
    QB_RESIZE_LINEAR_ASYMMETRIC,
    QB_RESIZE_CUBIC,
    QB_RESIZE_CUBIC_CORNERS
} qb_resize_kind;

/* As ONNX's Reduce operators, in floats. */
typedef enum qb_reduce_kind {
    QB_REDUCE_NONE,
    QB_REDUCE_SUM,
    QB_REDUCE_MEAN,
    QB_REDUCE_PROD,
    QB_REDUCE_MAX,
    QB_REDUCE_MIN,
    QB_REDUCE_L1,
    QB_REDUCE_L2,
    QB_REDUCE_SUM_SQUARE,
    QB_REDUCE_LOG_SUM,
    QB_REDUCE_LOG_SUM_EXP
} qb_reduce_kind;

/* Where the elements come from that lie around the data: from nowhere (`value`), from the other
 * side of the border, from the border, or from the other end. */
typedef enum qb_pad_mode { QB_PAD_CONSTANT, QB_PAD_REFLECT, QB_PAD_EDGE, QB_PAD_WRAP } qb_pad_mode;

typedef struct qb_padding {
    qb_pad_mode mode;
    int64_t begin[QB_MAX_RANK]; /* elements before the data in each dimension; negative: cut off */
    float value;
} qb_padding;

/* Recurrent layers as ONNX defines LSTM, GRU and RNN (opset 14). Sizes are those of the shapes:
 * W [directions, gates hidden, inputs], R [directions, gates hidden, hidden], Y [steps, directions,
 * batch, hidden], or with batch_first [batch, steps, directions, hidden]. */
typedef enum qb_cell_kind { QB_CELL_RNN, QB_CELL_GRU, QB_CELL_LSTM } qb_cell_kind;

#define QB_CELL_ACTS 3 /* most functions of a direction: f, g, h */

typedef struct qb_recurrence {
    qb_cell_kind cell;
    bool reverse; /* the first direction goes from the end to the start; a second one always does */
    bool batch_first;
    bool input_forget;            /* LSTM: f = 1 - i */
    bool linear_before_reset;     /* GRU: the reset gate multiplies h R and not h */
    float clip;                   /* of what goes into the gates' functions; 0: none */
    qb_act act[2 * QB_CELL_ACTS]; /* of each direction */
} qb_recurrence;

/* Input positions of RECURRENT. */
enum {
    QB_IN_X,
    QB_IN_W,
    QB_IN_R,
    QB_IN_B,
    QB_IN_LENGTHS,
    QB_IN_H,
    QB_IN_C,
    QB_IN_P,
    QB_RECURRENT_INPUTS
};

/* Elements of a row-major tensor, in row-major order over dim[rank]: element i is the tensor's
 * offset + sum i[d] stride[d]. A stride may be 0 (repeated) or negative (from the end). What
 * transposes, slices, splits, expands, tiles, flips and moves blocks between depth and space is one
 * of these. */
typedef struct qb_strided {
    int32_t rank;
    int64_t dim[QB_MAX_RANK], stride[QB_MAX_RANK], offset;
} qb_strided;
/* The loops of such a copy over memory, the result's fastest dimension last; neighbours that lie
 * together on both sides are one, and at least one is left. Strides and first elements in elements
 * of the buffers. */
typedef struct qb_strided_loops {
    int32_t rank;
    int64_t dim[QB_MAX_RANK], from[QB_MAX_RANK], to[QB_MAX_RANK], from_first, to_first;
} qb_strided_loops;
/* Where a layout that is not row-major (NHWC) takes a dimension of `strided` apart, that is two
 * loops. False where it does so unevenly, where that makes more than QB_MAX_RANK, or where it is
 * another layout. */
bool qb_strided_loops_of(const qb_strided *strided, const qb_desc *in, const qb_desc *out,
                         qb_strided_loops *loops);

/* Heads in a row-major tensor. Element e of token t of head h of item n is
 *   offset + n / inner stride[0] + n % inner stride[1] + h stride[2] + t stride[3] + e */
typedef struct qb_heads {
    int64_t inner, stride[4], offset;
} qb_heads;

/* Queries, keys and elements of a head of an attention, and where they lie. */
typedef struct qb_attention {
    int64_t batch, rows, keys, size, value_size;
    qb_heads in[3], out; /* queries, keys, values; the result */
} qb_attention;

/* Places in a row-major tensor, in the order of loops over dim[rank], the last one the fastest. The
 * indices come in tuples of `depth`. A place begins at
 *   sum i[d] along[d] + sum index[k] stride[k]
 * where the index of a tuple is below size[k] and the tuple is number sum i[d] named[d]; it has
 * `run` elements. What gathers and scatters elements, slices or tuples of indices is one of these.
 */
typedef struct qb_places {
    int32_t rank, depth;
    int64_t dim[QB_MAX_RANK], along[QB_MAX_RANK], named[QB_MAX_RANK];
    int64_t size[QB_MAX_RANK], stride[QB_MAX_RANK];
    int64_t run;
} qb_places;

/* As ONNX's GridSample: how a value between pixels is made of them, and what lies outside. */
typedef enum qb_grid_mode { QB_GRID_NEAREST, QB_GRID_LINEAR, QB_GRID_CUBIC } qb_grid_mode;
typedef enum qb_grid_outside { QB_GRID_ZEROS, QB_GRID_BORDER, QB_GRID_REFLECTION } qb_grid_outside;

typedef struct qb_grid_sampling {
    qb_grid_mode mode;
    qb_grid_outside outside;
    bool corners; /* -1 and 1 are the middles of the first and last pixel, not their outer edges */
} qb_grid_sampling;

/* As ONNX's DFT, and its STFT: of frames that begin `step` numbers apart. */
typedef struct qb_fourier {
    int64_t length, step; /* step 0: no frames, but along `axis` */
    bool inverse, onesided;
} qb_fourier;

typedef struct qb_scan {
    bool exclusive; /* the element itself is not in its sum */
    bool reverse;   /* from the end */
} qb_scan;

/* NaN is larger than any number. Of equal elements the first one, or the last (of one alone). */
typedef struct qb_extreme {
    bool smallest, last;
} qb_extreme;

/* Quantized values of one scale that a result becomes before a residual is added to them, as in a
 * model whose convolution and whose sum have a Q/DQ pair each. */
typedef struct qb_rounding {
    qb_dtype dtype; /* u8, s8; NONE: the sum is of the result itself */
    float scale;
    int32_t zero;
} qb_rounding;

#define QB_MAX_INPUTS 64 /* of one step */

typedef struct qb_problem {
    qb_kind kind;
    int32_t n_in;
    const qb_desc *in; /* the order is that of qb_kind; absent optional inputs have dtype NONE */
    qb_desc out;
    qb_window window; /* CONV, CONV_TRANSPOSE, POOL (global pooling: kernel = spatial size);
                         with ceil_mode the last window may reach beyond pad_end */
    qb_window after;  /* CONV_POOL: the pool's, `window` being the convolution's */
    int64_t group;    /* CONV, CONV_TRANSPOSE, GROUP_NORM; ATTENTION: heads */
    bool transpose_a, transpose_b; /* MATMUL: the last two axes are swapped in memory */
    bool tf32;   /* CONV, MATMUL of f32: a tactic may round the factors to TF32 (10 bits after the
                    point) before it multiplies; sums stay in float */
    float scale; /* MATMUL: factor on a b (Gemm's alpha), 1 for none; ATTENTION: on q k^T */
    qb_pool_kind pool;
    qb_binary_kind binary;
    int32_t axis;  /* SOFTMAX, CONCAT, LAYER_NORM, SCAN, ARG: non-negative; GATHER */
    bool zero_nan; /* SOFTMAX: a line of NaN (nothing but -inf, or an infinity) becomes 0 */
    qb_act act;
    bool act_first;       /* activation before the residual is added */
    qb_rounding rounding; /* CONV, MATMUL of integers with a residual: between activation and sum;
                             only tactics with `rounds` take it */
    float epsilon;        /* LAYER_NORM, GROUP_NORM */
    bool rms;             /* LAYER_NORM: mean 0, whatever the data's is */
    qb_reduce_kind reduce;
    uint32_t axes;         /* REDUCE: bit d is dimension d */
    qb_places places;      /* GATHER, SCATTER */
    qb_grid_sampling grid; /* GRID_SAMPLE */
    qb_scan scan;          /* SCAN */
    qb_fourier fourier;    /* FOURIER; its `axis` */
    qb_extreme extreme;    /* ARG */
    qb_strided strided;    /* STRIDED_COPY */
    bool has_views;        /* ATTENTION: heads lie where `views` says, not as the shapes do */
    qb_attention views;
    qb_resize_kind resize;
    qb_padding padding; /* PAD */
    qb_recurrence recurrence;
    const struct qb_chain *chain; /* CHAIN: a kernel's own problem has a copy of the tactic's */
    int32_t variant; /* which of a library's algorithms; 0: the tactic tries them, 1: the one that
                        the library puts first. A kernel's own problem says which one it has, 0
                        where there is no choice; what else the number says is the tactic's */
    struct qb_compiled *compiled; /* what was compiled before for this or another problem, and where
                                     the tactic keeps what it compiles; NULL: nowhere. Of the
                                     creation alone: a kernel's own problem has none */
} qb_problem;

/* Input positions of CONV, CONV_TRANSPOSE and MATMUL; MATMUL_INTEGER has zero points there. */
enum { QB_IN_DATA = 0, QB_IN_WEIGHT = 1, QB_IN_BIAS = 2, QB_IN_RESIDUAL = 3 };
enum { QB_IN_DATA_ZERO = 2, QB_IN_WEIGHT_ZERO = 3 };
/* Those of MATMUL_SCALED behind data and weight. */
enum {
    QB_SCALED_DATA_SCALE = 2,
    QB_SCALED_WEIGHT_SCALE,
    QB_SCALED_DATA_ZERO,
    QB_SCALED_WEIGHT_ZERO,
    QB_SCALED_BIAS,
    QB_SCALED_INPUTS
};

/* Results of a kernel: qb_launch.out and those in qb_launch.more. */
int32_t qb_kind_outputs(qb_kind kind);
/* Does it slide windows over images? */
bool qb_kind_has_window(qb_kind kind);
/* Do its dimensions mean something else than channels and pixels, so that it is row-major only? */
bool qb_kind_is_row_major(qb_kind kind);
/* Gates of a cell: rows of W and R for each hidden unit. */
int32_t qb_cell_gates(qb_cell_kind cell);

/* The two problems that a CONV_POOL stands for, and what lies between them: a whole tensor of the
 * result's layout. They refer to `p` and to *between. */
void qb_problem_parts(const qb_problem *p, qb_desc *between, qb_problem *conv, qb_problem *pool);

bool qb_problem_has(const qb_problem *p, int32_t input);
/* A depthwise CONV whose window is one pixel: x scale[c] + shift[c], perhaps with a residual and an
 * activation? */
bool qb_problem_is_scale(const qb_problem *p);
/* A MATMUL_INTEGER of operands without scales, with zero points of their types: one, or one for
 * each column of a weight of two dimensions? */
bool qb_problem_is_integer(const qb_problem *p);
struct qb_strbuf;
/* Appends what tells two strided copies, reductions or chains of the same tensors apart. */
void qb_problem_add_details(const qb_problem *p, struct qb_strbuf *text);
/* Multiply-adds times two of the anchor; 0 for data movement. */
double qb_problem_flops(const qb_problem *p);

#ifdef __cplusplus
}
#endif
#endif
