#include "base/json_reader.h"

#include <string.h>

#include "qb_test.h"

static qb_ctx cx;

static qb_json_reader reader_of(const char *text) {
    qb_ctx_init(&cx);
    qb_json_reader r;
    qb_json_reader_init(&cx, "x.json", text, strlen(text), &r);
    return r;
}

static double number(const char *text) {
    qb_json_reader r = reader_of(text);
    double value = -99;
    assert_ok(&cx, qb_json_read_number(&r, &value));
    assert_ok(&cx, qb_json_read_end(&r));
    return value;
}

static void numbers_are_the_nearest_doubles(void **state) {
    (void)state;
    assert_true(number("0") == 0);
    assert_true(number("-0.5") == -0.5);
    assert_true(number("0.1") == 0.1);
    assert_true(number("123.456") == 123.456);
    assert_true(number("0.289289543551445") == 0.289289543551445);
    assert_true(number("0.28928954355144541") == 0.28928954355144541);
    assert_true(number("9007199254740993") == 9007199254740992.0);
    assert_true(number("1e22") == 1e22);
    assert_true(number("-2.5E-3") == -2.5e-3);
    assert_true(number("0.0000000000000000000001") == 1e-22);
}

static void what_is_no_number_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",   "-",   "01",       ".5",    "1.",    "1e",
                                      "+1", "NaN", "Infinity", "1e999", "\"1\"", "true"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qb_json_reader r = reader_of(bad[i]);
        double value;
        qb_status status = qb_json_read_number(&r, &value);
        if (status == QB_OK) status = qb_json_read_end(&r); /* 01: a 0, and more */
        assert_int_equal(status, QB_STATUS_FORMAT);
        assert_message(&cx, "x.json: line 1, column ");
    }
}

static void integers_have_64_bits(void **state) {
    (void)state;
    qb_json_reader r = reader_of("9223372036854775807");
    int64_t value;
    assert_ok(&cx, qb_json_read_integer(&r, &value));
    assert_true(value == INT64_MAX);
    r = reader_of("-12.0");
    assert_ok(&cx, qb_json_read_integer(&r, &value));
    assert_true(value == -12);
    r = reader_of("9223372036854775808");
    assert_fails(&cx, qb_json_read_integer(&r, &value), QB_STATUS_FORMAT);
    r = reader_of("1.5");
    assert_fails(&cx, qb_json_read_integer(&r, &value), QB_STATUS_FORMAT);
    assert_message(&cx, "expected a whole number, got '1.5'");
}

static void strings_lose_their_escapes(void **state) {
    (void)state;
    qb_json_reader r = reader_of("\"a\\\"\\/\\u00e4\\ud83d\\ude00\\n\"");
    assert_ok(&cx, qb_json_read_text(&r));
    assert_string_equal(r.text.data, "a\"/\xc3\xa4\xf0\x9f\x98\x80 ");
    qb_json_reader_release(&r);
    static const char *const bad[] = {"\"",          "\"\\",        "\"\\x\"", "\"\\u12\"",
                                      "\"\\ud800\"", "\"\\u0000\"", "\"\n\"",  "abc"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        r = reader_of(bad[i]);
        assert_fails(&cx, qb_json_read_text(&r), QB_STATUS_FORMAT);
        qb_json_reader_release(&r);
    }
}

/* Adds up the numbers under "n" of any depth; everything else is skipped. */
static qb_status sum_of(qb_json_reader *r, double *sum) {
    bool more;
    const qb_json_kind kind = qb_json_peek(r);
    QB_TRY(qb_json_enter(r, kind));
    for (;;) {
        QB_TRY(qb_json_next(r, &more));
        if (!more) return QB_OK;
        double value;
        if (kind == QB_JSON_LIST) {
            QB_TRY(sum_of(r, sum));
        } else if (strcmp(r->key, "n") == 0) {
            QB_TRY(qb_json_read_number(r, &value));
            *sum += value;
        } else {
            QB_TRY(qb_json_skip(r));
        }
    }
}

static void members_are_read_or_skipped(void **state) {
    (void)state;
    qb_json_reader r = reader_of("\xef\xbb\xbf [ {\"n\": 1, \"a\": [[], {}, [1, {\"n\": 5}]]},\n"
                                 "  {\"b\": null, \"c\": true, \"d\": \"}\", \"n\":2}, {} ] ");
    double sum = 0;
    assert_ok(&cx, sum_of(&r, &sum));
    assert_ok(&cx, qb_json_read_end(&r));
    assert_true(sum == 3);
    qb_json_reader_release(&r);
}

static void malformed_text_is_refused_with_its_place(void **state) {
    (void)state;
    static const char *const bad[] = {
        "[",     "[{]",     "[{\"n\"}]",     "[{\"n\":1,}]", "[{\"n\":1 2}]",
        "[{},]", "[{} {}]", "[{\"a\":tru}]", "[{n:1}]",      "[{\"a\":[1}]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qb_json_reader r = reader_of(bad[i]);
        double sum = 0;
        assert_fails(&cx, sum_of(&r, &sum), QB_STATUS_FORMAT);
        qb_json_reader_release(&r);
    }
    qb_json_reader r = reader_of("[{},\n {\"n\": x}]");
    double sum;
    assert_fails(&cx, sum_of(&r, &sum), QB_STATUS_FORMAT);
    assert_message(&cx, "x.json: line 2, column 8: expected a number, got 'x}]'");
    qb_json_reader_release(&r);
}

static void depth_is_bounded(void **state) {
    (void)state;
    char text[2 * QB_JSON_DEPTH_MAX + 3] = {0};
    memset(text, '[', QB_JSON_DEPTH_MAX);
    memset(text + QB_JSON_DEPTH_MAX, ']', QB_JSON_DEPTH_MAX);
    qb_json_reader r = reader_of(text);
    assert_ok(&cx, qb_json_skip(&r));
    assert_ok(&cx, qb_json_read_end(&r));
    memset(text, '[', QB_JSON_DEPTH_MAX + 1);
    r = reader_of(text);
    assert_fails(&cx, qb_json_skip(&r), QB_STATUS_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_the_nearest_doubles),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(integers_have_64_bits),
        cmocka_unit_test(strings_lose_their_escapes),
        cmocka_unit_test(members_are_read_or_skipped),
        cmocka_unit_test(malformed_text_is_refused_with_its_place),
        cmocka_unit_test(depth_is_bounded),
    };
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
