/* Threads of a library: the program's signals are not for them. Who blocks a signal to wait for it
 * would never get one that another thread takes, and a handler may rely on running in a thread that
 * the program knows. */
#ifndef QB_BASE_THREAD_H
#define QB_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* pthread_create with default attributes, every signal blocked that is not the thread's own fault
 * or a profiler's. */
int qb_thread_start(pthread_t *thread, void *(*fn)(void *), void *argument);

/* Around calls of libraries that may start threads: those that they start are as above. */
void qb_signals_block(sigset_t *before);
void qb_signals_restore(const sigset_t *before);

#endif
