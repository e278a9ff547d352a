// The epilogue of a convolution on the device: sums to quantized values or floats, bit for bit as
// kernels/problem.h says. Every product and sum is rounded by itself (the _rn forms never fuse).
//
// Most (see epilogues.def) write 16 channels at once; ELEMENT goes one by one.
#ifndef QB_CUDA_EPILOGUE_CUH
#define QB_CUDA_EPILOGUE_CUH

#include "kernels/cuda/conv/epilogue_policies.cuh"

QB_DEVICE float qb_apply(const qb_cuda_conv &p, float x) {
    return qb_act_of(p.act, p.act_alpha, p.act_beta, x);
}

// An element of the residual as it lies in memory; 0 where there is none.
QB_DEVICE uint32_t qb_residual_bits(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row,
                                    int channel) {
    const size_t at = (size_t)row * p.res_total + p.res_offset + channel;
    switch (p.res_dtype) {
    case QB_DTYPE_NONE: return 0;
    case QB_DTYPE_F32: return ((const uint32_t *)io.residual)[at];
    case QB_DTYPE_F16: return ((const uint16_t *)io.residual)[at];
    default: return ((const uint8_t *)io.residual)[at];
    }
}

// The number that it is.
QB_DEVICE float qb_residual_value(const qb_cuda_conv &p, uint32_t bits) {
    switch (p.res_dtype) {
    case QB_DTYPE_F32: return __uint_as_float(bits);
    case QB_DTYPE_F16: return qb_from_f16_bits(bits);
    case QB_DTYPE_U8: return __fmul_rn(p.res_scale, (float)((int)bits - p.res_zero));
    default: return __fmul_rn(p.res_scale, (float)((int)(int8_t)bits - p.res_zero));
    }
}

// Class of output pixel (y, x), rows of all planes counted on; 0 where there is one class.
QB_DEVICE int qb_class(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int y, int x) {
    if (p.classes == 1) return 0;
    return __ldg((const int *)(io.packed + p.at_row_class) + y) * p.col_classes +
           __ldg((const int *)(io.packed + p.at_col_class) + x);
}

// The same of the pixel that output row `row` is.
QB_DEVICE int qb_class(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row) {
    if (p.classes == 1) return 0;
    uint32_t line = (uint32_t)row / (uint32_t)p.out_w, x = (uint32_t)row - line * p.out_w;
    return qb_class(p, io, (int)(line % (uint32_t)(p.out_d * p.out_h)), (int)x);
}

// Lines of `bytes` bytes of constants from `at` on into the first-level cache, by all of THREADS.
template <int THREADS>
QB_DEVICE void qb_prefetch(const qb_cuda_conv_io &io, int64_t at, int bytes) {
    for (int i = (int)threadIdx.x * 128; i < bytes; i += THREADS * 128)
        asm volatile("prefetch.global.L1 [%0];" ::"l"(io.packed + at + i));
}

// What the epilogue of a tile reads of `channels` channels, classes of pixels with their biases
// among it: there when the sums are, where it would be several loads that wait for each other.
template <int THREADS>
QB_DEVICE void qb_prefetch_constants(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                                     int channels) {
    qb_prefetch<THREADS>(io, p.at_multiplier + channel * 4, channels * 4);
    if (p.has_float_bias) qb_prefetch<THREADS>(io, p.at_float_bias + channel * 4, channels * 4);
    for (int i = 0; i < p.classes; i++)
        qb_prefetch<THREADS>(io, p.at_bias + ((int64_t)i * p.n_pad + channel) * 4, channels * 4);
    if (p.classes == 1) return;
    qb_prefetch<THREADS>(io, p.at_row_class, p.out_d * p.out_h * 4);
    qb_prefetch<THREADS>(io, p.at_col_class, p.out_w * 4);
}

// What follows bias and scale: activation and residual.
QB_DEVICE float qb_activate_one(const qb_cuda_conv &p, float f32, uint32_t residual) {
    bool res = p.res_dtype != QB_DTYPE_NONE;
    if (p.rounds) f32 = qb_round_first(p, f32);
    if (!res || p.act_first) f32 = qb_apply(p, f32);
    if (res) {
        f32 = __fadd_rn(f32, qb_residual_value(p, residual));
        if (!p.act_first) f32 = qb_apply(p, f32);
    }
    return f32;
}

// One accumulator with its bias as a float.
QB_DEVICE float qb_scale_sum(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int acc, int cls,
                             int channel) {
    acc += __ldg((const int *)(io.packed + p.at_bias) + (size_t)cls * p.n_pad + channel);
    float f32 =
        __fmul_rn((float)acc, __ldg((const float *)(io.packed + p.at_multiplier) + channel));
    if (p.has_float_bias)
        f32 = __fadd_rn(f32, __ldg((const float *)(io.packed + p.at_float_bias) + channel));
    return f32;
}

QB_DEVICE float qb_scale_sum(const qb_cuda_conv &p, const qb_cuda_conv_io &io, float acc, int cls,
                             int channel) {
    return __fadd_rn(acc, __ldg((const float *)(io.packed + p.at_float_bias) + channel));
}

QB_DEVICE void qb_store_one(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row, int channel,
                            float f32) {
    qb_store(p, io.out, (size_t)row * p.out_total + p.out_offset + channel, f32);
}

template <class T>
QB_DEVICE void qb_epilogue_one(const qb_cuda_conv &p, const qb_cuda_conv_io &io, T acc, int row,
                               int cls, int channel) {
    const float f32 = qb_scale_sum(p, io, acc, cls, channel);
    qb_store_one(p, io, row, channel,
                 qb_activate_one(p, f32, qb_residual_bits(p, io, row, channel)));
}

// 16 consecutive channels of one row, staged in shared memory `step` words apart, which is
// overwritten. First all floats, then the result, in 16-byte stores where it is wide.
template <class T>
QB_DEVICE void qb_epilogue_elements(const qb_cuda_conv &p, const qb_cuda_conv_io &io, T *slot,
                                    int step, int row, int channel) {
    int cls = qb_class(p, io, row);
    float *f32 = (float *)slot; // a thread's own: each word is read before it is written
#pragma unroll 1
    for (int i = 0; i < 16 && channel + i < p.out_c; i++) {
        float v = qb_activate_one(p, qb_scale_sum(p, io, slot[i * step], cls, channel + i),
                                  qb_residual_bits(p, io, row, channel + i));
        memcpy(f32 + i * step, &v, sizeof v);
    }
    size_t at = (size_t)row * p.out_total + p.out_offset + channel;
    if (p.wide && p.out_dtype == QB_DTYPE_F16 && channel < p.out_c) {
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
            float v[8];
#pragma unroll
            for (int i = 0; i < 8; i++) memcpy(&v[i], f32 + (half * 8 + i) * step, sizeof v[i]);
            ((uint4 *)((__half *)io.out + at))[half] = qb_pack_f16(v);
        }
        return;
    }
#pragma unroll 1
    for (int i = 0; i < 16 && channel + i < p.out_c; i++) {
        float v;
        memcpy(&v, f32 + i * step, sizeof v);
        qb_store(p, io.out, at + i, v);
    }
}

// A thread's float sums, clamped, to f16; see qb_epilogue.
template <class E, int ROWS, int BLOCKS, class Acc, class RowOf>
QB_DEVICE void qb_epilogue_f16(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                               RowOf row_of, Acc acc) {
    constexpr bool RES = E::residual::f16;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
#pragma unroll
        for (int part = 0; part < 2; part++) { // eight channels at a time
            int c = channel + block * 64 + (threadIdx.x & 3) * 16 + part * 8;
            if (c >= p.out_c) break;
            qb_words<32> bias = qb_read<32>(io.packed + p.at_float_bias + (size_t)c * 4);
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                if (row_of(i) >= p.rows) continue;
                qb_words<16> res = {};
                if (RES)
                    res = qb_read<16>((const __half *)io.residual +
                                      ((size_t)row_of(i) * p.res_total + p.res_offset + c));
                float v[8];
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    v[j] = __fadd_rn(acc(i, block, part * 8 + j), __uint_as_float(bias.word[j]));
                    if (RES)
                        v[j] = __fadd_rn(v[j],
                                         qb_from_f16_bits(res.word[j / 2] >> j % 2 * 16 & 0xffffu));
                    v[j] = qb_at_most(qb_at_least(v[j], p.lowest), p.highest);
                }
                *(uint4 *)((__half *)io.out +
                           ((size_t)row_of(i) * p.out_total + p.out_offset + c)) = qb_pack_f16(v);
            }
        }
    }
}

// The sums of one of a thread's rows and blocks, `unit` = block ROWS + row, for loops that are not
// unrolled: what follows would be long, BLOCKS x ROWS times.
template <int ROWS, int BLOCKS, class Sum, class Acc>
QB_DEVICE void qb_take16(int unit, Acc acc, Sum (&sum)[16]) {
#pragma unroll
    for (int k = 0; k < BLOCKS * ROWS; k++) {
        if (unit != k) continue;
#pragma unroll
        for (int j = 0; j < 16; j++) sum[j] = acc(k % ROWS, k / ROWS, j);
    }
}

// Sixteen of a thread's sums, which want the bias of the middle's class: those of a pixel of
// another class get what its bias has more. Few pixels are. These are copies: ptxas would make
// wgmma wait for its operands where they change between two tiles. Sums wrap.
template <class Sum>
QB_DEVICE void qb_correct_class16(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int c, int cls,
                                  Sum (&sum)[16]) {
    if constexpr (Sum(1) / Sum(2) == Sum(0)) {
        if (cls == p.middle || c >= p.out_c) return;
        const uint32_t *bias = (const uint32_t *)(io.packed + p.at_bias) + c;
#pragma unroll
        for (int j = 0; j < 16; j++)
            sum[j] = (int)((uint32_t)sum[j] + __ldg(bias + cls * p.n_pad + j) -
                           __ldg(bias + p.middle * p.n_pad + j));
    }
}

// The class of a thread's row, which may be behind the last.
QB_DEVICE int qb_class_or_middle(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int row) {
    return p.classes > 1 && row < p.rows ? qb_class(p, io, row) : p.middle;
}

// A thread's sums where any activation and any store of 16 channels may follow; see qb_epilogue.
// Integer sums that go through a smooth activation, whose results are within a step, are multiplied
// and biased with one rounding.
template <int ROWS, int BLOCKS, class Sum, class Acc, class RowOf>
QB_DEVICE void qb_epilogue_vector(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                                  RowOf row_of, Acc acc) {
    constexpr bool INTEGER = Sum(1) / Sum(2) == Sum(0);
    bool res = p.res_dtype != QB_DTYPE_NONE;
    bool smooth = INTEGER && (p.act == QB_ACT_GELU || p.act == QB_ACT_SILU);
    bool more = INTEGER && p.has_float_bias;
    bool coarse = qb_is_coarse(p);
#pragma unroll 1
    for (int unit = 0; unit < BLOCKS * ROWS; unit++) {
        int first = channel + unit / ROWS * 64, c = first + (threadIdx.x & 3) * 16;
        int row = row_of(unit % ROWS);
        bool exists = c < p.out_c, valid = exists && row < p.rows;
        if (first >= p.out_c) break;
        const char *at = io.packed + (size_t)c * 4;
        float multiplier[16] = {}, bias[16] = {}, v[16]; // of integer sums: bits of integers
        if (INTEGER && exists) qb_read16(at + p.at_multiplier, multiplier);
        if (exists)
            qb_read16(at + (INTEGER ? p.at_bias + p.middle * p.n_pad * 4 : p.at_float_bias), bias);
        if (smooth) qb_float_biases(multiplier, bias);
        qb_words<32> residual = {};
        size_t from = (size_t)row * p.res_total + p.res_offset + c;
        size_t to = (size_t)row * p.out_total + p.out_offset + c;
        bool both = p.out_c - c > 8; // eights
        if (res && valid) residual = qb_read_residual16(p, io.residual, from, both);
        Sum sum[16];
        qb_take16<ROWS, BLOCKS>(unit, acc, sum);
        qb_correct_class16(p, io, c, qb_class_or_middle(p, io, row), sum);
#pragma unroll
        for (int j = 0; j < 16; j++) {
            if constexpr (!INTEGER)
                v[j] = __fadd_rn(sum[j], bias[j]);
            else if (smooth)
                v[j] = __fmaf_rn((float)sum[j], multiplier[j], bias[j]);
            else
                v[j] = __fmul_rn((float)(int)((unsigned)sum[j] + __float_as_uint(bias[j])),
                                 multiplier[j]);
        }
        if (more && exists) qb_add16(at + p.at_float_bias, v);
        if (INTEGER && coarse && !res && p.wide && p.act == QB_ACT_GELU) {
            qb_store_gelu16(p, io.out, to, valid, v);
            continue;
        }
        if (INTEGER && p.rounds) {
#pragma unroll
            for (int j = 0; j < 16; j++) v[j] = qb_round_first(p, v[j]);
        }
        if (res && !p.act_first) qb_add_residual16(p, residual, v);
        qb_act_fast(p, coarse, v);
        if (res && p.act_first) qb_add_residual16(p, residual, v);
        if (p.wide)
            qb_store_floats16<!INTEGER>(p, io.out, to, valid, v);
        else if (valid && p.eights && p.out_dtype != QB_DTYPE_F32)
            qb_store_eights<!INTEGER>(p, io.out, to, both, v);
        else if (valid)
            qb_store_unaligned16(p, io.out, to, p.out_c - c, v);
    }
}

// Four accumulators of consecutive channels to a word of four quantized values less their zero
// point; `residual` as loaded, `more` the float biases.
template <class E>
QB_DEVICE uint32_t qb_epilogue4(const qb_cuda_conv &p, const int (&acc)[4], int4 bias,
                                float4 multiplier, uint32_t residual, qb_residual_q8 code,
                                float4 more = {}) {
    uint32_t r = E::residual::q8 ? residual ^ code.flip : 0u;
    const unsigned b[4] = {(unsigned)bias.x, (unsigned)bias.y, (unsigned)bias.z, (unsigned)bias.w};
    const float m[4] = {multiplier.x, multiplier.y, multiplier.z, multiplier.w};
    const float f[4] = {more.x, more.y, more.z, more.w};
    float v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[i] = __fmul_rn(__int2float_rn((int)((unsigned)acc[i] + b[i])), m[i]);
        v[i] = E::bias::add(v[i], f[i]);
        v[i] = E::residual::add(p, v[i], r, i, code);
        v[i] = __fmul_rn(v[i], p.inverse);
    }
    return E::activation::quantize4(p, v);
}

// What qb_epilogue_q8 and qb_epilogue_floats ask for the 16 bytes of row_of(i)'s residual, which
// exist, where it lies in memory.
template <class RowOf> struct qb_residual_rows {
    const qb_cuda_conv &p;
    const void *residual;
    int channel;
    RowOf row_of;
    __device__ __forceinline__ uint4 operator()(int i, int block) const {
        int c = channel + block * 64 + (threadIdx.x & 3) * 16;
        return qb_load16((const char *)residual +
                         ((uint32_t)row_of(i) * p.res_total + p.res_offset + c));
    }
};

// The constants of 16 channels for qb_epilogue_floats and qb_epilogue_unaligned: what
// is not there changes nothing. GELU: one float bias, for products and sums are rounded together.
// With a residual of Q8: without the float biases.
template <class E> struct qb_float_constants {
    float multiplier[16], bias[16], more[16];
    __device__ __forceinline__ void read(const qb_cuda_conv &p, const char *at, bool exists) {
#pragma unroll
        for (int j = 0; j < 16; j++) multiplier[j] = bias[j] = 0.0f, more[j] = -0.0f;
        if (!E::f16 && exists) qb_read16(at + p.at_multiplier, multiplier);
        if (!E::f16 && exists) qb_read16(at + p.at_bias, bias);
        if (E::residual::q8) return;
        if (p.has_float_bias && exists) qb_read16(at + p.at_float_bias, more);
        if (E::f16 || E::bounds) return;
        qb_float_biases(multiplier, bias);
#pragma unroll
        for (int j = 0; j < 16; j++) bias[j] = __fadd_rn(bias[j], more[j]);
    }
    template <class Sum> __device__ __forceinline__ float value(Sum sum, int j) const {
        if constexpr (E::f16) return E::activation::apply(__fadd_rn(sum, more[j]));
        if constexpr (!E::bounds) return __fmaf_rn((float)sum, multiplier[j], bias[j]);
        int biased = (int)((unsigned)sum + __float_as_uint(bias[j]));
        float scaled = __fmul_rn((float)biased, multiplier[j]);
        return E::residual::q8 ? scaled : __fadd_rn(scaled, more[j]);
    }
};

// A thread's sums by way of floats: integer sums to f16, GELU and SiLU; see qb_epilogue.
template <class E, int ROWS, int BLOCKS, class Acc, class RowOf, class Residual>
QB_DEVICE void qb_epilogue_floats(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                                  RowOf row_of, Acc acc, Residual residual) {
    const qb_residual_q8 code = qb_residual_q8_of(p);
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        int c = channel + block * 64 + (threadIdx.x & 3) * 16;
        bool exists = c < p.out_c;
        if (channel + block * 64 >= p.out_c) break;
        qb_float_constants<E> constants;
        constants.read(p, io.packed + (size_t)c * 4, exists);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            float v[16];
            size_t to = (size_t)row_of(i) * p.out_total + p.out_offset + c;
            bool valid = exists && row_of(i) < p.rows;
#pragma unroll
            for (int j = 0; j < 16; j++) v[j] = constants.value(acc(i, block, j), j);
            if constexpr (E::template is<typename E::activation, qb_activation_GELU_COARSE>) {
                qb_store_gelu16(p, io.out, to, valid, v);
                continue;
            }
            if constexpr (!E::f16 && !E::bounds) {
#pragma unroll
                for (int j = 0; j < 16; j++) v[j] = E::activation::apply(v[j]);
            }
            if constexpr (E::template is<typename E::store, qb_store_Q8>) {
                qb_store_floats16<false>(p, io.out, to, valid, v);
                continue;
            }
            if (E::residual::q8 && valid) {
                if (p.has_float_bias) // from the cache: registers are scarce
                    qb_add16(io.packed + p.at_float_bias + (size_t)c * 4, v);
                uint4 r = residual(i, block);
                const uint32_t word[4] = {r.x, r.y, r.z, r.w};
#pragma unroll
                for (int j = 0; j < 16; j++)
                    v[j] = qb_residual_Q8::add(p, v[j], word[j / 4] ^ code.flip, j % 4, code);
            }
            if (E::template is<typename E::residual, qb_residual_MAYBE> &&
                p.res_dtype != QB_DTYPE_NONE && valid)
                qb_add_residual16(p,
                                  qb_read<32>((const __half *)io.residual +
                                              ((size_t)row_of(i) * p.res_total + p.res_offset + c)),
                                  v);
            if (!E::f16 && E::bounds && p.act != QB_ACT_NONE) {
#pragma unroll
                for (int j = 0; j < 16; j++)
                    v[j] = qb_at_most(qb_at_least(v[j], p.lowest), p.highest);
            }
            uint32_t word[8];
#pragma unroll
            for (int j = 0; j < 8; j++) word[j] = qb_f16_pair(v[2 * j], v[2 * j + 1]);
            qb_store_f16x16((__half *)io.out + to, valid, word);
        }
    }
}

// Four of a row's sums through SiLU, and a residual, to quantized values; see qb_silu_coarse.
// Results are within a step, so that products are rounded with the sums they are for.
struct qb_silu4 {
    float magic, gain;
    qb_residual_q8 code;
    __device__ __forceinline__ explicit qb_silu4(const qb_cuda_conv &p)
        : magic(QB_ROUND_MAGIC + (float)p.out_zero), gain(p.res_scale * p.inverse),
          code(qb_residual_q8_of(p)) {}
    // Of half the value: what tanh takes.
    __device__ __forceinline__ void prepare(float (&multiplier)[16], float (&bias)[16]) const {
#pragma unroll
        for (int j = 0; j < 16; j++) multiplier[j] *= 0.5f;
        qb_float_biases(multiplier, bias);
    }
    __device__ __forceinline__ uint32_t quantize(const qb_cuda_conv &p, const int *sum,
                                                 const float *multiplier, const float *bias,
                                                 bool has_residual, uint32_t residual) const {
        uint32_t bits[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float half = __fmaf_rn((float)sum[k], multiplier[k], bias[k]);
            float scaled = half * p.inverse, v = __fmaf_rn(scaled, qb_tanh_fast(half), scaled);
            if (has_residual)
                v = __fmaf_rn(gain, qb_residual_value(residual ^ code.flip, k, code), v);
            bits[k] = __float_as_uint(fminf(fmaxf(v, p.lowest), p.highest) + magic);
        }
        return qb_pack4(bits[0], bits[1], bits[2], bits[3]);
    }
};

// The same through LeakyRelu, HardSwish or nothing, and bounds, with the reference's roundings.
struct qb_exact4 {
    uint32_t zero;
    qb_residual_q8 code;
    __device__ __forceinline__ explicit qb_exact4(const qb_cuda_conv &p)
        : zero((uint32_t)(p.out_zero & 0xff) * 0x01010101u), code(qb_residual_q8_of(p)) {}
    __device__ __forceinline__ void prepare(float (&)[16], float (&)[16]) const {}
    __device__ __forceinline__ uint32_t quantize(const qb_cuda_conv &p, const int *sum,
                                                 const float *multiplier, const float *bias,
                                                 bool has_residual, uint32_t residual) const {
        float v[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            v[k] =
                __fmul_rn((float)(int)((unsigned)sum[k] + __float_as_uint(bias[k])), multiplier[k]);
        if (p.act == QB_ACT_LEAKY_RELU) {
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = v[k] < 0.0f ? __fmul_rn(p.act_alpha, v[k]) : v[k];
        } else if (p.act == QB_ACT_HARD_SWISH) {
#pragma unroll
            for (int k = 0; k < 4; k++) v[k] = qb_hard_swish(v[k]);
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            if (has_residual) v[k] = qb_residual_Q8::add(p, v[k], residual ^ code.flip, k, code);
            v[k] = __fmul_rn(v[k], p.inverse);
        }
        return __vadd4(qb_quantize4<false>(p, v), zero);
    }
};

// A thread's integer sums to quantized values by way of SiLU or with the bias of a pixel's
// class behind an exact activation; see qb_epilogue. Short: code that does not fit the caches of
// instructions takes more time than it computes.
template <class E, int ROWS, int BLOCKS, class Acc, class RowOf>
QB_DEVICE void qb_epilogue_by_class(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                                    RowOf row_of, Acc acc) {
    constexpr bool EXACT = E::template is<typename E::activation, qb_activation_EXACT>;
    int cls[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) cls[i] = qb_class_or_middle(p, io, row_of(i));
    const bool res = p.res_dtype != QB_DTYPE_NONE;
    const std::conditional_t<EXACT, qb_exact4, qb_silu4> four(p);
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        int c = channel + block * 64 + (threadIdx.x & 3) * 16;
        if (c >= p.out_c) break;
        const char *at = io.packed + (size_t)c * 4;
        float multiplier[16], bias[16];
        qb_read16(at + p.at_multiplier, multiplier);
        qb_read16(at + p.at_bias + p.middle * p.n_pad * 4, bias);
        four.prepare(multiplier, bias);
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (row_of(i) >= p.rows) continue;
            uint32_t word[4] = {};
            if (res) {
                uint4 r = qb_load16((const char *)io.residual +
                                    ((size_t)row_of(i) * p.res_total + p.res_offset + c));
                word[0] = r.x, word[1] = r.y, word[2] = r.z, word[3] = r.w;
            }
            int sum[16];
#pragma unroll
            for (int j = 0; j < 16; j++) sum[j] = acc(i, block, j);
            qb_correct_class16(p, io, c, cls[i], sum);
#pragma unroll
            for (int j = 0; j < 4; j++)
                word[j] =
                    four.quantize(p, sum + 4 * j, multiplier + 4 * j, bias + 4 * j, res, word[j]);
            *(uint4 *)((char *)io.out + ((size_t)row_of(i) * p.out_total + p.out_offset + c)) =
                make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
}

// Multipliers and biases of a thread's channels: 16 of each block of 64.
template <int BLOCKS> struct qb_constants {
    float4 multiplier[BLOCKS * 4];
    int4 bias[BLOCKS * 4];
};

// Those of blocks from `channel` on. Biases by class are not among them.
template <class E, int BLOCKS>
QB_DEVICE void qb_load_constants(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                                 qb_constants<BLOCKS> &to) {
#pragma unroll
    for (int i = 0; i < BLOCKS * 4; i++) {
        int c = channel + i / 4 * 64 + (threadIdx.x & 3) * 16 + i % 4 * 4;
        if (c >= p.n_pad) break;
        to.multiplier[i] = qb_floats(qb_load16(io.packed + p.at_multiplier + (uint32_t)c * 4));
        if (!E::by_class) to.bias[i] = qb_ints(qb_load16(io.packed + p.at_bias + (uint32_t)c * 4));
    }
}

// Does row row_of(i) of the result exist? In place of row_of, qb_in_shared: results go to a box of
// shared memory, and what does not exist is left behind there.
struct qb_in_shared {};
template <class RowOf>
QB_DEVICE bool qb_row_exists(const qb_cuda_conv &p, const RowOf &row_of, int i) {
    return row_of(i) < p.rows;
}
QB_DEVICE bool qb_row_exists(const qb_cuda_conv &, const qb_in_shared &, int) { return true; }

// A thread's integer sums, clamped or saturated, to quantized values; see qb_epilogue. `held`:
// constants that were read before (HELD); else they are read here, block by block. A row's residual
// and its result share registers.
template <class E, int ROWS, int BLOCKS, bool HELD, class Acc, class RowOf, class Residual,
          class Store>
QB_DEVICE void qb_epilogue_q8(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                              const qb_constants<HELD ? BLOCKS : 1> *held, RowOf row_of, Acc acc,
                              Residual residual, Store store) {
    constexpr bool RES = E::residual::q8, BORDER = E::by_class;
    constexpr bool FLOAT = E::template is<typename E::bias, qb_bias_FLOAT>;
    qb_residual_q8 code = qb_residual_q8_of(p);
    uint32_t border[ROWS]; // bytes before the biases of a row's class
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        border[i] = 0;
        if constexpr (BORDER)
            if (row_of(i) < p.rows) border[i] = (uint32_t)qb_class(p, io, row_of(i)) * p.n_pad * 4;
    }
    uint32_t zero = (uint32_t)(p.out_zero & 0xff) * 0x01010101u;
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        int c = channel + block * 64 + (threadIdx.x & 3) * 16;
        if (!std::is_same<RowOf, qb_in_shared>::value && c >= p.out_c) break;
        uint32_t word[ROWS][4];
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            if (!RES || !qb_row_exists(p, row_of, i)) continue;
            uint4 v = residual(i, block);
            word[i][0] = v.x, word[i][1] = v.y, word[i][2] = v.z, word[i][3] = v.w;
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float4 m = HELD ? held->multiplier[HELD ? block * 4 + j : 0]
                            : qb_floats(qb_load16(io.packed + p.at_multiplier +
                                                  ((uint32_t)c * 4 + j * 16)));
            int4 b = HELD ? held->bias[HELD ? block * 4 + j : 0]
                     : BORDER
                         ? int4()
                         : qb_ints(qb_load16(io.packed + p.at_bias + ((uint32_t)c * 4 + j * 16)));
            float4 more =
                FLOAT
                    ? qb_floats(qb_load16(io.packed + p.at_float_bias + ((uint32_t)c * 4 + j * 16)))
                    : float4();
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                if (BORDER)
                    b = qb_ints(
                        qb_load16(io.packed + p.at_bias + (border[i] + (uint32_t)c * 4 + j * 16)));
                const int sums[4] = {acc(i, block, 4 * j), acc(i, block, 4 * j + 1),
                                     acc(i, block, 4 * j + 2), acc(i, block, 4 * j + 3)};
                word[i][j] = qb_epilogue4<E>(p, sums, b, m, RES ? word[i][j] : 0u, code, more);
            }
        }
        if (p.out_zero != 0) {
            asm volatile("" ::: "memory"); // a jump, not predicates: most results have none
#pragma unroll
            for (int i = 0; i < ROWS * 4; i++)
                word[i / 4][i % 4] = __vadd4(word[i / 4][i % 4], zero);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (qb_row_exists(p, row_of, i))
                store(i, block, make_uint4(word[i][0], word[i][1], word[i][2], word[i][3]));
    }
}

// The same to where the result lies in memory.
template <class E, int ROWS, int BLOCKS, bool HELD, class Acc, class RowOf, class Residual>
QB_DEVICE void qb_epilogue_q8(const qb_cuda_conv &p, const qb_cuda_conv_io &io, int channel,
                              const qb_constants<HELD ? BLOCKS : 1> *held, RowOf row_of, Acc acc,
                              Residual residual) {
    auto store = [&](int i, int block, uint4 v) {
        int c = channel + block * 64 + (threadIdx.x & 3) * 16;
        *(uint4 *)((char *)io.out + ((uint32_t)row_of(i) * p.out_total + p.out_offset + c)) = v;
    };
    qb_epilogue_q8<E, ROWS, BLOCKS, HELD>(p, io, channel, held, row_of, acc, residual, store);
}

#endif
