/* VOC's average precision, the curve and the recall above a score, on a case counted by hand. */
#include "eval/voc.h"

#include <string.h>

#include "eval/coco.h"
#include "qb_test.h"

static const char truth_text[] =
    "{\"images\": [{\"id\": 1, \"width\": 90, \"height\": 90}, {\"id\": 2, \"width\": 90, "
    "\"height\": 90}], \"categories\": [{\"id\": 1}, {\"id\": 2}], \"annotations\": ["
    "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 10, 10]},"
    "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [50, 50, 10, 10]},"
    "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 50, 10, 10], \"iscrowd\": 1},"
    "{\"image_id\": 2, \"category_id\": 1, \"bbox\": [20, 20, 10, 10]}]}";

/* By score: right, wrong (beside), right, wrong (a second one on the first object), on a crowd. */
static const char results_text[] =
    "[{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 10, 10], \"score\": 0.9},"
    "{\"image_id\": 2, \"category_id\": 1, \"bbox\": [60, 60, 10, 10], \"score\": 0.8},"
    "{\"image_id\": 2, \"category_id\": 1, \"bbox\": [21, 20, 10, 10], \"score\": 0.7},"
    "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 1, 10, 10], \"score\": 0.6},"
    "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 50, 10, 10], \"score\": 0.95}]";

static void numbers_are_those_counted_by_hand(void **state) {
    (void)state;
    qb_ctx cx;
    qb_coco truth;
    qb_coco_objects results;
    qb_coco_matches *matches;
    qb_voc_scores voc;
    int64_t strays;
    double curve[QB_COCO_RECALLS];
    const int32_t both[] = {1, 1}, second[] = {0, 1}, none[] = {0, 0};
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_coco_parse(&cx, "truth", truth_text, strlen(truth_text), &truth));
    assert_ok(&cx, qb_coco_results_parse(&cx, "results", results_text, strlen(results_text), &truth,
                                         &results, &strays));
    /* Precision 1 up to a recall of 1/3, then 2/3 up to 2/3. */
    assert_ok(&cx, qb_voc_score(&cx, &truth, &results, both, &voc));
    assert_float_equal(voc.all, 1.0 / 3 + 2.0 / 9, 1e-12);
    assert_float_equal(voc.eleven, (4 + 3 * 2.0 / 3) / 11, 1e-12);
    /* One object, found by the second box. */
    assert_ok(&cx, qb_voc_score(&cx, &truth, &results, second, &voc));
    assert_float_equal(voc.all, 0.5, 1e-12);
    assert_ok(&cx, qb_voc_score(&cx, &truth, &results, none, &voc));
    assert_true(voc.all == -1 && voc.eleven == -1);

    assert_ok(&cx, qb_coco_match(&cx, &truth, &results, QB_COCO_BOXES, &matches));
    assert_ok(&cx, qb_coco_curve(&cx, matches, both, curve));
    assert_float_equal(curve[0], 1, 1e-9);
    assert_float_equal(curve[33], 1, 1e-9);
    assert_float_equal(curve[34], 2.0 / 3, 1e-9);
    assert_float_equal(curve[66], 2.0 / 3, 1e-9);
    assert_float_equal(curve[67], 0, 1e-9);
    assert_float_equal(qb_coco_recall_above(matches, both, 0.65), 2.0 / 3, 1e-12);
    assert_float_equal(qb_coco_recall_above(matches, both, 0.85), 1.0 / 3, 1e-12);
    assert_float_equal(qb_coco_recall_above(matches, second, 0.65), 1, 1e-12);
    assert_true(qb_coco_recall_above(matches, none, 0.5) == -1);
    qb_coco_matches_free(matches);
    qb_coco_objects_release(&results);
    qb_coco_release(&truth);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_those_counted_by_hand)};
    return qb_test_exit_code(cmocka_run_group_tests(tests, NULL, NULL),
                             sizeof tests / sizeof *tests);
}
