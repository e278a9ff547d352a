/* Single elements of the places that indices name, for host and device code; kernels/places.h walks
 * over them. */
#ifndef QB_KERNELS_PLACE_OF_H
#define QB_KERNELS_PLACE_OF_H

#include "kernels/problem.h"

#ifdef __CUDACC__
#define QB_PLACE_FUNCTION static __device__ __forceinline__
#else
#define QB_PLACE_FUNCTION static inline
#endif

/* Index `at` of integers of 64 (`wide`) or 32 bits; of those that a dimension of `size` elements
 * does not have, the nearest that it has. */
QB_PLACE_FUNCTION int64_t qb_index_at(const void *index, bool wide, int64_t at, int64_t size) {
    int64_t i = wide ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
    if (i < 0) i += size;
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* Where element `at` of the runs, one after the other, lies in x. */
QB_PLACE_FUNCTION int64_t qb_place_of(const qb_places *p, const void *index, bool wide,
                                      uint32_t at) {
    const uint32_t run = (uint32_t)p->run;
    uint32_t place = at / run;
    int64_t to = at - place * run, tuple = 0;
    for (int32_t d = p->rank - 1; d >= 0; d--) {
        const uint32_t dim = (uint32_t)p->dim[d], rest = place / dim, i = place - rest * dim;
        to += i * p->along[d];
        tuple += i * p->named[d];
        place = rest;
    }
    for (int32_t k = 0; k < p->depth; k++)
        to += qb_index_at(index, wide, tuple * p->depth + k, p->size[k]) * p->stride[k];
    return to;
}

/* The updates that may meet an element of x: `n` places, whose indices and elements are apart by
 * these steps. `own` is the index of those that do. */
typedef struct qb_place_line {
    int64_t index, index_step, update, update_step, n, own;
} qb_place_line;

/* The dimension that has one index for each place, where the others' coordinates are the place's
 * own; -1: places are named in another way. The dimensions of x are x_dim[rank]. */
QB_PLACE_FUNCTION int32_t qb_place_axis(const qb_places *p, const int64_t *x_dim, int32_t rank) {
    int64_t step = 1;
    int32_t d = rank - 1, axis = -1;
    if (p->depth != 1 || p->rank > rank) return -1;
    for (; d >= p->rank; d--) step *= x_dim[d];
    if (step != p->run) return -1;
    for (; d >= 0; step *= x_dim[d], d--) {
        if (p->stride[0] == step && p->along[d] == 0 && axis < 0)
            axis = d;
        else if (p->along[d] != step)
            return -1;
    }
    return axis;
}

/* The line for element `at` of x, of the axis that qb_place_axis has found. */
QB_PLACE_FUNCTION qb_place_line qb_place_line_of(const qb_places *p, const int64_t *x_dim,
                                                 int32_t axis, uint32_t at) {
    const uint32_t run = (uint32_t)p->run;
    int64_t step = run;
    bool any = true;
    qb_place_line line;
    uint32_t place = at / run;
    line.update = at - place * run;
    line.index = line.own = line.index_step = line.update_step = 0;
    for (int32_t d = p->rank - 1; d >= 0; d--) {
        const uint32_t dim = (uint32_t)x_dim[d], rest = place / dim, i = place - rest * dim;
        if (d == axis) {
            line.own = i;
            line.index_step = p->named[d];
            line.update_step = step;
        } else {
            line.index += i * p->named[d];
            line.update += i * step;
            any = any && i < p->dim[d];
        }
        step *= p->dim[d];
        place = rest;
    }
    line.n = any ? p->dim[axis] : 0;
    return line;
}

/* An element and an update of it. NaN in the element stays. */
QB_PLACE_FUNCTION float qb_place_reduced(qb_reduce_kind kind, float element, float update) {
    switch (kind) {
    case QB_REDUCE_SUM: return element + update;
    case QB_REDUCE_PROD: return element * update;
    case QB_REDUCE_MAX: return element != element || element > update ? element : update;
    case QB_REDUCE_MIN: return element != element || element < update ? element : update;
    default: return update;
    }
}

#endif
