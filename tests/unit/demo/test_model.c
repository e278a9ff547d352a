#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "demo/draw.h"
#include "demo/model.h"
#include "qb_test.h"

static void assert_embedded(const char *name, const unsigned char *bytes, size_t size) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    qb_test_source(path, name);
    qb_map file = {0};
    assert_ok(&cx, qb_map_open(&cx, path, &file));
    assert_int_equal(size, file.size);
    assert_memory_equal(bytes, file.data, size);
    qb_map_close(&file);
}

static void embedded_bytes_are_those_of_the_files(void **state) {
    (void)state;
    assert_embedded("demo/model.onnx", qb_demo_model_onnx, qb_demo_model_onnx_size);
    assert_embedded("demo/model.json", qb_demo_model_json, qb_demo_model_json_size);
}

static void the_model_is_small_and_names_no_machine(void **state) {
    (void)state;
    assert_in_range(qb_demo_model_onnx_size, 100000, 1000000);
    assert_null(memmem(qb_demo_model_onnx, qb_demo_model_onnx_size, "/tmp", 4));
    assert_null(memmem(qb_demo_model_onnx, qb_demo_model_onnx_size, "/home", 5));
    assert_null(memmem(qb_demo_model_onnx, qb_demo_model_onnx_size, "/root", 5));
}

static void the_sidecar_fits_the_images(void **state) {
    (void)state;
    json_t *root = json_loadb((const char *)qb_demo_model_json, qb_demo_model_json_size, 0, NULL);
    assert_non_null(root);
    const json_t *labels = json_object_get(root, "labels"), *shape = json_object_get(root, "shape");
    assert_int_equal(json_array_size(labels), QB_DEMO_CLASSES);
    for (int32_t i = 0; i < QB_DEMO_CLASSES; i++)
        assert_string_equal(json_string_value(json_array_get(labels, (size_t)i)),
                            qb_demo_class_name(i));
    assert_int_equal(json_integer_value(json_array_get(shape, 1)), QB_DEMO_CHANNELS);
    assert_int_equal(json_integer_value(json_array_get(shape, 2)), QB_DEMO_SIDE);
    assert_int_equal(json_integer_value(json_array_get(shape, 3)), QB_DEMO_SIDE);
    json_decref(root);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(embedded_bytes_are_those_of_the_files),
    cmocka_unit_test(the_model_is_small_and_names_no_machine),
    cmocka_unit_test(the_sidecar_fits_the_images),
};

QB_TEST_MAIN(tests)
