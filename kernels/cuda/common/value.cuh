// Reading and writing dequantized values on the device, and the end of a fused step, bit for bit as
// kernels/problem.h says. Every product and sum is rounded by itself.
#ifndef QB_CUDA_VALUE_CUH
#define QB_CUDA_VALUE_CUH

#include <cuda_fp16.h>

#include "kernels/cuda/common/value.h"

#ifndef QB_DEVICE
#define QB_DEVICE static __device__ __forceinline__
#endif

// Adding 1.5 x 2^23 leaves the integer, rounded half even, in the low bits.
#define QB_ROUND_MAGIC 12582912.0f

// The lowest bytes of four words.
QB_DEVICE uint32_t qb_pack4(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// To 2 ulp, and 1.
QB_DEVICE float qb_power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

QB_DEVICE float qb_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

QB_DEVICE float qb_hard_swish(float x) {
    const float gate = __fadd_rn(__fmul_rn(x, 1.0f / 6.0f), 0.5f);
    return __fmul_rn(x, gate < 0.0f ? 0.0f : gate > 1.0f ? 1.0f : gate);
}

// The activations that are exact: the same bits as on the host.
QB_DEVICE float qb_act_exact(int act, float a, float b, float x) {
    switch (act) {
    case QB_ACT_RELU: return x < 0.0f ? 0.0f : x;
    case QB_ACT_CLIP: x = x < a ? a : x; return x > b ? b : x;
    case QB_ACT_LEAKY_RELU: return x < 0.0f ? __fmul_rn(a, x) : x;
    case QB_ACT_HARD_SIGMOID:
        x = __fadd_rn(__fmul_rn(a, x), b);
        return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x;
    case QB_ACT_HARD_SWISH: return qb_hard_swish(x);
    default: return x;
    }
}

QB_DEVICE float qb_act_of(int act, float a, float b, float x) {
    switch (act) {
    case QB_ACT_SIGMOID: return __fdiv_rn(1.0f, __fadd_rn(1.0f, expf(-x)));
    case QB_ACT_TANH: return tanhf(x);
    case QB_ACT_SILU: return __fdiv_rn(x, __fadd_rn(1.0f, expf(-x)));
    case QB_ACT_GELU:
        return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, erff(__fmul_rn(x, 0x1.6a09e6p-1f))));
    case QB_ACT_GELU_TANH: {
        float cube = __fmul_rn(__fmul_rn(__fmul_rn(0.044715f, x), x), x);
        float inner = __fmul_rn(0.797884561f, __fadd_rn(x, cube));
        return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, tanhf(inner)));
    }
    case QB_ACT_ELU: return x < 0.0f ? __fmul_rn(a, expm1f(x)) : x;
    default: return qb_act_exact(act, a, b, x);
    }
}

// BYTES (a power of two) at `from`, aligned to them or to 16, as words.
template <int BYTES> struct qb_words { uint32_t word[(BYTES + 3) / 4]; };

template <int BYTES> QB_DEVICE qb_words<BYTES> qb_read(const void *from) {
    qb_words<BYTES> w;
    if constexpr (BYTES >= 16) {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            uint4 v = ((const uint4 *)from)[i];
            w.word[4 * i] = v.x, w.word[4 * i + 1] = v.y;
            w.word[4 * i + 2] = v.z, w.word[4 * i + 3] = v.w;
        }
    } else if constexpr (BYTES == 8) {
        uint2 v = *(const uint2 *)from;
        w.word[0] = v.x, w.word[1] = v.y;
    } else if constexpr (BYTES == 4) {
        w.word[0] = *(const uint32_t *)from;
    } else if constexpr (BYTES == 2) {
        w.word[0] = *(const uint16_t *)from;
    } else {
        w.word[0] = *(const uint8_t *)from;
    }
    return w;
}

template <int BYTES> QB_DEVICE void qb_write(void *to, const qb_words<BYTES> &w) {
    if constexpr (BYTES >= 16) {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++)
            ((uint4 *)to)[i] =
                make_uint4(w.word[4 * i], w.word[4 * i + 1], w.word[4 * i + 2], w.word[4 * i + 3]);
    } else if constexpr (BYTES == 8) {
        *(uint2 *)to = make_uint2(w.word[0], w.word[1]);
    } else if constexpr (BYTES == 4) {
        *(uint32_t *)to = w.word[0];
    } else if constexpr (BYTES == 2) {
        *(uint16_t *)to = (uint16_t)w.word[0];
    } else {
        *(uint8_t *)to = (uint8_t)w.word[0];
    }
}

QB_DEVICE float qb_from_f16_bits(uint32_t bits) {
    return __half2float(__ushort_as_half((unsigned short)bits));
}

QB_DEVICE uint32_t qb_to_f16_bits(float v) { return __half_as_ushort(__float2half_rn(v)); }

// Two values as f16, `low` in the low half: one instruction.
QB_DEVICE uint32_t qb_f16_pair(float low, float high) {
    __half2 pair = __floats2half2_rn(low, high);
    return *(const uint32_t *)&pair;
}

// Element I of a word of quantized values as an integer.
QB_DEVICE int qb_q8_at(uint32_t word, int i, bool is_signed) {
    int code = (int)(word >> i * 8 & 255u);
    return is_signed ? (int)(int8_t)code : code;
}

// V elements from element `at` on, as they are: quantized values less their zero point, not scaled.
template <int V>
QB_DEVICE void qb_load_unscaled(const qb_cuda_value &p, const void *data, int64_t at,
                                float (&v)[V]) {
    if (p.dtype == QB_DTYPE_F32) {
        qb_words<V * 4> w = qb_read<V * 4>((const float *)data + at);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = __uint_as_float(w.word[i]);
    } else if (p.dtype == QB_DTYPE_F16) {
        qb_words<V * 2> w = qb_read<V * 2>((const __half *)data + at);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = qb_from_f16_bits(w.word[i / 2] >> i % 2 * 16 & 0xffffu);
    } else if (p.dtype == QB_DTYPE_U16) {
        qb_words<V * 2> w = qb_read<V * 2>((const uint16_t *)data + at);
#pragma unroll
        for (int i = 0; i < V; i++) v[i] = (float)(w.word[i / 2] >> i % 2 * 16 & 0xffffu);
    } else {
        qb_words<V> w = qb_read<V>((const uint8_t *)data + at);
        bool is_signed = p.dtype == QB_DTYPE_S8;
#pragma unroll
        for (int i = 0; i < V; i++)
            v[i] = (float)(qb_q8_at(w.word[i / 4], i % 4, is_signed) - p.zero);
    }
}

QB_DEVICE bool qb_is_q8(int dtype) { return dtype == QB_DTYPE_U8 || dtype == QB_DTYPE_S8; }

// Quantized values less their zero point to dequantized values.
template <int V> QB_DEVICE void qb_scale(const qb_cuda_value &p, float (&v)[V]) {
    if (!qb_is_q8(p.dtype)) return;
#pragma unroll
    for (int i = 0; i < V; i++) v[i] = __fmul_rn(p.scale, v[i]);
}

template <int V>
QB_DEVICE void qb_load_floats(const qb_cuda_value &p, const void *data, int64_t at, float (&v)[V]) {
    qb_load_unscaled<V>(p, data, at, v);
    qb_scale<V>(p, v);
}

// Float to a quantized value less its zero point. DIVIDE: as COPY does, by a quotient; else as the
// end of a fused step, by a product. NaN passes the bounds and converts to 0.
template <bool DIVIDE> QB_DEVICE int qb_round_one(const qb_cuda_value &p, float f32) {
    float v = DIVIDE ? __fdiv_rn(f32, p.scale) : __fmul_rn(f32, p.inverse);
    return __float2int_rn(v < p.lowest ? p.lowest : v > p.highest ? p.highest : v);
}

// The same with it, bytes above it zero.
template <bool DIVIDE> QB_DEVICE uint32_t qb_quantize_one(const qb_cuda_value &p, float f32) {
    return (uint32_t)(qb_round_one<DIVIDE>(p, f32) + p.zero) & 255u;
}

template <int V, bool DIVIDE>
QB_DEVICE void qb_store_floats(const qb_cuda_value &p, void *data, int64_t at,
                               const float (&v)[V]) {
    if (p.dtype == QB_DTYPE_F32) {
        qb_words<V * 4> w;
#pragma unroll
        for (int i = 0; i < V; i++) w.word[i] = __float_as_uint(v[i]);
        qb_write<V * 4>((float *)data + at, w);
    } else if (p.dtype == QB_DTYPE_F16 || p.dtype == QB_DTYPE_U16) {
        bool half = p.dtype == QB_DTYPE_F16;
        qb_words<V * 2> w = {};
#pragma unroll
        for (int i = 0; i < V; i++)
            w.word[i / 2] |= (half ? qb_to_f16_bits(v[i]) : (uint32_t)v[i]) << i % 2 * 16;
        qb_write<V * 2>((uint16_t *)data + at, w);
    } else {
        qb_words<V> w = {};
#pragma unroll
        for (int i = 0; i < V; i++) w.word[i / 4] |= qb_quantize_one<DIVIDE>(p, v[i]) << i % 4 * 8;
        qb_write<V>((uint8_t *)data + at, w);
    }
}

QB_DEVICE float qb_residual_at(const qb_cuda_epilogue_params &p, const void *residual, int64_t at) {
    float r[1] = {0.0f};
    if (p.residual.dtype != QB_DTYPE_NONE) qb_load_floats<1>(p.residual, residual, at, r);
    return r[0];
}

// The end of a step for one element, whose residual is here. Long: not for unrolled loops.
QB_DEVICE void qb_epilogue_with(const qb_cuda_epilogue_params &p, float residual, void *out,
                                int64_t at, float f32) {
    bool has = p.residual.dtype != QB_DTYPE_NONE;
    if (!has || p.act_first) f32 = qb_act_of(p.act, p.alpha, p.beta, f32);
    if (has) {
        if (p.rounding.dtype != QB_DTYPE_NONE)
            f32 = __fmul_rn(p.rounding.scale, (float)qb_round_one<false>(p.rounding, f32));
        f32 = __fadd_rn(f32, residual);
        if (!p.act_first) f32 = qb_act_of(p.act, p.alpha, p.beta, f32);
    }
    float v[1] = {f32};
    qb_store_floats<1, false>(p.out, out, at, v);
}

QB_DEVICE void qb_epilogue_of_value(const qb_cuda_epilogue_params &p, const void *residual,
                                    int64_t res_at, void *out, int64_t at, float f32) {
    qb_epilogue_with(p, qb_residual_at(p, residual, res_at), out, at, f32);
}

#endif
