#include "forks.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int forks;

static void count(void) { atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed); }
static void begin(void) { pthread_atfork(NULL, NULL, count); }

int qb_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
    return atomic_load_explicit(&forks, memory_order_relaxed);
}
