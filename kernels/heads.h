/* Where the heads of an attention lie in memory. */
#ifndef QB_KERNELS_HEADS_H
#define QB_KERNELS_HEADS_H

#include "kernels/problem.h"

/* Sizes and places of an ATTENTION: its `views`, or what its shapes say. False where they do not
 * fit together. */
bool qb_attention_of(const qb_problem *p, qb_attention *out);

/* Elements from item to item, head to head, query to query and key to key of the mask (input 3) of
 * an ATTENTION with those sizes; 0 where it is broadcast. False where it does not broadcast to
 * [items, heads, queries, keys]. */
bool qb_attention_mask(const qb_problem *p, const qb_attention *a, int64_t step[4]);
/* The first element of a token of a head. */
int64_t qb_token_at(const qb_heads *heads, int64_t item, int64_t head, int64_t token);

/* A copy takes the elements that `moved` says and lays them out as `items` items of `heads` heads
 * of `tokens` tokens of `size` elements, which are at `there`. *out is where they are in what the
 * copy reads. False where no strides say that, or elements of a token do not lie together. */
bool qb_heads_before(const qb_strided *moved, const qb_heads *there, const int64_t dim[4],
                     qb_heads *out);
/* The other way round: where they come to lie when a copy that takes all elements, each once, moves
 * them. */
bool qb_heads_behind(const qb_strided *moved, const qb_heads *here, const int64_t dim[4],
                     qb_heads *out);

#endif
