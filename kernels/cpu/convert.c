#include "convert.h"

#include <string.h>

#include "base/vector_loop.h"
#include "kernels/ref.h"

#if QB_X86
#include <immintrin.h>
#endif

bool qb_convert_moves(const qb_desc *a, const qb_desc *b) {
    if (a->dtype != b->dtype || a->q.n != b->q.n) return false;
    if (a->q.n == 0) return true;
    return a->q.n == 1 && a->q.scale[0] == b->q.scale[0] && qb_cpu_zero(a) == qb_cpu_zero(b);
}

static bool is_integer(const qb_desc *d) { return d->dtype == QB_DTYPE_S32 && d->q.n == 0; }

bool qb_convert_supports(const qb_desc *from, const qb_desc *to) {
    if (qb_convert_moves(from, to)) return qb_dtype_size(from->dtype) > 0;
    if (qb_cpu_is_bf16(from) || qb_cpu_is_bf16(to))
        return qb_cpu_is_f32(qb_cpu_is_bf16(from) ? to : from);
    if (is_integer(from)) return qb_cpu_is_f32(to);
    return (qb_cpu_is_f32(from) || qb_cpu_is_quantized(from)) &&
           (qb_cpu_is_f32(to) || qb_cpu_is_quantized(to));
}

static void move(const qb_convert *c, const void *in, void *out, int64_t n) {
    memcpy(out, in, (size_t)n * c->in_size);
}

static void look_up(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    uint8_t *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = c->table[from[i]];
}

static void look_up_float(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    float *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = c->f32[from[i]];
}

/* Piece by piece, for the result may lie where the integers do. */
QB_LOOP(from_integer, (const qb_convert *c, const void *in, void *out, int64_t n),
        (c, in, out, n)) {
    enum { PIECE = 64 };
    int32_t integer[PIECE] = {0};
    float f32[PIECE];
    (void)c;
    for (int64_t i = 0; i < n; i += PIECE) {
        const size_t bytes = (size_t)qb_min64(PIECE, n - i) * sizeof *f32;
        memcpy(integer, (const int32_t *)in + i, bytes);
        for (int k = 0; k < PIECE; k++) f32[k] = (float)integer[k];
        memcpy((float *)out + i, f32, bytes);
    }
}

#if QB_X86
/* Sixteen rows of sixteen results: a value picks from the row of its upper half, and is out of
 * reach of pshufb (which gives 0 for an index above 127) in all others. */
QB_AVX2 static void look_up_avx2(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    uint8_t *to = out;
    __m256i row[16];
    for (int r = 0; r < 16; r++)
        row[r] = _mm256_broadcastsi128_si256(
            _mm_loadu_si128((const __m128i *)(const void *)(c->table + 16 * r)));
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(from + i));
        __m256i y = _mm256_setzero_si256();
        QB_UNROLL for (int r = 0; r < 16; r++) {
            const __m256i own = _mm256_xor_si256(x, _mm256_set1_epi8((char)(r << 4)));
            const __m256i at = _mm256_adds_epu8(own, _mm256_set1_epi8(0x70));
            y = _mm256_or_si256(y, _mm256_shuffle_epi8(row[r], at));
        }
        _mm256_storeu_si256((__m256i *)(void *)(to + i), y);
    }
    look_up(c, from + i, to + i, n - i);
}

/* Two permutations of 128 bytes each, chosen between by the highest bit. */
QB_AVX512_VBMI static void look_up_vbmi(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    uint8_t *to = out;
    __m512i part[4];
    for (int k = 0; k < 4; k++) part[k] = _mm512_loadu_si512(c->table + 64 * k);
    for (int64_t i = 0; i < n; i += 64) {
        const __mmask64 mask = n - i >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << (n - i)) - 1;
        const __m512i x = _mm512_maskz_loadu_epi8(mask, from + i);
        const __m512i low = _mm512_permutex2var_epi8(part[0], x, part[1]);
        const __m512i high = _mm512_permutex2var_epi8(part[2], x, part[3]);
        _mm512_mask_storeu_epi8(to + i, mask,
                                _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
    }
}
#endif

static void fill_table(qb_convert *c, const qb_desc *from, const qb_desc *to) {
    for (int byte = 0; byte < 256; byte++) {
        const int32_t code = from->dtype == QB_DTYPE_S8 ? (int32_t)(int8_t)byte : byte;
        const float f32 = from->q.scale[0] * (float)(code - qb_cpu_zero(from));
        c->table[byte] =
            (uint8_t)qb_quantize_value(f32, to->q.scale[0], qb_cpu_zero(to), to->dtype);
    }
}

static const qb_convert_loops *loops(void) {
#if QB_X86
    if (qb_processor_has(QB_TIER_AVX512)) return &qb_convert_avx512;
    return qb_processor_has(QB_TIER_AVX2) ? &qb_convert_avx2 : &qb_convert_sse2;
#else
    return &qb_convert_generic;
#endif
}

static qb_convert_fn best_look_up(void) {
#if QB_X86
    if (qb_processor_has_vbmi()) return look_up_vbmi;
    if (qb_processor_has(QB_TIER_AVX2)) return look_up_avx2;
#endif
    return look_up;
}

qb_convert qb_convert_of(const qb_desc *from, const qb_desc *to) {
    qb_convert c = {.in_size = qb_dtype_size(from->dtype), .out_size = qb_dtype_size(to->dtype)};
    if (qb_convert_moves(from, to)) {
        c.run = move;
        return c;
    }
    if (is_integer(from)) {
        c.run = from_integer;
        return c;
    }
    if (qb_cpu_is_bf16(from) || qb_cpu_is_bf16(to)) {
        c.run = qb_cpu_is_bf16(from) ? loops()->widen : loops()->narrow;
        return c;
    }
    if (from->q.n > 0 && to->q.n > 0) {
        c.run = best_look_up();
        fill_table(&c, from, to);
        return c;
    }
    const qb_desc *quantized = from->q.n > 0 ? from : to;
    c.scale = quantized->q.scale[0];
    c.zero = qb_cpu_zero(quantized);
    c.is_signed = quantized->dtype == QB_DTYPE_S8;
    c.low = (float)((c.is_signed ? INT8_MIN : 0) - c.zero);
    c.high = (float)((c.is_signed ? INT8_MAX : UINT8_MAX) - c.zero);
    c.run = quantized == from ? loops()->dequantize : loops()->quantize;
    return c;
}

bool qb_convert_unary_supports(const qb_problem *p) {
    const qb_desc *x = &p->in[0];
    if (qb_cpu_is_quantized(x)) return qb_cpu_is_quantized(&p->out) || qb_cpu_is_f32(&p->out);
    return qb_cpu_is_f32(x) && qb_epilogue_supports(p);
}

/* The results of all 256 values. */
static void fill_results(qb_convert *c, const qb_problem *p) {
    uint8_t every[256];
    qb_desc in = p->in[0];
    qb_problem values = *p;
    for (int i = 0; i < 256; i++) every[i] = (uint8_t)i;
    values.in = &in;
    in.layout = values.out.layout = QB_LAYOUT_ROW;
    in.shape = values.out.shape = qb_shape_of(1, 256);
    in.channel_offset = in.channel_total = 0;
    values.out.channel_offset = values.out.channel_total = 0;
    const void *data[] = {every};
    void *results = c->out_size == 1 ? (void *)c->table : (void *)c->f32;
    if (p->kind == QB_KIND_CHAIN)
        qb_ref_chain(&values, data, results);
    else
        qb_ref_unary(&values, data, results);
}

qb_convert qb_convert_unary(const qb_problem *p) {
    qb_convert c = {.in_size = qb_dtype_size(p->in[0].dtype),
                    .out_size = qb_dtype_size(p->out.dtype)};
    if (p->in[0].q.n > 0) {
        fill_results(&c, p);
        c.run = c.out_size == 1 ? best_look_up() : look_up_float;
        return c;
    }
    c.epilogue = qb_epilogue_of(p);
    c.run = loops()->apply;
    return c;
}
