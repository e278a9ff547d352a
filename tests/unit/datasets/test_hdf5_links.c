/* HDF5 files whose datasets lie in other files: by links, by external storage, by virtual datasets.
 * The other file is a FIFO, so that opening it would wait for ever, or one with values that must
 * not be read. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hdf5.h>

#include "datasets/dataset.h"
#include "datasets/h5_inside.h"
#include "fixture.h"

static char folder[QB_TEST_PATH], path[QB_TEST_PATH], other[QB_TEST_PATH], fifo[QB_TEST_PATH];

static const hsize_t image_dims[4] = {2, 4, 4, 3}, label_dims[1] = {2};

static hid_t add_set(hid_t file, const char *name, bool images, hid_t list) {
    hid_t space = H5Screate_simple(images ? 4 : 1, images ? image_dims : label_dims, NULL);
    hid_t set = H5Dcreate2(file, name, images ? H5T_STD_U8LE : H5T_STD_I32LE, space, H5P_DEFAULT,
                           list, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Sclose(space);
    return set;
}

static void add_plain(hid_t file, const char *name, bool images) {
    const uint8_t pixels[2 * 4 * 4 * 3] = {1};
    const int labels[2] = {0, 1};
    hid_t set = add_set(file, name, images, H5P_DEFAULT);
    H5Dwrite(set, images ? H5T_NATIVE_UINT8 : H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT,
             images ? (const void *)pixels : labels);
    H5Dclose(set);
}

static hid_t create(const char *at) {
    hid_t file = H5Fcreate(at, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(file >= 0);
    return file;
}

static int setup(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "set.h5");
    qb_test_join(other, folder, "other.h5");
    qb_test_join(fifo, folder, "fifo.h5");
    hid_t file = create(other);
    add_plain(file, "images", true);
    add_plain(file, "labels", false);
    H5Fclose(file);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    return 0;
}

typedef void (*maker)(hid_t file, const char *name, bool images);

static void by_external_link(hid_t file, const char *name, bool images) {
    (void)images;
    H5Lcreate_external("other.h5", name, file, name, H5P_DEFAULT, H5P_DEFAULT);
}
static void by_link_to_fifo(hid_t file, const char *name, bool images) {
    (void)images;
    H5Lcreate_external(fifo, name, file, name, H5P_DEFAULT, H5P_DEFAULT);
}
static void by_soft_link_to_external(hid_t file, const char *name, bool images) {
    (void)images;
    H5Lcreate_external(fifo, name, file, "there", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/there", file, name, H5P_DEFAULT, H5P_DEFAULT);
}
static void by_external_storage(hid_t file, const char *name, bool images) {
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(list, "/etc/passwd", 0, 96);
    H5Dclose(add_set(file, name, images, list));
    H5Pclose(list);
}
static void by_virtual_dataset(hid_t file, const char *name, bool images) {
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    hid_t space = H5Screate_simple(images ? 4 : 1, images ? image_dims : label_dims, NULL);
    assert_true(H5Pset_virtual(list, space, fifo, name, space) >= 0);
    H5Sclose(space);
    H5Dclose(add_set(file, name, images, list));
    H5Pclose(list);
}

static void data_in_other_files_are_refused(void **state) {
    (void)state;
    static const struct {
        maker make;
        const char *message;
    } makers[] = {{by_external_link, "a link, expected data in the file itself"},
                  {by_link_to_fifo, "a link, expected data in the file itself"},
                  {by_soft_link_to_external, "a link, expected data in the file itself"},
                  {by_external_storage, "data outside the file"},
                  {by_virtual_dataset, "data outside the file"}};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        for (int which = 0; which < 2; which++) {
            qb_dataset *set = NULL;
            hid_t file = create(path);
            if (which == 0)
                makers[i].make(file, "images", true);
            else
                add_plain(file, "images", true);
            if (which == 1) makers[i].make(file, "labels", false);
            H5Fclose(file);
            assert_fails(&cx, qb_dataset_open(&cx, path, NULL, &set), QB_STATUS_UNSUPPORTED);
            assert_message(&cx, makers[i].message);
            assert_message(&cx, which == 0 ? "images" : "labels");
            qb_ctx_clear(&cx);
        }
}

/* Also where a group on the way to the dataset is such a link. */
static void groups_in_other_files_are_refused(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = NULL;
    hid_t file = create(path);
    H5Lcreate_external(fifo, "/", file, "group", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    assert_fails(&cx,
                 qb_dataset_open(&cx, path, &(qb_dataset_options){.images = "group/images"}, &set),
                 QB_STATUS_UNSUPPORTED);
    assert_message(&cx, "group/images: a link, expected data in the file itself");
    /* Tensors by the inputs' names: links are no inputs. */
    assert_fails(&cx, qb_dataset_open(&cx, path, NULL, &set), QB_STATUS_FORMAT);
    assert_message(&cx, "no data set 'images'");
}

static void a_path_has_a_place(void **state) {
    (void)state;
    hid_t file = create(path);
    H5Gclose(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    add_plain(file, "g/labels", false);
    H5Lcreate_soft("/g", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5E_BEGIN_TRY {
        assert_int_equal(qb_h5_place_of(file, "g/labels"), QB_H5_INSIDE);
        assert_int_equal(qb_h5_place_of(file, "/g//labels"), QB_H5_INSIDE);
        assert_int_equal(qb_h5_place_of(file, "g"), QB_H5_INSIDE);
        assert_int_equal(qb_h5_place_of(file, "soft/labels"), QB_H5_LINKED);
        assert_int_equal(qb_h5_place_of(file, "g/none"), QB_H5_ABSENT);
        assert_int_equal(qb_h5_place_of(file, "none/g"), QB_H5_ABSENT);
    }
    H5E_END_TRY
    H5Fclose(file);
}

/* The file itself. */
static void a_fifo_is_no_data(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = NULL;
    assert_fails(&cx, qb_dataset_open(&cx, fifo, NULL, &set), QB_STATUS_IO);
    assert_message(&cx, "expected a regular file, got a FIFO");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(data_in_other_files_are_refused, setup),
    cmocka_unit_test_setup(groups_in_other_files_are_refused, setup),
    cmocka_unit_test_setup(a_path_has_a_place, setup),
    cmocka_unit_test_setup(a_fifo_is_no_data, setup),
};
QB_TEST_MAIN(tests)
