#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define RELAX() _mm_pause()
#else
#define RELAX() ((void)0)
#endif

#include "base/forks.h"
#include "base/thread.h"

/* Each thread has a share of the loop's tasks: a range of neighbouring ones, the same for every
 * loop of as many tasks, so that what one step leaves in a processor's caches is there for the
 * next. Who is done with its own share helps with the others.
 *
 * A share is one word, the next task and the end, so that a claim is one atomic step. A claim below
 * the end keeps the loop open until that task is counted in `done`, so fn and argument cannot
 * change under it. */
#define TASK_BITS 24
#define TASK_MAX ((UINT64_C(1) << TASK_BITS) - 1)

#define SPIN_NANOSECONDS 150000
#define SPIN_CHECK 64 /* looks between two of the clock */
#define PATIENCE 1024 /* looks between two yields while waiting for the last tasks */

typedef struct share {
    _Alignas(64) atomic_uint_least64_t state;
} share;

struct qb_workers {
    _Alignas(64) atomic_uint_least64_t done; /* tasks of the current loop */
    _Alignas(64) qb_task_fn fn;
    void *argument;
    atomic_int caller_cpu; /* where the loop was opened */
    atomic_int sleepers;
    atomic_bool stop;
    pthread_mutex_t lock; /* of going to sleep and waking */
    pthread_cond_t wake;
    int n_shares;  /* threads, the caller included */
    int n_started; /* members that run */
    int forks;     /* where they do, see base/forks.h */
    struct member {
        qb_workers *team;
        int index; /* its share */
        pthread_t thread;
    } * member;
    share shares[]; /* 0: the caller's */
};

static uint64_t end_of(uint64_t state) { return state >> TASK_BITS; }
static uint64_t next_of(uint64_t state) { return state & TASK_MAX; }
static bool has_task(uint64_t state) { return next_of(state) < end_of(state); }

/* Takes tasks of a share until none is left; how many. */
static uint64_t work_on(const qb_workers *w, share *s) {
    uint64_t count = 0;
    while (has_task(atomic_load_explicit(&s->state, memory_order_relaxed))) {
        uint64_t state = atomic_fetch_add_explicit(&s->state, 1, memory_order_acquire);
        if (!has_task(state)) break;
        w->fn((int64_t)next_of(state), w->argument);
        count++;
    }
    return count;
}

/* On a busy machine a member may wake up on the very processor that its caller works on, and stay
 * there for milliseconds. It goes to any other; its affinity is as before in the end. */
static void leave_cpu(int cpu) {
    cpu_set_t allowed, others;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    others = allowed;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
    sched_setaffinity(0, sizeof allowed, &allowed);
}

/* Does what is left of the open loop, beginning with the thread's own share. */
static void work(qb_workers *w, int own) {
    uint64_t count = 0;
    for (int i = 0; i < w->n_shares; i++) count += work_on(w, &w->shares[(own + i) % w->n_shares]);
    if (count > 0) atomic_fetch_add_explicit(&w->done, count, memory_order_release);
}

/* Is there something for this thread to do? Its own share tells: others may look at theirs. */
static bool is_open(const qb_workers *w, int own) {
    return has_task(atomic_load_explicit(&w->shares[own].state, memory_order_relaxed)) ||
           atomic_load_explicit(&w->stop, memory_order_relaxed);
}

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool spin(const qb_workers *w, int own) {
    int64_t end = nanoseconds() + SPIN_NANOSECONDS;
    do
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (is_open(w, own)) return true;
            RELAX();
        }
    while (nanoseconds() < end);
    return false;
}

static void sleep_until_open(qb_workers *w, int own) {
    pthread_mutex_lock(&w->lock);
    /* Publisher and sleeper both change this number, so one of them comes second: a publisher then
     * sees the sleeper, a sleeper that acquires what the publisher released sees the loop. */
    atomic_fetch_add(&w->sleepers, 1);
    while (!is_open(w, own)) pthread_cond_wait(&w->wake, &w->lock);
    atomic_fetch_sub(&w->sleepers, 1);
    pthread_mutex_unlock(&w->lock);
}

static void *member_main(void *argument) {
    const struct member *m = argument;
    qb_workers *w = m->team;
    while (!atomic_load(&w->stop)) {
        if (!spin(w, m->index)) sleep_until_open(w, m->index);
        const int cpu = sched_getcpu();
        if (cpu == atomic_load_explicit(&w->caller_cpu, memory_order_relaxed)) leave_cpu(cpu);
        work(w, m->index);
    }
    return NULL;
}

static void wake_all(qb_workers *w) {
    if (atomic_fetch_add(&w->sleepers, 0) == 0) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

qb_status qb_workers_create(qb_ctx *cx, int threads, qb_workers **out) {
    *out = NULL;
    if (threads <= 1) return QB_OK;
    size_t n = (size_t)threads;
    QB_RELEASED(qb_workers_free_at)
    qb_workers *w = QB_NEW(cx, qb_alloc_aligned(cx, sizeof *w + n * sizeof w->shares[0], 1));
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    w->n_shares = threads;
    w->forks = qb_forks();
    QB_TRY_NEW(cx, w->member = qb_alloc(cx, n, sizeof *w->member));
    for (; w->n_started < threads - 1; w->n_started++) {
        struct member *m = &w->member[w->n_started];
        m->team = w;
        m->index = w->n_started + 1;
        const int error = qb_thread_start(&m->thread, member_main, m);
        if (error != 0)
            return qb_fail(cx, QB_STATUS_NOMEM, "cannot start %d worker threads: %s", threads - 1,
                           strerror(error));
    }
    *out = QB_MOVE(w);
    return QB_OK;
}

void qb_workers_free(qb_workers *w) {
    if (!w) return;
    if (w->forks != qb_forks()) { /* the lock may be held by a thread that is not here */
        QB_FREE_ALL(w->member, w);
        return;
    }
    atomic_store(&w->stop, true);
    wake_all(w);
    for (int i = 0; i < w->n_started; i++) pthread_join(w->member[i].thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    QB_FREE_ALL(w->member, w);
}

static void one_loop(qb_workers *w, uint64_t n, qb_task_fn fn, void *argument) {
    const uint64_t shares = (uint64_t)w->n_shares;
    w->fn = fn;
    w->argument = argument;
    atomic_store_explicit(&w->caller_cpu, sched_getcpu(), memory_order_relaxed);
    atomic_store_explicit(&w->done, 0, memory_order_relaxed);
    for (uint64_t i = shares; i-- > 0;) /* the caller's own is the last one */
        atomic_store_explicit(&w->shares[i].state,
                              (n * (i + 1) / shares) << TASK_BITS | n * i / shares,
                              memory_order_release);
    wake_all(w);
    work(w, 0);
    /* a member that lost its processor in a task may need this one */
    for (int i = 0; atomic_load_explicit(&w->done, memory_order_acquire) < n; i++)
        if (i % PATIENCE == PATIENCE - 1)
            sched_yield();
        else
            RELAX();
}

typedef struct shifted { /* a part of a loop with more tasks than fit in the state */
    qb_task_fn fn;
    void *argument;
    int64_t first;
} shifted;

static void run_shifted(int64_t task, void *argument) {
    const shifted *s = argument;
    s->fn(s->first + task, s->argument);
}

void qb_workers_run(qb_workers *workers, int64_t n, qb_task_fn fn, void *argument) {
    if (!workers || n <= 1 || workers->forks != qb_forks()) {
        for (int64_t i = 0; i < n; i++) fn(i, argument);
        return;
    }
    const int64_t most = (int64_t)TASK_MAX / 2; /* room for claims that come too late */
    if (n <= most) {
        one_loop(workers, (uint64_t)n, fn, argument);
        return;
    }
    for (shifted s = {fn, argument, 0}; s.first < n; s.first += most)
        one_loop(workers, (uint64_t)(n - s.first < most ? n - s.first : most), run_shifted, &s);
}
