/* The plain convolution and transposed convolution: every size, group, dilation, layout and type.
 */
#ifndef QB_CUDA_DIRECT_H
#define QB_CUDA_DIRECT_H

#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The packed weight is [taps][C / g][M] of float, or of s16 with zero points subtracted. Offsets
 * into `packed` in bytes. */
typedef struct qb_cuda_direct {
    qb_cuda_window w;
    qb_cuda_value in;
    qb_cuda_epilogue_params end;
    int32_t integer, transposed, has_bias, has_float_bias;
    int32_t computed, f16_weight, f16_bias; /* floats that come with each launch, and their types */
    int64_t at_multiplier, at_bias, packed_bytes;
} qb_cuda_direct;
/* Packs a weight, and a bias (NULL: none), that are computed. */
int qb_cuda_direct_pack_run(const qb_cuda_direct *p, const void *weight, const void *bias,
                            char *packed, void *stream);
int qb_cuda_direct_run(const qb_cuda_direct *p, const void *in, const void *residual,
                       const char *packed, void *out, void *stream);
/* The same by tiles through shared memory: one group, not transposed. */
int qb_cuda_direct_tile_run(const qb_cuda_direct *p, const void *in, const void *residual,
                            const char *packed, void *out, void *stream);

#ifdef __cplusplus
}
#endif
#endif
