/* Decoders: every decoder on outputs made so that the boxes are known. */
#include "eval/detection.h"
#include "eval/detector.h"

#include <math.h>
#include <string.h>

#include "datasets/loader.h"
#include "eval/coco.h"
#include "qb_test.h"

static qb_ctx cx;

enum { OUTPUTS = 9, VALUES = 4096 };

typedef struct fixture {
    qb_detect_settings settings;
    qb_tensor output[OUTPUTS];
    const char *name[OUTPUTS];
    float value[OUTPUTS][VALUES];
    qb_detections found;
    int32_t n;
} fixture;

static fixture f;

static void start(const char *decoder) {
    qb_ctx_init(&cx);
    qb_detections_release(&f.found);
    memset(&f, 0, sizeof f);
    qb_detect_settings_default(&f.settings);
    if (decoder) assert_ok(&cx, qb_box_decoder_find(&cx, decoder, &f.settings.decoder));
}

static float *output(const char *name, qb_shape shape) {
    assert_true(qb_shape_count(&shape) <= VALUES);
    f.name[f.n] = name;
    f.output[f.n] = qb_tensor_of(QB_DTYPE_F32, shape, f.value[f.n]);
    return f.value[f.n++];
}

static qb_decode decode_of(int32_t width, int32_t height) {
    return (qb_decode){.settings = &f.settings,
                       .output = f.output,
                       .name = f.name,
                       .n = f.n,
                       .width = width,
                       .height = height,
                       .out = &f.found};
}

static void decode(int32_t width, int32_t height) {
    const qb_decode in = decode_of(width, height);
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
}

static void expect(size_t i, double x, double y, double w, double h, double score, int32_t label) {
    assert_true(i < f.found.n);
    const qb_detection *d = &f.found.item[i];
    const double expected[] = {x, y, w, h};
    for (int k = 0; k < 4; k++) assert_float_equal(d->box[k], expected[k], 1e-4);
    assert_float_equal(d->score, score, 1e-6);
    assert_int_equal(d->label, label);
}

static void yolov8_in_both_layouts(void **state) {
    (void)state;
    for (int transposed = 0; transposed < 2; transposed++) {
        start("yolov8");
        float *p =
            output("output0", transposed ? qb_shape_of(3, 1, 20, 7) : qb_shape_of(3, 1, 7, 20));
        const float box[] = {50, 40, 20, 10, 0.1f, 0.8f, 0.3f};
        for (int k = 0; k < 7; k++) p[transposed ? 13 * 7 + k : k * 20 + 13] = box[k];
        decode(640, 480);
        assert_int_equal(f.found.n, 1);
        expect(0, 40, 35, 20, 10, 0.8f, 1);
        f.settings.multi_label = true;
        f.found.n = 0;
        decode(640, 480);
        assert_int_equal(f.found.n, 3);
        expect(1, 40, 35, 20, 10, 0.3f, 2);
    }
}

static void yolov5_multiplies_by_objectness(void **state) {
    (void)state;
    start("yolov5");
    float *p = output("output", qb_shape_of(3, 1, 4, 7)) + 2 * 7;
    const float box[] = {50, 40, 20, 10, 0.5f, 0.2f, 0.9f};
    memcpy(p, box, sizeof box);
    decode(640, 480);
    assert_int_equal(f.found.n, 1);
    expect(0, 40, 35, 20, 10, 0.45, 1);
}

/* x = 2 sigmoid(t) - 0.5 + column; all logits 0 but the scores. */
/* Where value k of anchor a stands: 1 x A (5 + C) x H x W, 1 x A x H x W x (5 + C),
 * 1 x H x W x A (5 + C); n cells, two classes. */
static int at_head(int layout, int a, int k, int cell, int n) {
    const int place[] = {(a * 7 + k) * n + cell, (a * n + cell) * 7 + k, (cell * 3 + a) * 7 + k};
    return place[layout];
}

static void yolo_anchors_of_three_layouts(void **state) {
    (void)state;
    for (int layout = 0; layout < 3; layout++) {
        start("yolo_anchors");
        const int side[] = {8, 4, 2};
        for (int i = 0; i < 3; i++) {
            const int n = side[i] * side[i];
            const qb_shape shape[] = {qb_shape_of(4, 1, 21, side[i], side[i]),
                                      qb_shape_of(5, 1, 3, side[i], side[i], 7),
                                      qb_shape_of(4, 1, side[i], side[i], 21)};
            float *p = output("head", shape[layout]);
            for (int a = 0; a < 3; a++)
                for (int k = 0; k < n; k++) p[at_head(layout, a, 4, k, n)] = -20;
        }
        const int cell = 5, a = 1, n = 16; /* of the second head: column 1, row 1 */
        float *p = f.value[1];
        p[at_head(layout, a, 4, cell, n)] = 20;
        p[at_head(layout, a, 6, cell, n)] = 20;
        decode(64, 64);
        assert_int_equal(f.found.n, 1);
        expect(0, 24 - 31, 24 - 22.5, 62, 45, 1, 1); /* anchor 62 x 45, stride 16 */
        f.found.n = 0;
        f.settings.exponential = 1;
        p[at_head(layout, a, 2, cell, n)] = logf(2);
        decode(64, 64);
        expect(0, 24 - 62, 24 - 22.5, 124, 45, 1, 1);
    }
}

static void yolov10_and_decoded_take_boxes_as_they_are(void **state) {
    (void)state;
    start("yolov10");
    float *p = output("output0", qb_shape_of(3, 1, 3, 6));
    const float rows[] = {10, 20, 30, 60, 0.9f, 7, 10, 20, 30, 60, 0.8f, 7, 0, 0, 0, 0, 0, 0};
    memcpy(p, rows, sizeof rows);
    decode(640, 640);
    assert_int_equal(f.found.n, 2); /* nothing is suppressed */
    expect(0, 10, 20, 20, 40, 0.9f, 7);

    start("decoded");
    const float boxes[] = {0.1f, 0.2f, 0.5f, 0.4f, 0, 0, 1, 1}, scores[] = {0.75f, 0.5f};
    memcpy(output("boxes", qb_shape_of(3, 1, 2, 4)), boxes, sizeof boxes);
    float *label = output("labels", qb_shape_of(2, 1, 2));
    memcpy(output("scores", qb_shape_of(2, 1, 2)), scores, sizeof scores);
    label[0] = 3;
    f.settings.normalized = true;
    f.settings.box = qb_word_find(qb_box_words, "yxyx");
    decode(100, 200);
    assert_int_equal(f.found.n, 2);
    expect(0, 20, 20, 20, 80, 0.75, 3);
    expect(1, 0, 0, 100, 200, 0.5, 0);
    f.found.n = 0;
    f.settings.box = qb_word_find(qb_box_words, "cxcywh");
    decode(100, 200);
    expect(0, -15, 0, 50, 80, 0.75, 3);
}

/* 1 x N x (4 + C) in rows, as YOLOv8's transposed exports have them. */
static void rows_tell_logits_and_corners(void **state) {
    (void)state;
    start("yolov8");
    float *p = output("output0", qb_shape_of(3, 1, 84, 6));
    for (int i = 0; i < 84; i++) {
        const float box[] = {(float)i, 5, (float)i + 4, 25, -9, i == 70 ? 0.5F : -8};
        memcpy(p + (ptrdiff_t)6 * i, box, sizeof box);
    }
    decode(64, 64);
    assert_int_equal(f.found.item[0].label, 1);
    expect(0, 70, 5, 4, 20, 1 / (1 + exp(-0.5)), 1);
    f.found.n = 0;
    f.settings.sigmoid = 0;
    f.settings.box = 2; /* cxcywh */
    decode(64, 64);
    assert_int_equal(f.found.n, 1);
    expect(0, 70 - 37, 5 - 12.5, 74, 25, 0.5, 1);

    start("yolov5"); /* with objectness */
    p = output("output0", qb_shape_of(3, 1, 3, 7));
    const float row[] = {32, 32, 20, 10, 2, -1, 1};
    for (int i = 0; i < 3; i++)
        for (int k = 4; k < 7; k++) p[7 * i + k] = -9;
    memcpy(p + 7, row, sizeof row);
    decode(64, 64);
    assert_int_equal(f.found.n, 1);
    expect(0, 22, 27, 20, 10, 1 / (1 + exp(-2)) / (1 + exp(-1)), 1);
}

static void integers_are_classes(void **state) {
    (void)state;
    static const bool whole[] = {false, true, false};
    start(NULL);
    const float box[] = {1, 2, 5, 8, 10, 10, 20, 30}, label[] = {3, 1}, score[] = {0.9F, 0.4F};
    memcpy(output("2544", qb_shape_of(2, 2, 4)), box, sizeof box);
    memcpy(output("2551", qb_shape_of(1, 2)), label, sizeof label);
    memcpy(output("2549", qb_shape_of(1, 2)), score, sizeof score);
    qb_decode in = decode_of(64, 64);
    in.whole = whole;
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_string_equal(f.settings.decoder->name, "decoded");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    assert_int_equal(f.found.n, 2);
    expect(0, 1, 2, 4, 6, 0.9F, 3);

    start("decoded"); /* TensorFlow's: y before x, shares */
    const float shares[] = {0.25F, 0, 0.5F, 1, 0, 0, 1, 1};
    memcpy(output("detection_boxes", qb_shape_of(3, 1, 2, 4)), shares, sizeof shares);
    memcpy(output("detection_classes", qb_shape_of(2, 1, 2)), label, sizeof label);
    memcpy(output("detection_scores", qb_shape_of(2, 1, 2)), score, sizeof score);
    output("num_detections", qb_shape_of(1, 1));
    decode(100, 200);
    expect(0, 0, 50, 100, 50, 0.9F, 3);
}

static void one_box_for_all_classes_may_have_an_axis(void **state) {
    (void)state;
    start(NULL);
    const float box[] = {0.25F, 0.25F, 0.5F, 1}, score[] = {0.1F, 0.9F};
    memcpy(output("boxes", qb_shape_of(4, 1, 252, 1, 4)) + 40, box, sizeof box);
    memcpy(output("confs", qb_shape_of(3, 1, 252, 2)) + 20, score, sizeof score);
    qb_decode in = decode_of(64, 64);
    in.n_labels = 2;
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_string_equal(f.settings.decoder->name, "ssd");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    expect(0, 16, 16, 16, 48, 0.9F, 1);
}

static void detr_with_and_without_no_object(void **state) {
    (void)state;
    static int64_t ids[] = {1, 2};
    const float logits[] = {0, 2, 1}, box[] = {0.5f, 0.5f, 0.2f, 0.4f};
    start("detr");
    memcpy(output("logits", qb_shape_of(3, 1, 1, 3)), logits, sizeof logits);
    memcpy(output("boxes", qb_shape_of(3, 1, 1, 4)), box, sizeof box);
    decode(100, 200);
    expect(0, 40, 60, 20, 80, 1 / (1 + exp(-2)), 1);
    start("detr"); /* most boxes are no object */
    const float mostly[] = {0, 2, 1, 0, 0, 20, 0, 0, 20};
    memcpy(output("logits", qb_shape_of(3, 1, 3, 3)), mostly, sizeof mostly);
    memcpy(output("boxes", qb_shape_of(3, 1, 3, 4)), box, sizeof box);
    f.settings.category_id = ids;
    f.settings.n_category_ids = 2;
    decode(100, 200);
    expect(0, 40, 60, 20, 80, exp(2) / (1 + exp(2) + exp(1)), 1);
    f.settings.n_category_ids = 0;
    f.found.n = 0;
    qb_decode in = decode_of(100, 200);
    in.n_labels = 1;
    in.top_id = 1; /* classes 0 and 1, as ids, and no object */
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    expect(0, 40, 60, 20, 80, exp(2) / (1 + exp(2) + exp(1)), 1);
    f.found.n = 0;
    in.n_labels = 2;
    f.value[0][5] = f.value[0][8] = -20; /* a last logit that no object has (RF-DETR) */
    f.value[0][2] = -20;
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    expect(0, 40, 60, 20, 80, 1 / (1 + exp(-2)), 1);
}

/* Final boxes in the columns of five exporters, the same two objects. */
static void rows_of_five_exporters(void **state) {
    (void)state;
    static const struct {
        qb_shape shape;
        int sample, label, score, x, y, far;
        double shares;
    } cases[] = {
        {{.rank = 2, .dim = {3, 6}}, -1, 0, 1, 2, 3, 2, 1},       /* PaddleDetection */
        {{.rank = 2, .dim = {3, 7}}, 0, 5, 6, 1, 2, 2, 1},        /* YOLOv7 */
        {{.rank = 2, .dim = {3, 7}}, 0, 6, 5, 1, 2, 2, 1},        /* YOLO-NAS */
        {{.rank = 4, .dim = {1, 1, 3, 7}}, 0, 1, 2, 3, 4, 2, 64}, /* OpenVINO */
        {{.rank = 3, .dim = {1, 100, 7}}, 0, 6, 5, 2, 1, 2, 1},   /* TensorFlow's EfficientDet */
    };
    static const bool whole[] = {false, true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(NULL);
        float *p = output("output", cases[i].shape);
        const int32_t each = (int32_t)cases[i].shape.dim[cases[i].shape.rank - 1];
        for (int k = 0; k < 2; k++, p += each) {
            p[cases[i].label] = (float)(2 + k);
            p[cases[i].score] = 0.9F - 0.2F * (float)k;
            p[cases[i].x] = (float)(8 / cases[i].shares);
            p[cases[i].y] = (float)((16 + k) / cases[i].shares);
            p[cases[i].x + cases[i].far] = (float)(40 / cases[i].shares);
            p[cases[i].y + cases[i].far] = (float)(32 / cases[i].shares);
        }
        p[cases[i].sample < 0 ? cases[i].label : cases[i].sample] = -1; /* none */
        p[cases[i].score] = 1;
        if (i == 0) output("count", qb_shape_of(1, 1));
        qb_decode in = decode_of(64, 64);
        in.whole = whole;
        f.settings.decoder = qb_box_decoder_guess(&in);
        assert_non_null(f.settings.decoder);
        assert_string_equal(f.settings.decoder->name, "rows");
        assert_ok(&cx, qb_decode_boxes(&cx, &in));
        assert_int_equal(f.found.n, 2);
        expect(0, 8, 16, 32, 16, 0.9, 2);
        expect(1, 8, 17, 32, 15, 0.7, 3);
    }
}

/* Three categories with ids 1, 2 and 5. */
static void class_numbers_are_ids_or_ranks(void **state) {
    (void)state;
    qb_coco_category category[] = {
        {.id = 1, .name = "a"}, {.id = 2, .name = "b"}, {.id = 5, .name = "c"}};
    const qb_coco truth = {.category = category, .n_categories = 3};
    static const struct {
        int32_t told, seen;
        bool ids;
        int64_t first;
        const char *text;
    } cases[] = {
        {3, 3, false, 0, "3 classes, 3 categories: class 0 is 'a', id 1 (by rank)"},
        {2, 2, false, 0, "2 classes, 3 categories: class 0 is 'a', id 1 (by rank)"},
        {5, 5, true, 1, "5 classes, ids up to 5: class 0 has id 1 (by id)"},
        {6, 6, true, 0, "6 classes, ids up to 5: class 1 has id 1 (by id)"},
        {4, 4, false, 0, "4 classes, 3 categories, ids up to 5: cannot tell; name them (labels)"},
        {0, 3, false, 0, "classes stand in values: ids if any is above 2, else ranks"},
        {0, 4, true, 0, "classes stand in values: ids if any is above 2, else ranks"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const qb_class_rule rule = qb_detector_class_rule(&truth, cases[i].told, cases[i].seen);
        char text[256];
        qb_detector_class_text(&truth, cases[i].told, text, sizeof text);
        assert_int_equal(rule.ids, cases[i].ids);
        assert_int_equal(rule.first, cases[i].first);
        assert_string_equal(text, cases[i].text);
    }
}

/* Anchors and deltas with y first; the anchors stand before or behind the deltas, and four classes
 * look like both. */
static void efficientdet_moves_the_anchors_that_it_is_given(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        const bool before = i % 2, named = i < 4;
        const int n = i < 2 ? 3 : 4;
        start(NULL);
        float *first = output(!named   ? "1"
                              : before ? "anchors"
                                       : "regression",
                              qb_shape_of(3, 1, 9, 4));
        float *score = output(named ? "classification" : "2", qb_shape_of(3, 1, 9, n));
        float *second = output(!named   ? "3"
                               : before ? "regression"
                                        : "anchors",
                               qb_shape_of(3, 1, 9, 4));
        const float anchor[] = {10, 20, 26, 52}, delta[] = {0.25F, -0.5F, 0, logf(2)};
        memcpy((before ? first : second) + 4 * 5, anchor, sizeof anchor);
        memcpy((before ? second : first) + 4 * 5, delta, sizeof delta);
        score[n * 5 + 2] = 0.8F;
        const qb_decode in = decode_of(64, 64);
        f.settings.decoder = qb_box_decoder_guess(&in);
        assert_non_null(f.settings.decoder);
        assert_string_equal(f.settings.decoder->name, "efficientdet");
        assert_ok(&cx, qb_decode_boxes(&cx, &in));
        assert_int_equal(f.found.n, 1);
        expect(0, 36 - 16 - 32, 18 + 4 - 8, 64, 16, 0.8, 2);
    }
}

/* Ultralytics' RT-DETR: shares and probabilities in one output; two boxes in one place both stay.
 */
/* Boxes first; nine anchors at each place, y before x, as RetinaNet's are not. */
static void efficientdet_knows_its_anchors(void **state) {
    (void)state;
    start(NULL); /* 16 x 16: 4 cells of stride 8, then one each of 16 to 128 */
    float *delta = output("regression", qb_shape_of(3, 1, 72, 4));
    float *score = output("classification", qb_shape_of(3, 1, 72, 3));
    const int64_t at = 9 * 3 + 7; /* row 1, column 1: scale 2^(2/3), 1.4 to 0.7 */
    score[at * 3 + 2] = 0.7F;
    delta[4 * at] = 0.5F;
    delta[4 * at + 3] = logf(2);
    const qb_decode in = decode_of(16, 16);
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "efficientdet");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    const double side = 32 * cbrt(4), w = 2 * 1.4 * side, h = 0.7 * side;
    assert_int_equal(f.found.n, 1);
    expect(0, 12 - w / 2, 12, w, h, 0.7, 2);
}

static void detr_in_one_output(void **state) {
    (void)state;
    start(NULL);
    float *p = output("output0", qb_shape_of(3, 1, 300, 7));
    const float box[] = {0.5F, 0.25F, 0.25F, 0.5F, 0, 0.9F, 0};
    memcpy(p + 7 * 20, box, sizeof box);
    memcpy(p + 7 * 30, box, sizeof box);
    qb_decode in = decode_of(64, 32);
    in.n_labels = 3;
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "detr");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    assert_int_equal(f.found.n, 2);
    expect(0, 24, 0, 16, 16, 0.9, 1);
    expect(1, 24, 0, 16, 16, 0.9, 1);
}

static void ssd_leaves_the_background_out(void **state) {
    (void)state;
    start("ssd");
    const float scores[] = {0.1f, 0.9f, 0.99f, 0.01f},
                boxes[] = {0.25f, 0.25f, 0.5f, 1, 0, 0, 1, 1};
    memcpy(output("scores", qb_shape_of(3, 1, 2, 2)), scores, sizeof scores);
    memcpy(output("boxes", qb_shape_of(3, 1, 2, 4)), boxes, sizeof boxes);
    decode(320, 240);
    assert_int_equal(f.found.n, 2);
    expect(0, 80, 60, 80, 180, 0.9f, 0);
    expect(1, 0, 0, 320, 240, 0.01f, 0);
}

static void yunet_reads_outputs_by_name(void **state) {
    (void)state;
    static const char *const names[] = {"obj_8",   "cls_8",  "bbox_8", "cls_16", "obj_16",
                                        "bbox_16", "cls_32", "obj_32", "bbox_32"};
    start("yunet");
    for (int i = 0; i < 9; i++) {
        const int stride = i < 3 ? 8 : i < 6 ? 16 : 32;
        output(names[i], qb_shape_of(3, 1, 64 / stride * (32 / stride), i % 3 == 2 ? 4 : 1));
    }
    f.value[3][5] = 0.5f; /* column 1, row 1 of 4 x 2 */
    f.value[4][5] = 0.75f;
    const float box[] = {0.5f, 0.25f, 0, logf(2)};
    memcpy(&f.value[5][4 * 5], box, sizeof box);
    decode(64, 32);
    assert_int_equal(f.found.n, 1);
    expect(0, 24 - 8, 20 - 16, 16, 32, 0.375, 0);
}

static void fastestdet_is_the_reference_formula(void **state) {
    (void)state;
    start("fastestdet");
    float *p = output("758", qb_shape_of(4, 1, 7, 2, 3)) + 4; /* column 1, row 1 */
    const float cell[] = {0.5f, 0.3f, -0.2f, 0.1f, -1, 0.4f, 0.6f};
    for (int k = 0; k < 7; k++) p[6 * k] = cell[k];
    decode(90, 60);
    assert_int_equal(f.found.n, 1);
    const double x = (tanh(0.3) + 1) / 3 * 90, y = (tanh(-0.2) + 1) / 2 * 60;
    const double w = 90 / (1 + exp(-0.1)), h = 60 / (1 + exp(1));
    expect(0, x - w / 2, y - h / 2, w, h, pow(0.5, 0.6) * pow(0.6, 0.4), 1);
    start("fastestdet"); /* channels last */
    memcpy(output("758", qb_shape_of(4, 1, 2, 3, 7)) + 7 * 4, cell, sizeof cell);
    decode(90, 60);
    assert_int_equal(f.found.n, 1);
    expect(0, x - w / 2, y - h / 2, w, h, pow(0.5, 0.6) * pow(0.6, 0.4), 1);
}

/* 64 x 64: 8 x 8, 4 x 4 and 2 x 2 cells, 84 in all. */
static void yolox_and_yolov6_have_a_box_a_cell(void **state) {
    (void)state;
    for (int decoded = 0; decoded < 3; decoded++) {
        start(NULL);
        float *p = output("output", qb_shape_of(3, 1, 84, 7));
        for (int i = 0; i < 84; i++) {
            p[i * 7] = p[i * 7 + 1] = decoded ? 32 : 0.5F;
            p[i * 7 + 4] = decoded == 2; /* YOLOv6's objectness */
        }
        const int cell = 64 + 5; /* column 1, row 1 of stride 16 */
        const float box[] = {decoded ? 28 : 0.75F,
                             decoded ? 24 : 0.5F,
                             decoded ? 32 : logf(2),
                             decoded ? 16 : 0,
                             decoded == 2 ? 1 : 0.5F,
                             0,
                             0.8F};
        memcpy(p + 7 * cell, box, sizeof box);
        qb_decode in = decode_of(64, 64);
        in.n_labels = 2;
        f.settings.decoder = qb_box_decoder_guess(&in);
        assert_string_equal(f.settings.decoder->name, decoded == 2 ? "yolov6" : "yolox");
        assert_ok(&cx, qb_decode_boxes(&cx, &in));
        assert_int_equal(f.found.n, 1);
        expect(0, 12, 16, 32, 16, decoded == 2 ? 0.8 : 0.4, 1);
    }
}

/* Bins whose softmax is one value: 20 there, 0 elsewhere. */
static void set_sides(float *bins, int64_t n, int64_t step, const int side[4]) {
    for (int k = 0; k < 4; k++) bins[(k * n + side[k]) * step] = 40;
}

static void gfl_expects_sides(void **state) {
    (void)state;
    const int side[] = {1, 0, 3, 2};
    start("nanodet-plus-m"); /* two classes, then bins; 64 x 64 with stride 64 too: 85 cells */
    float *p = output("output", qb_shape_of(3, 1, 85, 34)) + 34 * 69;
    p[1] = 0.8F;
    set_sides(p + 2, 8, 1, side);
    qb_decode in = decode_of(64, 64);
    in.n_labels = 2;
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    assert_int_equal(f.found.n, 1);
    expect(0, 0, 16, 64, 32, 0.8, 1); /* from the corner of column 1, row 1 of stride 16 */

    /* A YOLOv8's raw heads: 16 bins, then logits; from the cell's middle. */
    start(NULL);
    for (int k = 0; k < 3; k++) {
        float *q = output("head", qb_shape_of(4, 1, 66, 4 >> k, 4 >> k));
        for (int i = 0; i < 2 * (16 >> 2 * k); i++) q[64 * (16 >> 2 * k) + i] = -20;
    }
    set_sides(f.value[1] + 3, 16, 4, side); /* column 1, row 1 of stride 16 */
    f.value[1][65 * 4 + 3] = 20;
    in = decode_of(32, 32);
    in.n_labels = 2;
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "gfl");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    assert_int_equal(f.found.n, 1);
    expect(0, 8, 24, 64, 32, 1, 1);
}

/* FCOS's centerness; distances in strides as torchvision has them, or in pixels as MMDetection
 * does. */
static void distances_are_strides_or_pixels(void **state) {
    (void)state;
    for (int pixels = 0; pixels < 2; pixels++) {
        start(NULL);
        for (int kind = 0; kind < 3; kind++) /* classes, box, centerness of 64 x 64 at 8, 16, 32 */
            for (int k = 0; k < 3; k++) {
                const int n = 8 >> k, channels = kind == 0 ? 3 : kind == 1 ? 4 : 1;
                float *p = output("head", qb_shape_of(4, 1, channels, n, n));
                for (int i = 0; i < channels * n * n; i++)
                    p[i] = kind == 1 ? (pixels ? (float)(8 << k) : 1) : -20;
            }
        const int cell = 5; /* column 1, row 1 of stride 16 */
        const float side[] = {1, 0.5F, 2, 1};
        for (int k = 0; k < 4; k++) f.value[4][16 * k + cell] = side[k] * (pixels ? 16 : 1);
        f.value[1][16 * 2 + cell] = f.value[7][cell] = 20;
        qb_decode in = decode_of(64, 64);
        in.n_labels = 3;
        f.settings.decoder = qb_box_decoder_guess(&in);
        assert_non_null(f.settings.decoder);
        assert_string_equal(f.settings.decoder->name, "gfl");
        assert_ok(&cx, qb_decode_boxes(&cx, &in));
        assert_int_equal(f.found.n, 1);
        expect(0, 8, 16, 48, 24, 1, 2);
    }
}

/* Classes of all strides, then boxes, from the cells' corners; of four classes, too. */
static void rtmdet_counts_from_corners(void **state) {
    (void)state;
    for (int pixels = 0; pixels < 2; pixels++)
        for (int n_classes = 3; n_classes < 5; n_classes++) {
            start(NULL);
            for (int kind = 0; kind < 2; kind++)
                for (int k = 0; k < 3; k++) {
                    const int n = 8 >> k, channels = kind ? 4 : n_classes;
                    float *p = output("head", qb_shape_of(4, 1, channels, n, n));
                    for (int i = 0; i < channels * n * n; i++)
                        p[i] = kind ? (pixels ? (float)(8 << k) : 1) : -20;
                }
            const float side[] = {1, 0.5F, 2, 1};
            for (int k = 0; k < 4; k++) f.value[4][16 * k + 5] = side[k] * (pixels ? 16 : 1);
            f.value[1][16 * 2 + 5] = 20;
            qb_decode in = decode_of(64, 64);
            in.n_labels = n_classes;
            f.settings.decoder = qb_box_decoder_guess(&in);
            assert_non_null(f.settings.decoder);
            assert_string_equal(f.settings.decoder->name, "rtmdet");
            assert_ok(&cx, qb_decode_boxes(&cx, &in));
            assert_int_equal(f.found.n, 1);
            expect(0, 0, 8, 48, 24, 1, 2);
        }
}

/* Levels that differ in their channels are no head. */
static void levels_have_the_same_channels(void **state) {
    (void)state;
    start(NULL);
    for (int k = 0; k < 3; k++) output("head", qb_shape_of(4, 1, k ? 4 : 32, 8 >> k, 8 >> k));
    for (int k = 0; k < 3; k++) output("head", qb_shape_of(4, 1, 3, 8 >> k, 8 >> k));
    qb_decode in = decode_of(64, 64);
    in.n_labels = 3;
    assert_null(qb_box_decoder_guess(&in));
}

static void yolofastest_shares_classes_among_anchors(void **state) {
    (void)state;
    start(NULL);
    output("stride_16", qb_shape_of(4, 1, 4, 4, 17));
    output("stride_32", qb_shape_of(4, 1, 2, 2, 17));
    float *p = f.value[0] + 17 * 5; /* column 1, row 1 of stride 16 */
    const float box[] = {0.5F, 0.75F, 0.5F, 1};
    memcpy(p + 4, box, sizeof box);
    p[12 + 1] = 0.5F; /* the second anchor: 37.88 x 51.48 */
    p[15 + 1] = 0.8F;
    qb_decode in = decode_of(64, 64);
    in.n_labels = 2;
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "yolofastest");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    assert_int_equal(f.found.n, 1);
    const double w = 37.88, h = 4 * 51.48;
    expect(0, 24 - w / 2, 32 - h / 2, w, h, 0.4, 1);
}

/* Two heads: the small YOLOv3's anchors and exponentials; channels last. */
static void two_heads_are_a_small_yolo(void **state) {
    (void)state;
    start(NULL);
    float *coarse = output("stride_32", qb_shape_of(4, 1, 2, 2, 21));
    float *fine = output("stride_16", qb_shape_of(4, 1, 4, 4, 21));
    for (int i = 0; i < 12; i++) coarse[7 * i + 4] = -20;
    for (int i = 0; i < 48; i++) fine[7 * i + 4] = -20;
    float *p = fine + 21 * 5 + 7; /* column 1, row 1: the anchor 23 x 27 */
    p[3] = logf(2);
    p[4] = p[6] = 20;
    qb_decode in = decode_of(64, 64);
    in.n_labels = 2;
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "yolo_anchors");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    assert_int_equal(f.found.n, 1);
    expect(0, 24 - 11.5, 24 - 27, 23, 54, 1, 1);
    f.settings.decoder = NULL;
    in.n_labels = 5; /* two maps of other channels are not */
    assert_null(qb_box_decoder_guess(&in));
}

/* Peaks of a map at stride 4: a cell beside a higher one is none. */
static void centernet_finds_peaks(void **state) {
    (void)state;
    start(NULL);
    float *heat = output("hm", qb_shape_of(4, 1, 3, 4, 8));
    float *offset = output("reg", qb_shape_of(4, 1, 2, 4, 8));
    float *size = output("wh", qb_shape_of(4, 1, 2, 4, 8));
    const int64_t at = 1 * 8 + 2; /* row 1, column 2 of class 1 */
    heat[32 + at] = 0.9F;
    heat[32 + at + 1] = 0.6F;
    heat[64 + at + 1] = 0.5F; /* of another class */
    offset[at] = 0.25F;
    offset[32 + at] = 0.75F;
    size[at] = size[at + 1] = 2;
    size[32 + at] = size[32 + at + 1] = 1;
    qb_decode in = decode_of(32, 16);
    in.n_labels = 3;
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "centernet");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    assert_int_equal(f.found.n, 2);
    expect(0, 5, 5, 8, 4, 0.9, 1);
    expect(1, 8, 2, 8, 4, 0.5, 2);
}

/* Lines of points along x and y are no boxes. */
static void simcc_is_not_taken_for_boxes(void **state) {
    (void)state;
    start(NULL);
    output("simcc_x", qb_shape_of(3, 1, 17, 40));
    output("simcc_y", qb_shape_of(3, 1, 17, 50));
    const qb_decode in = decode_of(192, 256);
    assert_null(qb_box_decoder_guess(&in));
}

static void retinanet_has_nine_anchors(void **state) {
    (void)state;
    start(NULL); /* 16 x 16: 4 cells of stride 8, then one each of 16 to 128 */
    float *score = output("scores", qb_shape_of(3, 1, 72, 3));
    float *delta = output("boxes", qb_shape_of(3, 1, 72, 4));
    const int64_t at = 9 * 3 + 7; /* row 1, column 1: ratio 2, scale 2^(1/3) */
    score[at * 3 + 2] = 0.7F;
    delta[4 * at] = 0.5F;
    delta[4 * at + 3] = logf(2);
    qb_decode in = decode_of(16, 16);
    f.settings.decoder = qb_box_decoder_guess(&in);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "retinanet");
    assert_ok(&cx, qb_decode_boxes(&cx, &in));
    const double side = 32 * cbrt(2), w = side / sqrt(2), h = 2 * side * sqrt(2);
    assert_int_equal(f.found.n, 1);
    expect(0, 8, 8 - h / 2, w, h, 0.7, 2);
}

static void priors_of_ssd_and_retinaface(void **state) {
    (void)state;
    start(
        "ssd"); /* one stride of 16 in 32 x 32: four places of 10, sqrt(10 20), ratios 2 and 1/2 */
    float *score = output("conf", qb_shape_of(3, 1, 16, 3));
    float *delta = output("loc", qb_shape_of(3, 1, 16, 4));
    f.settings.n_strides = f.settings.n_min_sizes = f.settings.n_max_sizes = f.settings.n_ratios =
        1;
    f.settings.stride[0] = 16;
    f.settings.min_size[0] = 10;
    f.settings.max_size[0] = 20;
    f.settings.ratio[0] = 2;
    score[3 * 14 + 2] = 40; /* logits: the ratio 2 at row 1, column 1 */
    delta[4 * 14] = 1;
    for (int i = 0; i < 16; i++)
        if (i != 14) score[3 * i] = 40;
    decode(32, 32);
    assert_int_equal(f.found.n, 1);
    const double w = 10 * sqrt(2), h = 10 / sqrt(2);
    expect(0, 24 + 0.1 * w - w / 2, 24 - h / 2, w, h, 1, 1);
    f.settings.stride[0] = 8;
    const qb_decode in = decode_of(32, 32);
    assert_fails(&cx, qb_decode_boxes(&cx, &in), QB_STATUS_MISMATCH);
    assert_message(&cx, "16 boxes are not 4 at each place of 1 strides");

    start(NULL); /* 32 x 32: 16, 4 and 1 places of two */
    delta = output("loc", qb_shape_of(3, 1, 42, 4));
    score = output("conf", qb_shape_of(3, 1, 42, 2));
    output("landms", qb_shape_of(3, 1, 42, 10));
    score[2 * 33 + 1] = 0.9F; /* stride 16, place 0, the larger one: 128 */
    delta[4 * 33 + 2] = 5;
    const qb_decode faces = decode_of(32, 32);
    f.settings.decoder = qb_box_decoder_guess(&faces);
    assert_non_null(f.settings.decoder);
    assert_string_equal(f.settings.decoder->name, "retinaface");
    decode(32, 32);
    assert_int_equal(f.found.n, 1);
    const double wide = 128 * exp(1);
    expect(0, 8 - wide / 2, 8 - 64, wide, 128, 0.9, 0);
}

static void shares_and_pixels_are_told_apart(void **state) {
    (void)state;
    for (int shares = 0; shares < 2; shares++) {
        start("yolo11n.onnx");
        float *p = output("output0", qb_shape_of(3, 1, 7, 20));
        const float box[] = {50, 40, 20, 10, 0.1f, 0.8f, 0.3f};
        for (int k = 0; k < 7; k++)
            p[k * 20 + 13] = box[k] / (k < 4 && shares ? (k % 2 ? 480.0F : 640.0F) : 1.0F);
        decode(640, 480);
        assert_int_equal(f.found.n, 1);
        expect(0, 40, 35, 20, 10, 0.8f, 1);
    }
}

static void decoders_are_guessed_by_their_outputs(void **state) {
    (void)state;
    static const struct {
        const char *decoder;
        int n;
        qb_shape shape[3];
    } cases[] = {
        {"yolov8", 1, {{.rank = 3, .dim = {1, 84, 8400}}}},
        {"yolov8", 1, {{.rank = 3, .dim = {-1, 84, -1}}}},
        {"yolov5", 1, {{.rank = 3, .dim = {1, 25200, 85}}}},
        {"yolov8", 1, {{.rank = 3, .dim = {1, 8400, 84}}}},
        {"yolox", 1, {{.rank = 3, .dim = {1, 8400, 85}}}},
        {"gfl", 1, {{.rank = 3, .dim = {1, 8500, 112}}}},
        {"yolov5", 1, {{.rank = 3, .dim = {1, 25200, 6}}}}, /* one class, no final boxes */
        {"yolov10", 1, {{.rank = 3, .dim = {1, 300, 6}}}},
        {"detr", 2, {{.rank = 3, .dim = {1, 300, 6}}, {.rank = 3, .dim = {1, 300, 4}}}},
        {"detr", 2, {{.rank = 3, .dim = {1, 100, 7}}, {.rank = 3, .dim = {1, 100, 4}}}},
        {"retinanet", 2, {{.rank = 3, .dim = {1, 76725, 80}}, {.rank = 3, .dim = {1, 76725, 4}}}},
        {"ssd", 2, {{.rank = 3, .dim = {1, 8400, 4}}, {.rank = 3, .dim = {1, 80, 8400}}}},
        {"decoded", 2, {{.rank = 3, .dim = {1, -1, 5}}, {.rank = 2, .dim = {1, -1}}}},
        {"detr", 2, {{.rank = 3, .dim = {1, 100, 92}}, {.rank = 3, .dim = {1, 100, 4}}}},
        {"ssd", 2, {{.rank = 3, .dim = {1, 4420, 2}}, {.rank = 3, .dim = {1, 4420, 4}}}},
        {"fastestdet", 1, {{.rank = 4, .dim = {1, 85, 22, 22}}}},
        {"decoded",
         3,
         {{.rank = 2, .dim = {-1, 4}}, {.rank = 1, .dim = {-1}}, {.rank = 1, .dim = {-1}}}},
        {"yolo_anchors",
         3,
         {{.rank = 4, .dim = {1, 255, 80, 80}},
          {.rank = 4, .dim = {1, 255, 40, 40}},
          {.rank = 4, .dim = {1, 255, 20, 20}}}},
        {NULL, 1, {{.rank = 2, .dim = {1, 1000}}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        start(NULL);
        for (int k = 0; k < cases[i].n; k++) {
            f.output[k] = qb_tensor_of(QB_DTYPE_F32, cases[i].shape[k], NULL);
            f.name[k] = "x";
        }
        f.n = cases[i].n;
        const qb_decode in = decode_of(640, 640);
        const qb_box_decoder *guess = qb_box_decoder_guess(&in);
        assert_string_equal(guess ? guess->name : "none",
                            cases[i].decoder ? cases[i].decoder : "none");
    }
}

static void what_does_not_fit_is_named(void **state) {
    (void)state;
    const qb_box_decoder *decoder = NULL;
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_box_decoder_find(&cx, "yolv8", &decoder), QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "did you mean 'yolov8'?");
    start("yunet");
    output("cls", qb_shape_of(3, 1, 5, 7));
    const qb_decode in = decode_of(640, 640);
    assert_fails(&cx, qb_decode_boxes(&cx, &in), QB_STATUS_MISMATCH);
    assert_message(&cx, "decoder yunet takes outputs cls_S");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yolov8_in_both_layouts),
        cmocka_unit_test(yolov5_multiplies_by_objectness),
        cmocka_unit_test(yolo_anchors_of_three_layouts),
        cmocka_unit_test(yolov10_and_decoded_take_boxes_as_they_are),
        cmocka_unit_test(rows_tell_logits_and_corners),
        cmocka_unit_test(integers_are_classes),
        cmocka_unit_test(one_box_for_all_classes_may_have_an_axis),
        cmocka_unit_test(detr_with_and_without_no_object),
        cmocka_unit_test(rows_of_five_exporters),
        cmocka_unit_test(class_numbers_are_ids_or_ranks),
        cmocka_unit_test(efficientdet_moves_the_anchors_that_it_is_given),
        cmocka_unit_test(efficientdet_knows_its_anchors),
        cmocka_unit_test(detr_in_one_output),
        cmocka_unit_test(ssd_leaves_the_background_out),
        cmocka_unit_test(yunet_reads_outputs_by_name),
        cmocka_unit_test(fastestdet_is_the_reference_formula),
        cmocka_unit_test(yolox_and_yolov6_have_a_box_a_cell),
        cmocka_unit_test(gfl_expects_sides),
        cmocka_unit_test(distances_are_strides_or_pixels),
        cmocka_unit_test(rtmdet_counts_from_corners),
        cmocka_unit_test(levels_have_the_same_channels),
        cmocka_unit_test(yolofastest_shares_classes_among_anchors),
        cmocka_unit_test(two_heads_are_a_small_yolo),
        cmocka_unit_test(centernet_finds_peaks),
        cmocka_unit_test(simcc_is_not_taken_for_boxes),
        cmocka_unit_test(retinanet_has_nine_anchors),
        cmocka_unit_test(priors_of_ssd_and_retinaface),
        cmocka_unit_test(shares_and_pixels_are_told_apart),
        cmocka_unit_test(decoders_are_guessed_by_their_outputs),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qb_detections_release(&f.found);
    return qb_test_exit_code(failed, sizeof tests / sizeof *tests);
}
