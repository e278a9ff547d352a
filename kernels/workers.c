#include "workers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define RELAX() _mm_pause()
#else
#define RELAX() ((void)0)
#endif

/* A loop's state in one word, so that a claim is one atomic step: which loop it is, how many tasks
 * it has, and which is the next one. A claim below the number of tasks keeps the loop open until
 * that task is counted in `done`, so fn and argument cannot change under it. */
#define TASK_BITS 24
#define TASK_MAX ((UINT64_C(1) << TASK_BITS) - 1)
#define LOOP_SHIFT (2 * TASK_BITS)

#define SPIN_NANOSECONDS 150000
#define SPIN_CHECK 64 /* looks between two of the clock */
#define PATIENCE 1024 /* looks between two yields while waiting for the last tasks */

struct qb_workers {
    _Alignas(64) atomic_uint_least64_t state;
    _Alignas(64) atomic_uint_least64_t done; /* tasks of the current loop */
    _Alignas(64) qb_task_fn fn;
    void *argument;
    atomic_int sleepers;
    atomic_bool stop;
    pthread_mutex_t lock; /* of going to sleep and waking */
    pthread_cond_t wake;
    int n_members; /* without the caller */
    pthread_t member[];
};

static uint64_t tasks_of(uint64_t state) { return state >> TASK_BITS & TASK_MAX; }
static uint64_t next_of(uint64_t state) { return state & TASK_MAX; }

/* Takes tasks of whatever loop is open until none is left. */
static void work(qb_workers *w) {
    uint64_t state = atomic_load_explicit(&w->state, memory_order_acquire);
    while (next_of(state) < tasks_of(state)) {
        state = atomic_fetch_add_explicit(&w->state, 1, memory_order_acquire);
        if (next_of(state) < tasks_of(state)) {
            w->fn((int64_t)next_of(state), w->argument);
            atomic_fetch_add_explicit(&w->done, 1, memory_order_release);
        }
        state = atomic_load_explicit(&w->state, memory_order_acquire);
    }
}

static bool is_open(const qb_workers *w) {
    uint64_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    return next_of(state) < tasks_of(state) || atomic_load_explicit(&w->stop, memory_order_relaxed);
}

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool spin(const qb_workers *w) {
    int64_t end = nanoseconds() + SPIN_NANOSECONDS;
    do
        for (int i = 0; i < SPIN_CHECK; i++) {
            if (is_open(w)) return true;
            RELAX();
        }
    while (nanoseconds() < end);
    return false;
}

static void sleep_until_open(qb_workers *w) {
    pthread_mutex_lock(&w->lock);
    atomic_fetch_add(&w->sleepers, 1); /* before the last look: the publisher looks here after it */
    atomic_thread_fence(memory_order_seq_cst);
    while (!is_open(w)) pthread_cond_wait(&w->wake, &w->lock);
    atomic_fetch_sub(&w->sleepers, 1);
    pthread_mutex_unlock(&w->lock);
}

static void *member_main(void *argument) {
    qb_workers *w = argument;
    while (!atomic_load(&w->stop)) {
        if (!spin(w)) sleep_until_open(w);
        work(w);
    }
    return NULL;
}

static void wake_all(qb_workers *w) {
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&w->sleepers) == 0) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_broadcast(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

qb_status qb_workers_create(qb_ctx *cx, int threads, qb_workers **out) {
    *out = NULL;
    if (threads <= 1) return QB_OK;
    size_t members = (size_t)threads - 1;
    qb_workers *w = qb_alloc_aligned(cx, sizeof *w + members * sizeof w->member[0], 1);
    if (!w) return cx->code;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    for (; w->n_members < (int)members; w->n_members++) {
        if (pthread_create(&w->member[w->n_members], NULL, member_main, w) == 0) continue;
        qb_workers_free(w);
        return qb_fail(cx, QB_STATUS_NOMEM, "cannot start %d worker threads", (int)members);
    }
    *out = w;
    return QB_OK;
}

void qb_workers_free(qb_workers *w) {
    if (!w) return;
    atomic_store(&w->stop, true);
    wake_all(w);
    for (int i = 0; i < w->n_members; i++) pthread_join(w->member[i], NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    qb_free(w);
}

static void one_loop(qb_workers *w, uint64_t n, qb_task_fn fn, void *argument) {
    uint64_t loop = (atomic_load_explicit(&w->state, memory_order_relaxed) >> LOOP_SHIFT) + 1;
    w->fn = fn;
    w->argument = argument;
    atomic_store_explicit(&w->done, 0, memory_order_relaxed);
    atomic_store_explicit(&w->state, loop << LOOP_SHIFT | n << TASK_BITS, memory_order_release);
    wake_all(w);
    work(w);
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
    if (!workers || n <= 1) {
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
