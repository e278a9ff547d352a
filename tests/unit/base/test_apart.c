/* Work in a process with limits: whatever ends it is an error here. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/apart.h"
#include "qb_test.h"

enum { COUNT, FILL, FAIL, FAULT, END, LOOP, HOARD, ABORT };

/* COUNT: how often it was asked; FILL: bytes of ask[1]; the others end. */
static qb_status work(qb_ctx *cx, void *state, const int64_t ask[QB_APART_ASK], void *out,
                      size_t bytes) {
    int *calls = state;
    ++*calls;
    qb_apart_allow((size_t)64 << 20, 1);
    switch (ask[0]) {
    case COUNT: memcpy(out, calls, sizeof *calls); break;
    case FILL: memset(out, (int)ask[1], bytes); break;
    case FAIL:
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "no such thing as %lld", (long long)ask[1]);
    case FAULT: raise(SIGSEGV); break;
    case END: exit(255);
    case LOOP:
        for (volatile int i = 0;; i++) continue;
    case HOARD:
        for (int i = 0; i < 64; i++) {
            char *block =
                mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (block == MAP_FAILED) return qb_fail(cx, QB_STATUS_NOMEM, "block %d", i);
        }
        break;
    default: abort();
    }
    return QB_OK;
}

static qb_status ask(qb_ctx *cx, qb_apart *apart, int64_t what, int64_t with, void *out, size_t n) {
    const int64_t question[QB_APART_ASK] = {what, with};
    qb_ctx_clear(cx);
    return qb_apart_ask(cx, apart, question, out, n);
}

static void answers_are_its_own(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    int calls = 10, got = 0;
    char small[100], *large = malloc(3 << 20);
    qb_apart *apart;
    assert_non_null(large);
    assert_ok(&cx, qb_apart_start(&cx, "file", work, &calls, &apart));
    assert_ok(&cx, ask(&cx, apart, COUNT, 0, &got, sizeof got));
    assert_int_equal(got, 11);
    assert_ok(&cx, ask(&cx, apart, FILL, 7, small, sizeof small));
    assert_ok(&cx, ask(&cx, apart, FILL, 9, large, 3 << 20));
    assert_int_equal(small[99], 7);
    for (int i = 0; i < 3 << 20; i += 4095) assert_int_equal(large[i], 9);
    assert_fails(&cx, ask(&cx, apart, FAIL, 5, small, 1), QB_STATUS_UNSUPPORTED);
    assert_string_equal(cx.message, "no such thing as 5");
    assert_ok(&cx, ask(&cx, apart, COUNT, 0, &got, sizeof got));
    assert_int_equal(got, 15);
    assert_int_equal(calls, 10);
    qb_apart_end(apart);
    qb_apart_end(NULL);
    free(large);
}

static void its_end_is_an_error(void **state) {
    (void)state;
    static const struct {
        int what;
        const char *text;
    } ends[] = {{FAULT, "Segmentation fault"},
                {ABORT, "ended (Aborted)"},
                {END, "for want of memory"},
                {LOOP, "(too much time)"}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        int calls = 0;
        char byte;
        qb_apart *apart;
        assert_ok(&cx, qb_apart_start(&cx, "a file", work, &calls, &apart));
        assert_ok(&cx, ask(&cx, apart, FILL, 1, &byte, 1));
        for (int again = 0; again < 2; again++) {
            assert_fails(&cx, ask(&cx, apart, ends[i].what, 0, &byte, 1), QB_STATUS_FORMAT);
            assert_message(&cx, "a file: ");
#ifndef __SANITIZE_ADDRESS__ /* its own handlers end the process */
            assert_message(&cx, ends[i].text);
#endif
        }
        qb_apart_end(apart);
    }
}

static void memory_is_bounded(void **state) {
    (void)state;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    qb_test_skip("sanitizers reserve terabytes");
#endif
    qb_ctx cx;
    qb_ctx_init(&cx);
    int calls = 0;
    char byte;
    qb_apart *apart;
    assert_ok(&cx, qb_apart_start(&cx, "file", work, &calls, &apart));
    assert_ok(&cx, ask(&cx, apart, FILL, 1, &byte, 1)); /* from now on 64 MiB */
    assert_fails(&cx, ask(&cx, apart, HOARD, 0, &byte, 1), QB_STATUS_NOMEM);
    qb_apart_end(apart);
}

static volatile sig_atomic_t stop;

static void a_user_need_not_wait(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    int calls = 0;
    char byte;
    qb_apart *apart;
    cx.cancel = &stop;
    stop = 1;
    assert_ok(&cx, qb_apart_start(&cx, "file", work, &calls, &apart));
    assert_fails(&cx, ask(&cx, apart, LOOP, 0, &byte, 1), QB_STATUS_CANCELLED);
    assert_fails(&cx, ask(&cx, apart, FILL, 0, &byte, 1), QB_STATUS_FORMAT);
    qb_apart_end(apart);
}

static void *fill_often(void *apart) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    uint8_t bytes[1000];
    for (int i = 0; i < 200; i++) {
        if (ask(&cx, apart, FILL, i, bytes, sizeof bytes) != QB_OK) return apart;
        for (size_t k = 0; k < sizeof bytes; k++)
            if (bytes[k] != (uint8_t)i) return apart;
    }
    return NULL;
}

static void threads_wait_for_each_other(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    int calls = 0;
    qb_apart *apart;
    pthread_t thread[4];
    assert_ok(&cx, qb_apart_start(&cx, "file", work, &calls, &apart));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fill_often, apart), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
    qb_apart_end(apart);
}

static qb_status start_and_ask(qb_ctx *cx, void *user) {
    qb_apart *apart;
    char byte;
    QB_TRY(qb_apart_start(cx, "file", work, user, &apart));
    const qb_status status = ask(cx, apart, FILL, 1, &byte, 1);
    qb_apart_end(apart);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    int calls = 0;
    assert_true(qb_test_alloc_sweep(start_and_ask, &calls) >= 2);
}

static void a_trial_is_one_answer(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    int calls = 0;
    assert_fails(&cx, qb_apart_try(&cx, "file", work, &calls), QB_STATUS_FORMAT); /* COUNT: NULL */
    assert_int_equal(calls, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(answers_are_its_own),         cmocka_unit_test(its_end_is_an_error),
    cmocka_unit_test(memory_is_bounded),           cmocka_unit_test(a_user_need_not_wait),
    cmocka_unit_test(threads_wait_for_each_other), cmocka_unit_test(each_allocation_may_fail),
    cmocka_unit_test(a_trial_is_one_answer),
};
QB_TEST_MAIN(tests)
