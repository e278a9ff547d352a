/* Rows of operators that only move elements (qb_fuse_views). */
#ifndef QB_GRAPH_FUSION_VIEWS_H
#define QB_GRAPH_FUSION_VIEWS_H

#include "graph/fusion_backwards.h"
#include "kernels/strided.h"

/* Nodes that are one copy so far, the last one first. */
typedef struct qb_row {
    int32_t n, from; /* the value that is read */
    qb_group *group[QB_GROUP_NODES];
    qb_strided strided;
    bool copies;   /* one of them is no view */
    bool converts; /* one of them changes the type: two might round twice */
    int32_t past;  /* the value that others read as well, before which this row begins; -1: none */
} qb_row;

/* Takes in what makes the value that the row reads: false, with the row of no more use than before,
 * where that is no move, or together they are no copy. `one_copy`: `accept` has to take it. */
bool qb_row_extend(const qb_fusing *f, qb_row *r, bool one_copy);
/* The row's groups from `first` on are part of another one, which reads what the row reads. */
void qb_row_take(qb_fusing *f, const qb_row *r, int32_t first);

/* An Attention reads its heads where a row of copies finds them, and writes them where one behind
 * it moves them, as far as `accept` takes it: its group becomes one of kind ATTENTION. */
qb_status qb_fuse_heads(qb_fusing *f, int32_t group);

#endif
