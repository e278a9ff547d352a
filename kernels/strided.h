/* What strided copies do to memory, and two of them as one. */
#ifndef QB_KERNELS_STRIDED_H
#define QB_KERNELS_STRIDED_H

#include "kernels/problem.h"

/* All `count` elements as they are. */
qb_strided qb_strided_all(int64_t count);
/* `second` of the elements that `first` takes, in that order. False where one loop over the data
 * would have to run through the loops of `first` in another way than they nest, or where there are
 * more than QB_MAX_RANK. */
bool qb_strided_compose(const qb_strided *first, const qb_strided *second, qb_strided *out);
/* Do both take the same elements in the same order? */
bool qb_strided_same(const qb_strided *a, const qb_strided *b);
/* Do all elements of `in` lie in `out` where they lie already? */
bool qb_strided_is_memory(const qb_strided *strided, const qb_desc *in, const qb_desc *out);
/* With channels last in `in`: are the elements some of its channels, all of their pixels? *out is
 * then the result as that part of it. */
bool qb_strided_is_channels(const qb_strided *strided, const qb_desc *in, qb_desc *out);
/* With channels last on both sides: are the elements of a result's pixel from one pixel's channels?
 * False also where qb_strided_loops_of is. */
bool qb_strided_keeps_pixels(const qb_strided *strided, const qb_desc *in, const qb_desc *out);
#endif
