/* Borders of masks, by hand. */
#include "eval/boundary.h"

#include <string.h>

#include "qb_test.h"

enum { SIDE = 100 };

static void fill(uint8_t *mask, int x0, int y0, int x1, int y1) {
    for (int y = y0; y < y1; y++) memset(mask + y * SIDE + x0, 1, (size_t)(x1 - x0));
}

/* The diagonal is 141.4 pixels, so 2 are near. */
static void squares_that_are_moved(void **state) {
    (void)state;
    static uint8_t first[SIDE * SIDE], second[SIDE * SIDE];
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int move = 0; move <= 3; move++) {
        qb_boundary b;
        memset(first, 0, sizeof first);
        memset(second, 0, sizeof second);
        fill(first, 20, 20, 40, 40);
        fill(second, 20 + move, 20, 40 + move, 40);
        assert_int_equal(qb_boundary_compare(&cx, first, second, SIDE, SIDE, 1, 255, &b), QB_OK);
        assert_int_equal(b.first, 4 * 20 - 4);
        assert_int_equal(b.second, b.first);
        /* Moved by 3, the left side is too far, but for what is near to the other's upper and
         * lower sides: none of it, they begin 3 to the right. */
        assert_int_equal(b.first_near, move <= 2 ? b.first : b.first - 20 - 14);
        assert_int_equal(b.second_near, b.first_near);
    }
}

static void what_is_ignored_has_no_border(void **state) {
    (void)state;
    static uint8_t first[SIDE * SIDE], second[SIDE * SIDE];
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_boundary b;
    memset(first, 255, sizeof first);
    fill(second, 20, 20, 40, 40);
    assert_int_equal(qb_boundary_compare(&cx, first, second, SIDE, SIDE, 1, 255, &b), QB_OK);
    assert_int_equal(b.first + b.second, 0);
    /* The image's own edge is none either. */
    memset(first, 1, sizeof first);
    assert_int_equal(qb_boundary_compare(&cx, first, first, SIDE, SIDE, 1, 255, &b), QB_OK);
    assert_int_equal(b.first + b.second, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(squares_that_are_moved),
                                       cmocka_unit_test(what_is_ignored_has_no_border)};
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
