/* Suppression of boxes: ties, nothing at all, and ten thousand by the definition. */
#include "eval/detection.h"

#include <math.h>

#include "eval/coco.h"
#include "qb_test.h"

static qb_ctx cx;

static void add(qb_detections *list, double x, double y, double w, double h, double score,
                int32_t label) {
    const qb_detection d = {{x, y, w, h}, score, label};
    assert_ok(&cx, qb_detections_add(&cx, list, &d));
}

static void nothing_stays_nothing(void **state) {
    (void)state;
    qb_ctx_init(&cx);
    qb_detections list = {0};
    assert_ok(&cx, qb_nms(&cx, 0.5, false, 0, &list));
    assert_int_equal(list.n, 0);
    qb_detections_release(&list);
}

static void equal_scores_keep_their_order(void **state) {
    (void)state;
    qb_ctx_init(&cx);
    qb_detections list = {0};
    add(&list, 0, 0, 10, 10, 0.5, 0);
    add(&list, 0, 0, 10, 10, 0.5, 1); /* another class */
    add(&list, 1, 0, 10, 10, 0.5, 0); /* IoU 9/11 with the first */
    add(&list, 0, 0, 10, 5, 0.9, 0);  /* IoU 0.5 with the first: not above it */
    assert_ok(&cx, qb_nms(&cx, 0.5, false, 0, &list));
    assert_int_equal(list.n, 3);
    assert_true(list.item[0].score == 0.9);
    assert_true(list.item[1].label == 0 && list.item[1].box[0] == 0);
    assert_int_equal(list.item[2].label, 1);
    assert_ok(&cx, qb_nms(&cx, 0.5, true, 0, &list));
    assert_int_equal(list.n, 2);
    assert_ok(&cx, qb_nms(&cx, 0.5, true, 1, &list));
    assert_int_equal(list.n, 1);
    qb_detections_release(&list);
}

static uint32_t seed;
static double draw(double below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) * below / (1 << 24);
}

/* What greedy suppression is: each kept box is the best of those that no better kept one covers. */
static void ten_thousand_boxes_are_suppressed_greedily(void **state) {
    (void)state;
    enum { N = 10000 };
    qb_ctx_init(&cx);
    static qb_detection all[N];
    static bool gone[N];
    qb_detections list = {0};
    seed = 7;
    for (int i = 0; i < N; i++) {
        add(&list, draw(600), draw(600), 5 + draw(60), 5 + draw(60), floor(draw(50)) / 50,
            (int32_t)draw(3));
        all[i] = list.item[i];
    }
    assert_ok(&cx, qb_nms(&cx, 0.45, false, 0, &list));
    for (size_t kept = 0;; kept++) {
        int best = -1;
        for (int i = 0; i < N; i++)
            if (!gone[i] && (best < 0 || all[i].score > all[best].score)) best = i;
        if (best < 0) {
            assert_int_equal(list.n, kept);
            break;
        }
        assert_memory_equal(&list.item[kept], &all[best], sizeof *all);
        gone[best] = true;
        for (int i = 0; i < N; i++)
            if (!gone[i] && all[i].label == all[best].label &&
                qb_box_iou(all[i].box, all[best].box, false) > 0.45)
                gone[i] = true;
    }
    qb_detections_release(&list);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(nothing_stays_nothing),
    cmocka_unit_test(equal_scores_keep_their_order),
    cmocka_unit_test(ten_thousand_boxes_are_suppressed_greedily),
};

QB_TEST_MAIN(tests)
