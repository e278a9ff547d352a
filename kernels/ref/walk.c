/* Iteration over row-major outputs with strided operands. */
#include <string.h>

#include "ref_internal.h"

/* Drops dimensions of size 1, merges neighbours that lie together in every operand, and makes the
 * last one the run. */
static void finalize(qb_walk *w) {
    int32_t rank = 0;
    for (int32_t d = 0; d < w->rank; d++) {
        if (w->dim[d] == 1) continue;
        bool merge = rank > 0;
        for (int32_t k = 0; merge && k < w->n_operands; k++)
            merge = w->stride[k][rank - 1] == w->stride[k][d] * w->dim[d];
        int32_t to = merge ? rank - 1 : rank++;
        w->dim[to] = merge ? w->dim[to] * w->dim[d] : w->dim[d];
        for (int32_t k = 0; k < w->n_operands; k++) w->stride[k][to] = w->stride[k][d];
    }
    w->run = 1;
    for (int32_t k = 0; k < w->n_operands; k++) w->step[k] = 1;
    if (rank > 0) {
        rank--;
        w->run = w->dim[rank];
        for (int32_t k = 0; k < w->n_operands; k++) w->step[k] = w->stride[k][rank];
    }
    w->rank = rank;
    w->left = w->run > 0;
    for (int32_t d = 0; d < rank; d++) w->left *= w->dim[d];
}

void qb_walk_broadcast(qb_walk *walk, const qb_shape *out, const qb_shape *const *operands,
                       int32_t n) {
    memset(walk, 0, sizeof *walk);
    walk->n_operands = n;
    walk->rank = out->rank;
    memcpy(walk->dim, out->dim, sizeof walk->dim);
    for (int32_t k = 0; k < n; k++) {
        int64_t stride = 1;
        for (int32_t d = operands[k]->rank - 1, o = out->rank - 1; d >= 0; d--, o--) {
            walk->stride[k][o] = operands[k]->dim[d] == 1 ? 0 : stride;
            stride *= operands[k]->dim[d];
        }
    }
    finalize(walk);
}

void qb_walk_strided(qb_walk *walk, const qb_shape *out, const int64_t *stride) {
    memset(walk, 0, sizeof *walk);
    walk->n_operands = 1;
    walk->rank = out->rank;
    memcpy(walk->dim, out->dim, sizeof walk->dim);
    for (int32_t d = 0; d < out->rank; d++) walk->stride[0][d] = stride[d];
    finalize(walk);
}

void qb_walk_next(qb_walk *w) {
    w->left--;
    w->out += w->run;
    for (int32_t d = w->rank - 1; d >= 0; d--) {
        for (int32_t k = 0; k < w->n_operands; k++) w->at[k] += w->stride[k][d];
        if (++w->index[d] < w->dim[d]) return;
        for (int32_t k = 0; k < w->n_operands; k++) w->at[k] -= w->stride[k][d] * w->dim[d];
        w->index[d] = 0;
    }
}

#define COPY_STRIDED(T)                                                                            \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i] = ((const T *)from)[i * step]

void qb_copy_run(void *to, const void *from, int64_t step, int64_t n, size_t size) {
    if (step == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: COPY_STRIDED(uint8_t); break;
    case 2: COPY_STRIDED(uint16_t); break;
    case 4: COPY_STRIDED(uint32_t); break;
    default: COPY_STRIDED(uint64_t); break;
    }
}
