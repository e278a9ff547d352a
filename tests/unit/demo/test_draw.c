#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "demo/draw.h"
#include "qb_test.h"

enum { PIXELS = QB_DEMO_SIDE * QB_DEMO_SIDE * QB_DEMO_CHANNELS };

static qb_ctx cx;

static int prepare(void **state) {
    (void)state;
    qb_ctx_init(&cx);
    return 0;
}

/* The bytes of the documented test set's first images. The model was trained on this drawing code:
 * when the bytes change, docs/demo-model.md and the model no longer belong to it. */
static void known_answer_of_each_class(void **state) {
    (void)state;
    static const char *const expected[QB_DEMO_CLASSES] = {
        "04b6acb22c66debbf79cbf3f0f5dfeca", "2832c653cac3144b290d57924c8e0ca2",
        "a6f54cc8b94f78a26e6a697db88e8a31", "d0bb20aa856cdc55151acc4a288d46f5",
        "560d0660dab8b3e7707080dec4666b87", "aa23bbe3ebaeb77f31ae904ddf8ac5c2",
        "2e28803b93a4b0cd41bff0e19ffebf8e", "9628ab90a9afb981c3eebc33aec354fa",
        "0b2616aa150b7f5a46f3e4893f563014", "31993a1637764dce0c6c8cf859cc9b4c",
    };
    for (int32_t label = 0; label < QB_DEMO_CLASSES; label++) {
        qb_image image = {0};
        char text[33];
        assert_ok(&cx, qb_demo_draw(&cx, QB_DEMO_SEED_TEST, 0, label, &image));
        qb_hash_hex(qb_hash_bytes(image.pixel, PIXELS), text);
        qb_image_release(&image);
        assert_string_equal(text, expected[label]);
    }
}

static void an_image_is_rgb_of_the_stated_size(void **state) {
    (void)state;
    qb_image image = {0};
    assert_ok(&cx, qb_demo_draw(&cx, 5, 6, 7, &image));
    assert_int_equal(image.width, QB_DEMO_SIDE);
    assert_int_equal(image.height, QB_DEMO_SIDE);
    assert_int_equal(image.channels, QB_DEMO_CHANNELS);
    qb_image_release(&image);
}

static void the_same_three_numbers_give_the_same_image(void **state) {
    (void)state;
    uint8_t first[PIXELS], other[PIXELS], again[PIXELS];
    qb_demo_pixels(9, 4, 2, first);
    qb_demo_pixels(1, 0, 0, other); /* nothing is remembered between calls */
    qb_demo_pixels(9, 4, 2, again);
    assert_memory_equal(first, again, PIXELS);
}

static void seed_index_and_class_each_change_the_image(void **state) {
    (void)state;
    uint8_t a[PIXELS], b[PIXELS];
    qb_demo_pixels(9, 4, 2, a);
    qb_demo_pixels(10, 4, 2, b);
    assert_memory_not_equal(a, b, PIXELS);
    qb_demo_pixels(9, 5, 2, b);
    assert_memory_not_equal(a, b, PIXELS);
    for (int32_t label = 0; label < QB_DEMO_CLASSES; label++) {
        if (label == 2) continue;
        qb_demo_pixels(9, 4, label, b);
        assert_memory_not_equal(a, b, PIXELS);
    }
}

/* Sum of (v - mean)^2 over one channel, divided by the number of pixels. */
static double variance(const uint8_t *pixel, int channel) {
    double sum = 0.0, squares = 0.0;
    for (int i = channel; i < PIXELS; i += QB_DEMO_CHANNELS) {
        sum += pixel[i];
        squares += (double)pixel[i] * pixel[i];
    }
    double n = PIXELS / QB_DEMO_CHANNELS;
    return squares / n - sum / n * (sum / n);
}

static void no_image_is_constant_or_out_of_light(void **state) {
    (void)state;
    uint8_t pixel[PIXELS];
    int dark_or_bright = 0;
    for (int32_t k = 0; k < 500; k++) {
        qb_demo_pixels(11, k, k % QB_DEMO_CLASSES, pixel);
        double most = 0.0;
        int limit = 0;
        for (int c = 0; c < QB_DEMO_CHANNELS; c++) {
            double v = variance(pixel, c);
            most = v > most ? v : most;
        }
        for (int i = 0; i < PIXELS; i++) limit += pixel[i] == 0 || pixel[i] == 255;
        assert_true(most > 4.0);
        dark_or_bright += limit > PIXELS / 2;
    }
    assert_true(dark_or_bright < 25);
}

/* Neighbouring indices are as unlike as any two images: the mean of many images of a class is
 * flat, since position and colours are random. */
static void images_of_a_class_vary_in_place_and_colour(void **state) {
    (void)state;
    enum { N = 400 };
    static double mean[PIXELS];
    uint8_t pixel[PIXELS];
    for (int32_t label = 0; label < QB_DEMO_CLASSES; label++) {
        memset(mean, 0, sizeof mean);
        for (int64_t index = 0; index < N; index++) {
            qb_demo_pixels(13, index, label, pixel);
            for (int i = 0; i < PIXELS; i++) mean[i] += pixel[i] / (double)N;
        }
        for (int i = 0; i < PIXELS; i++) assert_in_range((int)mean[i], 105, 151);
    }
}

static void class_names_sort_in_label_order(void **state) {
    (void)state;
    for (int32_t label = 1; label < QB_DEMO_CLASSES; label++)
        assert_true(strcmp(qb_demo_class_name(label - 1), qb_demo_class_name(label)) < 0);
    assert_null(qb_demo_class_name(-1));
    assert_null(qb_demo_class_name(QB_DEMO_CLASSES));
}

static void a_bad_label_or_index_is_refused(void **state) {
    (void)state;
    qb_image image = {0};
    assert_fails(&cx, qb_demo_draw(&cx, 1, 0, QB_DEMO_CLASSES, &image), QB_STATUS_INVALID);
    assert_message(&cx, "expected 0..9, got 10");
    assert_fails(&cx, qb_demo_draw(&cx, 1, -1, 0, &image), QB_STATUS_INVALID);
    assert_message(&cx, "got -1");
    assert_null(image.pixel);
}

static qb_status draw_and_release(qb_ctx *context, void *user) {
    (void)user;
    qb_image image = {0};
    qb_status status = qb_demo_draw(context, 1, 2, 3, &image);
    qb_image_release(&image);
    return status;
}

static void allocation_failure_is_reported(void **state) {
    (void)state;
    assert_int_equal(qb_test_alloc_sweep(draw_and_release, NULL), 1);
}

static void written_folder_reads_back_as_the_same_images(void **state) {
    (void)state;
    char temp[QB_TEST_PATH], folder[QB_TEST_PATH];
    qb_test_temp_dir(temp);
    qb_test_join(folder, temp, "a/b");
    assert_ok(&cx, qb_demo_write(&cx, folder, 21, 3));
    assert_int_equal(qb_test_count_files(folder), QB_DEMO_CLASSES);
    qb_dataset *set = NULL;
    assert_ok(&cx, qb_dataset_open(&cx, folder, NULL, &set));
    assert_int_equal(qb_dataset_count(set), 3 * QB_DEMO_CLASSES);
    for (int64_t i = 0; i < qb_dataset_count(set); i++) {
        uint8_t expected[PIXELS];
        qb_image image = {0};
        assert_ok(&cx, qb_dataset_read(&cx, set, i, &image, NULL));
        assert_int_equal(qb_dataset_label(set, i), i / 3);
        qb_demo_pixels(21, i % 3, (int32_t)(i / 3), expected);
        assert_memory_equal(image.pixel, expected, PIXELS);
        qb_image_release(&image);
    }
    qb_dataset_close(set);
}

static void writing_refuses_bad_counts_and_places(void **state) {
    (void)state;
    char temp[QB_TEST_PATH], file[QB_TEST_PATH];
    qb_test_temp_dir(temp);
    assert_fails(&cx, qb_demo_write(&cx, temp, 1, 0), QB_STATUS_INVALID);
    assert_int_equal(qb_test_count_files(temp), 0);
    qb_test_join(file, temp, "file");
    assert_ok(&cx, qb_file_write(&cx, file, "x", 1));
    assert_fails(&cx, qb_demo_write(&cx, file, 1, 1), QB_STATUS_IO);
    assert_message(&cx, "file");
}

static void writing_stops_when_asked(void **state) {
    (void)state;
    char temp[QB_TEST_PATH];
    qb_test_temp_dir(temp);
    volatile sig_atomic_t stop = 1;
    qb_ctx stopped;
    qb_ctx_init(&stopped);
    stopped.cancel = &stop;
    assert_fails(&stopped, qb_demo_write(&stopped, temp, 1, 5), QB_STATUS_CANCELLED);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(known_answer_of_each_class, prepare),
    cmocka_unit_test_setup(an_image_is_rgb_of_the_stated_size, prepare),
    cmocka_unit_test(the_same_three_numbers_give_the_same_image),
    cmocka_unit_test(seed_index_and_class_each_change_the_image),
    cmocka_unit_test(no_image_is_constant_or_out_of_light),
    cmocka_unit_test(images_of_a_class_vary_in_place_and_colour),
    cmocka_unit_test(class_names_sort_in_label_order),
    cmocka_unit_test_setup(a_bad_label_or_index_is_refused, prepare),
    cmocka_unit_test(allocation_failure_is_reported),
    cmocka_unit_test_setup(written_folder_reads_back_as_the_same_images, prepare),
    cmocka_unit_test_setup(writing_refuses_bad_counts_and_places, prepare),
    cmocka_unit_test(writing_stops_when_asked),
};

QB_TEST_MAIN(tests)
