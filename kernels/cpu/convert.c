#include "convert.h"

#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "finish_avx512.h"

static bool same_params(const qb_desc *a, const qb_desc *b) {
    if (a->dtype != b->dtype || a->q.n != b->q.n) return false;
    if (a->q.n == 0) return true;
    return a->q.n == 1 && a->q.scale[0] == b->q.scale[0] && qb_cpu_zero(a) == qb_cpu_zero(b);
}

static bool is_integer(const qb_desc *d) { return d->dtype == QB_DTYPE_S32 && d->q.n == 0; }

bool qb_convert_supports(const qb_desc *from, const qb_desc *to) {
    if (same_params(from, to)) return qb_dtype_size(from->dtype) > 0;
    if (qb_cpu_is_bf16(from) || qb_cpu_is_bf16(to))
        return qb_cpu_is_real(qb_cpu_is_bf16(from) ? to : from);
    if (is_integer(from)) return qb_cpu_is_real(to);
    return (qb_cpu_is_real(from) || qb_cpu_is_code(from)) &&
           (qb_cpu_is_real(to) || qb_cpu_is_code(to));
}

static void move(const qb_convert *c, const void *in, void *out, int64_t n) {
    memcpy(out, in, (size_t)n * c->in_size);
}

static void look_up(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    uint8_t *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = c->table[from[i]];
}

static void quantize(const qb_convert *c, const void *in, void *out, int64_t n) {
    const float *from = in;
    uint8_t *to = out; /* the low byte is the code of either sign */
    for (int64_t i = 0; i < n; i++) {
        float v = from[i] / c->scale;
        v = v < c->low ? c->low : v > c->high ? c->high : v;
        to[i] = (uint8_t)((isnan(v) ? 0 : (int32_t)lrintf(v)) + c->zero);
    }
}

static float real_of(const qb_convert *c, uint8_t byte) {
    int32_t code = c->is_signed ? (int32_t)(int8_t)byte : (int32_t)byte;
    return c->scale * (float)(code - c->zero);
}

static void dequantize(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    float *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = real_of(c, from[i]);
}

/* Piece by piece, for the result may lie where the integers do. */
QB_CLONES static void from_integer(const qb_convert *c, const void *in, void *out, int64_t n) {
    enum { PIECE = 64 };
    int32_t integer[PIECE] = {0};
    float real[PIECE];
    (void)c;
    for (int64_t i = 0; i < n; i += PIECE) {
        const size_t bytes = (size_t)qb_min64(PIECE, n - i) * sizeof *real;
        memcpy(integer, (const int32_t *)in + i, bytes);
        for (int k = 0; k < PIECE; k++) real[k] = (float)integer[k];
        memcpy((float *)out + i, real, bytes);
    }
}

/* bf16 is the upper half of a float. */
static void widen(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint16_t *from = in;
    uint32_t *to = out;
    (void)c;
    for (int64_t i = 0; i < n; i++) to[i] = (uint32_t)from[i] << 16;
}

/* To the nearest, ties to even; a NaN stays one. */
static void narrow(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint32_t *from = in;
    uint16_t *to = out;
    (void)c;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = from[i];
        const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
        const uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
        to[i] = (uint16_t)((nan ? bits | 0x400000u : rounded) >> 16);
    }
}

#if QB_X86
QB_AVX512 static void widen_avx512(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint16_t *from = in;
    float *to = out;
    (void)c;
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1u);
        _mm512_mask_storeu_ps(to + i, mask, qb_load_bf16(from + i, mask));
    }
}

QB_AVX512 static void narrow_avx512(const qb_convert *c, const void *in, void *out, int64_t n) {
    const float *from = in;
    uint16_t *to = out;
    (void)c;
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1u);
        qb_store_bf16(to + i, mask, _mm512_maskz_loadu_ps(mask, from + i));
    }
}

QB_AVX512 static void quantize_avx512(const qb_convert *c, const void *in, void *out, int64_t n) {
    const float *from = in;
    uint8_t *to = out;
    __m512 scale = _mm512_set1_ps(c->scale);
    __m512 low = _mm512_set1_ps(c->low), high = _mm512_set1_ps(c->high);
    __m512i zero = _mm512_set1_epi32(c->zero);
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1u);
        __m512 v = _mm512_div_ps(_mm512_maskz_loadu_ps(mask, from + i), scale);
        v = _mm512_min_ps(high, _mm512_max_ps(low, v));
        __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
        __m512i code = _mm512_add_epi32(_mm512_maskz_cvtps_epi32(number, v), zero);
        if (mask == 0xffff)
            _mm_storeu_si128((__m128i *)(void *)(to + i), _mm512_cvtepi32_epi8(code));
        else
            _mm_mask_storeu_epi8(to + i, mask, _mm512_cvtepi32_epi8(code));
    }
}

QB_AVX512 static void dequantize_avx512(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    float *to = out;
    __m512i zero = _mm512_set1_epi32(c->zero);
    __m512 scale = _mm512_set1_ps(c->scale);
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1u);
        __m512 v = qb_codes_avx512(_mm_maskz_loadu_epi8(mask, from + i), c->is_signed, zero, scale);
        _mm512_mask_storeu_ps(to + i, mask, v);
    }
}
#endif

static void fill_table(qb_convert *c, const qb_desc *from, const qb_desc *to) {
    qb_convert in = {.scale = from->q.scale[0],
                     .zero = qb_cpu_zero(from),
                     .is_signed = from->dtype == QB_DTYPE_S8};
    for (int byte = 0; byte < 256; byte++)
        c->table[byte] = (uint8_t)qb_quantize_value(real_of(&in, (uint8_t)byte), to->q.scale[0],
                                                    qb_cpu_zero(to), to->dtype);
}

qb_convert qb_convert_of(const qb_desc *from, const qb_desc *to) {
    qb_convert c = {.in_size = qb_dtype_size(from->dtype), .out_size = qb_dtype_size(to->dtype)};
    if (same_params(from, to)) {
        c.run = move;
        return c;
    }
    if (is_integer(from)) {
        c.run = from_integer;
        return c;
    }
    if (qb_cpu_is_bf16(from) || qb_cpu_is_bf16(to)) {
        c.run = qb_cpu_is_bf16(from) ? widen : narrow;
#if QB_X86
        if (qb_cpu_has_avx512()) c.run = qb_cpu_is_bf16(from) ? widen_avx512 : narrow_avx512;
#endif
        return c;
    }
    if (from->q.n > 0 && to->q.n > 0) {
        c.run = look_up;
        fill_table(&c, from, to);
        return c;
    }
    const qb_desc *codes = from->q.n > 0 ? from : to;
    c.scale = codes->q.scale[0];
    c.zero = qb_cpu_zero(codes);
    c.is_signed = codes->dtype == QB_DTYPE_S8;
    c.low = (float)((c.is_signed ? INT8_MIN : 0) - c.zero);
    c.high = (float)((c.is_signed ? INT8_MAX : UINT8_MAX) - c.zero);
    c.run = codes == from ? dequantize : quantize;
#if QB_X86
    if (qb_cpu_has_avx512()) c.run = codes == from ? dequantize_avx512 : quantize_avx512;
#endif
    return c;
}
