/* What the operators of onnxruntime share. */
#ifndef QB_OPS_CONTRIB_INTERNAL_H
#define QB_OPS_CONTRIB_INTERNAL_H

#include "build_internal.h"

/* Inputs of an attention over queries, keys and values in one; -1: none. `like` is of its batch and
 * type. */
typedef struct qb_packed_attention {
    int32_t mask, past, bias, like;
} qb_packed_attention;
/* The outputs of an Attention of `packed` [batch, length, width]. */
void qb_build_packed_attention(qb_build *b, int32_t packed, int64_t width,
                               const qb_packed_attention *a);
/* MatMulIntegerToFloat of a, b, their scales, their zero points and a bias, -1 where left out. */
int32_t qb_build_scaled_product(qb_build *b, const int32_t in[7]);

#endif
