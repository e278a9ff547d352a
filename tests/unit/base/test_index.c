/* Entries are found by their hashes, also many with one hash, in few looks. */
#include "base/index.h"
#include "qb_test.h"

enum { MANY = 100000 };

static void fill(qb_ctx *cx, qb_index *index, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        assert_ok(cx, qb_index_add(cx, index, qb_index_hash(&i, sizeof i), i));
}

/* Counts the slots that are looked at, on the way to what is there and to what is not. */
static void slots_looked_at_do_not_grow_with_the_entries(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_index index = {0};
    size_t looks = 0;
    fill(&cx, &index, MANY);
    for (int32_t i = 0; i < 2 * MANY; i++) {
        const uint32_t hash = qb_index_hash(&i, sizeof i);
        size_t at = 0;
        int32_t entry;
        do entry = qb_index_next(&index, hash, &at);
        while (entry >= 0 && entry != i);
        assert_int_equal(entry, i < MANY ? i : -1);
        looks += at;
    }
    assert_in_range(looks, 2 * MANY, 2 * 2 * MANY);
    qb_index_release(&index);
}

static void entries_of_one_hash_are_all_found(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_index index = {0};
    bool seen[100] = {0};
    for (int32_t i = 0; i < 100; i++) assert_ok(&cx, qb_index_add(&cx, &index, 0xFFFFFFFFu, i));
    int32_t entry, n = 0;
    for (size_t at = 0; (entry = qb_index_next(&index, 0xFFFFFFFFu, &at)) >= 0; n++) {
        assert_false(seen[entry]);
        seen[entry] = true;
    }
    assert_int_equal(n, 100);
    size_t at = 0;
    assert_int_equal(qb_index_next(&index, 0, &at), -1);
    qb_index_release(&index);
}

static void an_empty_one_has_nothing(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_index index = {0};
    size_t at = 0;
    assert_int_equal(qb_index_next(&index, 7, &at), -1);
    qb_index_clear(&index);
    assert_ok(&cx, qb_index_add(&cx, &index, 7, 0));
    assert_int_equal(qb_index_next(&index, 7, &at), 0);
    qb_index_clear(&index);
    at = 0;
    assert_int_equal(qb_index_next(&index, 7, &at), -1);
    assert_int_equal(index.n, 0);
    qb_index_release(&index);
    qb_index_release(&index);
}

static void more_entries_than_fit_are_refused(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_index index = {.n = QB_INDEX_MAX};
    assert_fails(&cx, qb_index_add(&cx, &index, 7, 0), QB_STATUS_UNSUPPORTED);
    qb_ctx_clear(&cx);
}

static qb_status grow_once(qb_ctx *cx, void *user) {
    (void)user;
    QB_RELEASED(qb_index_release) qb_index index = {0};
    for (int32_t i = 0; i < 40; i++) QB_TRY(qb_index_add(cx, &index, (uint32_t)i, i));
    return QB_OK;
}

static void memory_that_is_missing_is_an_error(void **state) {
    (void)state;
    assert_int_equal(qb_test_alloc_sweep(grow_once, NULL), 2);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(slots_looked_at_do_not_grow_with_the_entries),
    cmocka_unit_test(entries_of_one_hash_are_all_found),
    cmocka_unit_test(an_empty_one_has_nothing),
    cmocka_unit_test(more_entries_than_fit_are_refused),
    cmocka_unit_test(memory_that_is_missing_is_an_error),
};
QB_TEST_MAIN(tests)
