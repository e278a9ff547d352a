#include "thread.h"

void qb_signals_block(sigset_t *before) {
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) sigdelset(&blocked, open[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

void qb_signals_restore(const sigset_t *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

int qb_thread_start(pthread_t *thread, void *(*fn)(void *), void *argument) {
    sigset_t before;
    qb_signals_block(&before);
    const int error = pthread_create(thread, NULL, fn, argument);
    qb_signals_restore(&before);
    return error;
}
