/* The calibration table and its file. */
#include "qb_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "base/rng.h"
#include "calib/calib.h"
#include "calib/checkpoint.h"
#include "calib/table_h5_internal.h"

#define N_VALUES 5000
#define N_SAMPLES 7

static const char *const names[] = {"conv1/relu", "a", "Zeta", "b\xc3\xbc", "input:0"};
enum { N_NAMES = sizeof names / sizeof *names };

/* Extremes of samples with keys 0, 3, 6, ...; the second one has no finite value in the first
 * tensor. */
static void record_extremes(qb_ctx *cx, qb_table *table) {
    assert_ok(cx, qb_table_record(cx, table, N_SAMPLES));
    for (int i = 0; i < N_SAMPLES; i++) {
        table->sample[i] = 3 * (uint64_t)i;
        for (int k = 0; k < N_NAMES; k++) {
            const qb_stats *s = table->entry[k].stats;
            table->entry[k].sample_min[i] = i == 4 ? s->min : s->min / 2;
            table->entry[k].sample_max[i] = i == 2 ? s->max : s->max / 4;
        }
    }
    table->entry[0].sample_min[1] = INFINITY;
    table->entry[0].sample_max[1] = -INFINITY;
}

/* A table as a calibration makes it, from seeded data. */
static qb_table *make_table(qb_ctx *cx) {
    qb_table *table;
    qb_rng rng;
    float value[N_VALUES];
    qb_rng_seed(&rng, 3);
    assert_ok(cx, qb_table_create(cx, N_NAMES, &table));
    for (int i = 0; i < N_NAMES; i++) {
        table->entry[i].name = qb_strdup(cx, names[i]);
        for (int k = 0; k < N_VALUES; k++)
            value[k] = (float)(qb_rng_normal(&rng) * exp2(3.0 * i)) * (float)(k % 3);
        value[0] = i == 2 ? NAN : value[0];
        qb_stats_add(table->entry[i].stats, value, N_VALUES);
    }
    record_extremes(cx, table);
    qb_table_sort(table);
    qb_method_choice choice[3];
    assert_ok(cx, qb_method_parse(cx, "entropy", &choice[0]));
    assert_ok(cx, qb_method_parse(cx, "percentile:99.9", &choice[1]));
    assert_ok(cx, qb_method_parse(cx, "minmax", &choice[2]));
    assert_ok(cx, qb_table_choose(cx, table, choice, 3));
    table->model = qb_strdup(cx, "net.onnx");
    table->dataset = qb_strdup(cx, "/somewhere/images/");
    table->samples = N_SAMPLES;
    table->skipped = 2;
    table->blank = 3;
    table->doctor = qb_strdup(cx, "[]");
    table->preprocess = qb_strdup(cx, "RGB");
    table->model_hash = qb_hash_bytes("model", 5);
    table->data_hash = qb_hash_bytes("data", 4);
    return table;
}

static void in_temp(char path[QB_TEST_PATH], const char *name) {
    char folder[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, name);
}

/* A saved table in a new folder. */
static void save_new(qb_ctx *cx, char path[QB_TEST_PATH]) {
    qb_table *table = make_table(cx);
    in_temp(path, "net.calib.h5");
    assert_ok(cx, qb_table_save(cx, table, path));
    qb_table_free(table);
}

static void round_trip_keeps_everything(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    qb_table *made = make_table(&cx), *read;
    in_temp(path, "net.calib.h5");
    assert_ok(&cx, qb_table_save(&cx, made, path));
    assert_ok(&cx, qb_table_load(&cx, path, &read));
    assert_int_equal(read->n_entries, N_NAMES);
    for (int i = 0; i < N_NAMES; i++) {
        assert_string_equal(read->entry[i].name, made->entry[i].name);
        assert_memory_equal(read->entry[i].stats, made->entry[i].stats, sizeof(qb_stats));
        assert_memory_equal(read->entry[i].sample_min, made->entry[i].sample_min,
                            N_SAMPLES * sizeof(float));
        assert_memory_equal(read->entry[i].sample_max, made->entry[i].sample_max,
                            N_SAMPLES * sizeof(float));
        assert_memory_equal(read->entry[i].range, made->entry[i].range, 3 * sizeof(qb_range));
    }
    assert_int_equal(read->n_methods, 3);
    assert_string_equal(read->method[0], "entropy");
    assert_string_equal(read->method[1], "percentile:99.9");
    assert_string_equal(read->method[2], "minmax");
    assert_string_equal(read->model, "net.onnx");
    assert_string_equal(read->dataset, "images");
    assert_int_equal(read->samples, N_SAMPLES);
    assert_int_equal(read->n_recorded, N_SAMPLES);
    assert_memory_equal(read->sample, made->sample, N_SAMPLES * sizeof *read->sample);
    assert_int_equal(read->skipped, 2);
    assert_int_equal(read->blank, 3);
    assert_string_equal(read->doctor, "[]");
    assert_true(qb_hash_equal(read->model_hash, made->model_hash));
    assert_true(qb_hash_equal(read->data_hash, made->data_hash));
    qb_table_free(made);
    qb_table_free(read);
}

static void same_table_gives_the_same_bytes(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[2][QB_TEST_PATH], *bytes[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        qb_table *table = make_table(&cx);
        if (i) { /* the folder of the data must not show */
            qb_free(table->dataset);
            table->dataset = qb_strdup(&cx, "images");
        }
        in_temp(path[i], i ? "another.calib.h5" : "net.calib.h5");
        assert_ok(&cx, qb_table_save(&cx, table, path[i]));
        assert_ok(&cx, qb_file_read(&cx, path[i], 1 << 24, &bytes[i], &size[i]));
        qb_table_free(table);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(bytes[0], bytes[1], size[0]);
    assert_true(size[0] < N_NAMES * 16384); /* 64 KiB of counters each */
    qb_free(bytes[0]);
    qb_free(bytes[1]);
}

static void entries_and_methods_are_found_by_name(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = make_table(&cx);
    for (int i = 0; i < N_NAMES; i++)
        assert_string_equal(qb_table_find(table, names[i])->name, names[i]);
    assert_null(qb_table_find(table, "conv1"));
    assert_int_equal(qb_table_method(table, "entropy"), 0);
    assert_int_equal(qb_table_method(table, "percentile"), 1);
    assert_int_equal(qb_table_method(table, "percentile:99.9"), 1);
    assert_int_equal(qb_table_method(table, "percentile:99"), -1);
    assert_int_equal(qb_table_method(table, "perc"), -1);
    strcpy(table->method[2], "percentile:99");
    assert_int_equal(qb_table_method(table, "percentile"), -1); /* which of the two? */
    assert_int_equal(qb_table_method(table, "percentile:99"), 2);
    qb_table_free(table);
}

static void methods_can_be_chosen_again_without_data(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = make_table(&cx);
    const qb_range minmax = table->entry[1].range[2];
    qb_method_choice choice[2];
    assert_ok(&cx, qb_method_parse(&cx, "minmax", &choice[0]));
    assert_ok(&cx, qb_table_choose(&cx, table, choice, 1));
    assert_int_equal(table->n_methods, 1);
    assert_memory_equal(&table->entry[1].range[0], &minmax, sizeof minmax);
    choice[1] = choice[0];
    assert_fails(&cx, qb_table_choose(&cx, table, choice, 2), QB_STATUS_USAGE);
    assert_message(&cx, "minmax is given twice");
    assert_fails(&cx, qb_table_choose(&cx, table, choice, 0), QB_STATUS_USAGE);
    qb_table_free(table);
}

static void another_model_is_a_mismatch_that_names_both(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_table *table = make_table(&cx);
    assert_ok(&cx, qb_table_check_model(&cx, table, "m.onnx", qb_hash_bytes("model", 5)));
    assert_fails(&cx, qb_table_check_model(&cx, table, "m.onnx", qb_hash_bytes("other", 5)),
                 QB_STATUS_MISMATCH);
    assert_message(&cx, "artifacts do not belong together");
    assert_message(&cx, "net.onnx");
    assert_message(&cx, "m.onnx");
    qb_table_free(table);
}

static void any_cut_or_flipped_bit_is_noticed(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH], *bytes;
    size_t size;
    qb_table *table = NULL;
    save_new(&cx, path);
    assert_ok(&cx, qb_file_read(&cx, path, 1 << 24, &bytes, &size));
    for (size_t cut = 0; cut < size; cut += cut < 1024 ? 1 : 997)
        assert_fails(&cx, qb_table_parse(&cx, "cut.h5", bytes, cut, &table), QB_STATUS_FORMAT);
    assert_message(&cx, "cut.h5: damaged");
    for (size_t at = 0; at < size; at += at < 1024 ? 7 : 499) {
        bytes[at] ^= 4;
        assert_fails(&cx, qb_table_parse(&cx, "bit.h5", bytes, size, &table), QB_STATUS_FORMAT);
        bytes[at] ^= 4;
    }
    assert_ok(&cx, qb_table_parse(&cx, "whole.h5", bytes, size, &table));
    qb_table_free(table);
    qb_free(bytes);
}

static void other_files_are_refused_by_name(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    qb_table *table = NULL;
    in_temp(path, "x.calib.h5");
    assert_fails(&cx, qb_table_load(&cx, path, &table), QB_STATUS_NOTFOUND);
    assert_message(&cx, "x.calib.h5");
    assert_ok(&cx, qb_file_write(&cx, path, "\x89HDF\r\n\x1a\n", 8));
    assert_fails(&cx, qb_table_load(&cx, path, &table), QB_STATUS_FORMAT);
    assert_message(&cx, "is this a .calib.h5 file?");
    char later[600] = "qbench calibration table 2\nxxh3 0\n";
    assert_fails(&cx, qb_table_parse(&cx, "later.h5", later, sizeof later, &table),
                 QB_STATUS_FORMAT);
    assert_message(&cx, "later.h5: version: expected 1, got 2");
}

/* ---- files with a right hash and wrong content ---- */

static void replace(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims) {
    H5Ldelete(file, name, H5P_DEFAULT);
    hid_t space = H5Screate_simple(rank, dims, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Dclose(set);
    H5Sclose(space);
}

/* Overwrites element `at` of a column. */
static void set_number(hid_t file, const char *name, hid_t type, hsize_t at, const void *value) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    hid_t memory = H5Screate(H5S_SCALAR);
    H5Sselect_elements(space, H5S_SELECT_SET, 1, &at);
    assert_true(H5Dwrite(set, type, memory, space, H5P_DEFAULT, value) >= 0);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(set);
}

static void without_bins(hid_t f) { H5Ldelete(f, "bins", H5P_DEFAULT); }
static void without_hash(hid_t f) { H5Adelete(f, "model_hash"); }
static void without_magic(hid_t f) { H5Adelete(f, "magic"); }
static void name_is_number(hid_t f) { replace(f, "name", H5T_STD_I32LE, 1, (hsize_t[]){N_NAMES}); }
static void name_is_variable(hid_t f) {
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    replace(f, "name", type, 1, (hsize_t[]){N_NAMES});
    H5Tclose(type);
}
static void name_is_huge(hid_t f) {
    hid_t type = qb_h5_text_type(4);
    replace(f, "name", type, 1, (hsize_t[]){(hsize_t)1 << 40});
    H5Tclose(type);
}
static void name_is_empty(hid_t f) {
    hid_t type = qb_h5_text_type(4);
    replace(f, "name", type, 1, (hsize_t[]){0});
    H5Tclose(type);
}
static void names_are_blank(hid_t f) {
    hid_t type = qb_h5_text_type(4);
    replace(f, "name", type, 1, (hsize_t[]){N_NAMES});
    H5Tclose(type);
}
/* What a model's reader would have escaped. */
static void names_rule_terminals(hid_t f) {
    char text[N_NAMES][4] = {"a\x1b[", "b", "c", "d", "e"};
    hid_t type = qb_h5_text_type(4);
    replace(f, "name", type, 1, (hsize_t[]){N_NAMES});
    hid_t set = H5Dopen2(f, "name", H5P_DEFAULT);
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text);
    H5Dclose(set);
    H5Tclose(type);
}
static void names_are_more_than_bins(hid_t f) {
    hid_t type = qb_h5_text_type(4);
    replace(f, "name", type, 1, (hsize_t[]){1000});
    H5Tclose(type);
}
static void min_is_matrix(hid_t f) {
    replace(f, "min", H5T_IEEE_F32LE, 2, (hsize_t[]){N_NAMES, 1});
}
static void min_is_double(hid_t f) { replace(f, "min", H5T_IEEE_F64LE, 1, (hsize_t[]){N_NAMES}); }
static void max_is_short(hid_t f) {
    replace(f, "max", H5T_IEEE_F32LE, 1, (hsize_t[]){N_NAMES - 1});
}
static void bins_are_unwritten(hid_t f) {
    H5Ldelete(f, "bins", H5P_DEFAULT);
    const hsize_t dims[2] = {N_NAMES, QB_STATS_BINS}, chunk[2] = {1, QB_STATS_BINS};
    hid_t plan = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL);
    H5Pset_chunk(plan, 2, chunk);
    H5Dclose(H5Dcreate2(f, "bins", H5T_STD_U64LE, space, H5P_DEFAULT, plan, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(plan);
}
static void bins_are_one_chunk(hid_t f) {
    H5Ldelete(f, "bins", H5P_DEFAULT);
    const hsize_t dims[2] = {N_NAMES, QB_STATS_BINS};
    hid_t plan = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL);
    H5Pset_chunk(plan, 2, dims);
    H5Dclose(H5Dcreate2(f, "bins", H5T_STD_U64LE, space, H5P_DEFAULT, plan, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(plan);
}
static void range_is_outside_file(hid_t f) {
    H5Ldelete(f, "range", H5P_DEFAULT);
    const hsize_t dims[3] = {N_NAMES, 3, 2};
    hid_t plan = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(3, dims, NULL);
    H5Pset_external(plan, "/dev/zero", 0, H5F_UNLIMITED);
    H5Dclose(H5Dcreate2(f, "range", H5T_IEEE_F32LE, space, H5P_DEFAULT, plan, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(plan);
}
static void max_is_linked(hid_t f) {
    H5Ldelete(f, "max", H5P_DEFAULT);
    H5Lcreate_soft("/min", f, "max", H5P_DEFAULT, H5P_DEFAULT);
}
static void max_is_infinite(hid_t f) {
    set_number(f, "max", H5T_NATIVE_FLOAT, 1, &(float){INFINITY});
}
static void min_is_nan(hid_t f) { set_number(f, "min", H5T_NATIVE_FLOAT, 0, &(float){NAN}); }
static void min_is_above(hid_t f) { set_number(f, "min", H5T_NATIVE_FLOAT, 0, &(float){1e30f}); }
static void min_is_elsewhere(hid_t f) { set_number(f, "min", H5T_NATIVE_FLOAT, 0, &(float){0}); }
static void exponent_is_out(hid_t f) {
    set_number(f, "exponent", H5T_NATIVE_INT32, 0, &(int){129});
}
static void count_is_off(hid_t f) {
    set_number(f, "count", H5T_NATIVE_UINT64, 2, &(uint64_t){N_VALUES + 1});
}
static void count_is_zero(hid_t f) { set_number(f, "count", H5T_NATIVE_UINT64, 2, &(uint64_t){0}); }
static void zeros_are_many(hid_t f) {
    set_number(f, "zeros", H5T_NATIVE_UINT64, 3, &(uint64_t){N_VALUES});
}
static void bins_overflow(hid_t f) {
    const hsize_t width = QB_STATS_BINS;
    hid_t set = H5Dopen2(f, "bins", H5P_DEFAULT), space = H5Dget_space(set);
    hid_t memory = H5Screate_simple(1, &width, NULL);
    uint64_t *row = calloc(QB_STATS_BINS, sizeof *row);
    row[10] = row[20] = UINT64_MAX / 2 + 10;
    assert_true(qb_h5_row(set, space, memory, QB_H5_U64, 0, width, row, NULL) >= 0);
    free(row);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(set);
}
/* A row's packed bytes, with filters left out. */
static void put_packed(hid_t f, const void *data, uLong size, uint32_t left_out) {
    uint8_t packed[256];
    uLongf n = sizeof packed;
    assert_int_equal(compress(packed, &n, data, size), Z_OK);
    hid_t set = H5Dopen2(f, "bins", H5P_DEFAULT);
    assert_true(H5Dwrite_chunk(set, H5P_DEFAULT, left_out, (hsize_t[]){0, 0}, n, packed) >= 0);
    H5Dclose(set);
}
/* HDF5 would read on behind what such chunks unpack to. */
static void bins_unpack_to_less(hid_t f) { put_packed(f, (uint8_t[3]){1, 2, 3}, 3, 0); }
static void bins_unpack_to_more(hid_t f) {
    static const uint8_t zeros[QB_STATS_BINS * sizeof(uint64_t) + 1];
    put_packed(f, zeros, sizeof zeros, 0);
}
static void bins_are_left_packed(hid_t f) { put_packed(f, (uint8_t[3]){1, 2, 3}, 3, 3); }
static void range_is_nan(hid_t f) {
    const float odd[N_NAMES * 6] = {NAN};
    hid_t set = H5Dopen2(f, "range", H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, odd);
    H5Dclose(set);
}
static void method_is_many(hid_t f) {
    hid_t type = qb_h5_text_type(8);
    replace(f, "method", type, 1, (hsize_t[]){17});
    H5Tclose(type);
}
static void method_is_blank(hid_t f) {
    hid_t type = qb_h5_text_type(8);
    replace(f, "method", type, 1, (hsize_t[]){3});
    H5Tclose(type);
}
static void samples_are_cut(hid_t f) {
    replace(f, "sample", H5T_STD_I64LE, 1, (hsize_t[]){N_SAMPLES - 1});
}
static void samples_are_short(hid_t f) {
    replace(f, "sample", H5T_STD_I32LE, 1, (hsize_t[]){N_SAMPLES});
}
static void samples_are_unsorted(hid_t f) {
    set_number(f, "sample", H5T_NATIVE_INT64, 2, &(int64_t){1});
}
static void extremes_are_missing(hid_t f) { H5Ldelete(f, "sample_max", H5P_DEFAULT); }
static void extremes_are_unwritten(hid_t f) {
    replace(f, "sample_min", H5T_IEEE_F32LE, 2, (hsize_t[]){N_NAMES, N_SAMPLES});
}
static void extremes_are_others(hid_t f) {
    hid_t set = H5Dopen2(f, "sample_max", H5P_DEFAULT);
    const float odd[N_NAMES * N_SAMPLES] = {0};
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, odd);
    H5Dclose(set);
}
static void extremes_are_nan(hid_t f) {
    hid_t set = H5Dopen2(f, "sample_min", H5P_DEFAULT);
    const float odd[N_NAMES * N_SAMPLES] = {NAN};
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, odd);
    H5Dclose(set);
}
static void set_text(hid_t f, const char *name, const char *text) {
    H5Adelete(f, name);
    hid_t type = qb_h5_text_type(strlen(text) + 1), space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(f, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, text);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
}
static void magic_is_other(hid_t f) { set_text(f, "magic", "qbench.run"); }
static void hash_is_short(hid_t f) { set_text(f, "data_hash", "0123"); }
static void samples_are_text(hid_t f) { set_text(f, "samples", "many"); }

/* Gives the user block the hash of what is behind it now. */
static void rehash(qb_ctx *cx, const char *path) {
    char *bytes;
    size_t size;
    assert_ok(cx, qb_file_read(cx, path, 1 << 24, &bytes, &size));
    qb_h5_user_block((uint8_t *)bytes + QB_H5_USER_BLOCK, size - QB_H5_USER_BLOCK, bytes);
    assert_ok(cx, qb_file_write(cx, path, bytes, size));
    qb_free(bytes);
}

static void wrong_content_is_refused_by_field(void **state) {
    (void)state;
    static const struct {
        void (*edit)(hid_t file);
        const char *message;
    } rows[] = {
        {without_bins, "x.h5: bins: HDF5"},
        {without_hash, "x.h5: model_hash: HDF5"},
        {without_magic, "x.h5: magic: HDF5"},
        {magic_is_other, "magic: expected \"qbench.calib\""},
        {hash_is_short, "data_hash: expected 32 hexadecimal digits"},
        {samples_are_text, "samples: expected one 64-bit integer"},
        {name_is_number, "name: expected texts of fixed length"},
        {name_is_variable, "name: expected texts of fixed length"},
        {name_is_huge, "name: expected 1 to 16384 texts, got 1099511627776"},
        {name_is_empty, "name: expected 1 to 16384 texts, got 0"},
        {names_are_blank, "name: expected ascending names, got '' at 0"},
        {names_rule_terminals, "name: expected texts that can be shown"},
        {names_are_more_than_bins, "bins: expected the shape 1000 x 8192"},
        {min_is_matrix, "min: expected the shape 5"},
        {min_is_double, "min: expected 32-bit floats"},
        {max_is_short, "max: expected the shape 5"},
        {bins_are_unwritten, "bins: expected data for every tensor"},
        {bins_are_one_chunk, "bins: expected plain storage"},
        {range_is_outside_file, "range: expected plain storage"},
        {max_is_linked, "max: expected plain storage"},
        {max_is_infinite, "min, max: not finite"},
        {min_is_nan, "min, max: not finite"},
        {min_is_above, "min, max: not finite or not in order"},
        {min_is_elsewhere, "min: not in the first bin"},
        {exponent_is_out, "exponent: out of bounds"},
        {count_is_off, "bins: their sum is not count"},
        {count_is_zero, "bins: values where count has none"},
        {zeros_are_many, "zeros: more than"},
        {bins_overflow, "bins: too large"},
        {bins_unpack_to_less, "bins: HDF5: a chunk of 65536 bytes unpacks to 3"},
        {bins_unpack_to_more, "bins: HDF5: a chunk of 65536 bytes unpacks to 65537"},
        {bins_are_left_packed, "bins: HDF5: a chunk of 65536 bytes unpacks to 11"},
        {range_is_nan, "range: not in order"},
        {samples_are_cut, "sample: expected the shape 7"},
        {samples_are_short, "sample: expected 64-bit unsigned integers"},
        {samples_are_unsorted, "sample: expected ascending numbers"},
        {extremes_are_missing, "sample_max: HDF5"},
        {extremes_are_unwritten, "sample_min: expected data for every tensor"},
        {extremes_are_others, "sample_min, sample_max: not"},
        {extremes_are_nan, "sample_min, sample_max: not in order"},
        {method_is_many, "method: expected 1 to 16 texts, got 17"},
        {method_is_blank, "method: expected names that are not empty"},
    };
    qb_ctx cx;
    qb_ctx_init(&cx);
    char saved[QB_TEST_PATH], path[QB_TEST_PATH], *bytes;
    size_t size;
    qb_table *table = NULL;
    save_new(&cx, saved);
    in_temp(path, "x.h5");
    assert_ok(&cx, qb_file_read(&cx, saved, 1 << 24, &bytes, &size));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(&cx, qb_file_write(&cx, path, bytes, size));
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        assert_true(file >= 0);
        rows[i].edit(file);
        H5Fclose(file);
        rehash(&cx, path);
        assert_fails(&cx, qb_table_load(&cx, path, &table), QB_STATUS_FORMAT);
        assert_message(&cx, rows[i].message);
    }
    qb_free(bytes);
}

static void failed_save_leaves_no_file_and_the_old_one(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char folder[QB_TEST_PATH], path[QB_TEST_PATH];
    qb_test_temp_dir(folder);
    qb_test_join(path, folder, "missing/net.calib.h5");
    qb_table *table = make_table(&cx);
    assert_fails(&cx, qb_table_save(&cx, table, path), QB_STATUS_NOTFOUND);
    assert_message(&cx, "missing/net.calib.h5");
    qb_test_join(path, folder, "net.calib.h5");
    assert_ok(&cx, qb_table_save(&cx, table, path));
    char *name = table->entry[0].name;
    table->entry[0].name = malloc(6000);
    memset(table->entry[0].name, 'x', 5999);
    table->entry[0].name[5999] = '\0';
    assert_fails(&cx, qb_table_save(&cx, table, path), QB_STATUS_UNSUPPORTED);
    free(table->entry[0].name);
    table->entry[0].name = name;
    qb_table *old;
    assert_ok(&cx, qb_table_load(&cx, path, &old));
    assert_int_equal(qb_test_count_files(folder), 1);
    qb_table_free(old);
    qb_table_free(table);
    assert_ok(&cx, qb_table_create(&cx, 0, &table));
    assert_fails(&cx, qb_table_save(&cx, table, path), QB_STATUS_INVALID);
    qb_table_free(table);
}

static qb_status load_and_save(qb_ctx *cx, void *path) {
    qb_table *table = NULL;
    QB_TRY(qb_table_load(cx, path, &table));
    qb_status status = qb_table_save(cx, table, path);
    qb_table_free(table);
    return status;
}

static void every_failing_allocation_is_survived(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    save_new(&cx, path);
    assert_true(qb_test_alloc_sweep(load_and_save, path) > 20);
}

/* What was read before it was cut off lies before `next`: the samples and those left out. */
static void a_checkpoint_goes_on_where_it_ended(void **state) {
    (void)state;
    static const char *const next[] = {"9\n", "7\n", "8\n", "0\n"}; /* the first one is right */
    qb_ctx cx;
    char path[QB_TEST_PATH], *bytes;
    size_t size;
    qb_ctx_init(&cx);
    qb_table *made = make_table(&cx);
    const qb_loader_progress progress = {.next = N_SAMPLES + 2, .samples = N_SAMPLES, .skipped = 2};
    in_temp(path, "net.calib.h5.part");
    uint64_t seen[N_SAMPLES + 2];
    for (uint64_t i = 0; i < N_SAMPLES + 2; i++) seen[i] = i % 4 ? i << 40 | 7 : 0;
    assert_ok(&cx, qb_checkpoint_save(&cx, path, made->model_hash, &progress, seen, made));
    assert_ok(&cx, qb_file_read(&cx, path, (size_t)1 << 24, &bytes, &size));
    char *at = strstr(bytes, "next 9\n");
    assert_non_null(at);
    for (size_t i = 0; i < sizeof next / sizeof *next; i++) {
        qb_loader_progress got;
        qb_table *read = NULL;
        qb_hash plan;
        uint64_t *again = NULL;
        memcpy(at + strlen("next "), next[i], strlen(next[i]));
        const qb_status status = qb_checkpoint_parse(
            &cx, "net.calib.h5.part", (const uint8_t *)bytes, size, &plan, &got, &again, &read);
        assert_int_equal(status, i == 0 ? QB_OK : QB_STATUS_FORMAT);
        if (i == 0) assert_int_equal(got.next, N_SAMPLES + 2);
        if (i == 0) assert_memory_equal(again, seen, sizeof seen);
        if (i > 0) assert_message(&cx, "net.calib.h5.part: damaged: ");
        qb_ctx_clear(&cx);
        qb_table_free(read);
        qb_free(again);
    }
    memcpy(at, "next 9", 6);
    for (size_t i = 512; i < 512 + sizeof seen; i += 5) { /* any bit of the samples */
        qb_loader_progress got;
        qb_table *read = NULL;
        qb_hash plan;
        uint64_t *again = NULL;
        bytes[i] = (char)(bytes[i] ^ 16);
        assert_int_equal(qb_checkpoint_parse(&cx, "net.calib.h5.part", (const uint8_t *)bytes, size,
                                             &plan, &got, &again, &read),
                         QB_STATUS_FORMAT);
        assert_message(&cx, "net.calib.h5.part: damaged: the samples that were read");
        qb_ctx_clear(&cx);
        bytes[i] = (char)(bytes[i] ^ 16);
    }
    qb_free(bytes);
    qb_table_free(made);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(round_trip_keeps_everything),
    cmocka_unit_test(same_table_gives_the_same_bytes),
    cmocka_unit_test(entries_and_methods_are_found_by_name),
    cmocka_unit_test(methods_can_be_chosen_again_without_data),
    cmocka_unit_test(another_model_is_a_mismatch_that_names_both),
    cmocka_unit_test(any_cut_or_flipped_bit_is_noticed),
    cmocka_unit_test(other_files_are_refused_by_name),
    cmocka_unit_test(wrong_content_is_refused_by_field),
    cmocka_unit_test(failed_save_leaves_no_file_and_the_old_one),
    cmocka_unit_test(every_failing_allocation_is_survived),
    cmocka_unit_test(a_checkpoint_goes_on_where_it_ended),
};

QB_TEST_MAIN(tests)
