/* The team of threads, and how loops are cut for it. */
#include "kernels/workers.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cpu/cpu_internal.h"
#include "qb_test.h"

#define MOST 1000

typedef struct tally {
    atomic_int runs[MOST];
} tally;

static void count(int64_t task, void *argument) {
    tally *t = argument;
    atomic_fetch_add(&t->runs[task], 1);
}

static void each_task_runs_once(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, MOST};
    for (int threads = 1; threads <= 5; threads++) {
        qb_workers *workers;
        assert_int_equal(qb_workers_create(&cx, threads, &workers), QB_OK);
        assert_true((workers == NULL) == (threads == 1));
        for (int loop = 0; loop < 300; loop++) {
            tally t;
            memset(&t, 0, sizeof t);
            int64_t n = sizes[loop % 7];
            qb_workers_run(workers, n, count, &t);
            for (int64_t i = 0; i < MOST; i++) assert_int_equal(t.runs[i], i < n);
        }
        qb_workers_free(workers);
    }
}

static void add(int64_t task, void *argument) {
    atomic_fetch_add_explicit((atomic_llong *)argument, task, memory_order_relaxed);
}

static void loops_may_be_longer_than_a_share_can_say(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    const int64_t n = (INT64_C(1) << 23) + 5;
    atomic_llong sum = 0;
    qb_workers *workers;
    assert_int_equal(qb_workers_create(&cx, 2, &workers), QB_OK);
    qb_workers_run(workers, n, add, &sum);
    assert_int_equal(sum, n * (n - 1) / 2);
    qb_workers_free(workers);
}

typedef struct firsts {
    atomic_int begun;
    int64_t task[2]; /* the first one of the caller and of the member */
} firsts;

static _Thread_local bool is_caller;

static void note_first(int64_t task, void *argument) {
    firsts *f = argument;
    int me = is_caller ? 0 : 1;
    if (f->task[me] >= 0) return;
    f->task[me] = task;
    atomic_fetch_add(&f->begun, 1);
    while (atomic_load(&f->begun) < 2) sched_yield();
}

/* What one step leaves in a processor's caches is there for the next one. */
static void each_thread_begins_with_its_own_part(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_workers *workers;
    is_caller = true;
    assert_int_equal(qb_workers_create(&cx, 2, &workers), QB_OK);
    for (int loop = 0; loop < 100; loop++) {
        firsts f = {0, {-1, -1}};
        qb_workers_run(workers, 16, note_first, &f);
        assert_int_equal(f.task[0], 0);
        assert_int_equal(f.task[1], 8);
    }
    qb_workers_free(workers);
}

/* A child has no members: it does the work, and does not wait for them in the end. */
static void a_child_works_alone(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_workers *workers;
    tally t;
    int how;
    assert_int_equal(qb_workers_create(&cx, 3, &workers), QB_OK);
    memset(&t, 0, sizeof t);
    qb_workers_run(workers, 64, count, &t);
    const pid_t child = fork();
    if (child == 0) {
        alarm(30);
        qb_workers_run(workers, 64, count, &t);
        qb_workers_free(workers);
        _exit(t.runs[0] == 2 && t.runs[63] == 2 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    qb_workers_run(workers, 64, count, &t);
    assert_int_equal(t.runs[63], 2);
    qb_workers_free(workers);
}

static void parts_are_as_many_for_each_thread_and_not_too_large(void **state) {
    (void)state;
    for (int64_t n = 1; n < 700; n += 3)
        for (int64_t wanted = 1; wanted < 40; wanted += 3)
            for (int threads = 1; threads <= 4; threads++) {
                int64_t parts = qb_parts(n, wanted, 504, 14, threads), end = 0;
                assert_in_range(parts, 1, n);
                assert_true(parts == 1 || parts == n || parts % threads == 0);
                assert_true(parts < qb_max64(wanted, qb_ceil64(n, 504)) + threads);
                for (int64_t i = 0; i < parts; i++) {
                    assert_int_equal(qb_part_begin(n, parts, i), end);
                    end = qb_part_begin(n, parts, i + 1);
                    assert_in_range(end - qb_part_begin(n, parts, i), 1, 504);
                }
                assert_int_equal(end, n);
            }
    assert_int_equal(qb_parts(784, 16, 504, 14, 2), 14); /* tiles of 14 pixels, all of them full */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_task_runs_once),
        cmocka_unit_test(loops_may_be_longer_than_a_share_can_say),
        cmocka_unit_test(each_thread_begins_with_its_own_part),
        cmocka_unit_test(a_child_works_alone),
        cmocka_unit_test(parts_are_as_many_for_each_thread_and_not_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
