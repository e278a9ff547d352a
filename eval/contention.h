/* Was the machine ours while latencies were measured? What the kernel says of it (Linux /proc), and
 * what the measurements themselves say. Elsewhere, and where /proc does not tell, NaN. */
#ifndef QB_EVAL_CONTENTION_H
#define QB_EVAL_CONTENTION_H

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
