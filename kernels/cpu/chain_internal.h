/* Blocks of floats: for chains of elementwise functions, and for whatever else loads any type,
 * computes in floats and writes floats or quantized values. */
#ifndef QB_CPU_CHAIN_INTERNAL_H
#define QB_CPU_CHAIN_INTERNAL_H

#include "kernels/chain.h"

#define QB_CHAIN_BLOCK 256 /* floats of a register: a chain's fit into the first level cache */

/* to[i] = f(a[i], b[i], c[i]) for the first n of a block; b and c where the function has them. A
 * multiple of 16 is whole vectors. */
typedef void (*qb_chain_block_fn)(float *restrict to, const float *a, const float *b,
                                  const float *c, int64_t n);
qb_chain_block_fn qb_chain_block(qb_function function);
/* How a result is quantized; its type is NONE where it is of floats. */
qb_chain_quantized qb_chain_quantized_of(const qb_desc *out, bool divide);
/* The first n of a block to quantized values, and back. `from` may be `to`. */
void qb_chain_round(const float *from, const qb_chain_quantized *q, int64_t n, float *to);
void qb_chain_quantize(const float *from, const qb_chain_quantized *q, int64_t n, uint8_t *to);
/* n elements of a type to floats; and back, but to 8-bit values. */
void qb_chain_load(qb_dtype dtype, float scale, int32_t zero, const void *from, int64_t n,
                   float *to);
/* The first n of a block as floats, or quantized values where
 * `q` has a type. */
void qb_chain_write(const qb_chain_quantized *q, const float *from, int64_t n, void *to);
void qb_chain_store(qb_dtype dtype, const float *from, int64_t n, void *to);

#endif
