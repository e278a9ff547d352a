/* Runs of values from one type and quantization to another, as COPY defines it: quantizing divides
 * by the scale (the fused steps multiply by its reciprocal), see qb_quantize_value. */
#ifndef QB_CPU_CONVERT_H
#define QB_CPU_CONVERT_H

#include "cpu_internal.h"

typedef struct qb_convert qb_convert;
typedef void (*qb_convert_fn)(const qb_convert *c, const void *in, void *out, int64_t n);

struct qb_convert {
    qb_convert_fn run; /* contiguous in, contiguous out */
    size_t in_size, out_size;
    float scale; /* of whichever side is quantized */
    int32_t zero;
    float low, high;      /* bounds of code - zero */
    bool is_signed;       /* of the quantized values */
    uint8_t table[256];   /* quantized values to quantized ones */
    float f32[256];       /* ... to floats, where a function lies between */
    qb_epilogue epilogue; /* floats through a function */
};

/* Those that have vectors. */
typedef struct qb_convert_loops {
    qb_convert_fn apply, quantize, dequantize, widen, narrow;
} qb_convert_loops;
extern const qb_convert_loops qb_convert_generic;
#if QB_X86
extern const qb_convert_loops qb_convert_avx512, qb_convert_avx2, qb_convert_sse2;
#endif

/* f32, bf16, u8 and s8 to each other with one scale (but bf16 and quantized values), s32 to f32, or
 * any type to itself. */
bool qb_convert_supports(const qb_desc *from, const qb_desc *to);
qb_convert qb_convert_of(const qb_desc *from, const qb_desc *to);
/* Do the bytes stay what they are? */
bool qb_convert_moves(const qb_desc *from, const qb_desc *to);

/* The same through the function of a UNARY problem, or from 8-bit values through a CHAIN of one
 * input. Whatever it is, from 8-bit values it is a table of 256 results, which the reference fills.
 */
bool qb_convert_unary_supports(const qb_problem *p);
qb_convert qb_convert_unary(const qb_problem *p);

#endif
