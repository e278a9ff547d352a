#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "qb_test.h"

static const char *hex_of(const char *data, size_t n) {
    static char text[33];
    qb_hash_hex(qb_hash_bytes(data, n), text);
    return text;
}

/* From `xxhsum -H2` of the reference implementation. */
static void known_answers(void **state) {
    (void)state;
    assert_string_equal(hex_of("", 0), "99aa06d3014798d86001c324468d497f");
    assert_string_equal(hex_of(NULL, 0), "99aa06d3014798d86001c324468d497f");
    assert_string_equal(hex_of("a", 1), "a96faf705af16834e6c632b61e964e1f");
    assert_string_equal(hex_of("abc", 3), "06b05ab6733a618578af5f94892f3950");
}

static void pieces_equal_the_whole(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    unsigned char data[5000];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 131 >> 3);
    for (size_t n = 0; n <= sizeof data; n += n < 300 ? 1 : 517) {
        qb_hasher *hasher;
        assert_ok(&cx, qb_hasher_create(&cx, &hasher));
        for (size_t at = 0, step = 1; at < n; at += step, step = step * 3 % 1000 + 1) {
            if (step > n - at) step = n - at;
            qb_hasher_update(hasher, data + at, step);
        }
        assert_true(qb_hash_equal(qb_hasher_digest(hasher), qb_hash_bytes(data, n)));
        assert_true(qb_hash_equal(qb_hasher_digest(hasher), qb_hash_bytes(data, n)));
        qb_hasher_free(hasher);
    }
}

static qb_hash of_strings(const char *a, const char *b) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_hasher *hasher;
    assert_ok(&cx, qb_hasher_create(&cx, &hasher));
    qb_hasher_string(hasher, a);
    qb_hasher_string(hasher, b);
    qb_hash hash = qb_hasher_digest(hasher);
    qb_hasher_free(hasher);
    return hash;
}

static void strings_do_not_run_together(void **state) {
    (void)state;
    assert_false(qb_hash_equal(of_strings("ab", "c"), of_strings("a", "bc")));
    assert_false(qb_hash_equal(of_strings("", "a"), of_strings("a", "")));
    assert_true(qb_hash_equal(of_strings("ab", "c"), of_strings("ab", "c")));
}

static void hex_round_trips(void **state) {
    (void)state;
    qb_hash hash, back;
    char text[33];
    for (int i = 0; i < 16; i++) hash.byte[i] = (uint8_t)(i * 17 + (i & 1 ? 0 : 0x8a));
    qb_hash_hex(hash, text);
    assert_int_equal(strlen(text), 32);
    assert_true(qb_hash_parse(text, &back));
    assert_true(qb_hash_equal(hash, back));
    for (char *c = text; *c; c++)
        if (*c >= 'a') *c = (char)(*c - 'a' + 'A');
    assert_true(qb_hash_parse(text, &back));
    assert_true(qb_hash_equal(hash, back));
}

static void parse_refuses_what_is_no_hash(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      "0",
                                      "99aa06d3014798d86001c324468d497",
                                      "99aa06d3014798d86001c324468d497f0",
                                      "99aa06d3014798d86001c324468d497g",
                                      "99aa06d3014798d8 001c324468d497f",
                                      "0x99aa06d3014798d86001c324468d49"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qb_hash out;
        memset(&out, 7, sizeof out);
        char *exact = strdup(bad[i]); /* address checkers see a read behind the end */
        assert_non_null(exact);
        assert_false(qb_hash_parse(exact, &out));
        free(exact);
        assert_int_equal(out.byte[0], 7);
    }
}

static void zero_is_recognized(void **state) {
    (void)state;
    qb_hash zero = {{0}}, one = {{0}};
    one.byte[15] = 1;
    assert_true(qb_hash_is_zero(zero));
    assert_false(qb_hash_is_zero(one));
    assert_false(qb_hash_equal(zero, one));
}

static void no_memory_is_an_error(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    cx.fail_alloc_at = 1;
    qb_hasher *hasher = NULL;
    assert_fails(&cx, qb_hasher_create(&cx, &hasher), QB_STATUS_NOMEM);
    assert_null(hasher);
    qb_hasher_free(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(known_answers),
    cmocka_unit_test(pieces_equal_the_whole),
    cmocka_unit_test(strings_do_not_run_together),
    cmocka_unit_test(hex_round_trips),
    cmocka_unit_test(parse_refuses_what_is_no_hash),
    cmocka_unit_test(zero_is_recognized),
    cmocka_unit_test(no_memory_is_an_error),
};
QB_TEST_MAIN(tests)
