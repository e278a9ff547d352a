/* Work on bytes that nobody vouches for, done by a library that may fault, loop, end the program or
 * take all memory: in a forked process with limits. What it makes comes back through shared memory;
 * its end is an error that names the file. */
#ifndef QB_BASE_APART_H
#define QB_BASE_APART_H

#include <stdint.h>

#include "ctx.h"

#define QB_APART_ASK 3

/* Answers `ask` with exactly `bytes` bytes at `out`. Runs in the other process: what it changes
 * elsewhere is seen by its own later calls alone. */
typedef qb_status (*qb_apart_fn)(qb_ctx *cx, void *work, const int64_t ask[QB_APART_ASK], void *out,
                                 size_t bytes);

typedef struct qb_apart qb_apart;

/* Forks a process that answers by `fn` with its copy of *work; `name` (of the file) is copied, for
 * messages. Builds for libFuzzer, which has to see what is reached, answer in this process. */
qb_status qb_apart_start(qb_ctx *cx, const char *name, qb_apart_fn fn, void *work, qb_apart **out);
/* One answer, copied to `out`. Threads wait for each other. Once the process has died each call
 * fails. */
qb_status qb_apart_ask(qb_ctx *cx, qb_apart *apart, const int64_t ask[QB_APART_ASK], void *out,
                       size_t bytes);
void qb_apart_end(qb_apart *apart); /* accepts NULL */
QB_RELEASE_AT(qb_apart, qb_apart_end)

/* For fn: the memory that the process may take from its start on (beside what it answers with), and
 * the processor time of one answer. Before it is called: 256 MiB and 3 s. */
void qb_apart_allow(size_t bytes, int seconds);

/* Is `fn` able to do it at all? One answer without bytes, by a process that ends then. */
qb_status qb_apart_try(qb_ctx *cx, const char *name, qb_apart_fn fn, void *work);
#endif
