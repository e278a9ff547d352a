/* Was the machine ours while latencies were measured? What the kernel says of it (Linux /proc), and
 * what the measurements themselves say. Elsewhere, and where /proc does not tell, NaN. */
#ifndef QB_EVAL_CONTENTION_H
#define QB_EVAL_CONTENTION_H

#include "eval/run.h"

/* Counters at one moment. */
typedef struct qb_contention_mark {
    double wall;          /* seconds */
    double waited;        /* seconds that threads of this process were ready and had no processor */
    double stolen, ticks; /* of all processors: taken by the host; all */
} qb_contention_mark;

void qb_contention_read(qb_contention_mark *out);

/* Shares of the time between two marks; NaN: not known. */
typedef struct qb_contention {
    double waited; /* of a thread's time, for a processor */
    double stolen; /* of the processors' time, by the host of a virtual machine */
} qb_contention;

/* `threads`: that ran at a time. */
qb_contention qb_contention_between(const qb_contention_mark *before,
                                    const qb_contention_mark *after, int threads);

/* Whether latencies that were measured so are wrong. A machine that is a little busy (waited above
 * 5 %, stolen above 2 %) matters where it shows: medians more than 5 % above the least run, which
 * is `shift`, their largest ratio less 1. Much of it (25 %, 10 %), minima of rounds more than 10 %
 * apart and an engine that differs from itself by as much always do. Of what is not known nothing
 * follows. */
bool qb_contention_disturbs(const qb_disturbance *d, double shift);
#endif
