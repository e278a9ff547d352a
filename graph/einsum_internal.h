/* What an Einsum's equation says: its operator computes it, a pass makes products of it. */
#ifndef QB_GRAPH_EINSUM_INTERNAL_H
#define QB_GRAPH_EINSUM_INTERNAL_H

#include "kernels/tensor.h"

#define QB_EINSUM_OPERANDS 8
#define QB_EINSUM_LETTERS 52
/* Letters, then the dimensions of the ellipsis. */
#define QB_EINSUM_LABELS (QB_EINSUM_LETTERS + QB_MAX_RANK)
#define QB_EINSUM_TERM 64 /* most labels of a term */
#define QB_EINSUM_UNUSED INT64_MIN

/* One term: its labels from left to right; the ellipsis stands for the ones before `dots`. */
typedef struct qb_einsum_term {
    int32_t n, label[QB_EINSUM_TERM];
    int32_t dots; /* position of the ellipsis, -1 without */
} qb_einsum_term;

typedef struct qb_einsum {
    int32_t n_operands, n_dots; /* dimensions of the longest ellipsis */
    qb_einsum_term in[QB_EINSUM_OPERANDS], out;
    bool arrow;
    int64_t size[QB_EINSUM_LABELS]; /* negative: unknown or a symbol; QB_EINSUM_UNUSED */
} qb_einsum;

/* The equation `text` with all labels and sizes, of n operands of known rank. INVALID where it is
 * none, or sizes differ. */
qb_status qb_einsum_resolve(qb_ctx *cx, const char *text, const qb_shape *const *shapes, int32_t n,
                            qb_einsum *e);

#endif
