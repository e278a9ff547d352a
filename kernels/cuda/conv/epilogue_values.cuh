// Values on their way from a product's sums to its results, mostly sixteen at a time: activations,
// residuals, rounding, packing and stores; see epilogue.cuh. Every product and sum is rounded
// by itself (the _rn forms never fuse).
#ifndef QB_CUDA_EPILOGUE_VALUES_CUH
#define QB_CUDA_EPILOGUE_VALUES_CUH

#include "kernels/cuda/common/value.cuh"
#include "kernels/cuda/conv/conv.h"

QB_DEVICE void qb_store(const qb_cuda_conv &p, void *out, size_t at, float f32) {
    if (p.out_dtype == QB_DTYPE_F32) {
        ((float *)out)[at] = f32;
    } else if (p.out_dtype == QB_DTYPE_F16) {
        ((__half *)out)[at] = __float2half_rn(f32);
    } else {
        float v = __fmul_rn(f32, p.inverse);
        v = v < p.lowest ? p.lowest : v > p.highest ? p.highest : v; // NaN passes, converts to 0
        ((uint8_t *)out)[at] = (uint8_t)(__float2int_rn(v) + p.out_zero);
    }
}

// Eight floats to 16 bytes of f16.
QB_DEVICE uint4 qb_pack_f16(const float (&v)[8]) {
    uint32_t word[4];
#pragma unroll
    for (int i = 0; i < 4; i++) word[i] = qb_f16_pair(v[2 * i], v[2 * i + 1]);
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// The larger (smaller) one; NaN stays.
QB_DEVICE float qb_at_least(float v, float low) { return v < low ? low : v; }
QB_DEVICE float qb_at_most(float v, float high) { return v > high ? high : v; }

QB_DEVICE float qb_tanh_fast(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// GELU with 1 - erf z = P(1 / (1 + p z)) exp(-z^2), z >= 0, to 1.5e-7 (Abramowitz and Stegun 1964,
// 7.1.26): 0.5 x (1 + erf(x / sqrt 2)) = max(x, 0) - 0.5 |x| (1 - erf(|x| / sqrt 2)).
QB_DEVICE float qb_gelu_fast(float x) {
    float z = fabsf(x) * 0.70710678f, t = qb_reciprocal(__fmaf_rn(0.3275911f, z, 1.0f));
    float series = __fmaf_rn(1.061405429f, t, -1.453152027f);
    series = __fmaf_rn(series, t, 1.421413741f);
    series = __fmaf_rn(series, t, -0.284496736f);
    series = __fmaf_rn(series, t, 0.254829592f) * t;
    float tail = series * qb_power_of_2(z * z * -1.44269504f);
    return __fmaf_rn(fabsf(x) * -0.5f, tail, fmaxf(x, 0.0f));
}

// GELU to QB_CUDA_GELU_COARSE, for quantized values of a larger scale: erf(x / sqrt 2) as
// tanh(sqrt(2 / pi) (x
// + 0.044715 x^3)), which is off by 4.8e-4 at most, with the unit's tanh, 2^-11.
QB_DEVICE float qb_gelu_coarse(float x) {
    float inner = x * __fmaf_rn(0.0356774081f, x * x, 0.797884561f), half = 0.5f * x;
    return __fmaf_rn(half, qb_tanh_fast(inner), half);
}

QB_DEVICE float qb_silu_fast(float x) {
    return x * qb_reciprocal(1.0f + qb_power_of_2(x * -1.44269504f));
}

// SiLU to QB_CUDA_SILU_COARSE, for quantized values of a larger scale: x / 2 (1 + tanh(x / 2)) with
// the unit's tanh, 2^-11 up to x = 10, from where on it is 1.
QB_DEVICE float qb_silu_coarse(float x) {
    float half = 0.5f * x;
    return __fmaf_rn(half, qb_tanh_fast(half), half);
}

// Is the result quantized, and are the coarse forms within half a step?
QB_DEVICE bool qb_is_coarse(const qb_cuda_conv &p) {
    float off = p.act == QB_ACT_SILU ? QB_CUDA_SILU_COARSE : QB_CUDA_GELU_COARSE;
    return qb_is_q8(p.out_dtype) && p.inverse * off < 0.5f;
}

// The activations of stores of VECTOR. `coarse`: see qb_is_coarse. GELU and SiLU are within a step,
// the others as qb_act_of.
template <int N> QB_DEVICE void qb_act_fast(const qb_cuda_conv &p, bool coarse, float (&v)[N]) {
    switch (p.act) {
    case QB_ACT_NONE: return;
    case QB_ACT_GELU:
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = coarse ? qb_gelu_coarse(v[j]) : qb_gelu_fast(v[j]);
        return;
    case QB_ACT_SILU:
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = coarse ? qb_silu_coarse(v[j]) : qb_silu_fast(v[j]);
        return;
    case QB_ACT_RELU:
    case QB_ACT_CLIP: {
        float low = p.act == QB_ACT_RELU ? 0.0f : p.act_alpha;
        float high = p.act == QB_ACT_RELU ? INFINITY : p.act_beta;
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = qb_at_most(qb_at_least(v[j], low), high);
        return;
    }
    case QB_ACT_LEAKY_RELU:
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = v[j] < 0.0f ? __fmul_rn(p.act_alpha, v[j]) : v[j];
        return;
    case QB_ACT_HARD_SWISH:
#pragma unroll
        for (int j = 0; j < N; j++) v[j] = qb_hard_swish(v[j]);
        return;
    default: // long functions once; registers have no index, so that values move on
#pragma unroll 1
        for (int i = 0; i < N; i++) {
            float result = qb_act_of(p.act, p.act_alpha, p.act_beta, v[0]);
#pragma unroll
            for (int j = 0; j + 1 < N; j++) v[j] = v[j + 1];
            v[N - 1] = result;
        }
    }
}

// The low byte is the quantized value less its zero point. MAYBE_NAN: NaN becomes the zero point.
template <bool MAYBE_NAN> QB_DEVICE uint32_t qb_quantized_bits(const qb_cuda_conv &p, float f32) {
    float code = fminf(fmaxf(__fmul_rn(f32, p.inverse), p.lowest), p.highest);
    if (MAYBE_NAN && f32 != f32) code = 0.0f;
    return __float_as_uint(__fadd_rn(code, QB_ROUND_MAGIC));
}

// 32 bytes of f16 from `to` on, of all lanes of a warp that have some. The lanes 2 i and 2 i + 1,
// whose 64 bytes follow each other, exchange halves, so that each store fills sectors of 32 bytes.
QB_DEVICE void qb_store_f16x16(__half *to, bool valid, const uint32_t (&word)[8]) {
    bool odd = threadIdx.x & 1, both = __shfl_xor_sync(0xffffffffu, valid, 1) && valid;
    uint32_t other[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        other[j] = __shfl_xor_sync(0xffffffffu, odd ? word[j] : word[4 + j], 1);
    uint4 first = make_uint4(word[0], word[1], word[2], word[3]);
    uint4 second = make_uint4(word[4], word[5], word[6], word[7]);
    uint4 swapped = make_uint4(other[0], other[1], other[2], other[3]);
    if (!valid) return;
    *(uint4 *)(both && odd ? to - 8 : to) = both && odd ? swapped : first;
    *(uint4 *)(both && !odd ? to + 16 : to + 8) = both && !odd ? swapped : second;
}

// 16 floats to four words of quantized values.
template <bool MAYBE_NAN> QB_DEVICE uint4 qb_pack_q8(const qb_cuda_conv &p, const float (&v)[16]) {
    uint32_t word[4], zero = (uint32_t)(p.out_zero & 0xff) * 0x01010101u;
    auto code = [&](int i) { return qb_quantized_bits<MAYBE_NAN>(p, v[i]); };
#pragma unroll
    for (int j = 0; j < 16; j += 4)
        word[j / 4] = __vadd4(qb_pack4(code(j), code(j + 1), code(j + 2), code(j + 3)), zero);
    return make_uint4(word[0], word[1], word[2], word[3]);
}

// 16 floats to 16 channels from element `at` on, f16 or quantized; `valid`: they exist. All lanes
// of a warp call together.
template <bool MAYBE_NAN>
QB_DEVICE void qb_store_floats16(const qb_cuda_conv &p, void *out, size_t at, bool valid,
                                 const float (&v)[16]) {
    if (p.out_dtype == QB_DTYPE_F16) {
        uint32_t word[8];
#pragma unroll
        for (int j = 0; j < 8; j++) word[j] = qb_f16_pair(v[2 * j], v[2 * j + 1]);
        qb_store_f16x16((__half *)out + at, valid, word);
        return;
    }
    uint4 quantized = qb_pack_q8<MAYBE_NAN>(p, v);
    if (valid) *(uint4 *)((char *)out + at) = quantized;
}

// 16 floats to channels from element `at` on, f16 or quantized, which is on a boundary of eight;
// the second eight only if there are `more`.
template <bool MAYBE_NAN>
QB_DEVICE void qb_store_eights(const qb_cuda_conv &p, void *out, size_t at, bool more,
                               const float (&v)[16]) {
    if (p.out_dtype == QB_DTYPE_F16) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (half == 1 && !more) return;
            float eight[8];
#pragma unroll
            for (int i = 0; i < 8; i++) eight[i] = v[half * 8 + i];
            *(uint4 *)((__half *)out + at + half * 8) = qb_pack_f16(eight);
        }
        return;
    }
    uint4 quantized = qb_pack_q8<MAYBE_NAN>(p, v);
    *(uint2 *)((char *)out + at) = make_uint2(quantized.x, quantized.y);
    if (more) *(uint2 *)((char *)out + at + 8) = make_uint2(quantized.z, quantized.w);
}

// The first `left` of 16 floats from element `at` on, wherever that lies.
QB_DEVICE void qb_store_unaligned16(const qb_cuda_conv &p, void *out, size_t at, int left,
                                    const float (&v)[16]) {
    if (p.out_dtype != QB_DTYPE_F16 || left < 16) {
#pragma unroll
        for (int j = 0; j < 16; j++)
            if (j < left) qb_store(p, out, at + j, v[j]);
        return;
    }
    __half *to = (__half *)out + at;
    if (at & 1) { // the words in between
        to[0] = __float2half_rn(v[0]);
#pragma unroll
        for (int j = 1; j < 15; j += 2) *(uint32_t *)(to + j) = qb_f16_pair(v[j], v[j + 1]);
        to[15] = __float2half_rn(v[15]);
    } else {
#pragma unroll
        for (int j = 0; j < 16; j += 2) *(uint32_t *)(to + j) = qb_f16_pair(v[j], v[j + 1]);
    }
}

// Adds 16 elements of the residual, quantized or f16, as they were read.
QB_DEVICE void qb_add_residual16(const qb_cuda_conv &p, const qb_words<32> &w, float (&v)[16]) {
    if (p.res_dtype == QB_DTYPE_F16) {
#pragma unroll
        for (int j = 0; j < 16; j++)
            v[j] = __fadd_rn(v[j], qb_from_f16_bits(w.word[j / 2] >> j % 2 * 16 & 0xffffu));
        return;
    }
    uint32_t flip = p.res_dtype == QB_DTYPE_S8 ? 0x80808080u : 0u; // 2^23 + value, and exactly back
    float offset = 8388608.0f + (float)(p.res_zero + (flip ? 128 : 0));
#pragma unroll
    for (int j = 0; j < 16; j++) {
        uint32_t code = __byte_perm(w.word[j / 4] ^ flip, 0x4b000000u, 0x7440 | j % 4);
        v[j] = __fadd_rn(v[j], __fmul_rn(p.res_scale, __fsub_rn(__uint_as_float(code), offset)));
    }
}

// 16 elements of the residual from element `at` on, which is on a boundary of eight; of the second
// eight only if there are `more`.
QB_DEVICE qb_words<32> qb_read_residual16(const qb_cuda_conv &p, const void *residual, size_t at,
                                          bool more) {
    qb_words<32> to = {};
    if (p.res_dtype == QB_DTYPE_F16) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            if (half == 1 && !more) break;
            qb_words<16> w = qb_read<16>((const __half *)residual + at + half * 8);
#pragma unroll
            for (int i = 0; i < 4; i++) to.word[half * 4 + i] = w.word[i];
        }
        return to;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if (half == 1 && !more) break;
        qb_words<8> w = qb_read<8>((const char *)residual + at + half * 8);
        to.word[half * 2] = w.word[0], to.word[half * 2 + 1] = w.word[1];
    }
    return to;
}

// 16 consecutive floats of a packed array.
QB_DEVICE void qb_read16(const char *from, float (&to)[16]) {
    qb_words<64> w = qb_read<64>(from);
#pragma unroll
    for (int j = 0; j < 16; j++) to[j] = __uint_as_float(w.word[j]);
}

// Adds 16 consecutive floats of a packed array.
QB_DEVICE void qb_add16(const char *from, float (&v)[16]) {
    float more[16];
    qb_read16(from, more);
#pragma unroll
    for (int j = 0; j < 16; j++) v[j] = __fadd_rn(v[j], more[j]);
}

// 16 floats, by way of the coarse GELU, to 16 quantized values.
QB_DEVICE void qb_store_gelu16(const qb_cuda_conv &p, void *out, size_t at, bool valid,
                               const float (&v)[16]) {
    float half = 0.5f * p.inverse, magic = QB_ROUND_MAGIC + (float)p.out_zero;
    uint32_t bits[16];
#pragma unroll
    for (int j = 0; j < 16; j++) {
        float inner = v[j] * __fmaf_rn(0.0356774081f, v[j] * v[j], 0.797884561f), h = half * v[j];
        float code = __fmaf_rn(h, qb_tanh_fast(inner), h);
        bits[j] = __float_as_uint(__fadd_rn(fminf(fmaxf(code, p.lowest), p.highest), magic));
    }
    uint32_t word[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        word[j] = qb_pack4(bits[4 * j], bits[4 * j + 1], bits[4 * j + 2], bits[4 * j + 3]);
    if (valid) *(uint4 *)((char *)out + at) = make_uint4(word[0], word[1], word[2], word[3]);
}

// 16 float biases of integer sums, in place of the integers whose bits are there.
QB_DEVICE void qb_float_biases(const float (&multiplier)[16], float (&bias)[16]) {
#pragma unroll
    for (int j = 0; j < 16; j++)
        bias[j] = __fmul_rn((float)(int)__float_as_uint(bias[j]), multiplier[j]);
}

// Four values in units of 2^-149, of which a product with 2^-149 left the bits of integers rounded
// half even: to bytes, those outside of 0 to 255 to the nearer end. The bits of a negative value
// are those of a negative integer, and the order of the others is that of their bits.
QB_DEVICE uint32_t qb_pack4_saturated(const float (&v)[4]) {
    uint32_t high, word;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(high)
        : "r"(__float_as_int(v[3])), "r"(__float_as_int(v[2])), "r"(0));
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;"
        : "=r"(word)
        : "r"(__float_as_int(v[1])), "r"(__float_as_int(v[0])), "r"(high));
    return word;
}

// Four values, in units of the result's scale, to a word of four quantized values less their zero
// point. ZERO: their bounds are 0 and 255, which packing saturates to.
template <bool ZERO> QB_DEVICE uint32_t qb_quantize4(const qb_cuda_conv &p, float (&v)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = ZERO ? __fmul_rn(v[i], 0x1p-149f)
                    : __fadd_rn(fminf(fmaxf(v[i], p.lowest), p.highest), QB_ROUND_MAGIC);
    return ZERO ? qb_pack4_saturated(v)
                : qb_pack4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]),
                           __float_as_uint(v[3]));
}

// To the quantized values that a result has before the residual is added, and back.
QB_DEVICE float qb_round_first(const qb_cuda_conv &p, float v) {
    v = fminf(fmaxf(__fmul_rn(v, p.first_inverse), p.first_lowest), p.first_highest);
    return __fmul_rn(p.first_scale, __fsub_rn(__fadd_rn(v, QB_ROUND_MAGIC), QB_ROUND_MAGIC));
}

// What the residual's words need to become floats.
struct qb_residual_q8 {
    uint32_t flip, magic;
    float offset;
};

QB_DEVICE qb_residual_q8 qb_residual_q8_of(const qb_cuda_conv &p) {
    uint32_t flip = p.res_dtype == QB_DTYPE_S8 ? 0x80808080u : 0u;
    // 2^23; were it known to the compiler, the four selectors of bytes would take registers
    uint32_t magic = p.rows < 0 ? 0u : 0x4b000000u;
    return {flip, magic, 8388608.0f + (float)(p.res_zero + (flip ? 128 : 0))};
}

// Byte i of a word of four residual values as a float: 2^23 + value, less 2^23 and the zero point
// (of values shifted to be unsigned). All exact.
QB_DEVICE float qb_residual_value(uint32_t word, int i, qb_residual_q8 code) {
    return __fsub_rn(__uint_as_float(__byte_perm(word, code.magic, 0x7440 | i)), code.offset);
}

QB_DEVICE uint4 qb_load16(const void *from) { return __ldg((const uint4 *)from); }

QB_DEVICE float4 qb_floats(uint4 v) {
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                       __uint_as_float(v.w));
}

QB_DEVICE int4 qb_ints(uint4 v) { return make_int4((int)v.x, (int)v.y, (int)v.z, (int)v.w); }

#endif
