/* Chains of elementwise functions (kernels/chain.h) on the device: one kernel that runs any of
 * them, as a program for a machine with an accumulator. */
#ifndef QB_CUDA_CHAIN_H
#define QB_CUDA_CHAIN_H

#include "kernels/chain.h"
#include "kernels/cuda/common/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_CUDA_CHAIN_SLOTS 8 /* results that wait in shared memory for a later operation */

/* Where an argument comes from, in this order: the result of the operation before, an input, a
 * slot, a constant. */
enum {
    QB_CUDA_CHAIN_LAST,
    QB_CUDA_CHAIN_INPUT,
    QB_CUDA_CHAIN_SLOT = QB_CUDA_CHAIN_INPUT + QB_CHAIN_INPUTS,
    QB_CUDA_CHAIN_CONSTANT = QB_CUDA_CHAIN_SLOT + QB_CUDA_CHAIN_SLOTS
};

typedef struct qb_cuda_chain_operation {
    uint8_t function, arguments;
    uint8_t from[3];
    uint8_t slot;   /* the result goes there as well; QB_CUDA_CHAIN_SLOTS: nobody else wants it */
    uint8_t divide; /* QUANTIZE: by a quotient, else by a product */
    uint8_t narrow; /* of integers: to 32 bits */
} qb_cuda_chain_operation;

/* What a thread takes. */
typedef enum qb_cuda_chain_way {
    QB_CUDA_CHAIN_APART,     /* four elements a block's width apart, each with a place of its own */
    QB_CUDA_CHAIN_FOLLOWING, /* eight that follow each other in the result, and in inputs that lie
                                as it does; those of other inputs one by one */
    QB_CUDA_CHAIN_TOGETHER   /* eight that lie together in all operands, or one for all eight */
} qb_cuda_chain_way;

#define QB_CUDA_CHAIN_WALKS 2 /* each has the result and two inputs */
typedef struct qb_cuda_chain {
    qb_cuda_walk walk[QB_CUDA_CHAIN_WALKS]; /* in the same order: that of the result's memory */
    qb_cuda_value out, in[QB_CHAIN_INPUTS]; /* also BOOL, S32, S64 */
    int32_t n_in, n_operations, n_slots;
    int32_t divide; /* how the result is quantized */
    int32_t way;    /* qb_cuda_chain_way */
    uint32_t alike; /* FOLLOWING: bit k: input k lies as the result does */
    float constant[QB_CHAIN_CONSTANTS];
    qb_cuda_chain_operation operation[QB_CHAIN_OPERATIONS];
    qb_cuda_value quantized[QB_CHAIN_OPERATIONS]; /* of QUANTIZE */
} qb_cuda_chain;
#define QB_CUDA_CHAIN_WIDE 8

/* The program; the walks and the values of inputs and result are left to the caller. False where
 * more results wait at once than there are slots. */
bool qb_cuda_chain_compile(const qb_chain *chain, qb_cuda_chain *out);
/* Unused inputs are NULL; `integer`: of a chain of integers. Return a code of the CUDA runtime (0:
 * fine). */
int qb_cuda_chain_integer_run(const qb_cuda_chain *p, const void *const in[QB_CHAIN_INPUTS],
                              void *out, void *stream);
int qb_cuda_chain_run(const qb_cuda_chain *p, const void *const in[QB_CHAIN_INPUTS], void *out,
                      void *stream);

#ifdef __cplusplus
}
#endif
#endif
