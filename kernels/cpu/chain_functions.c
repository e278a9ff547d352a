/* The functions of chains over blocks of floats, in vectors of whatever the processor has: the
 * compiler makes them of plain loops. The bits are the same in all of them. Exponentials and what
 * is made of them are right to a few units in the last place of the result, or of one. */
#include "chain_internal.h"

#include <math.h>
#include <string.h>

#include "base/vector_loop.h"
#include "cpu_internal.h"

static inline __attribute__((always_inline)) float of_bits(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

#define INLINE static inline __attribute__((always_inline)) float

/* NaN stays. */
INLINE fast_clip(float x, float low, float high) {
    const float v = x < low ? low : x;
    return v > high ? high : v;
}

/* e^x = 2^n e^r with |r| <= ln(2) / 2 and the Taylor polynomial of degree 7 for e^r. 2^n in two
 * factors: the result may be subnormal, or infinity. */
INLINE fast_exp(float x) {
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    x = fast_clip(x, -104.0f, 89.0f);
    const float shifted = x * 1.44269504f + round, n = shifted - round;
    const float r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f; /* ln(2) in two parts */
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t e = (int32_t)(bits_of(shifted) - 0x4b400000u), half = e >> 1;
    return p * of_bits((uint32_t)(half + 127) << 23) * of_bits((uint32_t)(e - half + 127) << 23);
}

INLINE fast_expm1(float x) {
    float near = 1.0f / 5040; /* the Taylor polynomial, for |x| <= 0.5 */
    near = near * x + 1.0f / 720;
    near = near * x + 1.0f / 120;
    near = near * x + 1.0f / 24;
    near = near * x + 1.0f / 6;
    near = near * x + 0.5f;
    near = near * x + 1.0f;
    near = near * x;
    const float far = fast_exp(x) - 1.0f;
    return fabsf(x) < 0.5f ? near : far;
}

/* m = x / 2^e between sqrt(1/2) and sqrt(2), and log m = 2 artanh((m - 1) / (m + 1)). */
INLINE fast_log(float x) {
    const float tiny = 0x1p-126f, wide = x < tiny ? x * 0x1p23f : x;
    const uint32_t from_root = bits_of(wide) - 0x3f3504f3u; /* sqrt(1/2) */
    const int32_t e = (int32_t)from_root >> 23;
    const float m = of_bits((from_root & 0x7fffffu) + 0x3f3504f3u);
    const float s = (m - 1.0f) / (m + 1.0f), q = s * s;
    float p = 2.0f / 9;
    p = p * q + 2.0f / 7;
    p = p * q + 2.0f / 5;
    p = p * q + 2.0f / 3;
    p = p * q + 2.0f;
    const float exponent = (float)e - (x < tiny ? 23.0f : 0.0f);
    const float value = exponent * 0x1.62e43p-1f + (exponent * -0x1.05c61p-29f + s * p);
    const float zero = x == 0.0f ? -INFINITY : NAN;
    return x > 0.0f ? (x < INFINITY ? value : x) : zero;
}

/* For x from 0 to 1. */
INLINE fast_log1p(float x) {
    const float s = x / (x + 2.0f), q = s * s;
    float p = 2.0f / 15;
    p = p * q + 2.0f / 13;
    p = p * q + 2.0f / 11;
    p = p * q + 2.0f / 9;
    p = p * q + 2.0f / 7;
    p = p * q + 2.0f / 5;
    p = p * q + 2.0f / 3;
    p = p * q + 2.0f;
    return s * p;
}

/* 1 - 2 / (e^2x + 1); near zero, where that loses digits, the Taylor series up to x^15. */
INLINE fast_tanh(float x) {
    const float far = 1.0f - 2.0f / (fast_exp(x + x) + 1.0f), q = x * x;
    float near = -929569.0f / 638512875;
    near = near * q + 21844.0f / 6081075;
    near = near * q - 1382.0f / 155925;
    near = near * q + 62.0f / 2835;
    near = near * q - 17.0f / 315;
    near = near * q + 2.0f / 15;
    near = near * q - 1.0f / 3;
    near = near * q * x + x;
    return fabsf(x) < 0.5f ? near : far;
}

INLINE fast_erf(float x) {
    static const float p[] = QB_ERF_P, q[] = QB_ERF_Q;
    const float z = fast_clip(x, -QB_ERF_BOUND, QB_ERF_BOUND), square = z * z;
    float above = p[0], below = q[0];
    QB_UNROLL for (size_t i = 1; i < sizeof p / sizeof *p; i++) above = above * square + p[i];
    QB_UNROLL for (size_t i = 1; i < sizeof q / sizeof *q; i++) below = below * square + q[i];
    return fast_clip(z * above / below, -1.0f, 1.0f);
}

/* x tanh(log(1 + e^x)) = x (u^2 + 2 u) / (u^2 + 2 u + 2) with u = e^x. */
INLINE fast_mish(float x) {
    const float u = fast_exp(fast_clip(x, -104.0f, 20.0f)), v = u * (u + 2.0f);
    return x < -100.0f ? 0.0f : x * (v / (v + 2.0f));
}

/* x - n pi / 2 for the nearest n, in double: a float has no more digits than that leaves, up to
 * 10^8 or so. Infinity becomes NaN. */
INLINE quarter(float x, uint32_t *n) {
    const double round = 0x1.8p52, shifted = (double)x * 0x1.45f306dc9c883p-1 + round;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    *n = (uint32_t)bits;
    const double rest = (double)x - (shifted - round) * 0x1.921fb54442d18p0;
    return fast_clip((float)rest, -1.0f, 1.0f) + (x - x);
}

/* Polynomials of the Cephes library for |r| <= pi / 4; n says which of the four quarters it is. */
INLINE sine_of(float r, uint32_t n) {
    const float q = r * r;
    float sine = -1.9515295891e-4f;
    sine = sine * q + 8.3321608736e-3f;
    sine = sine * q - 1.6666654611e-1f;
    sine = sine * q * r + r;
    float cosine = 2.443315711809948e-5f;
    cosine = cosine * q - 1.388731625493765e-3f;
    cosine = cosine * q + 4.166664568298827e-2f;
    cosine = cosine * q * q - 0.5f * q + 1.0f;
    const float v = n & 1 ? cosine : sine;
    return of_bits(bits_of(v) ^ (n & 2) << 30);
}

INLINE fast_sin(float x) {
    uint32_t n;
    const float r = quarter(x, &n);
    return sine_of(r, n);
}

INLINE fast_cos(float x) {
    uint32_t n;
    const float r = quarter(x, &n);
    return sine_of(r, n + 1);
}

/* As Cephes: beyond tan(3 pi / 8) of the reciprocal, from tan(pi / 8) on of (z - 1) / (z + 1). */
INLINE fast_atan(float x) {
    const float z = fabsf(x);
    const bool far = z > 2.41421356f, middle = z > 0.414213562f;
    const float t = far ? -1.0f / z : middle ? (z - 1.0f) / (z + 1.0f) : z;
    const float start = far ? 1.57079633f : middle ? 0.785398163f : 0.0f, q = t * t;
    float p = 8.05374449538e-2f;
    p = p * q - 1.38776856032e-1f;
    p = p * q + 1.99777106478e-1f;
    p = p * q - 3.33329491539e-1f;
    return copysignf(start + (p * q * t + t), x);
}

#define sinf fast_sin
#define cosf fast_cos
#define atanf fast_atan
#define F(name) fast_##name
#define QB_FUNCTION(NAME, ARGUMENTS, EXPRESSION)                                                   \
    QB_LOOP(run_##NAME,                                                                            \
            (float *restrict to, const float *first, const float *second, const float *third,      \
             int64_t n),                                                                           \
            (to, first, second, third, n)) {                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            const float a = first[i];                                                              \
            const float b = ARGUMENTS > 1 ? second[i] : 0.0f;                                      \
            const float c = ARGUMENTS > 2 ? third[i] : 0.0f;                                       \
            (void)b, (void)c;                                                                      \
            to[i] = EXPRESSION;                                                                    \
        }                                                                                          \
    }
#include "kernels/functions.def"
#undef QB_FUNCTION

qb_chain_block_fn qb_chain_block(qb_function function) {
    static const qb_chain_block_fn blocks[QB_FUNCTION_COUNT] = {
#define QB_FUNCTION(NAME, ARGUMENTS, EXPRESSION) [QB_FUNCTION_##NAME] = run_##NAME,
#include "kernels/functions.def"
#undef QB_FUNCTION
    };
    return blocks[function];
}

/* NaN becomes the zero point, as in qb_quantize_value. */
QB_LOOP(quantized_by,
        (const float *from, int32_t *to, float factor, float low, float high, bool divide,
         int64_t n),
        (from, to, factor, low, high, divide, n)) {
    const float round = 0x1.8p23f;
    for (int64_t i = 0; i < n; i++) {
        const float scaled = divide ? from[i] / factor : from[i] * factor;
        const float v = scaled == scaled ? fast_clip(scaled, low, high) : 0.0f;
        to[i] = (int32_t)(bits_of(v + round) - 0x4b400000u); /* to the nearest, ties to even */
    }
}

static void quantized_of(const float *from, const qb_chain_quantized *q, int64_t n, int32_t *to) {
    const float low = (float)((q->dtype == QB_DTYPE_U8 ? 0 : INT8_MIN) - q->zero);
    const float high = (float)((q->dtype == QB_DTYPE_U8 ? UINT8_MAX : INT8_MAX) - q->zero);
    quantized_by(from, to, q->divide ? q->scale : 1.0f / q->scale, low, high, q->divide, n);
}

QB_LOOP(floats, (const int32_t *from, float scale, int64_t n, float *to), (from, scale, n, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = scale * (float)from[i];
}

QB_LOOP(bytes, (const int32_t *from, int32_t zero, int64_t n, uint8_t *to), (from, zero, n, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = (uint8_t)(from[i] + zero);
}

qb_chain_quantized qb_chain_quantized_of(const qb_desc *out, bool divide) {
    if (out->q.n == 0) return (qb_chain_quantized){.dtype = QB_DTYPE_NONE};
    return (qb_chain_quantized){out->q.scale[0], qb_cpu_zero(out), out->dtype, divide};
}

void qb_chain_round(const float *from, const qb_chain_quantized *q, int64_t n, float *to) {
    int32_t code[QB_CHAIN_BLOCK];
    quantized_of(from, q, n, code);
    floats(code, q->scale, n, to);
}

void qb_chain_quantize(const float *from, const qb_chain_quantized *q, int64_t n, uint8_t *to) {
    int32_t code[QB_CHAIN_BLOCK];
    quantized_of(from, q, n, code);
    bytes(code, q->zero, n, to);
}

void qb_chain_write(const qb_chain_quantized *q, const float *from, int64_t n, void *to) {
    if (q->dtype == QB_DTYPE_NONE)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
        qb_chain_quantize(from, q, n, to);
}

QB_LOOP(load_u8, (const uint8_t *from, float scale, int32_t zero, int64_t n, float *to),
        (from, scale, zero, n, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = scale * (float)(from[i] - zero);
}

QB_LOOP(load_s8, (const int8_t *from, float scale, int32_t zero, int64_t n, float *to),
        (from, scale, zero, n, to)) {
    for (int64_t i = 0; i < n; i++) to[i] = scale * (float)(from[i] - zero);
}

/* The exponents of a half are 112 less; the smallest ones are numbers of steps of 2^-24. */
INLINE of_f16(uint16_t f16) {
    const uint32_t size = f16 & 0x7fffu, bits = size << 13;
    const float normal = of_bits(bits + (112u << 23)), small = (float)(int32_t)size * 0x1p-24f;
    const float value = size < 0x400u ? small : normal;
    const float most = of_bits(bits | 0x7f800000u); /* infinity, NaN */
    return of_bits(bits_of(size < 0x7c00u ? value : most) | (uint32_t)(f16 & 0x8000u) << 16);
}

/* To the nearest, ties to even. Adding 1/2 leaves the number of steps of 2^-24 in the low bits. */
static inline __attribute__((always_inline)) uint16_t f16_of(float v) {
    const uint32_t bits = bits_of(v), size = bits & 0x7fffffffu;
    const uint32_t small = bits_of(of_bits(size) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13;
    const uint32_t finite = size < 0x38800000u ? small : normal;  /* 2^-14 */
    const uint32_t most = size > 0x7f800000u ? 0x7e00u : 0x7c00u; /* NaN, infinity */
    return (uint16_t)((size < 0x477ff000u ? finite : most) | (bits >> 16 & 0x8000u)); /* 65520 */
}

/* A NaN stays one. */
static inline __attribute__((always_inline)) uint16_t bf16_of(float v) {
    const uint32_t bits = bits_of(v), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (uint16_t)((v != v ? bits | 0x400000u : rounded) >> 16);
}

#define LOAD(NAME, T, VALUE)                                                                       \
    QB_LOOP(load_##NAME, (const T *from, int64_t n, float *to), (from, n, to)) {                   \
        for (int64_t i = 0; i < n; i++) to[i] = VALUE;                                             \
    }
LOAD(bool, uint8_t, from[i] ? 1.0f : 0.0f)
LOAD(u16, uint16_t, (float)from[i])
LOAD(s16, int16_t, (float)from[i])
LOAD(s32, int32_t, (float)from[i])
LOAD(s64, int64_t, (float)from[i])
LOAD(f16, uint16_t, of_f16(from[i]))
LOAD(bf16, uint16_t, of_bits((uint32_t)from[i] << 16))

void qb_chain_load(qb_dtype dtype, float scale, int32_t zero, const void *from, int64_t n,
                   float *to) {
    switch (dtype) {
    case QB_DTYPE_F32: memcpy(to, from, (size_t)n * sizeof *to); return;
    case QB_DTYPE_U8: load_u8(from, scale, zero, n, to); return;
    case QB_DTYPE_S8: load_s8(from, scale, zero, n, to); return;
    case QB_DTYPE_BOOL: load_bool(from, n, to); return;
    case QB_DTYPE_U16: load_u16(from, n, to); return;
    case QB_DTYPE_S16: load_s16(from, n, to); return;
    case QB_DTYPE_S32: load_s32(from, n, to); return;
    case QB_DTYPE_F16: load_f16(from, n, to); return;
    case QB_DTYPE_BF16: load_bf16(from, n, to); return;
    default: load_s64(from, n, to);
    }
}

/* Integers saturate, NaN is 0: qb_number_put. */
#define STORE(NAME, T, VALUE)                                                                      \
    QB_LOOP(store_##NAME, (const float *from, int64_t n, T *to), (from, n, to)) {                  \
        for (int64_t i = 0; i < n; i++) to[i] = VALUE;                                             \
    }
#define SATURATED(T, LOW, HIGH, LIMIT)                                                             \
    from[i] != from[i] ? 0 : from[i] >= LIMIT ? HIGH : from[i] < -LIMIT ? LOW : (T)from[i]
STORE(bool, uint8_t, from[i] != 0.0f)
#define SATURATED_SMALL(LOW, HIGH)                                                                 \
    (int32_t)(from[i] == from[i] ? fast_clip(from[i], LOW, HIGH) : 0.0f)
STORE(u8, uint8_t, (uint8_t)SATURATED_SMALL(0, UINT8_MAX))
STORE(s8, int8_t, (int8_t)SATURATED_SMALL(INT8_MIN, INT8_MAX))
STORE(u16, uint16_t, (uint16_t)SATURATED_SMALL(0, UINT16_MAX))
STORE(s16, int16_t, (int16_t)SATURATED_SMALL(INT16_MIN, INT16_MAX))
STORE(f16, uint16_t, f16_of(from[i]))
STORE(bf16, uint16_t, bf16_of(from[i]))
STORE(s32, int32_t, SATURATED(int32_t, INT32_MIN, INT32_MAX, 0x1p31f))
STORE(s64, int64_t, SATURATED(int64_t, INT64_MIN, INT64_MAX, 0x1p63f))

void qb_chain_store(qb_dtype dtype, const float *from, int64_t n, void *to) {
    switch (dtype) {
    case QB_DTYPE_F32: memcpy(to, from, (size_t)n * sizeof *from); return;
    case QB_DTYPE_BOOL: store_bool(from, n, to); return;
    case QB_DTYPE_U8: store_u8(from, n, to); return;
    case QB_DTYPE_S8: store_s8(from, n, to); return;
    case QB_DTYPE_U16: store_u16(from, n, to); return;
    case QB_DTYPE_S16: store_s16(from, n, to); return;
    case QB_DTYPE_F16: store_f16(from, n, to); return;
    case QB_DTYPE_BF16: store_bf16(from, n, to); return;
    case QB_DTYPE_S32: store_s32(from, n, to); return;
    default: store_s64(from, n, to);
    }
}
