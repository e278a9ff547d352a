/* Layer normalization: the plan, shared by the files for each instruction set. */
#ifndef QB_CPU_LAYER_NORM_INTERNAL_H
#define QB_CPU_LAYER_NORM_INTERNAL_H

#include "cpu_internal.h"

typedef struct qb_norm {
    qb_epilogue epilogue;
    int64_t rows, n;
    float epsilon, scale; /* of the data's quantized values */
    int32_t zero;
    qb_dtype dtype;
    bool rms; /* the mean is 0 */
} qb_norm;

/* One row of n elements; `shift` may be NULL, and `to` may be `row` where sizes are the same. */
typedef void (*qb_norm_fn)(const qb_norm *w, const char *row, const float *gain, const float *shift,
                           char *to);
#if QB_X86
void qb_norm_row_avx512(const qb_norm *w, const char *row, const float *gain, const float *shift,
                        char *to);
void qb_norm_row_avx2(const qb_norm *w, const char *row, const float *gain, const float *shift,
                      char *to);
void qb_norm_row_sse2(const qb_norm *w, const char *row, const float *gain, const float *shift,
                      char *to);
#endif

#endif
