#include "datasets/dataset.h"
#include "fixture.h"

static char folder[QB_TEST_PATH], path[QB_TEST_PATH];

static int make_folder(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "labels.txt");
    return 0;
}

static qb_labels load(const char *text) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_labels labels = {0};
    fixture_text(folder, "labels.txt", text);
    assert_ok(&cx, qb_labels_load(&cx, path, &labels));
    return labels;
}

static void expect_error(const char *text, const char *message) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_labels labels = {0};
    fixture_text(folder, "labels.txt", text);
    assert_fails(&cx, qb_labels_load(&cx, path, &labels), QB_STATUS_FORMAT);
    assert_message(&cx, message);
    assert_int_equal(labels.n, 0);
}

static void names_count_from_zero(void **state) {
    (void)state;
    qb_labels labels = load("tench, Tinca tinca\ngold fish\n\n");
    assert_int_equal(labels.n, 2);
    assert_string_equal(labels.name[0], "tench, Tinca tinca");
    assert_string_equal(labels.name[1], "gold fish");
    assert_null(labels.synset[0]);
    qb_labels_release(&labels);
}

static void index_and_name_may_come_in_any_order(void **state) {
    (void)state;
    qb_labels labels = load("2\tc\twith tab\n0\ta\n");
    assert_int_equal(labels.n, 3);
    assert_string_equal(labels.name[0], "a");
    assert_string_equal(labels.name[1], "1"); /* left out: called by its number */
    assert_string_equal(labels.name[2], "c\\x09with tab");
    qb_labels_release(&labels);
}

static void synsets_are_kept(void **state) {
    (void)state;
    qb_labels labels = load("\xef\xbb\xbfn01443537\t1\tgoldfish\r\nn01440764\t0\tt\xc3\xa9nch\r\n");
    assert_int_equal(labels.n, 2);
    assert_string_equal(labels.synset[0], "n01440764");
    assert_string_equal(labels.name[0], "t\xc3\xa9nch");
    assert_string_equal(labels.synset[1], "n01443537");
    assert_string_equal(labels.name[1], "goldfish");
    qb_labels_release(&labels);
}

static void malformed_files_are_refused_with_the_line(void **state) {
    (void)state;
    expect_error("", "the file has none");
    expect_error("\n \n", "the file has none");
    expect_error("a\n\nb\n", "labels.txt:2: empty line");
    expect_error("0\ta\n0\tb\n", "labels.txt:2: class index 0 is there twice ('a')");
    expect_error("0\ta\nx\tb\n", "labels.txt:2: expected 'index TAB name', got 'x\\x09b'");
    expect_error("0\ta\nb\n", "labels.txt:2: expected 'index TAB name'");
    expect_error("-1\ta\n", "labels.txt:1: expected 'index TAB name'");
    expect_error("0\t\n", "labels.txt:1: expected");
    expect_error("n1\t0\ta\nn2\tb\n", "labels.txt:2: expected 'synset TAB index TAB name'");
    expect_error("n1\t0\ta\n\t1\tb\n", "labels.txt:2: expected 'synset TAB index TAB name'");
    expect_error("1048576\ta\n", "class index 1048576, the limit is 1048575");
    expect_error("99999999999999999999999\ta\n", "the limit is");
    fixture_write(folder, "labels.txt", "a\0b", 3);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_labels labels;
    assert_fails(&cx, qb_labels_load(&cx, path, &labels), QB_STATUS_FORMAT);
    assert_message(&cx, "zero bytes");
}

static void missing_file_is_not_found(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_labels labels;
    assert_fails(&cx, qb_labels_load(&cx, "/nonexistent/l.txt", &labels), QB_STATUS_NOTFOUND);
    assert_message(&cx, "/nonexistent/l.txt");
}

static void inline_names_are_copied(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char name[] = "cat";
    const char *names[] = {name, "dog"};
    qb_labels labels;
    assert_ok(&cx, qb_labels_from_names(&cx, names, 2, &labels));
    name[0] = 'r';
    assert_int_equal(labels.n, 2);
    assert_string_equal(labels.name[0], "cat");
    assert_null(labels.synset[1]);
    qb_labels_release(&labels);
    qb_labels_release(&labels); /* accepts zeroed */
    assert_fails(&cx, qb_labels_from_names(&cx, names, 0, &labels), QB_STATUS_INVALID);
}

static qb_status load_once(qb_ctx *cx, void *user) {
    (void)user;
    qb_labels labels = {0};
    qb_status status = qb_labels_load(cx, path, &labels);
    qb_labels_release(&labels);
    return status;
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    fixture_text(folder, "labels.txt", "n1\t0\ta\nn2\t12\tb\n");
    assert_true(qb_test_alloc_sweep(load_once, NULL) >= 17);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(names_count_from_zero, make_folder),
    cmocka_unit_test_setup(index_and_name_may_come_in_any_order, make_folder),
    cmocka_unit_test_setup(synsets_are_kept, make_folder),
    cmocka_unit_test_setup(malformed_files_are_refused_with_the_line, make_folder),
    cmocka_unit_test(missing_file_is_not_found),
    cmocka_unit_test(inline_names_are_copied),
    cmocka_unit_test_setup(every_failed_allocation_is_reported, make_folder),
};
QB_TEST_MAIN(tests)
