#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "datasets/sidecar.h"
#include "fixture.h"

static char folder[QB_TEST_PATH], path[QB_TEST_PATH];

static int make_folder(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "m.json");
    return 0;
}

static qb_sidecar load(const char *text) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_sidecar sidecar;
    fixture_text(folder, "m.json", text);
    assert_ok(&cx, qb_sidecar_load(&cx, path, &sidecar));
    return sidecar;
}

static void everything_is_read(void **state) {
    (void)state;
    fixture_text(folder, "names.txt", "n1\t0\tcat\nn2\t1\tdog\n");
    qb_sidecar s = load("{\"input\": \"data\", \"output\": \"prob\", \"shape\": [\"N\", 3, 24, 32],"
                        "\"resize\": {\"mode\": \"short_side\", \"size\": 40, \"filter\": "
                        "\"lanczos\", \"note\": \"x\"},"
                        "\"crop\": {\"mode\": \"center\", \"size\": [32, 24]}, \"color\": \"BGR\","
                        "\"mean\": [104, 117.5, 123], \"std\": 58, \"labels\": \"names.txt\","
                        "\"layout\": \"NCHW\"}");
    assert_string_equal(s.path, path);
    assert_string_equal(s.input, "data");
    assert_string_equal(s.output, "prob");
    qb_shape shape = {4, {-1, 3, 24, 32}};
    assert_int_equal(s.shape.rank, 4);
    assert_memory_equal(s.shape.dim, shape.dim, 4 * sizeof shape.dim[0]);
    assert_true(s.has_preprocess);
    const qb_preprocess *p = &s.preprocess;
    assert_int_equal(p->resize, QB_RESIZE_SHORT_SIDE);
    assert_int_equal(p->resize_width, 40);
    assert_int_equal(p->filter, QB_FILTER_LANCZOS);
    assert_int_equal(p->crop_width, 32);
    assert_int_equal(p->crop_height, 24);
    assert_int_equal(p->color, QB_COLOR_BGR);
    assert_float_equal(p->mean[1], 117.5, 0);
    assert_float_equal(p->std[2], 58, 0);
    assert_int_equal(s.labels.n, 2);
    assert_string_equal(s.labels.synset[1], "n2");
    assert_non_null(strstr(s.labels_path, "/names.txt"));
    qb_sidecar_release(&s);
    qb_sidecar_release(&s); /* accepts zeroed */
}

/* What is written is loaded as it was. */
static void written_files_say_the_same(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{\"shape\": [\"N\", 3, 24, 32], \"resize\": {\"mode\": \"short_side\", \"size\": 40,"
        "\"filter\": \"lanczos\"}, \"crop\": {\"size\": [32, 24]}, \"color\": \"BGR\","
        "\"mean\": [104, 117.5, 0.1], \"std\": 58.3, \"labels\": [\"cat\", \"a \\\"dog\\\"\"]}",
        "{\"shape\": [1, 64, 48, 1], \"layout\": \"NHWC\", \"color\": \"GRAY\", \"std\": 255}",
        "{\"shape\": [1, 3, 64, 64], \"resize\": {\"mode\": \"letterbox\", \"size\": [64, 32],"
        "\"anchor\": \"topleft\", \"pad\": 7, \"stride\": 32, \"enlarge\": false,"
        "\"filter\": \"linear\"}, \"mean\": 0}",
        "{\"shape\": [1, 3, 64, 64], \"resize\": null, \"mean\": 1}"};
    char copy[QB_TEST_PATH];
    qb_test_join(copy, folder, "copy.json");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        qb_ctx cx;
        qb_sidecar s = load(texts[i]), t;
        qb_ctx_init(&cx);
        assert_ok(&cx, qb_sidecar_write(&cx, &s.shape, &s.preprocess, &s.labels, copy));
        assert_ok(&cx, qb_sidecar_load(&cx, copy, &t));
        assert_int_equal(t.shape.rank, s.shape.rank);
        assert_memory_equal(t.shape.dim, s.shape.dim, 4 * sizeof s.shape.dim[0]);
        assert_true(t.has_preprocess);
        assert_memory_equal(&t.preprocess, &s.preprocess, sizeof s.preprocess);
        assert_int_equal(t.labels.n, s.labels.n);
        for (int32_t k = 0; k < s.labels.n; k++)
            assert_string_equal(t.labels.name[k], s.labels.name[k]);
        qb_sidecar_release(&s);
        qb_sidecar_release(&t);
    }
}

static void missing_keys_have_defaults(void **state) {
    (void)state;
    qb_sidecar s = load("{}");
    assert_null(s.input);
    assert_null(s.output);
    assert_int_equal(s.shape.rank, -1);
    assert_false(s.has_preprocess);
    assert_int_equal(s.labels.n, 0);
    assert_null(s.labels_path);
    assert_int_equal(s.preprocess.resize, QB_RESIZE_NONE);
    assert_float_equal(s.preprocess.std[0], 1, 0);
    qb_sidecar_release(&s);
    s = load("{\"input\": null, \"shape\": [\"N\", 640], \"labels\": null, \"crop\": null}");
    assert_true(s.has_preprocess);
    assert_int_equal(s.shape.dim[1], 640);
    qb_sidecar_release(&s);
}

static void shape_supplies_what_is_left_out(void **state) {
    (void)state;
    qb_sidecar s = load("{\"shape\": [1, 1, 28, 30], \"std\": 255}");
    assert_int_equal(s.preprocess.resize, QB_RESIZE_STRETCH);
    assert_int_equal(s.preprocess.resize_width, 30);
    assert_int_equal(s.preprocess.resize_height, 28);
    assert_int_equal(s.preprocess.color, QB_COLOR_GRAY);
    qb_sidecar_release(&s);
    s = load("{\"shape\": [\"N\", 3, \"H\", \"W\"], \"color\": \"RGB\"}");
    assert_int_equal(s.preprocess.resize, QB_RESIZE_NONE);
    qb_sidecar_release(&s);
    s = load("{\"shape\": [1, 3, 28, 28], \"resize\": null}"); /* said, not left out */
    assert_int_equal(s.preprocess.resize, QB_RESIZE_NONE);
    qb_sidecar_release(&s);
    s = load("{\"shape\": [1, 3, 28, 28], \"crop\": {\"size\": 28}}");
    assert_int_equal(s.preprocess.resize, QB_RESIZE_NONE);
    assert_int_equal(s.preprocess.crop_height, 28);
    qb_sidecar_release(&s);
}

static void letterbox_and_layout_are_read(void **state) {
    (void)state;
    qb_sidecar s = load("{\"shape\": [1, 30, 28, 3], \"layout\": \"NHWC\", \"color\": \"RGB\"}");
    assert_true(s.preprocess.channels_last);
    assert_int_equal(s.preprocess.resize_height, 30);
    assert_int_equal(s.preprocess.resize_width, 28);
    qb_sidecar_release(&s);
    s = load("{\"resize\": {\"mode\": \"letterbox\", \"size\": [320, 240], \"anchor\": \"topleft\","
             " \"pad\": 3, \"stride\": 32, \"enlarge\": false, \"filter\": \"linear\"}}");
    const qb_preprocess *p = &s.preprocess;
    assert_int_equal(p->resize, QB_RESIZE_LETTERBOX);
    assert_int_equal(p->resize_width, 320);
    assert_int_equal(p->resize_height, 240);
    assert_int_equal(p->anchor, QB_ANCHOR_TOPLEFT);
    assert_int_equal(p->pad, 3);
    assert_int_equal(p->stride, 32);
    assert_true(p->no_enlarge);
    assert_int_equal(p->filter, QB_FILTER_LINEAR);
    qb_sidecar_release(&s);
}

static void the_first_word_of_color_counts(void **state) {
    (void)state;
    static const struct {
        const char *text;
        qb_color color;
    } cases[] = {{"RGB", QB_COLOR_RGB},
                 {"bgr", QB_COLOR_BGR},
                 {"GRAY (white digit on black)", QB_COLOR_GRAY},
                 {"grey", QB_COLOR_GRAY},
                 {"Y of YCbCr", QB_COLOR_LUMA}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"color\": \"%s\", \"mean\": [5]}", cases[i].text);
        qb_sidecar s = load(text);
        assert_int_equal(s.preprocess.color, cases[i].color);
        assert_float_equal(s.preprocess.mean[0], 5, 0);
        qb_sidecar_release(&s);
    }
}

static void inline_labels_and_a_missing_labels_file(void **state) {
    (void)state;
    qb_sidecar s = load("{\"labels\": [\"cat\", \"caf\\u00e9\"]}");
    assert_int_equal(s.labels.n, 2);
    assert_string_equal(s.labels.name[1], "caf\xc3\xa9");
    assert_null(s.labels_path);
    qb_sidecar_release(&s);

    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    qb_log log;
    qb_log_init(&log, stream, QB_LEVEL_WARN, true);
    qb_ctx cx;
    qb_ctx_init(&cx);
    cx.log = &log;
    fixture_text(folder, "m.json", "{\"labels\": \"gone/l.txt\"}");
    assert_ok(&cx, qb_sidecar_load(&cx, path, &s));
    assert_int_equal(s.labels.n, 0);
    fclose(stream);
    assert_non_null(strstr(text, "m.json: key 'labels': there is no file"));
    assert_non_null(strstr(text, "gone/l.txt"));
    free(text);
    qb_sidecar_release(&s);
}

static void wrong_values_are_named_with_file_and_key(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
        qb_status status;
    } cases[] = {
        {"", "m.json:1:", QB_STATUS_FORMAT},
        {"{\"a\": 1,", "m.json:1:", QB_STATUS_FORMAT},
        {"{\"a\": 1, \"a\": 2}", "duplicate", QB_STATUS_FORMAT},
        {"[1]", "m.json: expected an object, got a list", QB_STATUS_FORMAT},
        {"{\"input\": 3}", "m.json: key 'input': expected a string, got a number",
         QB_STATUS_FORMAT},
        {"{\"shape\": 3}", "m.json: key 'shape': expected a list", QB_STATUS_FORMAT},
        {"{\"shape\": [1, true]}", "key 'shape': expected numbers and symbols, got a boolean",
         QB_STATUS_FORMAT},
        {"{\"shape\": [1,1,1,1,1,1,1,1,1]}", "9 dimensions", QB_STATUS_FORMAT},
        {"{\"resize\": 256}", "key 'resize': expected an object or null", QB_STATUS_FORMAT},
        {"{\"resize\": {}}",
         "key 'resize.mode': expected none, stretch, short_side, letterbox or longer_side, "
         "got nothing",
         QB_STATUS_UNSUPPORTED},
        {"{\"resize\": {\"mode\": 4}}", "key 'resize.mode': expected a string", QB_STATUS_FORMAT},
        {"{\"resize\": {\"mode\": \"fit\", \"size\": 4}}", "got 'fit'", QB_STATUS_UNSUPPORTED},
        {"{\"resize\": {\"mode\": \"stretch\"}}", "key 'resize.size'", QB_STATUS_FORMAT},
        {"{\"resize\": {\"mode\": \"stretch\", \"size\": 0}}", "key 'resize.size'",
         QB_STATUS_FORMAT},
        {"{\"resize\": {\"mode\": \"stretch\", \"size\": 4294967297}}", "key 'resize.size'",
         QB_STATUS_FORMAT},
        {"{\"resize\": {\"mode\": \"stretch\", \"size\": [4, 4, 4]}}", "key 'resize.size'",
         QB_STATUS_FORMAT},
        {"{\"resize\": {\"mode\": \"short_side\", \"size\": [4, 4]}}", "got a list",
         QB_STATUS_FORMAT},
        {"{\"resize\": {\"mode\": \"stretch\", \"size\": 4, \"filter\": \"bix\"}}",
         "key 'resize.filter': expected bilinear, bicubic, lanczos, box, nearest, linear, "
         "cubic or area, got 'bix' (did you mean 'box'?)",
         QB_STATUS_UNSUPPORTED},
        {"{\"crop\": {\"mode\": \"random\", \"size\": 4}}", "key 'crop.mode'",
         QB_STATUS_UNSUPPORTED},
        {"{\"crop\": {\"mode\": \"center\"}}", "key 'crop.size'", QB_STATUS_FORMAT},
        {"{\"color\": \"CMYK\"}", "key 'color': expected RGB, BGR, GRAY or Y, got 'CMYK'",
         QB_STATUS_UNSUPPORTED},
        {"{\"color\": \"\"}", "key 'color'", QB_STATUS_UNSUPPORTED},
        {"{\"color\": 4}", "key 'color': expected a string", QB_STATUS_FORMAT},
        {"{\"mean\": [1, 2]}", "key 'mean': expected 1 or 3 numbers for colour RGB, got 2",
         QB_STATUS_FORMAT},
        {"{\"color\": \"GRAY\", \"std\": [1, 2, 3]}", "key 'std': expected 1 or 1",
         QB_STATUS_FORMAT},
        {"{\"mean\": []}", "got 0", QB_STATUS_FORMAT},
        {"{\"mean\": \"5\"}", "key 'mean': expected numbers, got a string", QB_STATUS_FORMAT},
        {"{\"std\": 0}", "m.json: preprocessing: std[0]", QB_STATUS_INVALID},
        {"{\"mean\": 1e300}", "m.json: preprocessing: mean[0]", QB_STATUS_INVALID},
        {"{\"labels\": {}}", "key 'labels': expected a list of names or a file name",
         QB_STATUS_FORMAT},
        {"{\"labels\": []}", "m.json: key 'labels': ", QB_STATUS_INVALID},
        {"{\"labels\": [\"a\", 3]}", "key 'labels': expected strings, got a number",
         QB_STATUS_FORMAT},
        {"{\"labels\": \"bad.txt\"}", "m.json: key 'labels': ", QB_STATUS_FORMAT},
    };
    fixture_text(folder, "bad.txt", "0\ta\n0\tb\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_sidecar s;
        fixture_text(folder, "m.json", cases[i].text);
        assert_fails(&cx, qb_sidecar_load(&cx, path, &s), cases[i].status);
        assert_message(&cx, cases[i].message);
    }
}

static void found_beside_the_model(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char model[QB_TEST_PATH], *found;
    fixture_text(folder, "net1.1.json", "{}");
    qb_test_join(model, folder, "net1.1.onnx");
    assert_ok(&cx, qb_sidecar_find(&cx, model, &found));
    assert_non_null(found);
    assert_string_equal(strrchr(found, '/'), "/net1.1.json");
    qb_free(found);
    qb_test_join(model, folder, "net1.onnx");
    assert_ok(&cx, qb_sidecar_find(&cx, model, &found));
    assert_null(found);
}

static void shared_models_have_sidecars_that_load(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool image;
        int labels;
        qb_color color;
    } models[] = {{"ad01_toycar", false, 0, QB_COLOR_RGB},
                  {"kws_dscnn", false, 0, QB_COLOR_RGB},
                  {"mnist", true, 10, QB_COLOR_GRAY},
                  {"resnet8_cifar10", true, 10, QB_COLOR_RGB},
                  {"squeezenet1.1", true, 1000, QB_COLOR_BGR},
                  {"super_resolution_core", true, 0, QB_COLOR_LUMA},
                  {"ultraface_rfb_320", true, 0, QB_COLOR_RGB},
                  {"vww_96", true, 2, QB_COLOR_RGB}};
    char models_folder[QB_TEST_PATH];
    qb_test_need_shared(models_folder, "models");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        char model[QB_TEST_PATH], name[64], *found;
        snprintf(name, sizeof name, "%s.onnx", models[i].name);
        qb_test_join(model, models_folder, name);
        assert_ok(&cx, qb_sidecar_find(&cx, model, &found));
        assert_non_null(found);
        qb_sidecar s;
        assert_ok(&cx, qb_sidecar_load(&cx, found, &s));
        assert_non_null(s.input);
        assert_true(s.shape.rank >= 2);
        assert_int_equal(s.has_preprocess, models[i].image);
        assert_int_equal(s.labels.n, models[i].labels);
        assert_int_equal(s.preprocess.color, models[i].color);
        qb_sidecar_release(&s);
        qb_free(found);
    }
}

static qb_status load_once(qb_ctx *cx, void *user) {
    (void)user;
    qb_sidecar s;
    QB_TRY(qb_sidecar_load(cx, path, &s));
    qb_sidecar_release(&s);
    return QB_OK;
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    fixture_text(folder, "names.txt", "cat\n");
    fixture_text(folder, "m.json",
                 "{\"input\": \"a\", \"output\": \"b\", \"labels\": \"names.txt\"}");
    assert_true(qb_test_alloc_sweep(load_once, NULL) >= 8);
    fixture_text(folder, "m.json", "{\"labels\": [\"a\", \"b\"]}");
    assert_true(qb_test_alloc_sweep(load_once, NULL) >= 6);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(everything_is_read, make_folder),
    cmocka_unit_test_setup(missing_keys_have_defaults, make_folder),
    cmocka_unit_test_setup(shape_supplies_what_is_left_out, make_folder),
    cmocka_unit_test_setup(letterbox_and_layout_are_read, make_folder),
    cmocka_unit_test_setup(the_first_word_of_color_counts, make_folder),
    cmocka_unit_test_setup(inline_labels_and_a_missing_labels_file, make_folder),
    cmocka_unit_test_setup(wrong_values_are_named_with_file_and_key, make_folder),
    cmocka_unit_test_setup(written_files_say_the_same, make_folder),
    cmocka_unit_test_setup(found_beside_the_model, make_folder),
    cmocka_unit_test(shared_models_have_sidecars_that_load),
    cmocka_unit_test_setup(every_failed_allocation_is_reported, make_folder),
};
QB_TEST_MAIN(tests)
