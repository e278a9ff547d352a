#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "datasets/dataset.h"
#include "fixture.h"

static char folder[QB_TEST_PATH];

static int make_folder(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    return 0;
}

/* Three classes, one of them empty, names that need care, things that are no samples. */
static void make_classes(void) {
    fixture_folder(folder, "set/b");
    fixture_folder(folder, "set/a");
    fixture_folder(folder, "set/aa empty");
    fixture_folder(folder, "set/.hidden");
    fixture_photo(folder, "set/b/it's one.jpg", 8, 8, 1);
    fixture_photo(folder, "set/b/caf\xc3\xa9.JPEG", 8, 8, 2);
    fixture_photo(folder, "set/a/x.jpg", 8, 8, 3);
    fixture_photo(folder, "set/a/.thumb.jpg", 8, 8, 4);
    fixture_photo(folder, "set/.hidden/y.jpg", 8, 8, 5);
    fixture_text(folder, "set/a/notes.txt", "no sample");
    fixture_text(folder, "set/readme.txt", "no sample");
    qb_image image = fixture_pattern(5, 4, 1);
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, "set/a/z.png");
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_ok(&cx, qb_image_write_png(&cx, path, &image));
    qb_image_release(&image);
}

static qb_dataset *open_set(const char *name, const qb_dataset_options *options) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, name);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = NULL;
    assert_ok(&cx, qb_dataset_open(&cx, path, options, &set));
    return set;
}

static void expect_error(const char *name, const qb_dataset_options *options, qb_status status,
                         const char *message) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, name);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = NULL;
    assert_fails(&cx, qb_dataset_open(&cx, path, options, &set), status);
    assert_message(&cx, message);
    assert_message(&cx, name);
    assert_null(set);
}

static void expect_sample(const qb_dataset *set, int64_t index, const char *name, int32_t label) {
    assert_string_equal(qb_dataset_sample_name(set, index), name);
    assert_int_equal(qb_dataset_label(set, index), label);
}

static void class_folders_are_numbered_alphabetically(void **state) {
    (void)state;
    make_classes();
    qb_dataset *set = open_set("set", NULL);
    assert_string_equal(qb_dataset_format_name(set), "class_folder");
    assert_int_equal(qb_dataset_count(set), 4);
    assert_true(qb_dataset_has_labels(set));
    assert_int_equal(qb_dataset_classes(set), 3); /* the empty one counts */
    expect_sample(set, 0, "a/x.jpg", 0);
    expect_sample(set, 1, "a/z.png", 0);
    expect_sample(set, 2, "b/caf\xc3\xa9.JPEG", 2);
    expect_sample(set, 3, "b/it's one.jpg", 2);
    qb_dataset_close(set);
}

static void labels_number_folders_by_synset_or_name(void **state) {
    (void)state;
    make_classes();
    char *name[] = {"zero", "b", "two"}, *synset[] = {NULL, NULL, "a"};
    qb_labels labels = {3, name, synset};
    qb_dataset *set = open_set("set", &(qb_dataset_options){.labels = &labels});
    assert_int_equal(qb_dataset_classes(set), 3);
    expect_sample(set, 0, "a/x.jpg", 2);
    expect_sample(set, 3, "b/it's one.jpg", 1);
    qb_dataset_close(set);
    name[1] = "bb"; /* "aa empty" is unknown, too, but holds no image */
    expect_error("set", &(qb_dataset_options){.labels = &labels}, QB_STATUS_NOTFOUND,
                 "folder 'b' with 2 images is none of the 3 classes");
}

static void folders_of_other_classes_have_no_labels(void **state) {
    (void)state;
    make_classes();
    char *name[] = {"cat", "dog"}, *synset[] = {NULL, NULL};
    qb_labels labels = {2, name, synset};
    qb_dataset *set = open_set("set", &(qb_dataset_options){.labels = &labels});
    assert_false(qb_dataset_has_labels(set));
    assert_int_equal(qb_dataset_classes(set), 0);
    expect_sample(set, 0, "a/x.jpg", -1);
    expect_sample(set, 3, "b/it's one.jpg", -1);
    qb_dataset_close(set);
}

static void samples_are_decoded_and_hashed_by_content(void **state) {
    (void)state;
    make_classes();
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = open_set("set", NULL);
    for (int64_t i = 0; i < 4; i++) {
        qb_image image;
        qb_hash hash, expected;
        assert_ok(&cx, qb_dataset_read(&cx, set, i, &image, &hash));
        assert_int_equal(image.width, i == 1 ? 5 : 8);
        assert_int_equal(image.channels, i == 1 ? 1 : 3);
        qb_image_release(&image);
        char path[QB_TEST_PATH], in_set[QB_TEST_PATH];
        qb_test_join(in_set, folder, "set");
        qb_test_join(path, in_set, qb_dataset_sample_name(set, i));
        char *bytes;
        size_t size;
        assert_ok(&cx, qb_file_read(&cx, path, 1 << 20, &bytes, &size));
        expected = qb_hash_bytes(bytes, size);
        assert_true(qb_hash_equal(hash, expected));
        qb_free(bytes);
    }
    qb_image image;
    assert_fails(&cx, qb_dataset_read(&cx, set, 4, &image, NULL), QB_STATUS_INVALID);
    assert_message(&cx, "sample 4 of 4");
    qb_dataset_close(set);
}

static void bad_samples_are_errors_with_their_path(void **state) {
    (void)state;
    fixture_folder(folder, "set");
    fixture_text(folder, "set/a.jpg", "not an image");
    fixture_text(folder, "set/b.png", "");
    fixture_photo(folder, "set/c.jpg", 8, 8, 1);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = open_set("set", NULL);
    qb_image image = {0};
    assert_fails(&cx, qb_dataset_read(&cx, set, 0, &image, NULL), QB_STATUS_FORMAT);
    assert_message(&cx, "set/a.jpg: neither JPEG nor PNG");
    assert_fails(&cx, qb_dataset_read(&cx, set, 1, &image, NULL), QB_STATUS_FORMAT);
    assert_message(&cx, "set/b.png: the file is empty");
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, "set/c.jpg");
    assert_int_equal(unlink(path), 0);
    assert_fails(&cx, qb_dataset_read(&cx, set, 2, &image, NULL), QB_STATUS_NOTFOUND);
    assert_message(&cx, "c.jpg");
    assert_null(image.pixel);
    qb_dataset_close(set);
}

static void flat_folder_has_no_labels(void **state) {
    (void)state;
    fixture_folder(folder, "set/empty");
    fixture_photo(folder, "set/2.jpg", 8, 8, 1);
    fixture_photo(folder, "set/10.jpg", 8, 8, 2);
    qb_dataset *set = open_set("set", NULL);
    assert_string_equal(qb_dataset_format_name(set), "flat_folder");
    assert_false(qb_dataset_has_labels(set));
    assert_int_equal(qb_dataset_classes(set), 0);
    expect_sample(set, 0, "10.jpg", -1);
    expect_sample(set, 1, "2.jpg", -1);
    qb_dataset_close(set);
}

static void folder_that_could_be_either_is_refused(void **state) {
    (void)state;
    make_classes();
    fixture_photo(folder, "set/preview.jpg", 8, 8, 1);
    expect_error("set", NULL, QB_STATUS_FORMAT, "both images and folders of images");
}

static void nothing_usable_is_an_error(void **state) {
    (void)state;
    fixture_folder(folder, "empty/class");
    fixture_text(folder, "empty/class/notes.md", "x");
    fixture_text(folder, "model.bin", "x");
    fixture_text(folder, "list.txt", "# nothing\n\n");
    expect_error("empty", NULL, QB_STATUS_NOTFOUND, "no JPEG or PNG images");
    expect_error("missing", NULL, QB_STATUS_NOTFOUND, "No such file");
    expect_error("model.bin", NULL, QB_STATUS_UNSUPPORTED, "class_folder,");
    expect_error("list.txt", NULL, QB_STATUS_NOTFOUND, "no sample");
    expect_error("list.txt", &(qb_dataset_options){.max_samples = -1}, QB_STATUS_INVALID, "-1");
}

static void list_file_keeps_its_order_and_labels(void **state) {
    (void)state;
    fixture_folder(folder, "im");
    fixture_photo(folder, "im/a b.jpg", 8, 8, 1);
    fixture_photo(folder, "im/c.jpg", 8, 8, 2);
    fixture_text(folder, "list.txt",
                 "\xef\xbb\xbf# path label\r\nim/c.jpg 7\r\n\r\nim/a b.jpg\t3\r\nim/a b.jpg 0");
    qb_dataset *set = open_set("list.txt", NULL);
    assert_string_equal(qb_dataset_format_name(set), "list_file");
    assert_int_equal(qb_dataset_count(set), 3);
    assert_int_equal(qb_dataset_classes(set), 8);
    expect_sample(set, 0, "im/c.jpg", 7);
    expect_sample(set, 1, "im/a b.jpg", 3);
    expect_sample(set, 2, "im/a b.jpg", 0);
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int64_t i = 0; i < 3; i++) {
        qb_image image;
        assert_ok(&cx, qb_dataset_read(&cx, set, i, &image, NULL));
        qb_image_release(&image);
    }
    qb_dataset_close(set);
}

static void list_file_without_labels_and_with_names(void **state) {
    (void)state;
    fixture_text(folder, "plain.txt", "a 1.jpg\n/absolute/b.png\n");
    qb_dataset *set = open_set("plain.txt", NULL);
    assert_false(qb_dataset_has_labels(set));
    expect_sample(set, 0, "a 1.jpg", -1);
    expect_sample(set, 1, "/absolute/b.png", -1);
    qb_dataset_close(set);
    char *name[] = {"cat", "dog"}, *synset[] = {"n1", NULL};
    qb_labels labels = {2, name, synset};
    fixture_text(folder, "named.txt", "a.jpg dog\nb.jpg n1\nc.jpg\t1\n");
    set = open_set("named.txt", &(qb_dataset_options){.labels = &labels});
    assert_int_equal(qb_dataset_classes(set), 2);
    expect_sample(set, 0, "a.jpg", 1);
    expect_sample(set, 1, "b.jpg", 0);
    expect_sample(set, 2, "c.jpg", 1);
    qb_dataset_close(set);
}

static void list_file_errors_name_the_line(void **state) {
    (void)state;
    char *name[] = {"cat", "dog"}, *synset[] = {NULL, NULL};
    qb_labels labels = {2, name, synset};
    qb_dataset_options options = {.labels = &labels};
    fixture_text(folder, "l.txt", "a.jpg 0\nb.jpg cow\n");
    expect_error("l.txt", &options, QB_STATUS_FORMAT, "line 2: label 'cow'");
    fixture_text(folder, "l.txt", "a.jpg 2\n");
    expect_error("l.txt", &options, QB_STATUS_FORMAT,
                 "line 1: expected a label from 0 to 1, got 2");
    fixture_text(folder, "l.txt", "a.jpg 99999999999\n");
    expect_error("l.txt", NULL, QB_STATUS_FORMAT, "got 99999999999");
    fixture_text(folder, "l.txt", "a.jpg -1\n");
    expect_error("l.txt", NULL, QB_STATUS_FORMAT, "line 1: label '-1'");
    fixture_text(folder, "l.txt", "a.jpg 0\nb.jpg\n");
    expect_error("l.txt", NULL, QB_STATUS_FORMAT, "line 2 ('b.jpg') has no label");
    fixture_text(folder, "l.txt", "\t4\n");
    expect_error("l.txt", NULL, QB_STATUS_FORMAT, "line 1: expected 'path'");
    fixture_write(folder, "l.txt", "a\0b", 3);
    expect_error("l.txt", NULL, QB_STATUS_FORMAT, "zero bytes");
}

static void max_samples_are_taken_evenly(void **state) {
    (void)state;
    char text[512] = "";
    for (int i = 0; i < 10; i++) {
        char line[32];
        snprintf(line, sizeof line, "%d.jpg %d\n", i, i);
        strcat(text, line);
    }
    fixture_text(folder, "l.txt", text);
    static const int expected[] = {0, 2, 5, 7}; /* floor(k * 10 / 4) */
    qb_dataset *set = open_set("l.txt", &(qb_dataset_options){.max_samples = 4});
    assert_int_equal(qb_dataset_count(set), 4);
    for (int k = 0; k < 4; k++) assert_int_equal(qb_dataset_label(set, k), expected[k]);
    assert_int_equal(qb_dataset_classes(set), 10);
    qb_dataset_close(set);
    set = open_set("l.txt", &(qb_dataset_options){.max_samples = 1000});
    assert_int_equal(qb_dataset_count(set), 10);
    qb_dataset_close(set);
}

static void format_rows_are_listed(void **state) {
    (void)state;
    static const char *const names[] = {
#define X(name) #name,
#include "datasets/formats.def"
    };
    const int n = sizeof names / sizeof *names;
    for (int i = 0; i < n; i++) {
        const char *text = NULL;
        assert_string_equal(qb_dataset_format_row(i, &text), names[i]);
        assert_non_null(text);
    }
    assert_null(qb_dataset_format_row(n, NULL));
    assert_null(qb_dataset_format_row(-1, NULL));
}

static qb_status open_once(qb_ctx *cx, void *user) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, user);
    qb_dataset *set = NULL;
    qb_status status = qb_dataset_open(cx, path, &(qb_dataset_options){.max_samples = 2}, &set);
    if (status == QB_OK) {
        qb_image image = {0};
        status = qb_dataset_read(cx, set, 0, &image, NULL);
        qb_image_release(&image);
    }
    qb_dataset_close(set);
    return status;
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    make_classes();
    fixture_text(folder, "l.txt", "set/a/x.jpg 7\nset/a/x.jpg 8\nset/a/x.jpg 9\n");
    assert_true(qb_test_alloc_sweep(open_once, "set") > 8);
    assert_true(qb_test_alloc_sweep(open_once, "set/a") > 5);
    assert_true(qb_test_alloc_sweep(open_once, "l.txt") > 6);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(class_folders_are_numbered_alphabetically, make_folder),
    cmocka_unit_test_setup(labels_number_folders_by_synset_or_name, make_folder),
    cmocka_unit_test_setup(folders_of_other_classes_have_no_labels, make_folder),
    cmocka_unit_test_setup(samples_are_decoded_and_hashed_by_content, make_folder),
    cmocka_unit_test_setup(bad_samples_are_errors_with_their_path, make_folder),
    cmocka_unit_test_setup(flat_folder_has_no_labels, make_folder),
    cmocka_unit_test_setup(folder_that_could_be_either_is_refused, make_folder),
    cmocka_unit_test_setup(nothing_usable_is_an_error, make_folder),
    cmocka_unit_test_setup(list_file_keeps_its_order_and_labels, make_folder),
    cmocka_unit_test_setup(list_file_without_labels_and_with_names, make_folder),
    cmocka_unit_test_setup(list_file_errors_name_the_line, make_folder),
    cmocka_unit_test_setup(max_samples_are_taken_evenly, make_folder),
    cmocka_unit_test(format_rows_are_listed),
    cmocka_unit_test_setup(every_failed_allocation_is_reported, make_folder),
};
QB_TEST_MAIN(tests)
