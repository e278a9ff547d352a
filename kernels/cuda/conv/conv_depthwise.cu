// Depthwise convolution of 8-bit values and of f16, channels last. One column and row are a scale
// and a shift of each channel. A thread takes eight channels of four pixels of a row. Windows of 1,
// 3, 5 and 7 columns with stride 1 or 2 and no dilation along the row: each column of the data is
// read once for all four pixels, coalesced over the channels. All other windows, and pixels on no
// boundary of eight channels, read the columns of each pixel by themselves, from the cache.
//
// 8-bit values: the taps of a kernel row are transposed bytewise, four of one channel to a word,
// and meet four weights in one dot product. f16: fused products in float. Bound by device memory,
// then by the byte permutations.
#include "kernels/cuda/common/launch.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/conv/epilogue.cuh"

#define THREADS 128
#define PIXELS 4
#define CHANNELS 8

template <bool F16> struct depthwise_of {
    typedef int sum_type;
    static constexpr int bytes = 1;
};
template <> struct depthwise_of<true> {
    typedef float sum_type;
    static constexpr int bytes = 2;
};

// Word c of the result: byte c of each of the four words.
QB_DEVICE void transpose(const uint32_t (&from)[4], uint32_t (&to)[4]) {
    uint32_t a = __byte_perm(from[0], from[1], 0x5140), b = __byte_perm(from[0], from[1], 0x7362);
    uint32_t c = __byte_perm(from[2], from[3], 0x5140), d = __byte_perm(from[2], from[3], 0x7362);
    to[0] = __byte_perm(a, c, 0x5410);
    to[1] = __byte_perm(a, c, 0x7632);
    to[2] = __byte_perm(b, d, 0x5410);
    to[3] = __byte_perm(b, d, 0x7632);
}

// One kernel row of 8-bit values; its weights are [KW / 4][C] words of four taps.
template <int KW, int STRIDE, bool SIGNED, int COLUMNS>
QB_DEVICE void add_row(const qb_words<CHANNELS> (&column)[COLUMNS], const char *weight,
                       int channels, int (&sum)[PIXELS][CHANNELS]) {
#pragma unroll
    for (int first = 0; first < KW; first += 4) {
        qb_words<CHANNELS * 4> w = qb_read<CHANNELS * 4>(weight + first / 4 * channels * 4);
#pragma unroll
        for (int x = 0; x < PIXELS; x++)
#pragma unroll
            for (int part = 0; part < CHANNELS / 4; part++) {
                uint32_t tap[4], taps[4];
#pragma unroll
                for (int k = 0; k < 4; k++)
                    tap[k] = first + k < KW ? column[x * STRIDE + first + k].word[part] : 0;
                transpose(tap, taps);
#pragma unroll
                for (int c = 0; c < 4; c++)
                    sum[x][part * 4 + c] =
                        qb_dot4<SIGNED>(taps[c], w.word[part * 4 + c], sum[x][part * 4 + c]);
            }
    }
}

// One kernel row of f16; its weights are [KW][C] floats. A column becomes floats once.
template <int KW, int STRIDE, bool SIGNED, int COLUMNS>
QB_DEVICE void add_row(const qb_words<CHANNELS * 2> (&column)[COLUMNS], const char *weight,
                       int channels, float (&sum)[PIXELS][CHANNELS]) {
    qb_words<CHANNELS * 4> w[KW];
#pragma unroll
    for (int k = 0; k < KW; k++) w[k] = qb_read<CHANNELS * 4>(weight + k * channels * 4);
#pragma unroll
    for (int i = 0; i < COLUMNS; i++) {
        float v[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; c++)
            v[c] = qb_from_f16_bits(column[i].word[c / 2] >> c % 2 * 16 & 0xffffu);
#pragma unroll
        for (int x = 0; x < PIXELS; x++) {
            const int k = i - x * STRIDE; // the tap that pixel x has on this column
            if (k < 0 || k >= KW) continue;
#pragma unroll
            for (int c = 0; c < CHANNELS; c++)
                sum[x][c] = fmaf(v[c], __uint_as_float(w[k].word[c]), sum[x][c]);
        }
    }
}

// Eight sums of one pixel of class `cls` that are clamped.
QB_DEVICE void epilogue(const qb_cuda_conv &p, const qb_cuda_conv_io &io,
                        const int (&sum)[CHANNELS], int row, int cls, int c) {
    const char *bias = io.packed + p.at_bias + ((size_t)cls * p.n_pad + c) * 4;
    const char *multiplier = io.packed + p.at_multiplier + (size_t)c * 4;
    uint32_t zero = (uint32_t)(p.out_zero & 0xff) * 0x01010101u;
    uint32_t word[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int part[4] = {sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]};
        word[i] = qb_epilogue4<qb_epilogue_of<QB_EPILOGUE_PLAIN>>(
            p, part, qb_ints(qb_load16(bias + i * 16)), qb_floats(qb_load16(multiplier + i * 16)),
            0, {});
    }
    *(uint2 *)((char *)io.out + (size_t)row * p.out_total + p.out_offset + c) =
        make_uint2(__vadd4(word[0], zero), __vadd4(word[1], zero));
}

QB_DEVICE void epilogue(const qb_cuda_conv &p, const qb_cuda_conv_io &io,
                        const float (&sum)[CHANNELS], int row, int, int c) {
    qb_words<32> bias = qb_read<32>(io.packed + p.at_float_bias + (size_t)c * 4);
    float v[CHANNELS];
#pragma unroll
    for (int i = 0; i < CHANNELS; i++) {
        v[i] = __fadd_rn(sum[i], __uint_as_float(bias.word[i]));
        v[i] = qb_at_most(qb_at_least(v[i], p.lowest), p.highest);
    }
    *(uint4 *)((__half *)io.out + (size_t)row * p.out_total + p.out_offset + c) = qb_pack_f16(v);
}

// Eight sums of one pixel as floats, before the activation. What goes through GELU or SiLU, whose
// results are within a step, is multiplied and biased with one rounding.
QB_DEVICE void scale8(const qb_cuda_conv &p, const qb_cuda_conv_io &io, const int (&sum)[CHANNELS],
                      int cls, int c, float (&v)[CHANNELS]) {
    const char *at = io.packed + (size_t)c * 4;
    qb_words<32> bias = qb_read<32>(at + p.at_bias + (size_t)cls * p.n_pad * 4);
    qb_words<32> multiplier = qb_read<32>(at + p.at_multiplier), more;
#pragma unroll
    for (int i = 0; i < CHANNELS; i++) more.word[i] = 0x80000000u; // -0 changes nothing
    if (p.has_float_bias) more = qb_read<32>(at + p.at_float_bias);
    bool smooth = p.act == QB_ACT_GELU || p.act == QB_ACT_SILU;
#pragma unroll
    for (int i = 0; i < CHANNELS; i++) {
        float biased = (float)(int)((unsigned)sum[i] + bias.word[i]);
        float m = __uint_as_float(multiplier.word[i]), b = __uint_as_float(more.word[i]);
        v[i] = smooth ? __fmaf_rn(biased, m, b) : __fadd_rn(__fmul_rn(biased, m), b);
    }
}

QB_DEVICE void scale8(const qb_cuda_conv &p, const qb_cuda_conv_io &io,
                      const float (&sum)[CHANNELS], int, int c, float (&v)[CHANNELS]) {
    qb_words<32> bias = qb_read<32>(io.packed + p.at_float_bias + (size_t)c * 4);
#pragma unroll
    for (int i = 0; i < CHANNELS; i++) v[i] = __fadd_rn(sum[i], __uint_as_float(bias.word[i]));
}

// Eight elements of the residual, quantized or f16, on a boundary.
QB_DEVICE void add_residual8(const qb_cuda_conv &p, const void *residual, size_t at,
                             float (&v)[CHANNELS]) {
    if (p.res_dtype == QB_DTYPE_F16) {
        const qb_words<CHANNELS * 2> w = qb_read<CHANNELS * 2>((const __half *)residual + at);
#pragma unroll
        for (int i = 0; i < CHANNELS; i++)
            v[i] = __fadd_rn(v[i], qb_from_f16_bits(w.word[i / 2] >> i % 2 * 16 & 0xffffu));
        return;
    }
    const qb_words<CHANNELS> w = qb_read<CHANNELS>((const char *)residual + at);
    const bool is_signed = p.res_dtype == QB_DTYPE_S8;
#pragma unroll
    for (int i = 0; i < CHANNELS; i++) {
        const int q = qb_q8_at(w.word[i / 4], i % 4, is_signed);
        v[i] = __fadd_rn(v[i], __fmul_rn(p.res_scale, (float)(q - p.res_zero)));
    }
}

// Eight sums of one pixel through any activation to eight channels on a boundary, quantized or f16.
template <bool MAYBE_NAN, class T>
QB_DEVICE void epilogue_any(const qb_cuda_conv &p, const qb_cuda_conv_io &io,
                            const T (&sum)[CHANNELS], int row, int cls, int c) {
    size_t at = (size_t)row * p.out_total + p.out_offset + c;
    float v[CHANNELS];
    scale8(p, io, sum, cls, c, v);
    const bool residual = p.res_dtype != QB_DTYPE_NONE;
    if (residual && !p.act_first)
        add_residual8(p, io.residual, (size_t)row * p.res_total + p.res_offset + c, v);
    qb_act_fast(p, qb_is_coarse(p), v);
    if (residual && p.act_first)
        add_residual8(p, io.residual, (size_t)row * p.res_total + p.res_offset + c, v);
    if (p.out_dtype == QB_DTYPE_F16) {
        *(uint4 *)((__half *)io.out + at) = qb_pack_f16(v);
        return;
    }
    uint32_t zero = (uint32_t)(p.out_zero & 0xff) * 0x01010101u;
    auto code = [&](int i) { return qb_quantized_bits<MAYBE_NAN>(p, v[i]); };
    *(uint2 *)((char *)io.out + at) =
        make_uint2(__vadd4(qb_pack4(code(0), code(1), code(2), code(3)), zero),
                   __vadd4(qb_pack4(code(4), code(5), code(6), code(7)), zero));
}

// Eight channels of column `x` of a line of the data, of which `left` exist; 0 outside.
template <int BYTES, bool ALIGNED>
QB_DEVICE qb_words<CHANNELS * BYTES> read_column(const qb_cuda_conv &p, const char *line, int x,
                                                 int left) {
    qb_words<CHANNELS *BYTES> to = {};
    if (x < 0 || x >= p.in_w) return to;
    const char *from = line + (size_t)x * p.in_total * BYTES;
    if constexpr (ALIGNED) {
        to = qb_read<CHANNELS * BYTES>(from);
    } else {
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            if (c >= left) break;
            uint32_t bits =
                BYTES == 2 ? __ldg((const uint16_t *)from + c) : __ldg((const uint8_t *)from + c);
            to.word[c * BYTES / 4] |= bits << c * BYTES % 4 * 8;
        }
    }
    return to;
}

// One line of the data under one kernel row, for pixels from column `x` of the result on. `weight`:
// of the row. KW 0: of any width, stride and dilation.
template <bool F16, int KW, int STRIDE, bool ALIGNED, bool SIGNED, class T>
QB_DEVICE void add_line(const qb_cuda_conv &p, const char *line, const char *weight, int x,
                        int left, T (&sum)[PIXELS][CHANNELS]) {
    constexpr int BYTES = depthwise_of<F16>::bytes;
    if constexpr (KW > 0) {
        constexpr int COLUMNS = (PIXELS - 1) * STRIDE + KW;
        qb_words<CHANNELS * BYTES> column[COLUMNS];
#pragma unroll
        for (int k = 0; k < COLUMNS; k++)
            column[k] = read_column<BYTES, ALIGNED>(p, line, x * STRIDE - p.pad_w + k, left);
        add_row<KW, STRIDE, SIGNED>(column, weight, p.n_pad, sum);
    } else {
        constexpr int TAPS = F16 ? 1 : 4; // of a pixel at a time: what a word of the weight has
#pragma unroll 1
        for (int first = 0; first < p.kernel_w; first += TAPS) {
            qb_words<CHANNELS * BYTES> column[PIXELS * TAPS];
#pragma unroll
            for (int i = 0; i < PIXELS * TAPS; i++) {
                int k = first + i % TAPS;
                int ix = (x + i / TAPS) * p.stride_w - p.pad_w + k * p.dilation_w;
                column[i] = read_column<BYTES, ALIGNED>(p, line, k < p.kernel_w ? ix : -1, left);
            }
            add_row<TAPS, TAPS, SIGNED>(column, weight, p.n_pad, sum);
            weight += p.n_pad * 4;
        }
    }
}

// The first of the pixels and of the channels that a thread has.
struct place {
    int c, x, y, n;
};

QB_DEVICE place place_of(const qb_cuda_conv &p, uint32_t i) {
    uint32_t pieces = (p.in_c + CHANNELS - 1) / CHANNELS, groups = (p.out_w + PIXELS - 1) / PIXELS;
    place at;
    at.c = i % pieces * CHANNELS, i /= pieces;
    at.x = i % groups * PIXELS, i /= groups;
    at.y = i % p.out_h, at.n = i / p.out_h;
    return at;
}

template <bool F16, int KW, int STRIDE, bool ALIGNED, class T>
QB_DEVICE void add_kernel_row(const qb_cuda_conv &p, const qb_cuda_conv_io &io, const place &at,
                              int r, T (&sum)[PIXELS][CHANNELS]) {
    constexpr int BYTES = depthwise_of<F16>::bytes;
    const int row_words = F16 ? p.kernel_w : (p.kernel_w + 3) / 4; // of the weight, for a channel
    const int iy = at.y * p.stride_h - p.pad_h + r * p.dilation_h, left = p.in_c - at.c;
    if (iy < 0 || iy >= p.in_h) return;
    const char *line =
        (const char *)io.in +
        (((size_t)at.n * p.in_h + iy) * p.in_w * p.in_total + p.in_offset + at.c) * BYTES;
    const char *weight = io.packed + ((size_t)r * row_words * p.n_pad + at.c) * 4;
    if (!F16 && p.in_signed)
        add_line<F16, KW, STRIDE, ALIGNED, true>(p, line, weight, at.x, left, sum);
    else
        add_line<F16, KW, STRIDE, ALIGNED, false>(p, line, weight, at.x, left, sum);
}

// Is the activation a clamp? Do eight channels leave at once?
static __host__ __device__ bool is_clamp(const qb_cuda_conv &p) {
    return p.epilogue == QB_EPILOGUE_F16 || p.epilogue == QB_EPILOGUE_PLAIN ||
           p.epilogue == QB_EPILOGUE_SATURATE || p.epilogue == QB_EPILOGUE_CLASS;
}
static __host__ __device__ bool is_by_eight(const qb_cuda_conv &p) {
    if (is_clamp(p)) return true;
    if (!p.wide || p.out_dtype == QB_DTYPE_F32) return false;
    if (p.res_dtype == QB_DTYPE_NONE) return true;
    // a residual of floats may be NaN, which quantizing sums of integers does not look for
    return p.eights && (p.res_dtype == QB_DTYPE_F16 ? p.out_dtype == QB_DTYPE_F16
                                                    : p.res_dtype != QB_DTYPE_F32);
}

template <bool F16, class T>
QB_DEVICE void store_eight(const qb_cuda_conv &p, const qb_cuda_conv_io &io, const place &at, int k,
                           const T (&sum)[CHANNELS]) {
    const int row = (at.n * p.out_h + at.y) * p.out_w + at.x + k;
    const int cls = qb_class(p, io, at.y, at.x + k);
    if (is_clamp(p))
        epilogue(p, io, sum, row, cls, at.c);
    else
        epilogue_any<F16>(p, io, sum, row, cls, at.c);
}

template <bool F16, int KW, int STRIDE, bool ALIGNED>
static __global__ void __launch_bounds__(THREADS, F16                          ? (KW > 5 ? 2 : 3)
                                                  : KW > 0 && KW * STRIDE < 14 ? 5
                                                                               : 4)
    depthwise(const __grid_constant__ qb_cuda_conv p, const __grid_constant__ qb_cuda_conv_io io,
              uint32_t count) {
    qb_wait_for_dependencies();
    typedef typename depthwise_of<F16>::sum_type sum_type;
    __shared__ sum_type memory[CHANNELS][THREADS];
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const place at = place_of(p, i);
    sum_type sum[PIXELS][CHANNELS] = {};
    for (int r = 0; r < p.kernel_h; r++)
        add_kernel_row<F16, KW, STRIDE, ALIGNED>(p, io, at, r, sum);
    const bool by_eight = is_by_eight(p);
#pragma unroll
    for (int k = 0; k < PIXELS; k++) {
        if (at.x + k >= p.out_w) break;
        if (by_eight) {
            store_eight<F16>(p, io, at, k, sum[k]);
            continue;
        }
        const int row = (at.n * p.out_h + at.y) * p.out_w + at.x + k;
        const int cls = qb_class(p, io, at.y, at.x + k);
#pragma unroll
        for (int j = 0; j < CHANNELS; j++) memory[j][threadIdx.x] = sum[k][j]; // a thread's own
#pragma unroll 1
        for (int j = 0; j < CHANNELS && at.c + j < p.out_c; j++)
            qb_epilogue_one(p, io, memory[j][threadIdx.x], row, cls, at.c + j);
    }
}

// The same where there are few pixels, as at batch 1: the warps of a block share out the rows of
// the kernel, whose data is under way at once, and then have a pixel each.
template <bool F16, int KW, int STRIDE>
static __global__ void __launch_bounds__(THREADS)
    depthwise_rows(const __grid_constant__ qb_cuda_conv p,
                   const __grid_constant__ qb_cuda_conv_io io, uint32_t count) {
    qb_wait_for_dependencies();
    typedef typename depthwise_of<F16>::sum_type sum_type;
    constexpr int WARPS = THREADS / 32;
    static_assert(WARPS == PIXELS, "a pixel for each warp");
    __shared__ sum_type memory[WARPS][PIXELS][CHANNELS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t i = blockIdx.x * 32 + lane;
    const place at = place_of(p, min(i, count - 1));
    sum_type sum[PIXELS][CHANNELS] = {};
#pragma unroll 1
    for (int r = warp; r < p.kernel_h; r += WARPS)
        add_kernel_row<F16, KW, STRIDE, true>(p, io, at, r, sum);
#pragma unroll
    for (int k = 0; k < PIXELS; k++)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) memory[warp][k][c][lane] = sum[k][c];
    __syncthreads();
    if (i >= count || at.x + warp >= p.out_w) return;
    sum_type all[CHANNELS] = {};
#pragma unroll
    for (int w = 0; w < WARPS; w++)
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) all[c] += memory[w][warp][c][lane];
    store_eight<F16>(p, io, at, warp, all);
}

template <bool F16, int KW, int STRIDE, bool ALIGNED>
static int launch(const qb_cuda_conv_call *call) {
    const qb_cuda_conv *p = call->conv;
    int64_t count = (int64_t)p->batch * p->out_h * ((p->out_w + PIXELS - 1) / PIXELS) *
                    ((p->in_c + CHANNELS - 1) / CHANNELS);
    unsigned blocks = (unsigned)((count + THREADS - 1) / THREADS);
    if constexpr (KW > 1 && ALIGNED)
        if (blocks <= (unsigned)call->multiprocessors && p->kernel_h > 1 && is_by_eight(*p))
            return qb_launch(depthwise_rows<F16, KW, STRIDE>, (unsigned)((count + 31) / 32),
                             THREADS, 0, call->stream, *p, *call->io, (uint32_t)count);
    return qb_launch(depthwise<F16, KW, STRIDE, ALIGNED>, blocks, THREADS, 0, call->stream, *p,
                     *call->io, (uint32_t)count);
}

template <bool F16> static int launch_window(const qb_cuda_conv_call *call) {
    const qb_cuda_conv *p = call->conv;
    if ((p->in_total | p->in_offset) % CHANNELS != 0) return launch<F16, 0, 0, false>(call);
    switch (p->dilation_w == 1 && p->stride_w <= 2 ? p->kernel_w * 2 + p->stride_w - 1 : 0) {
    case 2: return launch<F16, 1, 1, true>(call);
    case 3: return launch<F16, 1, 2, true>(call);
    case 6: return launch<F16, 3, 1, true>(call);
    case 7: return launch<F16, 3, 2, true>(call);
    case 10: return launch<F16, 5, 1, true>(call);
    case 11: return launch<F16, 5, 2, true>(call);
    case 14: return launch<F16, 7, 1, true>(call);
    case 15: return launch<F16, 7, 2, true>(call);
    default: return launch<F16, 0, 0, true>(call);
    }
}

extern "C" int qb_cuda_conv_depthwise(const qb_cuda_conv_call *call) {
    if (!call->io) return 0;
    return qb_cuda_conv_is_f16(call->conv) ? launch_window<true>(call) : launch_window<false>(call);
}
