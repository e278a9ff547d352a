#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "base/strbuf.h"
#include "qb_test.h"

static qb_ctx cx;

static int setup(void **state) {
    (void)state;
    qb_ctx_init(&cx);
    return 0;
}

static qb_status parse(const char *text, qb_config **out) {
    return qb_config_parse(&cx, "t.yaml", text, strlen(text), out);
}

static qb_config *parsed(const char *text) {
    qb_config *config = NULL;
    assert_ok(&cx, parse(text, &config));
    return config;
}

static void assert_refused(const char *text, const char *message) {
    qb_config *config = NULL;
    assert_fails(&cx, parse(text, &config), QB_STATUS_FORMAT);
    assert_message(&cx, message);
    assert_null(config);
    qb_ctx_clear(&cx);
}

static const char sample[] = "# a comment\n"
                             "model: squeezenet.onnx\n"
                             "calibration:\n"
                             "  method: entropy\n"
                             "  samples: 500\n"
                             "  per_channel: yes\n"
                             "preprocess:\n"
                             "  mean: [123.675, 116.28, 103.53]\n"
                             "  std: 255\n"
                             "gate: {max_drop: 1.5, name: \"07\"}\n"
                             "empty:\n"
                             "layers:\n"
                             "  - name: conv1\n"
                             "  - conv2\n";

static void values_come_by_path(void **state) {
    (void)state;
    qb_config *c = parsed(sample);
    const char *text = NULL;
    int64_t integer = 0;
    double number = 0, list[3];
    bool flag = false;
    int n = 0;
    assert_ok(&cx, qb_config_string(&cx, c, "model", &text));
    assert_string_equal(text, "squeezenet.onnx");
    assert_ok(&cx, qb_config_string(&cx, c, "gate.name", &text));
    assert_string_equal(text, "07");
    assert_ok(&cx, qb_config_int(&cx, c, "calibration.samples", &integer));
    assert_int_equal(integer, 500);
    assert_ok(&cx, qb_config_double(&cx, c, "gate.max_drop", &number));
    assert_float_equal(number, 1.5, 0);
    assert_ok(&cx, qb_config_double(&cx, c, "calibration.samples", &number));
    assert_float_equal(number, 500, 0);
    assert_ok(&cx, qb_config_bool(&cx, c, "calibration.per_channel", &flag));
    assert_true(flag);
    assert_ok(&cx, qb_config_doubles(&cx, c, "preprocess.mean", list, 3, &n));
    assert_int_equal(n, 3);
    assert_float_equal(list[1], 116.28, 0);
    assert_ok(&cx, qb_config_doubles(&cx, c, "preprocess.std", list, 3, &n));
    assert_int_equal(n, 1);
    assert_float_equal(list[0], 255, 0);
    qb_config_free(c);
}

static void absent_and_empty_leave_the_default(void **state) {
    (void)state;
    static const char *const paths[] = {"none",  "calibration.none", "model.below",
                                        "empty", "empty.below",      ""};
    qb_config *c = parsed(sample);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *text = "default";
        int64_t integer = 7;
        double number = 7;
        bool flag = true;
        int n = 7;
        assert_ok(&cx, qb_config_string(&cx, c, paths[i], &text));
        assert_ok(&cx, qb_config_int(&cx, c, paths[i], &integer));
        assert_ok(&cx, qb_config_double(&cx, c, paths[i], &number));
        assert_ok(&cx, qb_config_bool(&cx, c, paths[i], &flag));
        assert_ok(&cx, qb_config_doubles(&cx, c, paths[i], &number, 1, &n));
        assert_string_equal(text, "default");
        assert_true(integer == 7 && number == 7 && flag && n == 0);
    }
    qb_config_free(c);
}

static void nodes_can_be_walked(void **state) {
    (void)state;
    qb_config *c = parsed(sample);
    const qb_config_node *layers = qb_config_find(c, "layers");
    assert_int_equal(qb_config_size(layers), 2);
    assert_int_equal(qb_config_size(qb_config_at(layers, 0)), 1);
    assert_string_equal(qb_config_key(qb_config_at(layers, 0), 0), "name");
    assert_null(qb_config_key(layers, 0)); /* a list has no keys */
    assert_null(qb_config_at(layers, 2));
    assert_null(qb_config_at(layers, -1));
    assert_string_equal(qb_config_key(qb_config_find(c, "calibration"), 1), "samples");
    assert_int_equal(qb_config_size(qb_config_find(c, "model")), 0);
    assert_int_equal(qb_config_size(NULL), 0);
    assert_null(qb_config_at(NULL, 0));
    qb_config_free(c);
    qb_config_free(NULL);
}

static void wrong_types_name_line_and_column(void **state) {
    (void)state;
    qb_config *c = parsed(sample);
    const char *text = "old";
    int64_t integer = 7;
    double number = 7;
    bool flag = true;
    int n = 7;
    assert_fails(&cx, qb_config_int(&cx, c, "calibration.method", &integer), QB_STATUS_FORMAT);
    assert_string_equal(cx.message,
                        "t.yaml:4:11: calibration.method: expected an integer, got 'entropy'");
    assert_fails(&cx, qb_config_int(&cx, c, "gate.max_drop", &integer), QB_STATUS_FORMAT);
    assert_fails(&cx, qb_config_int(&cx, c, "gate.name", &integer), QB_STATUS_FORMAT); /* quoted */
    assert_fails(&cx, qb_config_string(&cx, c, "preprocess.mean", &text), QB_STATUS_FORMAT);
    assert_string_equal(cx.message, "t.yaml:8:9: preprocess.mean: expected a string, got a list");
    assert_fails(&cx, qb_config_string(&cx, c, "gate", &text), QB_STATUS_FORMAT);
    assert_message(&cx, "t.yaml:10:7: gate: expected a string, got a mapping");
    assert_fails(&cx, qb_config_double(&cx, c, "model", &number), QB_STATUS_FORMAT);
    assert_fails(&cx, qb_config_bool(&cx, c, "calibration.samples", &flag), QB_STATUS_FORMAT);
    assert_message(&cx, "expected true or false, got '500'");
    assert_fails(&cx, qb_config_doubles(&cx, c, "layers", &number, 1, &n), QB_STATUS_FORMAT);
    assert_message(&cx, "expected at most 1 numbers, got 2");
    assert_fails(&cx, qb_config_doubles(&cx, c, "model", &number, 1, &n), QB_STATUS_FORMAT);
    assert_true(integer == 7 && number == 7 && flag && n == 0);
    assert_string_equal(text, "old");
    qb_config_free(c);
}

static void numbers_are_decimal_and_finite(void **state) {
    (void)state;
    static const char *const bad[] = {"0x10", "inf", ".inf", "nan", "1e999", "1 2", "--1", "e"};
    static const char *const good[] = {"-1", "+2", "1e-3", ".5", "3."};
    char text[64];
    double number = 7;
    int64_t integer = 7;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(text, sizeof text, "a: %s\n", bad[i]);
        qb_config *c = parsed(text);
        assert_fails(&cx, qb_config_double(&cx, c, "a", &number), QB_STATUS_FORMAT);
        assert_fails(&cx, qb_config_int(&cx, c, "a", &integer), QB_STATUS_FORMAT);
        qb_config_free(c);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        snprintf(text, sizeof text, "a: %s\n", good[i]);
        qb_config *c = parsed(text);
        assert_ok(&cx, qb_config_double(&cx, c, "a", &number));
        assert_true(number == strtod(good[i], NULL));
        qb_config_free(c);
    }
    qb_config *c = parsed("a: 9223372036854775808\n");
    assert_fails(&cx, qb_config_int(&cx, c, "a", &integer), QB_STATUS_FORMAT);
    assert_int_equal(integer, 7);
    qb_config_free(c);
}

static void booleans_have_their_usual_names(void **state) {
    (void)state;
    qb_config *c = parsed("a: true\nb: No\nc: ON\nd: off\ne: \"true\"\nf: truely\n");
    bool value = false;
    assert_ok(&cx, qb_config_bool(&cx, c, "a", &value));
    assert_true(value);
    assert_ok(&cx, qb_config_bool(&cx, c, "b", &value));
    assert_false(value);
    assert_ok(&cx, qb_config_bool(&cx, c, "c", &value));
    assert_true(value);
    assert_ok(&cx, qb_config_bool(&cx, c, "d", &value));
    assert_false(value);
    assert_fails(&cx, qb_config_bool(&cx, c, "e", &value), QB_STATUS_FORMAT);
    assert_fails(&cx, qb_config_bool(&cx, c, "f", &value), QB_STATUS_FORMAT);
    qb_config_free(c);
}

static void syntax_errors_name_line_and_column(void **state) {
    (void)state;
    assert_refused("a: [1, 2\nb: 3\n", "t.yaml:2:2:");
    assert_refused("a: 1\n  b: 2\n", "t.yaml:2:4:");
    assert_refused("a: \"x\n", "t.yaml:");
    assert_refused("\tx: 1\n", "t.yaml:1:1:");
    assert_refused("a: 1\n}\n", "t.yaml:2:1:");
    assert_refused("a: \x01\n", "t.yaml: byte 3:");
    assert_refused("a: \xff\n", "t.yaml: byte 3:");
}

static void what_could_surprise_is_refused(void **state) {
    (void)state;
    assert_refused("a: &x 1\n", "t.yaml:1:4: anchors");
    assert_refused("a: &x [1]\n", "t.yaml:1:4: anchors");
    assert_refused("a: &x {b: 1}\n", "t.yaml:1:4: anchors");
    assert_refused("a: 1\nb: *x\n", "t.yaml:2:4: aliases");
    assert_refused("a: !!int 5\n", "t.yaml:1:4: tags");
    assert_refused("a: !x [5]\n", "t.yaml:1:4: tags");
    assert_refused("a: 1\nb: 2\na: 3\n", "t.yaml:3:1: key 'a' is given twice, first at line 1");
    assert_refused("x:\n  a: 1\n  \"a\": 2\n", "t.yaml:3:3: key 'a' is given twice");
    assert_refused("? [1, 2]\n: 3\n", "t.yaml:1:3: expected a plain key");
    assert_refused("- 1\n- 2\n", "t.yaml:1:1: expected a mapping");
    assert_refused("text\n", "t.yaml:1:1: expected a mapping");
    assert_refused("a: 1\n---\nb: 2\n", "t.yaml:2:1: expected one document");
    assert_refused("a: \"x\\0y\"\n", "t.yaml:1:4: a zero byte");
}

static void same_key_in_different_mappings_is_fine(void **state) {
    (void)state;
    qb_config_free(parsed("a: {n: 1}\nb: {n: 2}\nn: 3\nl: [{n: 1}, {n: 2}]\n"));
}

static void empty_texts_are_empty_configs(void **state) {
    (void)state;
    static const char *const texts[] = {"",    "\n",  "# only a comment\n", "---\n", "---\n...\n",
                                        "~\n", "{}\n"};
    static const char *const known[] = {"a", NULL};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        qb_config *c = parsed(texts[i]);
        assert_null(qb_config_find(c, "a"));
        assert_ok(&cx, qb_config_check_keys(&cx, c, known));
        qb_config_free(c);
    }
}

static void depth_is_limited(void **state) {
    (void)state;
    char text[300];
    for (int depth = 1; depth < 100; depth++) { /* lists below the root mapping */
        snprintf(text, sizeof text, "a: %.*s", depth,
                 "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                 "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
        size_t n = strlen(text);
        memset(text + n, ']', (size_t)depth);
        text[n + (size_t)depth] = '\0';
        qb_config *c = NULL;
        if (depth < 32) {
            assert_ok(&cx, parse(text, &c));
        } else {
            assert_fails(&cx, parse(text, &c), QB_STATUS_FORMAT);
            assert_message(&cx, "t.yaml:1:35: nested more than 32 deep");
        }
        qb_config_free(c);
    }
}

static void size_is_limited(void **state) {
    (void)state;
    size_t limit = (size_t)1 << 20;
    char *text = malloc(limit + 1);
    assert_non_null(text);
    memset(text, '\n', limit + 1);
    memcpy(text, "a: 1\n#", 6);
    qb_config *c = NULL;
    assert_ok(&cx, qb_config_parse(&cx, "t.yaml", text, limit, &c));
    qb_config_free(c);
    c = NULL;
    assert_fails(&cx, qb_config_parse(&cx, "t.yaml", text, limit + 1, &c), QB_STATUS_FORMAT);
    assert_message(&cx, "1048577 bytes");
    assert_null(c);
    free(text);
}

static void number_of_keys_is_limited(void **state) {
    (void)state;
    qb_strbuf text = {0};
    for (int i = 0; i < 1000; i++) qb_strbuf_addf(&text, "k%d: 1\n", i);
    qb_config_free(parsed(text.data));
    qb_strbuf_add(&text, "more: 1\n");
    assert_refused(text.data, "t.yaml:1001:1: more than 1000 keys");
    qb_strbuf_release(&text);
}

static void text_need_not_end_in_zero(void **state) {
    (void)state;
    char *text = malloc(4);
    assert_non_null(text);
    memcpy(text, "a: 1", 4);
    qb_config *c = NULL;
    int64_t value = 0;
    assert_ok(&cx, qb_config_parse(&cx, "t.yaml", text, 4, &c));
    free(text);
    assert_ok(&cx, qb_config_int(&cx, c, "a", &value));
    assert_int_equal(value, 1);
    qb_config_free(c);
}

static const char *const known[] = {"model",
                                    "calibration.method",
                                    "calibration.samples",
                                    "preprocess.mean",
                                    "layers.*",
                                    "gate",
                                    "gate.max_drop",
                                    NULL};

static void known_keys_pass(void **state) {
    (void)state;
    qb_config *c = parsed("model: x\ncalibration: {method: a, samples: 3}\npreprocess:\n"
                          "layers: {any: {thing: 1}}\ngate: 3\n");
    assert_ok(&cx, qb_config_check_keys(&cx, c, known));
    qb_config_free(c);
    c = parsed("gate: {max_drop: 1}\nlayers: [1]\n");
    assert_ok(&cx, qb_config_check_keys(&cx, c, known));
    qb_config_free(c);
}

static void assert_key_refused(const char *text, const char *message) {
    qb_config *c = parsed(text);
    assert_fails(&cx, qb_config_check_keys(&cx, c, known), QB_STATUS_FORMAT);
    assert_string_equal(cx.message, message);
    qb_config_free(c);
    qb_ctx_clear(&cx);
}

static void unknown_keys_name_place_and_nearest(void **state) {
    (void)state;
    assert_key_refused("modle: x\n", "t.yaml:1:1: unknown key 'modle'; did you mean 'model'?");
    assert_key_refused("calibraton:\n  method: a\n",
                       "t.yaml:1:1: unknown key 'calibraton'; did you mean 'calibration'?");
    assert_key_refused("calibration:\n  sample: 1\n",
                       "t.yaml:2:3: unknown key 'calibration.sample'; did you mean "
                       "'calibration.samples'?");
    assert_key_refused("model: x\nzzz: 1\n", "t.yaml:2:1: unknown key 'zzz'");
    assert_key_refused("model: {x: 1}\n", "t.yaml:1:9: unknown key 'model.x'");
    assert_key_refused("calibration.method: x\n", "t.yaml:1:1: unknown key 'calibration.method'");
    assert_key_refused("calibration: 5\n", "t.yaml:1:14: calibration: expected a mapping, got '5'");
    assert_key_refused("layer: 5\n", "t.yaml:1:1: unknown key 'layer'; did you mean 'layers'?");
}

static void files_are_loaded_by_name(void **state) {
    (void)state;
    char dir[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(dir);
    qb_test_join(path, dir, "qbench.yaml");
    qb_config *c = NULL;
    assert_fails(&cx, qb_config_load(&cx, path, &c), QB_STATUS_NOTFOUND);
    assert_message(&cx, path);
    assert_ok(&cx, qb_file_write(&cx, path, "a: [\n", 5));
    assert_fails(&cx, qb_config_load(&cx, path, &c), QB_STATUS_FORMAT);
    assert_message(&cx, "qbench.yaml:2:1:");
    assert_null(c);
    assert_ok(&cx, qb_file_write(&cx, path, sample, sizeof sample - 1));
    assert_ok(&cx, qb_config_load(&cx, path, &c));
    assert_non_null(qb_config_find(c, "gate.max_drop"));
    qb_config_free(c);
}

static qb_status parse_and_check(qb_ctx *own, void *user) {
    static const char *const any[] = {
        "model",  "calibration.*", "preprocess.mean", "preprocess.std",
        "gate.*", "empty",         "layers",          NULL};
    (void)user;
    qb_config *c = NULL;
    qb_status status = qb_config_parse(own, "t.yaml", sample, sizeof sample - 1, &c);
    if (status == QB_OK) status = qb_config_check_keys(own, c, any);
    qb_config_free(c);
    return status;
}

static void each_allocation_may_fail(void **state) {
    (void)state;
    assert_true(qb_test_alloc_sweep(parse_and_check, NULL) > 30);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)
static const struct CMUnitTest tests[] = {
    TEST(values_come_by_path),
    TEST(absent_and_empty_leave_the_default),
    TEST(nodes_can_be_walked),
    TEST(wrong_types_name_line_and_column),
    TEST(numbers_are_decimal_and_finite),
    TEST(booleans_have_their_usual_names),
    TEST(syntax_errors_name_line_and_column),
    TEST(what_could_surprise_is_refused),
    TEST(same_key_in_different_mappings_is_fine),
    TEST(empty_texts_are_empty_configs),
    TEST(depth_is_limited),
    TEST(size_is_limited),
    TEST(number_of_keys_is_limited),
    TEST(text_need_not_end_in_zero),
    TEST(known_keys_pass),
    TEST(unknown_keys_name_place_and_nearest),
    TEST(files_are_loaded_by_name),
    TEST(each_allocation_may_fail),
};
QB_TEST_MAIN(tests)
