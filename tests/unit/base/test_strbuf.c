#include <string.h>

#include "base/strbuf.h"
#include "qb_test.h"

static void appends_in_order(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_strbuf buf = {0};
    qb_strbuf_add(&buf, "a");
    qb_strbuf_addn(&buf, "bcd", 2);
    qb_strbuf_addf(&buf, "%d%s", 7, "x");
    assert_string_equal(buf.data, "abc7x");
    assert_int_equal(buf.size, 5);
    char *text = NULL;
    assert_ok(&cx, qb_strbuf_take(&cx, &buf, &text));
    assert_string_equal(text, "abc7x");
    assert_null(buf.data);
    assert_int_equal(buf.size, 0);
    qb_free(text);
}

static void grows_over_many_appends(void **state) {
    (void)state;
    qb_strbuf buf = {0};
    for (int i = 0; i < 10000; i++) qb_strbuf_addf(&buf, "%04d", i);
    assert_int_equal(buf.size, 40000);
    assert_memory_equal(buf.data + 4 * 1234, "1234", 4);
    assert_int_equal(strlen(buf.data), 40000);
    qb_strbuf_release(&buf);
    qb_strbuf_release(&buf);
}

static void nothing_appended_is_an_empty_string(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_strbuf buf = {0};
    char *text = NULL;
    assert_ok(&cx, qb_strbuf_take(&cx, &buf, &text));
    assert_string_equal(text, "");
    qb_free(text);
}

static void failure_sticks_until_taken(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_strbuf buf = {0};
    qb_strbuf_add(&buf, "kept");
    qb_strbuf_addn(&buf, "x", SIZE_MAX - 2); /* cannot be had, and is not read */
    assert_true(buf.failed);
    qb_strbuf_add(&buf, "ignored");
    assert_int_equal(buf.size, 4);
    char *text = NULL;
    assert_fails(&cx, qb_strbuf_take(&cx, &buf, &text), QB_STATUS_NOMEM);
    assert_null(text);
    assert_null(buf.data);
    assert_false(buf.failed);
}

static void take_counts_as_an_allocation(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    cx.fail_alloc_at = 1;
    qb_strbuf buf = {0};
    qb_strbuf_add(&buf, "text");
    char *text = NULL;
    assert_fails(&cx, qb_strbuf_take(&cx, &buf, &text), QB_STATUS_NOMEM);
    assert_null(buf.data);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(appends_in_order),
    cmocka_unit_test(grows_over_many_appends),
    cmocka_unit_test(nothing_appended_is_an_empty_string),
    cmocka_unit_test(failure_sticks_until_taken),
    cmocka_unit_test(take_counts_as_an_allocation),
};
QB_TEST_MAIN(tests)
