#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "qb_test.h"

static qb_ctx cx;

static void assert_text(char *got, const char *expected) {
    assert_non_null(got);
    assert_string_equal(got, expected);
    qb_free(got);
}

static void join_puts_one_slash(void **state) {
    (void)state;
    assert_text(qb_path_join(&cx, "a", "b"), "a/b");
    assert_text(qb_path_join(&cx, "a/", "b"), "a/b");
    assert_text(qb_path_join(&cx, "/", "b"), "/b");
    assert_text(qb_path_join(&cx, "a", "/b"), "/b");
    assert_text(qb_path_join(&cx, NULL, "b"), "b");
    assert_text(qb_path_join(&cx, "", "b"), "b");
}

static void parts_of_a_path(void **state) {
    (void)state;
    assert_text(qb_path_dir(&cx, "a/b/c"), "a/b");
    assert_text(qb_path_dir(&cx, "c"), ".");
    assert_text(qb_path_dir(&cx, "/c"), "/");
    assert_text(qb_path_dir(&cx, "a//c"), "a");
    assert_text(qb_path_dir(&cx, ""), ".");
    assert_string_equal(qb_path_base("a/b.c"), "b.c");
    assert_string_equal(qb_path_base("b"), "b");
    assert_string_equal(qb_path_base("a/"), "");
    assert_text(qb_path_stem(&cx, "a.d/model.onnx"), "model");
    assert_text(qb_path_stem(&cx, "a.d/model"), "model");
    assert_text(qb_path_stem(&cx, "m.calib.h5"), "m.calib");
    assert_text(qb_path_stem(&cx, "x/.hidden"), ".hidden");
    assert_text(qb_path_stem(&cx, "x/name."), "name");
}

static void suffixes(void **state) {
    (void)state;
    assert_true(qb_has_suffix("a.onnx", ".onnx"));
    assert_true(qb_has_suffix(".onnx", ".onnx"));
    assert_true(qb_has_suffix("a", ""));
    assert_false(qb_has_suffix("onnx", ".onnx"));
    assert_false(qb_has_suffix("a.onnx2", ".onnx"));
}

static void make_dirs_makes_all_of_them(void **state) {
    (void)state;
    char dir[QB_TEST_PATH], deep[QB_TEST_PATH];
    qb_test_temp_dir(dir);
    qb_test_join(deep, dir, "a//b/c/");
    assert_ok(&cx, qb_make_dirs(&cx, deep));
    assert_true(qb_path_is_dir(deep));
    assert_ok(&cx, qb_make_dirs(&cx, deep)); /* again is fine */
    assert_ok(&cx, qb_make_dirs(&cx, "/"));
    assert_ok(&cx, qb_make_dirs(&cx, ""));
    qb_test_join(deep, dir, "a/file");
    assert_ok(&cx, qb_file_write(&cx, deep, "x", 1));
    assert_true(qb_path_exists(deep));
    assert_false(qb_path_is_dir(deep));
    assert_fails(&cx, qb_make_dirs(&cx, deep), QB_STATUS_IO);
    assert_message(&cx, "there is a file of that name");
    qb_test_join(deep, dir, "a/file/b");
    assert_int_not_equal(qb_make_dirs(&cx, deep), QB_OK);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(join_puts_one_slash),
    cmocka_unit_test(parts_of_a_path),
    cmocka_unit_test(suffixes),
    cmocka_unit_test(make_dirs_makes_all_of_them),
};
QB_TEST_MAIN(tests)
