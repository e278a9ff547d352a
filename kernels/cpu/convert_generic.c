/* Runs of values from one type to another in plain C. */
#include <math.h>

#include "convert.h"

static void apply(const qb_convert *c, const void *in, void *out, int64_t n) {
    qb_epilogue_run(&c->epilogue, in, n, NULL, out);
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

static float float_of(const qb_convert *c, uint8_t byte) {
    int32_t code = c->is_signed ? (int32_t)(int8_t)byte : (int32_t)byte;
    return c->scale * (float)(code - c->zero);
}

static void dequantize(const qb_convert *c, const void *in, void *out, int64_t n) {
    const uint8_t *from = in;
    float *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = float_of(c, from[i]);
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

const qb_convert_loops qb_convert_generic = {apply, quantize, dequantize, widen, narrow};
