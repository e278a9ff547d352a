#include <errno.h>
#include <string.h>

#include "base/ctx.h"
#include "base/log.h"
#include "qb_test.h"

static int setup(void **state) {
    static qb_ctx cx;
    qb_ctx_init(&cx);
    *state = &cx;
    return 0;
}

static qb_status divide(qb_ctx *cx, int a, int b, int *out) {
    if (b == 0) return qb_fail(cx, QB_STATUS_INVALID, "divisor: expected not 0, got %d", b);
    *out = a / b;
    return QB_OK;
}

static qb_status divide_twice(qb_ctx *cx, int a, int b, int *out) {
    int half;
    QB_TRY(divide(cx, a, 2, &half));
    QB_TRY_WRAP(cx, divide(cx, half, b, out), "node %d '%s'", 17, "conv1");
    return QB_OK;
}

static void fail_records_code_and_text(void **state) {
    qb_ctx *cx = *state;
    assert_int_equal(qb_fail(cx, QB_STATUS_FORMAT, "expected %d, got %s", 3, "4"),
                     QB_STATUS_FORMAT);
    assert_int_equal(cx->code, QB_STATUS_FORMAT);
    assert_string_equal(cx->message, "expected 3, got 4");
    qb_fail(cx, QB_STATUS_IO, "newer");
    assert_int_equal(cx->code, QB_STATUS_IO);
    assert_string_equal(cx->message, "newer");
    qb_ctx_clear(cx);
    assert_int_equal(cx->code, QB_OK);
    assert_string_equal(cx->message, "");
}

static void wrap_puts_the_context_in_front(void **state) {
    qb_ctx *cx = *state;
    int out = 5;
    assert_fails(cx, divide_twice(cx, 8, 0, &out), QB_STATUS_INVALID);
    assert_string_equal(cx->message, "node 17 'conv1': divisor: expected not 0, got 0");
    assert_int_equal(out, 5);
    assert_int_equal(qb_wrap(cx, "load m.onnx"), QB_STATUS_INVALID);
    assert_string_equal(cx->message,
                        "load m.onnx: node 17 'conv1': divisor: expected not 0, got 0");
    qb_ctx_clear(cx);
    assert_ok(cx, divide_twice(cx, 8, 2, &out));
    assert_int_equal(out, 2);
}

static void message_may_quote_itself(void **state) {
    qb_ctx *cx = *state;
    qb_fail(cx, QB_STATUS_IO, "inner");
    qb_fail(cx, QB_STATUS_IO, "outer (%s)", cx->message);
    assert_string_equal(cx->message, "outer (inner)");
}

/* The middle is left out: the beginning has the name, the end the reason. */
static void long_messages_are_cut_visibly(void **state) {
    qb_ctx *cx = *state;
    char text[4 * QB_MESSAGE_MAX];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    qb_fail(cx, QB_STATUS_IO, "--list %s: the reason", text);
    assert_int_equal(strlen(cx->message), QB_MESSAGE_MAX - 1);
    assert_memory_equal(cx->message, "--list xxx", 10);
    assert_message(cx, "x ... x");
    assert_string_equal(cx->message + QB_MESSAGE_MAX - 15, "xx: the reason");
    qb_wrap(cx, "prefix");
    assert_int_equal(strlen(cx->message), QB_MESSAGE_MAX - 1);
    assert_memory_equal(cx->message, "prefix: --list xxx", 18);
    assert_message(cx, "x ... x");
    assert_string_equal(cx->message + QB_MESSAGE_MAX - 15, "xx: the reason");
    qb_wrap(cx, "%s", text);
    assert_int_equal(strlen(cx->message), QB_MESSAGE_MAX - 1);
    assert_string_equal(cx->message + QB_MESSAGE_MAX - 15, "xx: the reason");
    qb_ctx_clear(cx);
    errno = ENOENT;
    qb_fail_errno(cx, "open %s", text);
    assert_string_equal(cx->message + QB_MESSAGE_MAX - 30, "xxx: No such file or directory" + 1);
}

/* A message that exactly fits stays as it is. */
static void message_of_full_length_is_not_cut(void **state) {
    qb_ctx *cx = *state;
    char text[QB_MESSAGE_MAX];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    qb_fail(cx, QB_STATUS_IO, "%s", text);
    assert_string_equal(cx->message, text);
}

static void errno_gives_text_and_code(void **state) {
    qb_ctx *cx = *state;
    errno = ENOENT;
    assert_int_equal(qb_fail_errno(cx, "open %s", "a"), QB_STATUS_NOTFOUND);
    assert_string_equal(cx->message, "open a: No such file or directory");
    errno = ENOTDIR;
    assert_int_equal(qb_fail_errno(cx, "x"), QB_STATUS_NOTFOUND);
    errno = ENOMEM;
    assert_int_equal(qb_fail_errno(cx, "x"), QB_STATUS_NOMEM);
    errno = ENOSPC;
    assert_int_equal(qb_fail_errno(cx, "x"), QB_STATUS_IO);
    assert_message(cx, "No space left");
}

static void child_shares_settings_but_not_the_error(void **state) {
    qb_ctx *cx = *state;
    volatile sig_atomic_t cancel = 0;
    qb_log log = {0};
    cx->cancel = &cancel;
    cx->log = &log;
    cx->threads = 3;
    qb_fail(cx, QB_STATUS_IO, "old");
    qb_ctx child;
    memset(&child, 0x5a, sizeof child);
    qb_ctx_child(cx, &child);
    assert_int_equal(child.code, QB_OK);
    assert_string_equal(child.message, "");
    assert_ptr_equal(child.cancel, &cancel);
    assert_ptr_equal(child.log, &log);
    assert_int_equal(child.threads, 3);
    assert_int_equal(child.fail_alloc_at, 0);
}

static void adopt_keeps_the_first_error(void **state) {
    qb_ctx *cx = *state, first, second, fine;
    qb_ctx_child(cx, &first);
    qb_ctx_child(cx, &second);
    qb_ctx_child(cx, &fine);
    qb_fail(&first, QB_STATUS_FORMAT, "first");
    qb_fail(&second, QB_STATUS_IO, "second");
    qb_ctx_take(cx, &fine);
    assert_int_equal(cx->code, QB_OK);
    qb_ctx_take(cx, &first);
    qb_ctx_take(cx, &second);
    assert_int_equal(cx->code, QB_STATUS_FORMAT);
    assert_string_equal(cx->message, "first");
}

static void cancel_flag_becomes_an_error(void **state) {
    qb_ctx *cx = *state;
    volatile sig_atomic_t cancel = 0;
    assert_ok(cx, qb_check_cancel(cx));
    cx->cancel = &cancel;
    assert_ok(cx, qb_check_cancel(cx));
    cancel = 1;
    assert_fails(cx, qb_check_cancel(cx), QB_STATUS_CANCELLED);
    assert_string_equal(cx->message, "interrupted");
}

static void threads_is_at_least_one(void **state) {
    qb_ctx *cx = *state;
    assert_true(qb_threads(cx) >= 1);
    cx->threads = 7;
    assert_int_equal(qb_threads(cx), 7);
    cx->threads = -2;
    assert_true(qb_threads(cx) >= 1);
}

static void memory_is_zeroed_and_zero_sizes_are_valid(void **state) {
    qb_ctx *cx = *state;
    for (int round = 0; round < 3; round++) { /* recycled memory is zeroed too */
        unsigned char *plain = qb_alloc(cx, 100, 3), *aligned = qb_alloc_aligned(cx, 100, 3);
        assert_non_null(plain);
        assert_non_null(aligned);
        assert_int_equal((uintptr_t)aligned % 64, 0);
        for (int i = 0; i < 300; i++) assert_int_equal(plain[i], 0);
        for (int i = 0; i < 320; i++) assert_int_equal(aligned[i], 0); /* padding as well */
        memset(plain, 0xff, 300);
        memset(aligned, 0xff, 320);
        qb_free(plain);
        qb_free(aligned);
    }
    void *none = qb_alloc(cx, 0, 8), *none_aligned = qb_alloc_aligned(cx, 8, 0);
    assert_non_null(none);
    assert_non_null(none_aligned);
    qb_free(none);
    qb_free(none_aligned);
    qb_free(NULL);
}

static void sizes_that_overflow_are_refused(void **state) {
    qb_ctx *cx = *state;
    assert_null(qb_alloc(cx, SIZE_MAX / 2, 3));
    assert_int_equal(cx->code, QB_STATUS_NOMEM);
    assert_message(cx, "overflow");
    qb_ctx_clear(cx);
    assert_null(qb_alloc_aligned(cx, SIZE_MAX / 2, 3));
    assert_int_equal(cx->code, QB_STATUS_NOMEM);
    qb_ctx_clear(cx);
    assert_null(qb_alloc_aligned(cx, SIZE_MAX - 10, 1)); /* only the padding overflows */
    assert_int_equal(cx->code, QB_STATUS_NOMEM);
    int *array = NULL;
    size_t capacity = 0;
    assert_fails(cx, qb_grow(cx, &array, &capacity, SIZE_MAX / 2, sizeof *array), QB_STATUS_NOMEM);
    assert_null(array);
    assert_int_equal(capacity, 0);
}

static void grow_keeps_elements_and_zeroes_new_ones(void **state) {
    qb_ctx *cx = *state;
    int *array = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_ok(cx, qb_grow(cx, &array, &capacity, (size_t)i + 1, sizeof *array));
        assert_true(capacity > (size_t)i);
        assert_int_equal(array[i], 0);
        for (size_t j = (size_t)i; j < capacity; j++) assert_int_equal(array[j], 0);
        array[i] = i + 1;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(array[i], i + 1);
    int *same = array;
    assert_ok(cx, qb_grow(cx, &array, &capacity, 10, sizeof *array));
    assert_ptr_equal(array, same);
    cx->fail_alloc_at = 1;
    size_t before = capacity;
    assert_fails(cx, qb_grow(cx, &array, &capacity, 100000, sizeof *array), QB_STATUS_NOMEM);
    assert_int_equal(capacity, before);
    assert_int_equal(array[999], 1000);
    qb_free(array);
}

static qb_status three_allocations(qb_ctx *cx, void *user) {
    (void)user;
    void *a = qb_alloc(cx, 1, 1), *b = a ? qb_alloc_aligned(cx, 1, 1) : NULL;
    char *c = b ? qb_format(cx, "%d", 5) : NULL;
    qb_free(a);
    qb_free(b);
    qb_free(c);
    return c ? QB_OK : cx->code;
}

static void failure_hook_hits_exactly_the_nth(void **state) {
    qb_ctx *cx = *state;
    assert_int_equal(qb_test_alloc_sweep(three_allocations, NULL), 3);
    cx->fail_alloc_at = 2;
    void *first = qb_alloc(cx, 1, 1);
    assert_non_null(first);
    assert_null(qb_alloc(cx, 1, 77));
    assert_int_equal(cx->code, QB_STATUS_NOMEM);
    assert_message(cx, "77");
    void *third = qb_alloc(cx, 1, 1);
    assert_non_null(third); /* only once */
    qb_free(first);
    qb_free(third);
}

static void strings_are_copied_and_formatted(void **state) {
    qb_ctx *cx = *state;
    char source[] = "text";
    char *copy = qb_strdup(cx, source);
    source[0] = 'T';
    assert_string_equal(copy, "text");
    qb_free(copy);
    char *text = qb_format(cx, "%s/%0300d", "a", 1);
    assert_int_equal(strlen(text), 302);
    qb_free(text);
    text = qb_format(cx, "%s", "");
    assert_string_equal(text, "");
    qb_free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(fail_records_code_and_text, setup),
    cmocka_unit_test_setup(wrap_puts_the_context_in_front, setup),
    cmocka_unit_test_setup(message_may_quote_itself, setup),
    cmocka_unit_test_setup(long_messages_are_cut_visibly, setup),
    cmocka_unit_test_setup(message_of_full_length_is_not_cut, setup),
    cmocka_unit_test_setup(errno_gives_text_and_code, setup),
    cmocka_unit_test_setup(child_shares_settings_but_not_the_error, setup),
    cmocka_unit_test_setup(adopt_keeps_the_first_error, setup),
    cmocka_unit_test_setup(cancel_flag_becomes_an_error, setup),
    cmocka_unit_test_setup(threads_is_at_least_one, setup),
    cmocka_unit_test_setup(memory_is_zeroed_and_zero_sizes_are_valid, setup),
    cmocka_unit_test_setup(sizes_that_overflow_are_refused, setup),
    cmocka_unit_test_setup(grow_keeps_elements_and_zeroes_new_ones, setup),
    cmocka_unit_test_setup(failure_hook_hits_exactly_the_nth, setup),
    cmocka_unit_test_setup(strings_are_copied_and_formatted, setup),
};
QB_TEST_MAIN(tests)
