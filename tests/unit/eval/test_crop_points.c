/* Peaks of heat maps and of bins, by hand. */
#include "eval/crop_points.h"

#include "qb_test.h"

static void peaks_move_towards_the_larger_neighbour(void **state) {
    (void)state;
    float map[2][4 * 6] = {{0}};
    map[0][1 * 6 + 2] = 0.5F;
    map[0][1 * 6 + 3] = 0.25F; /* to the right, not down or up */
    map[1][0] = 1;             /* in a corner: stays */
    map[1][1] = 0.5F;
    const qb_tensor output = {.desc = {.dtype = QB_DTYPE_F32, .shape = qb_shape_of(4, 1, 2, 4, 6)},
                              .data = map};
    const qb_crop_points form = {0, -1};
    double point[2][3];
    qb_crop_points_decode(&form, &output, 2, 24, 16, &point[0][0]);
    assert_float_equal(point[0][0], 2.25 * 4, 0);
    assert_float_equal(point[0][1], 1 * 4, 0);
    assert_float_equal(point[0][2], 0.5, 0);
    assert_float_equal(point[1][0], 0, 0);
    assert_float_equal(point[1][1], 0, 0);
    assert_float_equal(point[1][2], 1, 0);
}

static void the_lower_score_of_bins_counts(void **state) {
    (void)state;
    float x[8] = {0, 0, 0, 0.75F}, y[4] = {0, 0, 0.5F};
    const qb_tensor output[] = {
        {.desc = {.dtype = QB_DTYPE_F32, .shape = qb_shape_of(3, 1, 1, 8)}, .data = x},
        {.desc = {.dtype = QB_DTYPE_F32, .shape = qb_shape_of(3, 1, 1, 4)}, .data = y}};
    const qb_crop_points form = {0, 1};
    double point[3];
    qb_crop_points_decode(&form, output, 1, 4, 2, point);
    assert_float_equal(point[0], 1.5, 0);
    assert_float_equal(point[1], 1, 0);
    assert_float_equal(point[2], 0.5, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(peaks_move_towards_the_larger_neighbour),
    cmocka_unit_test(the_lower_score_of_bins_counts),
};

int main(void) {
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
