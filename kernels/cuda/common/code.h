/* Which GPUs this program has code for, and what a tactic needs of one. All but the probe go by the
 * caller's description of a device, and ask none. */
#ifndef QB_CUDA_CODE_H
#define QB_CUDA_CODE_H

#include "kernels/cuda/common/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum qb_cuda_code {
    QB_CUDA_CODE_NONE,
    QB_CUDA_CODE_PTX,    /* the driver compiles it at the first use, and keeps the result */
    QB_CUDA_CODE_MACHINE /* instructions of that GPU */
} qb_cuda_code;

/* What this program was built for (QB_CUDA_ARCHITECTURES): "80 90a-real". Static. */
const char *qb_cuda_architectures(void);
/* What a program built for `architectures` has for compute capability major.minor; *from (optional)
 * becomes the architecture that it is of (80), 0 for NONE. The rules are those of CUDA: machine
 * code N runs on later minor versions of the same major one, PTX N on everything later, code Na on
 * that very version alone, code Nf on later minor versions of the same major one. */
qb_cuda_code qb_cuda_code_for(const char *architectures, int32_t major, int32_t minor,
                              int32_t *from);
/* UNSUPPORTED, naming both sides and what to build with, where a program built for `architectures`
 * has no code for the device. */
qb_status qb_cuda_code_check(qb_ctx *cx, const char *architectures, const qb_cuda_device *device);

/* Loads a kernel's code on the calling thread's device: *machine becomes what the instructions are
 * for (90: compute capability 9.0), *source the architecture that they were compiled from (80,
 * where the driver compiled the PTX of 8.0). Returns a code of the CUDA runtime (0: fine). */
int qb_cuda_code_probe(int32_t *machine, int32_t *source);
/* Is the code that this program has for the calling thread's device compiled for 9.0 or later? Code
 * from the PTX of 8.0 has neither clusters of blocks nor programmatic dependent launch anywhere.
 * Asked before every launch: the code itself is not looked at (qb_cuda_open does that). */
bool qb_cuda_has_code_90(void);

/* What a kernel needs of the device it runs on. */
typedef struct qb_cuda_need {
    bool wgmma;           /* code for compute capability 9.0 and no other */
    int32_t shared_bytes; /* that one block asks for beyond QB_CUDA_SHARED */
} qb_cuda_need;
#define QB_CUDA_SHARED 49152 /* bytes that a block has without asking */

/* Are there kernels for this very device that this program was built without? Engines, and times,
 * of one that has them are of no use here. */
bool qb_cuda_lacks_wgmma(const qb_cuda_device *device);
/* UNSUPPORTED, with the reason, where the device (or this program, which may be built without the
 * kernels on wgmma) does not have it. `name`: the tactic's. */
qb_status qb_cuda_need_check(qb_ctx *cx, const char *name, const qb_cuda_need *need,
                             const qb_cuda_device *device);

#ifdef __cplusplus
}
#endif
#endif
