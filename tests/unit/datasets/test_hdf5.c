#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hdf5.h>
#include <zlib.h>

#include "base/log.h"
#include "datasets/dataset.h"
#include "fixture.h"

static char folder[QB_TEST_PATH], path[QB_TEST_PATH];

static int make_folder(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "set.h5");
    return 0;
}

typedef struct layout {
    hid_t type; /* 0: unsigned bytes */
    int rank;
    hsize_t dim[5];
    hsize_t chunk[5]; /* chunk[0] 0: contiguous */
    bool external;
    hid_t label_type; /* 0: no labels */
    hsize_t n_labels; /* 0: dim[0] */
    int first_label;
} layout;

/* Element i is i % 251; label i is first_label + i. Nothing is written to sets over 1 MB. */
static void make_file(const layout *l) {
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(l->rank, l->dim, NULL);
    if (l->chunk[0]) H5Pset_chunk(list, l->rank, l->chunk);
    if (l->chunk[0]) H5Pset_deflate(list, 6);
    if (l->external) H5Pset_external(list, "/etc/hostname", 0, H5F_UNLIMITED);
    hid_t type = l->type ? l->type : H5T_STD_U8LE;
    hid_t set = H5Dcreate2(file, "images", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    assert_true(set >= 0);
    hsize_t n = 1;
    for (int i = 0; i < l->rank; i++) n *= l->dim[i];
    if (n < 1 << 20 && !l->external && n > 0) {
        uint8_t *bytes = malloc(n);
        assert_non_null(bytes);
        for (hsize_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i % 251);
        assert_true(H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) >= 0);
        free(bytes);
    }
    H5Dclose(set);
    H5Sclose(space);
    if (l->label_type) {
        hsize_t count = l->n_labels ? l->n_labels : l->dim[0];
        int values[64];
        for (int i = 0; i < 64; i++) values[i] = l->first_label + i;
        space = H5Screate_simple(1, &count, NULL);
        set =
            H5Dcreate2(file, "labels", l->label_type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (count <= 64) H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        H5Dclose(set);
        H5Sclose(space);
    }
    H5Pclose(list);
    H5Fclose(file);
}

static void check_set(const qb_dataset *set, int n, int height, int width, int channels) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_int_equal(qb_dataset_count(set), n);
    int size = height * width * channels;
    for (int k = n - 1; k >= 0; k--) { /* backwards: not the order in the file */
        qb_image image;
        qb_hash hash;
        assert_ok(&cx, qb_dataset_read(&cx, set, k, &image, &hash));
        assert_int_equal(image.height, height);
        assert_int_equal(image.width, width);
        assert_int_equal(image.channels, channels);
        for (int i = 0; i < size; i++) assert_int_equal(image.pixel[i], (k * size + i) % 251);
        assert_true(qb_hash_equal(hash, qb_hash_bytes(image.pixel, (size_t)size)));
        qb_image_release(&image);
    }
}

static qb_dataset *open_set(const qb_labels *labels) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set;
    assert_ok(&cx, qb_dataset_open(&cx, path, &(qb_dataset_options){.labels = labels}, &set));
    assert_string_equal(qb_dataset_format_name(set), "hdf5");
    return set;
}

static void color_images_and_labels(void **state) {
    (void)state;
    make_file(
        &(layout){.rank = 4, .dim = {5, 4, 3, 3}, .label_type = H5T_STD_I64BE, .first_label = 2});
    qb_dataset *set = open_set(NULL);
    check_set(set, 5, 4, 3, 3);
    assert_true(qb_dataset_has_labels(set));
    assert_int_equal(qb_dataset_classes(set), 7);
    assert_int_equal(qb_dataset_label(set, 4), 6);
    assert_string_equal(qb_dataset_sample_name(set, 4), "set.h5[4]");
    qb_dataset_close(set);
}

static void images_have_targets_beside_them(void **state) {
    (void)state;
    qb_ctx cx;
    qb_dataset *set;
    uint8_t bytes[5 * 12 * 9 * 3];
    qb_ctx_init(&cx);
    make_file(&(layout){.rank = 4, .dim = {5, 4, 3, 3}});
    set = open_set(NULL);
    assert_false(qb_dataset_has_targets(set));
    qb_dataset_close(set);
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i % 251);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t space = H5Screate_simple(4, (hsize_t[]){5, 12, 9, 3}, NULL);
    hid_t targets =
        H5Dcreate2(file, "targets", H5T_STD_U8LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(targets, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) >= 0);
    H5Dclose(targets);
    H5Sclose(space);
    H5Fclose(file);
    set = open_set(NULL);
    assert_true(qb_dataset_has_targets(set));
    check_set(set, 5, 4, 3, 3);
    qb_dataset_close(set);
    const qb_dataset_options options = {.images = "targets"};
    assert_ok(&cx, qb_dataset_open(&cx, path, &options, &set));
    check_set(set, 5, 12, 9, 3);
    qb_dataset_close(set);
}

static void grey_images_in_chunks_without_labels(void **state) {
    (void)state;
    make_file(&(layout){.rank = 3, .dim = {40, 6, 5}, .chunk = {16, 4, 5}});
    qb_dataset *set = open_set(NULL);
    check_set(set, 40, 6, 5, 1);
    assert_false(qb_dataset_has_labels(set));
    assert_int_equal(qb_dataset_label(set, 0), -1);
    qb_dataset_close(set);
    make_file(&(layout){.rank = 4, .dim = {3, 6, 5, 1}, .chunk = {1, 6, 5, 1}});
    set = open_set(NULL);
    check_set(set, 3, 6, 5, 1);
    qb_dataset_close(set);
}

static void large_chunks_fit_the_cache(void **state) {
    (void)state;
    make_file(&(layout){.rank = 4, .dim = {8, 200, 200, 3}, .chunk = {8, 200, 200, 3}});
    qb_dataset *set = open_set(NULL);
    check_set(set, 8, 200, 200, 3);
    qb_dataset_close(set);
}

static void found_without_a_suffix_by_its_signature(void **state) {
    (void)state;
    qb_test_join(path, folder, "set");
    make_file(&(layout){.rank = 3, .dim = {2, 3, 4}});
    qb_dataset *set = open_set(NULL);
    check_set(set, 2, 3, 4, 1);
    qb_dataset_close(set);
}

static void expect_error(const layout *l, qb_status status, const char *message) {
    make_file(l);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = NULL;
    assert_fails(&cx, qb_dataset_open(&cx, path, NULL, &set), status);
    assert_message(&cx, message);
    assert_message(&cx, "set.h5 (hdf5): ");
    assert_null(set);
}

static void hostile_shapes_are_refused(void **state) {
    (void)state;
    expect_error(&(layout){.rank = 2, .dim = {4, 4}}, QB_STATUS_FORMAT, "got 2");
    expect_error(&(layout){.rank = 5, .dim = {2, 2, 2, 2, 2}}, QB_STATUS_FORMAT, "got 5");
    expect_error(&(layout){.rank = 4, .dim = {2, 3, 8, 8}}, QB_STATUS_FORMAT, "got 8");
    expect_error(&(layout){.rank = 4, .dim = {2, 8, 8, 2}}, QB_STATUS_FORMAT, "got 2");
    expect_error(&(layout){.rank = 3, .dim = {2, 0, 8}}, QB_STATUS_FORMAT, "8x0");
    expect_error(&(layout){.rank = 3, .dim = {0, 8, 8}}, QB_STATUS_NOTFOUND, "no sample");
    expect_error(&(layout){.rank = 3, .dim = {1, 20000, 20000}, .chunk = {1, 100, 100}},
                 QB_STATUS_UNSUPPORTED, "20000x20000");
    expect_error(&(layout){.rank = 3, .dim = {1, 1ull << 40, 1}, .chunk = {1, 100, 1}},
                 QB_STATUS_UNSUPPORTED, "1x1099511627776");
    expect_error(&(layout){.rank = 3, .dim = {1ull << 40, 8, 8}, .chunk = {1, 8, 8}},
                 QB_STATUS_UNSUPPORTED, "1099511627776 samples");
    expect_error(&(layout){.rank = 3, .dim = {1 << 20, 32, 32}, .chunk = {1 << 20, 32, 32}},
                 QB_STATUS_UNSUPPORTED, "chunks of 1073741824 bytes");
}

static void wrong_types_and_labels_are_refused(void **state) {
    (void)state;
    layout l = {.rank = 3, .dim = {4, 3, 2}};
    l.type = H5T_STD_I8LE;
    expect_error(&l, QB_STATUS_FORMAT, "images: expected unsigned bytes");
    l.type = 0;
    l.external = true;
    expect_error(&l, QB_STATUS_UNSUPPORTED, "outside the file");
    l.external = false;
    l.label_type = H5T_IEEE_F64LE;
    expect_error(&l, QB_STATUS_FORMAT, "labels: expected 4 integers, got another type");
    l.label_type = H5T_STD_I32LE;
    l.n_labels = 3;
    expect_error(&l, QB_STATUS_FORMAT, "with 3 elements");
    l.n_labels = 0;
    l.first_label = -1;
    expect_error(&l, QB_STATUS_FORMAT, "set.h5[0]: expected a label from 0");
    l.first_label = 1 << 20;
    expect_error(&l, QB_STATUS_FORMAT, "got 1048576");
}

static void labels_bound_the_numbers(void **state) {
    (void)state;
    make_file(&(layout){.rank = 3, .dim = {3, 2, 2}, .label_type = H5T_STD_U8LE});
    char *name[] = {"a", "b", "c"}, *synset[] = {NULL, NULL, NULL};
    qb_labels labels = {3, name, synset};
    qb_dataset *set = open_set(&labels);
    assert_int_equal(qb_dataset_classes(set), 3);
    qb_dataset_close(set);
    labels.n = 2;
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_dataset_open(&cx, path, &(qb_dataset_options){.labels = &labels}, &set),
                 QB_STATUS_FORMAT);
    assert_message(&cx, "set.h5[2]: expected a label from 0 to 1, got 2");
}

static void other_files_are_refused(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set;
    fixture_text(folder, "set.h5", "not HDF5");
    assert_fails(&cx, qb_dataset_open(&cx, path, NULL, &set), QB_STATUS_FORMAT);
    assert_message(&cx, "not a readable HDF5 file");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    assert_fails(&cx, qb_dataset_open(&cx, path, NULL, &set), QB_STATUS_FORMAT);
    assert_message(&cx, "no data set 'images'");
}

/* Whatever is missing, opening or reading says so: no crash, no sample made of zeros. */
static void truncated_file_is_an_error(void **state) {
    (void)state;
    make_file(&(layout){.rank = 3, .dim = {4, 40, 50}, .label_type = H5T_STD_U8LE});
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    fclose(file);
    for (long cut = size - 1; cut > 0; cut -= size / 40) {
        assert_int_equal(truncate(path, cut), 0);
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_dataset *set;
        qb_status status = qb_dataset_open(&cx, path, NULL, &set);
        if (status == QB_OK) {
            qb_image image = {0};
            for (int k = 0; k < 4 && status == QB_OK; k++) {
                status = qb_dataset_read(&cx, set, k, &image, NULL);
                qb_image_release(&image);
            }
            qb_dataset_close(set);
        }
        assert_int_equal(status, QB_STATUS_FORMAT);
    }
}

/* The first chunk of a dataset of bytes becomes the packed form of `size` bytes. */
static void put_packed(const char *name, uLong size, uint32_t left_out) {
    uint8_t bytes[256] = {0}, packed[256];
    uLongf n = sizeof packed;
    assert_int_equal(compress(packed, &n, bytes, size), Z_OK);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(H5Dwrite_chunk(set, H5P_DEFAULT, left_out, (hsize_t[4]){0}, n, packed) >= 0);
    H5Dclose(set);
    H5Fclose(file);
}

static void check_first_image(const char *message) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = open_set(NULL);
    qb_image image = {0};
    assert_fails(&cx, qb_dataset_read(&cx, set, 0, &image, NULL), QB_STATUS_FORMAT);
    assert_message(&cx, "set.h5[0]: ");
    assert_message(&cx, message);
    qb_image_release(&image);
    qb_ctx_init(&cx); /* what is whole is read still */
    assert_ok(&cx, qb_dataset_read(&cx, set, 3, &image, NULL));
    for (int i = 0; i < 200; i++) assert_int_equal(image.pixel[i], (3 * 200 + i) % 251);
    qb_image_release(&image);
    qb_dataset_close(set);
}

/* The library would read on behind what such chunks unpack to. */
static void chunks_of_another_size_are_errors(void **state) {
    (void)state;
    const layout l = {.rank = 3, .dim = {4, 20, 10}, .chunk = {2, 20, 10}};
    make_file(&l);
    put_packed("images", 100, 0);
    check_first_image("a chunk of 400 bytes unpacks to 100");
    put_packed("images", 256, 0);
    check_first_image("a chunk of 400 bytes unpacks to 256");
    make_file(&l); /* over a chunk of the same size the library would keep the filters of that */
    put_packed("images", 100, 1);
    check_first_image("a chunk of 400 bytes unpacks to 12");
}

static void labels_in_short_chunks_are_errors(void **state) {
    (void)state;
    uint8_t label[64];
    const hsize_t dim = 40, chunk = 32;
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int i = 0; i < 64; i++) label[i] = (uint8_t)i;
    make_file(&(layout){.rank = 3, .dim = {40, 6, 5}});
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &dim, NULL);
    H5Pset_chunk(list, 1, &chunk);
    H5Pset_fletcher32(list);
    H5Pset_deflate(list, 6);
    hid_t set = H5Dcreate2(file, "labels", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, label) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(list);
    H5Fclose(file);
    qb_dataset *data = open_set(NULL);
    for (int i = 0; i < 40; i++) assert_int_equal(qb_dataset_label(data, i), i);
    qb_dataset_close(data);
    put_packed("labels", 20, 1); /* without its checksum */
    assert_fails(&cx, qb_dataset_open(&cx, path, NULL, &data), QB_STATUS_FORMAT);
    assert_message(&cx, "a chunk of 32 bytes unpacks to 20");
}

/* Floats in chunks across rows, bytes shuffled, some never written (zeros by HDF5's rule). */
static void filters_and_absent_chunks_are_read(void **state) {
    (void)state;
    float value[3][5][7];
    const hsize_t dim[3] = {7, 5, 7}, chunk[3] = {2, 3, 4}, written[3] = {3, 5, 7};
    qb_ctx cx;
    qb_ctx_init(&cx);
    for (int i = 0; i < 3 * 5 * 7; i++) ((float *)value)[i] = (float)i + 0.5f;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(3, dim, NULL);
    H5Pset_chunk(list, 3, chunk);
    H5Pset_shuffle(list);
    H5Pset_deflate(list, 6);
    H5Pset_fletcher32(list);
    hid_t set = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    hid_t part = H5Screate_simple(3, written, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, (hsize_t[3]){0}, NULL, written, NULL);
    assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, part, space, H5P_DEFAULT, value) >= 0);
    H5Sclose(part);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(list);
    H5Fclose(file);
    qb_dataset *data = open_set(NULL);
    for (int k = 6; k >= 0; k--) {
        qb_tensors row = {0};
        assert_ok(&cx, qb_dataset_read_tensors(&cx, data, k, &row));
        const float *got = row.item[0].tensor.data;
        for (int i = 0; i < 5 * 7; i++)
            assert_true(got[i] == (k < 3 ? ((const float *)value[k])[i] : 0));
        qb_tensors_release(&row);
    }
    qb_dataset_close(data);
}

/* A chunk of 3 KB that unpacks to 1 GB: the library would take as much memory as it finds. */
static void a_chunk_that_unpacks_to_much_is_an_error(void **state) {
    (void)state;
    enum { PACKED = 1 << 20 };
    static uint8_t zeros[1 << 20];
    const hsize_t dim[3] = {1, 60, 50}, at[3] = {0};
    uint8_t *packed = malloc(PACKED);
    assert_non_null(packed);
    z_stream z = {.next_out = packed, .avail_out = PACKED};
    assert_int_equal(deflateInit(&z, 9), Z_OK);
    for (int i = 0; i < 1024; i++) {
        z.next_in = zeros;
        z.avail_in = sizeof zeros;
        assert_int_equal(deflate(&z, i == 1023 ? Z_FINISH : Z_NO_FLUSH), i == 1023);
    }
    deflateEnd(&z);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(3, dim, NULL);
    H5Pset_chunk(list, 3, dim);
    H5Pset_deflate(list, 9);
    hid_t set = H5Dcreate2(file, "images", H5T_STD_U8LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    assert_true(H5Dwrite_chunk(set, H5P_DEFAULT, 0, at, z.total_out, packed) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(list);
    H5Fclose(file);
    free(packed);
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *data;
    qb_image image = {0};
    assert_ok(&cx, qb_dataset_open(&cx, path, NULL, &data));
    const double before = qb_now();
    const qb_status status = qb_dataset_read(&cx, data, 0, &image, NULL);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* where memory has a limit */
    assert_int_equal(status, QB_STATUS_FORMAT);
#endif
    assert_true(status == QB_OK || status == QB_STATUS_FORMAT);
    assert_true(qb_now() - before < 20);
    qb_image_release(&image);
    qb_dataset_close(data);
}

static qb_status open_once(qb_ctx *cx, void *user) {
    (void)user;
    qb_dataset *set = NULL;
    qb_status status = qb_dataset_open(cx, path, NULL, &set);
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
    make_file(&(layout){.rank = 3, .dim = {4, 3, 2}, .label_type = H5T_STD_U8LE});
    assert_true(qb_test_alloc_sweep(open_once, NULL) >= 6);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(color_images_and_labels, make_folder),
    cmocka_unit_test_setup(images_have_targets_beside_them, make_folder),
    cmocka_unit_test_setup(grey_images_in_chunks_without_labels, make_folder),
    cmocka_unit_test_setup(large_chunks_fit_the_cache, make_folder),
    cmocka_unit_test_setup(found_without_a_suffix_by_its_signature, make_folder),
    cmocka_unit_test_setup(hostile_shapes_are_refused, make_folder),
    cmocka_unit_test_setup(wrong_types_and_labels_are_refused, make_folder),
    cmocka_unit_test_setup(labels_bound_the_numbers, make_folder),
    cmocka_unit_test_setup(other_files_are_refused, make_folder),
    cmocka_unit_test_setup(truncated_file_is_an_error, make_folder),
    cmocka_unit_test_setup(chunks_of_another_size_are_errors, make_folder),
    cmocka_unit_test_setup(labels_in_short_chunks_are_errors, make_folder),
    cmocka_unit_test_setup(filters_and_absent_chunks_are_read, make_folder),
    cmocka_unit_test_setup(a_chunk_that_unpacks_to_much_is_an_error, make_folder),
    cmocka_unit_test_setup(every_failed_allocation_is_reported, make_folder),
};
QB_TEST_MAIN(tests)
