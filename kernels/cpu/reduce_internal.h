/* How reductions walk through their data: loops over what is kept and what is reduced, and the
 * innermost run of memory, which is one or the other. */
#ifndef QB_CPU_REDUCE_INTERNAL_H
#define QB_CPU_REDUCE_INTERNAL_H

#include "kernels/problem.h"

#define QB_REDUCE_LANES 16 /* results, or parts of one, that advance together */

typedef struct qb_reduce_loops {
    int32_t rank;
    int64_t dim[QB_MAX_RANK], stride[QB_MAX_RANK], count;
} qb_reduce_loops;

typedef struct qb_reduce_walk {
    qb_reduce_loops kept, reduced; /* without the innermost run */
    int64_t run;                   /* elements of that */
    bool run_kept;                 /* its elements are results */
    int64_t size, n;               /* elements of a result's sum; results */
    int64_t first; /* element of the data: a channel slice begins inside of a buffer */
    int64_t results_a_task;
} qb_reduce_walk;

/* Of a REDUCE problem whose data are rows or channels last. */
qb_reduce_walk qb_reduce_walk_of(const qb_problem *problem, int threads);
/* The element where round number `index` of the loops begins. */
int64_t qb_reduce_place(const qb_reduce_loops *loops, int64_t index);

#endif
