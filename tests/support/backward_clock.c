/* Preloaded: a date that goes backwards, an hour from one look at it to the next. */
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *out) {
    static atomic_long looks;
    const int result = (int)syscall(SYS_clock_gettime, clock, out);
    if (result == 0 && clock == CLOCK_REALTIME) out->tv_sec -= 3600 * atomic_fetch_add(&looks, 1);
    return result;
}
