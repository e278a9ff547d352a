/* Rows of binary functions: dequantized values by scale and zero point, the function, and the
 * common end: the reference's operations in its order. */
#ifndef QB_CPU_BINARY_INTERNAL_H
#define QB_CPU_BINARY_INTERNAL_H

#include "cpu_internal.h"

typedef struct qb_operand {
    qb_dtype dtype; /* F32, U8 or S8 */
    float scale;    /* of quantized values */
    int32_t zero;
    int64_t step; /* elements from value to value of a row; 0: one for all */
} qb_operand;

typedef struct qb_binary {
    qb_binary_kind kind;
    qb_epilogue epilogue;
    qb_operand in[2];
    bool is_bytes; /* sums or products of 8-bit values to 8-bit values, far from the bounds of int32
                      and without an activation but bounds */
} qb_binary;

/* n values that follow each other in the result, which may lie where an operand with a step of 1
 * and elements of the same size does. */
typedef void (*qb_binary_fn)(const qb_binary *b, const char *const from[2], char *out, int64_t n);

void qb_binary_row_generic(const qb_binary *b, const char *const from[2], char *out, int64_t n);
#if QB_X86
void qb_binary_row_avx512(const qb_binary *b, const char *const from[2], char *out, int64_t n);
void qb_binary_row_avx2(const qb_binary *b, const char *const from[2], char *out, int64_t n);
void qb_binary_row_sse2(const qb_binary *b, const char *const from[2], char *out, int64_t n);
#endif

#endif
