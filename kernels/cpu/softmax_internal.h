/* Softmax: the plan, shared by the files for each instruction set. */
#ifndef QB_CPU_SOFTMAX_INTERNAL_H
#define QB_CPU_SOFTMAX_INTERNAL_H

#include "chain_internal.h"
#include "cpu_internal.h"

/* What is this far below a line's maximum counts as 0 (4e-31 of the largest element): masks of -100
 * make subnormal probabilities, with which a product takes ten times as long. */
#define QB_SOFTMAX_FAR (-70.0f)

typedef struct qb_softmax qb_softmax;
/* `items` times n x inner floats, the lines along n; `out` may be `in`. */
typedef void (*qb_softmax_fn)(const qb_softmax *s, const float *in, float *out, int64_t items);

struct qb_softmax {
    int64_t outer, n, inner; /* in the order of memory; lines run along n with a step of inner */
    int64_t per_task;        /* of the outer dimension */
    /* not plain: lines and items that become floats together, tasks */
    int64_t width, items, parts;
    bool zero_nan, plain; /* plain: floats to floats */
    qb_dtype dtype; /* of the data, with its scale and zero point; and the quantized values of the
                       result */
    float scale;
    int32_t zero;
    qb_chain_quantized quantized;
    qb_softmax_fn run;
};

#if QB_X86
/* What is fastest for lines of n elements that are `inner` apart. */
qb_softmax_fn qb_softmax_best_avx512(int64_t n, int64_t inner);
qb_softmax_fn qb_softmax_best_avx2(int64_t n, int64_t inner);
qb_softmax_fn qb_softmax_best_sse2(int64_t n, int64_t inner);
#endif

#endif
