/* Chains: elementwise functions that run as one step, block by block, so that what lies between
 * them never reaches memory. The problem of a CHAIN (kernels/problem.h) has one.
 *
 * Numbers live in registers: the problem's inputs (quantized values as the floats they stand for,
 * integers and conditions as floats), then constants, then the results of the operations in order.
 * The last operation's is the result. Every operation works on the whole output shape; inputs
 * broadcast.
 *
 * A chain of integers (`integer`) has them in registers of 64 bits instead: inputs and result are
 * S32, S64 or BOOL, nothing is quantized. */
#ifndef QB_KERNELS_CHAIN_H
#define QB_KERNELS_CHAIN_H

#include "kernels/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_CHAIN_INPUTS 4
#define QB_CHAIN_CONSTANTS 12
#define QB_CHAIN_OPERATIONS 24

typedef enum qb_function {
    QB_FUNCTION_NONE,
#define QB_FUNCTION(NAME, ARGUMENTS, EXPRESSION) QB_FUNCTION_##NAME,
#include "kernels/functions.def"
#undef QB_FUNCTION
    QB_FUNCTION_QUANTIZE, /* to quantized values and back; not of an operator */
    QB_FUNCTION_MODULO,   /* of integers alone, with the sign of the divisor */
    QB_FUNCTION_COUNT
} qb_function;

/* Quantization inside a chain. The fused steps multiply by the reciprocal of the scale, Q/DQ nodes
 * and operators without a fused form divide by it. */
typedef struct qb_chain_quantized {
    float scale;
    int32_t zero;
    qb_dtype dtype; /* U8 or S8 */
    bool divide;
} qb_chain_quantized;

typedef struct qb_chain_operation {
    qb_function function;
    int32_t in[3];                /* registers; those that the function has */
    qb_chain_quantized quantized; /* QUANTIZE */
    bool narrow;                  /* of integers: the result wraps to 32 bits */
} qb_chain_operation;

typedef struct qb_chain {
    int32_t n_in, n_constants, n_operations;
    float constant[QB_CHAIN_CONSTANTS];
    qb_chain_operation operation[QB_CHAIN_OPERATIONS];
    bool divide; /* how the result is quantized, where it is */
    bool integer;
} qb_chain;

/* Arguments of a function, 1 to 3. */
int32_t qb_function_arguments(qb_function function);
/* Has kernels/integers.def the function? */
bool qb_function_of_integers(qb_function function);
/* Can a step read or write this type? Reals (also in 16 bits), 8-bit values with one scale, and
 * without scales conditions and integers but those unsigned ones of 32 and 64 bits, which are made
 * floats (and results integers again). Devices take fewer. */
bool qb_chain_type(const qb_desc *desc);
/* Are registers and types in order, and do the inputs broadcast to the output? */
bool qb_chain_valid(const qb_problem *p);

#ifdef __cplusplus
}
#endif
#endif
