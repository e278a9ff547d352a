#include <string.h>

#include "base/arena.h"
#include "qb_test.h"

typedef struct fixture {
    qb_ctx cx;
    qb_arena *arena;
} fixture;

static int setup(void **state) {
    static fixture f;
    f.arena = NULL;
    qb_ctx_init(&f.cx);
    *state = &f;
    return qb_arena_create(&f.cx, &f.arena) == QB_OK ? 0 : -1;
}

static int teardown(void **state) {
    fixture *f = *state;
    qb_arena_free(f->arena);
    return 0;
}

static void memory_is_aligned_zeroed_and_disjoint(void **state) {
    fixture *f = *state;
    enum { N = 2000 };
    unsigned char *block[N];
    for (int i = 0; i < N; i++) {
        size_t n = (size_t)(i * 37 % 400);
        block[i] = qb_arena_alloc(&f->cx, f->arena, n, 1);
        assert_non_null(block[i]);
        assert_int_equal((uintptr_t)block[i] % 64, 0);
        for (size_t j = 0; j < n; j++) assert_int_equal(block[i][j], 0);
        memset(block[i], i & 255, n);
    }
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < (size_t)(i * 37 % 400); j++) assert_int_equal(block[i][j], i & 255);
}

static void large_requests_do_not_waste_the_open_chunk(void **state) {
    fixture *f = *state;
    char *before = qb_arena_alloc(&f->cx, f->arena, 64, 1);
    char *large = qb_arena_alloc(&f->cx, f->arena, 5, (size_t)1 << 20);
    char *after = qb_arena_alloc(&f->cx, f->arena, 64, 1);
    assert_non_null(large);
    memset(large, 1, (size_t)5 << 20);
    assert_ptr_equal(after, before + 64);
    assert_int_equal(after[0], 0);
}

static void first_request_may_be_large(void **state) {
    fixture *f = *state;
    char *large = qb_arena_alloc(&f->cx, f->arena, 3 << 20, 1);
    assert_non_null(large);
    assert_int_equal((uintptr_t)large % 64, 0);
    large[(3 << 20) - 1] = 1;
    char *small = qb_arena_alloc(&f->cx, f->arena, 10, 1);
    assert_non_null(small);
    assert_true(small < large || small >= large + (3 << 20));
}

static void strings_are_packed_and_terminated(void **state) {
    fixture *f = *state;
    char *a = qb_arena_strdup(&f->cx, f->arena, "ab");
    char *b = qb_arena_strndup(&f->cx, f->arena, "cdef", 2);
    char *c = qb_arena_format(&f->cx, f->arena, "%d-%s", 12, "x");
    assert_string_equal(a, "ab");
    assert_string_equal(b, "cd");
    assert_string_equal(c, "12-x");
    assert_ptr_equal(b, a + 3);
    assert_int_equal(qb_arena_bytes(f->arena), 3 + 3 + 5);
    double *d = qb_arena_alloc(&f->cx, f->arena, 1, sizeof *d); /* aligned after odd strings */
    assert_int_equal((uintptr_t)d % 64, 0);
    assert_string_equal(qb_arena_strndup(&f->cx, f->arena, NULL, 0), "");
}

static void overflow_is_refused_and_the_arena_lives_on(void **state) {
    fixture *f = *state;
    size_t before = qb_arena_bytes(f->arena);
    assert_null(qb_arena_alloc(&f->cx, f->arena, SIZE_MAX / 4, 8));
    assert_int_equal(f->cx.code, QB_STATUS_NOMEM);
    assert_null(qb_arena_alloc(&f->cx, f->arena, SIZE_MAX - 3, 1));
    assert_null(qb_arena_strndup(&f->cx, f->arena, "x", SIZE_MAX));
    assert_int_equal(qb_arena_bytes(f->arena), before);
    assert_non_null(qb_arena_alloc(&f->cx, f->arena, 1, 8));
}

static qb_status build(qb_ctx *cx, void *user) {
    (void)user;
    qb_arena *arena = NULL;
    qb_status status = qb_arena_create(cx, &arena);
    for (int i = 0; i < 20 && status == QB_OK; i++)
        if (!qb_arena_alloc(cx, arena, 1000 * (size_t)i, 1)) status = cx->code;
    qb_arena_free(arena);
    return status;
}

static void each_request_can_be_made_to_fail(void **state) {
    (void)state;
    assert_true(qb_test_alloc_sweep(build, NULL) > 20); /* requests and chunks */
}

static void free_accepts_null(void **state) {
    (void)state;
    qb_arena_free(NULL);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(memory_is_aligned_zeroed_and_disjoint, setup, teardown),
    cmocka_unit_test_setup_teardown(large_requests_do_not_waste_the_open_chunk, setup, teardown),
    cmocka_unit_test_setup_teardown(first_request_may_be_large, setup, teardown),
    cmocka_unit_test_setup_teardown(strings_are_packed_and_terminated, setup, teardown),
    cmocka_unit_test_setup_teardown(overflow_is_refused_and_the_arena_lives_on, setup, teardown),
    cmocka_unit_test(each_request_can_be_made_to_fail),
    cmocka_unit_test(free_accepts_null),
};
QB_TEST_MAIN(tests)
