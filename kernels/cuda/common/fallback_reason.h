/* Why a slow kernel runs a problem. */
#ifndef QB_CUDA_FALLBACK_REASON_H
#define QB_CUDA_FALLBACK_REASON_H

#include "kernels/tactic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a plain kernel of a convolution or a product of 8-bit values or f16: what of its problem
 * keeps the tiles of the Tensor Cores from it, such as "C=18: no tile", in text[n]. False for all
 * other kernels. Host only, any thread. */
bool qb_cuda_fallback_reason(const qb_kernel *kernel, char *text, size_t n);

#ifdef __cplusplus
}
#endif
#endif
