/* A team of threads for the parallel loops of one execution context.
 *
 * The caller of qb_workers_run takes part and waits only for tasks that somebody has begun: on a
 * busy machine, where a team member may not get a processor for milliseconds, the others do its
 * share. (An OpenMP region waits at its end for every member to have been there.) Each thread
 * begins with a part of neighbouring tasks that is the same for every loop of as many tasks.
 * Between loops the members spin for a moment, then sleep. */
#ifndef QB_KERNELS_WORKERS_H
#define QB_KERNELS_WORKERS_H

#include <stdint.h>

#include "base/ctx.h"

typedef struct qb_workers qb_workers;
typedef void (*qb_task_fn)(int64_t task, void *argument);

/* `threads` in all, the caller included. One thread gives *out == NULL, which all calls accept. */
qb_status qb_workers_create(qb_ctx *cx, int threads, qb_workers **out);
void qb_workers_free(qb_workers *workers); /* no loop may be running */
QB_RELEASE_AT(qb_workers, qb_workers_free)

/* Runs fn(task, argument) for tasks 0..n-1, each once, in any order and on any thread, and returns
 * when all are done. One caller at a time; not from inside a task. Allocates nothing. */
void qb_workers_run(qb_workers *workers, int64_t n, qb_task_fn fn, void *argument);
#endif
