/* The real data sets: formats agree with each other, and our input tensors are bit for bit those
 * that the recorded test vectors of the models were made from. Skipped without the shared data. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "datasets/sidecar.h"
#include "fixture.h"

static qb_dataset *open_shared(const char *name, const qb_dataset_options *options) {
    char path[QB_TEST_PATH];
    qb_test_need_shared(path, name);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set;
    assert_ok(&cx, qb_dataset_open(&cx, path, options, &set));
    return set;
}

/* The raw data of a TensorProto are its last field, so the file ends with them. */
static void expect_vector(const char *name, const float *data, size_t n) {
    char path[QB_TEST_PATH];
    qb_test_need_shared(path, name);
    qb_ctx cx;
    qb_ctx_init(&cx);
    char *bytes;
    size_t size;
    assert_ok(&cx, qb_file_read(&cx, path, 1 << 24, &bytes, &size));
    assert_true(size > n * sizeof *data);
    assert_memory_equal(bytes + size - n * sizeof *data, data, n * sizeof *data);
    qb_free(bytes);
}

static qb_sidecar load_sidecar(const char *name) {
    char path[QB_TEST_PATH];
    qb_test_need_shared(path, name);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_sidecar sidecar;
    assert_ok(&cx, qb_sidecar_load(&cx, path, &sidecar));
    return sidecar;
}

static void preprocess_sample(const qb_dataset *set, int64_t index, const qb_sidecar *s,
                              float *out) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_image image;
    assert_ok(&cx, qb_dataset_read(&cx, set, index, &image, NULL));
    assert_ok(&cx, qb_preprocess_image(&cx, &s->preprocess, &image, (int32_t)s->shape.dim[2],
                                       (int32_t)s->shape.dim[3], out));
    qb_image_release(&image);
}

static void imagenet_classes_come_from_the_labels_file(void **state) {
    (void)state;
    qb_sidecar s = load_sidecar("models/squeezenet1.1.json");
    static const char *const halves[] = {"imagenet1k-sample/val", "imagenet1k-sample/calib"};
    for (int k = 0; k < 2; k++) {
        qb_dataset *set = open_shared(halves[k], &(qb_dataset_options){.labels = &s.labels});
        assert_int_equal(qb_dataset_count(set), 500);
        assert_int_equal(qb_dataset_classes(set), 1000);
        for (int64_t i = 0; i < 500; i++) assert_int_equal(qb_dataset_label(set, i), 2 * i + k);
        qb_dataset_close(set);
    }
    qb_sidecar_release(&s);
}

static void squeezenet_inputs_equal_the_recorded_ones(void **state) {
    (void)state;
    enum { SIZE = 3 * 227 * 227 };
    static float input[SIZE];
    qb_sidecar s = load_sidecar("models/squeezenet1.1.json");
    qb_dataset *set =
        open_shared("imagenet1k-sample/val", &(qb_dataset_options){.labels = &s.labels});
    preprocess_sample(set, 0, &s, input);
    expect_vector("models/testdata/squeezenet1.1/test_data_set_0/input_0.pb", input, SIZE);
    preprocess_sample(set, 100, &s, input);
    expect_vector("models/testdata/squeezenet1.1/test_data_set_1/input_0.pb", input, SIZE);
    qb_dataset_close(set);
    qb_sidecar_release(&s);
}

static void resnet8_inputs_equal_the_recorded_ones(void **state) {
    (void)state;
    enum { SIZE = 3 * 32 * 32, N = 16 };
    static float input[N * SIZE];
    qb_sidecar s = load_sidecar("models/resnet8_cifar10.json");
    qb_dataset *set = open_shared("cifar10/test", NULL);
    assert_int_equal(qb_dataset_count(set), 10000);
    for (int i = 0; i < N; i++) preprocess_sample(set, 625 * i, &s, input + i * SIZE);
    expect_vector("models/testdata/resnet8_cifar10/test_data_set_0/input_0.pb", input, N * SIZE);
    qb_dataset_close(set);
    qb_sidecar_release(&s);
}

/* cifar10_test.h5 is every fifth JPEG of the folder, decoded by Pillow. */
static void hdf5_equals_the_folder(void **state) {
    (void)state;
    qb_dataset *folder = open_shared("cifar10/test", &(qb_dataset_options){.max_samples = 2000});
    qb_dataset *file = open_shared("cifar10/cifar10_test.h5", NULL);
    assert_int_equal(qb_dataset_count(folder), 2000);
    assert_int_equal(qb_dataset_count(file), 2000);
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int64_t i = 0; i < 2000; i++) {
        qb_image a, b;
        assert_int_equal(qb_dataset_label(folder, i), qb_dataset_label(file, i));
        assert_ok(&cx, qb_dataset_read(&cx, folder, i, &a, NULL));
        assert_ok(&cx, qb_dataset_read(&cx, file, i, &b, NULL));
        assert_int_equal(a.channels, b.channels);
        assert_memory_equal(a.pixel, b.pixel, 3 * 32 * 32);
        qb_image_release(&a);
        qb_image_release(&b);
    }
    qb_dataset_close(folder);
    qb_dataset_close(file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(imagenet_classes_come_from_the_labels_file),
    cmocka_unit_test(squeezenet_inputs_equal_the_recorded_ones),
    cmocka_unit_test(resnet8_inputs_equal_the_recorded_ones),
    cmocka_unit_test(hdf5_equals_the_folder),
};
QB_TEST_MAIN(tests)
