/* Names that come from files: what is clean, how the rest is written, and back. */
#include <string.h>

#include <jansson.h>

#include "base/json_clean.h"
#include "base/text.h"
#include "qb_test.h"

static void letters_of_all_scripts_are_clean(void **state) {
    (void)state;
    static const char *const clean[] = {"",
                                        "conv1/weight:0 (a\\b)",
                                        "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                                        "\xd8\xb9\xd8\xb1\xd8\xa8\xd9\x8a",
                                        "\xe4\xbd\xa0\xe5\xa5\xbd",
                                        "a\\x4",
                                        "\\x1b[31m"};
    for (size_t i = 0; i < sizeof clean / sizeof *clean; i++) {
        char out[64];
        assert_true(qb_text_is_clean(clean[i]));
        qb_text_clean_to(clean[i], false, out, sizeof out);
        assert_string_equal(out, clean[i]);
        assert_ptr_equal(QB_SHOWN(clean[i]), clean[i]);
    }
}

/* from, shown, and with escapes of its own protected */
static const char *const cases[][3] = {
    {"\x1b[31mred", "\\x1b[31mred", "\\x1b[31mred"},
    {"a\nb\tc\rd\x7f", "a\\x0ab\\x09c\\x0dd\\x7f", "a\\x0ab\\x09c\\x0dd\\x7f"},
    {"c1 \xc2\x9b", "c1 \\xc2\\x9b", "c1 \\xc2\\x9b"},
    {"bidi \xe2\x80\xae", "bidi \\xe2\\x80\\xae", "bidi \\xe2\\x80\\xae"},
    {"isolate \xe2\x81\xa6", "isolate \\xe2\\x81\\xa6", "isolate \\xe2\\x81\\xa6"},
    {"line \xe2\x80\xa8", "line \\xe2\\x80\\xa8", "line \\xe2\\x80\\xa8"},
    {"zero \xe2\x80\x8b \xef\xbb\xbf", "zero \\xe2\\x80\\x8b \\xef\\xbb\\xbf",
     "zero \\xe2\\x80\\x8b \\xef\\xbb\\xbf"},
    {"tag \xf3\xa0\x81\x81", "tag \\xf3\\xa0\\x81\\x81", "tag \\xf3\\xa0\\x81\\x81"},
    {"latin \xe9t\xe9", "latin \\xe9t\\xe9", "latin \\xe9t\\xe9"},
    {"cut \xe2\x82", "cut \\xe2\\x82", "cut \\xe2\\x82"},
    {"overlong \xc0\xaf \xe0\x80\x80", "overlong \\xc0\\xaf \\xe0\\x80\\x80",
     "overlong \\xc0\\xaf \\xe0\\x80\\x80"},
    {"surrogate \xed\xa0\x80", "surrogate \\xed\\xa0\\x80", "surrogate \\xed\\xa0\\x80"},
    {"far \xf4\x90\x80\x80 \xff", "far \\xf4\\x90\\x80\\x80 \\xff",
     "far \\xf4\\x90\\x80\\x80 \\xff"},
    {"\\x41\n", "\\x41\\x0a", "\\x5cx41\\x0a"},
    {"\\\\x5c\n", "\\\\x5c\\x0a", "\\\\x5cx5c\\x0a"},
};

static void the_rest_is_written_out_and_comes_back(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[128];
        assert_false(qb_text_is_clean(cases[i][0]));
        assert_string_equal(QB_SHOWN(cases[i][0]), cases[i][1]);
        const size_t n = qb_text_clean_to(cases[i][0], true, out, sizeof out);
        assert_int_equal(n, strlen(out));
        assert_true(n < qb_text_clean_size(cases[i][0]));
        assert_string_equal(out, cases[i][2]);
        assert_true(qb_text_is_clean(out));
        qb_text_restore(out);
        assert_string_equal(out, cases[i][0]);
    }
}

static void what_does_not_fit_is_cut_between_characters(void **state) {
    (void)state;
    char out[8];
    assert_int_equal(qb_text_clean_to("abc\n\n", false, out, sizeof out), 7);
    assert_string_equal(out, "abc\\x0a");
    assert_int_equal(qb_text_clean_to("abcd\n", false, out, sizeof out), 4);
    assert_int_equal(qb_text_clean_to("\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", false, out, 8), 6);
}

/* Messages keep the line breaks of our own lists, and no other. */
static void messages_are_made_clean_in_place(void **state) {
    (void)state;
    char text[64] = "no: \n  Foo (2)\n  ::error\n::x \x1b";
    qb_text_clean_message(text, sizeof text);
    assert_string_equal(text, "no: \n  Foo (2)\\x0a  ::error\\x0a::x \\x1b");
    char small[8] = "abcd\n\n";
    qb_text_clean_message(small, sizeof small);
    assert_string_equal(small, "abcd");
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_fail(&cx, QB_STATUS_IO, "open %s", "a\nqbench: error: forged\x1b]0;x\x07");
    assert_string_equal(cx.message, "open a\\x0aqbench: error: forged\\x1b]0;x\\x07");
}

static void documents_are_made_clean(void **state) {
    (void)state;
    const char *const text = "{\"a\\nb\": [\"x\\u001b\", {\"k\": \"\\u202e\"}, 1], \"ok\": \"ok\"}";
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_true(qb_json_clean(root));
    char *dump = json_dumps(root, JSON_SORT_KEYS);
    assert_string_equal(dump,
                        "{\"a\\\\x0ab\": [\"x\\\\x1b\", {\"k\": \"\\\\xe2\\\\x80\\\\xae\"}, 1], "
                        "\"ok\": \"ok\"}");
    free(dump);
    json_decref(root);
    json_t *value = qb_json_text("latin \xe9");
    assert_string_equal(json_string_value(value), "latin \\xe9");
    json_decref(value);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(letters_of_all_scripts_are_clean),
    cmocka_unit_test(the_rest_is_written_out_and_comes_back),
    cmocka_unit_test(what_does_not_fit_is_cut_between_characters),
    cmocka_unit_test(messages_are_made_clean_in_place),
    cmocka_unit_test(documents_are_made_clean),
};
QB_TEST_MAIN(tests)
