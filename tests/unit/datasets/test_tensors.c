/* Samples of tensors: the file kinds, the data sets made of them, and how they meet a model's
 * inputs.
 */
#include "datasets/tensors.h"

#include <stdlib.h>
#include <string.h>

#include <hdf5.h>
#include <zlib.h>

#include "datasets/loader.h"
#include "fixture.h"

#define SAMPLES 5
#define LENGTH 3

static char folder[QB_TEST_PATH];

static int make_folder(void **state) {
    (void)state;
    qb_test_temp_dir(folder);
    return 0;
}

/* ---- files ---- */

typedef struct bytes {
    uint8_t data[8192];
    size_t size;
} bytes;

static void append(bytes *b, const void *data, size_t n) {
    assert_true(b->size + n <= sizeof b->data);
    memcpy(b->data + b->size, data, n);
    b->size += n;
}

static void append_number(bytes *b, uint64_t value, int n) {
    for (int i = 0; i < n; i++, value >>= 8) append(b, &(uint8_t){(uint8_t)value}, 1);
}

/* As numpy.save writes it: header padded to 64 bytes. */
static bytes npy(const char *descr, const char *shape, const void *data, size_t size) {
    bytes b = {.size = 0};
    char header[128];
    int n = snprintf(header, sizeof header,
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);
    while ((10 + n + 1) % 64 != 0) header[n++] = ' ';
    header[n++] = '\n';
    append(&b, "\x93NUMPY\1\0", 8);
    append_number(&b, (uint64_t)n, 2);
    append(&b, header, (size_t)n);
    append(&b, data, size);
    return b;
}

typedef struct member {
    const char *name;
    bytes content;
} member;

static bytes zip(const member *members, int n, bool deflated) {
    bytes b = {.size = 0}, directory = {.size = 0};
    for (int i = 0; i < n; i++) {
        const bytes *c = &members[i].content;
        uint8_t packed[8192];
        z_stream z = {.next_in = (Bytef *)(uintptr_t)c->data,
                      .avail_in = (uInt)c->size,
                      .next_out = packed,
                      .avail_out = sizeof packed};
        assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        deflateEnd(&z);
        const size_t size = deflated ? z.total_out : c->size, at = b.size;
        bytes common = {.size = 0};
        append_number(&common, 20, 2);
        append_number(&common, 0, 2);
        append_number(&common, deflated ? 8 : 0, 2);
        append_number(&common, 0, 4);
        append_number(&common, crc32(0, c->data, (uInt)c->size), 4);
        append_number(&common, size, 4);
        append_number(&common, c->size, 4);
        append_number(&common, strlen(members[i].name), 2);
        append_number(&common, 0, 2);
        append(&b, "PK\3\4", 4);
        append(&b, common.data, common.size);
        append(&b, members[i].name, strlen(members[i].name));
        append(&b, deflated ? packed : c->data, size);
        append(&directory, "PK\1\2\24\0", 6);
        append(&directory, common.data, common.size);
        append_number(&directory, 0, 10);
        append_number(&directory, at, 4);
        append(&directory, members[i].name, strlen(members[i].name));
    }
    const size_t begin = b.size;
    append(&b, directory.data, directory.size);
    append(&b, "PK\5\6\0\0\0\0", 8);
    append_number(&b, (uint64_t)n, 2);
    append_number(&b, (uint64_t)n, 2);
    append_number(&b, directory.size, 4);
    append_number(&b, begin, 4);
    append_number(&b, 0, 2);
    return b;
}

static void write_bytes(const char *name, const bytes *b) {
    fixture_write(folder, name, b->data, b->size);
}

/* ---- the data of most tests: ids int64 [N, 3], mask f32 [N, 3], labels ---- */

static int64_t ids[SAMPLES][LENGTH];
static float mask[SAMPLES][LENGTH];
static uint8_t classes[SAMPLES];

static void fill(void) {
    for (int i = 0; i < SAMPLES; i++) {
        classes[i] = (uint8_t)(2 * i);
        for (int k = 0; k < LENGTH; k++) {
            ids[i][k] = ((int64_t)1 << 40) + 10 * i + k;
            mask[i][k] = (float)i + (float)k / 4;
        }
    }
}

static const qb_input_spec specs[2] = {{"ids", QB_DTYPE_S64, {2, {-2, -3}}},
                                       {"mask", QB_DTYPE_F32, {2, {-2, -3}}}};

static qb_loader_options loader_for(const qb_dataset *set) {
    qb_loader_options o = {
        .dataset = set, .n_inputs = 2, .batch = 2, .threads = 2, .prefetch = 1, .strict = true};
    memcpy(o.input, specs, sizeof specs);
    return o;
}

/* Loads folder/name and checks every sample; returns the content's hash. */
static qb_hash check_set(const char *name, const char *format, bool labelled) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, name);
    qb_dataset *set;
    assert_ok(&cx, qb_dataset_open(&cx, path, NULL, &set));
    assert_string_equal(qb_dataset_format_name(set), format);
    assert_true(qb_dataset_has_tensors(set));
    assert_int_equal(qb_dataset_has_labels(set), labelled);
    const qb_loader_options o = loader_for(set);
    qb_loader *loader;
    assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
    int n = 0;
    for (;;) {
        qb_batch batch;
        assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
        if (batch.n == 0) break;
        assert_int_equal(batch.n_inputs, 2);
        assert_null(batch.data);
        for (int i = 0; i < batch.n; i++, n++) {
            const qb_tensor *input = batch.input + 2 * i;
            const qb_shape shape = qb_shape_of(2, 1, LENGTH);
            assert_true(qb_shape_equal(&input[0].desc.shape, &shape));
            assert_true(qb_shape_equal(&input[1].desc.shape, &shape));
            assert_memory_equal(input[0].data, ids[n], sizeof ids[n]);
            assert_memory_equal(input[1].data, mask[n], sizeof mask[n]);
            assert_int_equal(batch.label[i], labelled ? classes[n] : -1);
        }
        qb_loader_give_back(loader, &batch);
    }
    assert_int_equal(n, SAMPLES);
    const qb_hash hash = qb_loader_hash(loader);
    qb_loader_free(loader);
    qb_dataset_close(set);
    return hash;
}

static void write_h5(const char *name) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, name);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t dim[2] = {SAMPLES, LENGTH};
    const struct {
        const char *name;
        int rank;
        hid_t type, memory;
        const void *data;
    } sets[] = {{"ids", 2, H5T_STD_I64BE, H5T_NATIVE_INT64, ids},
                {"labels", 1, H5T_STD_U8LE, H5T_NATIVE_UINT8, classes},
                {"mask", 2, H5T_IEEE_F64LE, H5T_NATIVE_FLOAT, mask}};
    for (int i = 0; i < 3; i++) {
        hid_t space = H5Screate_simple(sets[i].rank, dim, NULL);
        hid_t set = H5Dcreate2(file, sets[i].name, sets[i].type, space, H5P_DEFAULT, H5P_DEFAULT,
                               H5P_DEFAULT);
        assert_true(H5Dwrite(set, sets[i].memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, sets[i].data) >=
                    0);
        H5Dclose(set);
        H5Sclose(space);
    }
    H5Fclose(file);
}

/* One content in every kind of file: the same values, labels and hash. */
static void all_kinds_of_files_give_the_same(void **state) {
    (void)state;
    fill();
    char name[64];
    member all[] = {{"mask.npy", npy("<f4", "(5, 3)", mask, sizeof mask)},
                    {"labels.npy", npy("|u1", "(5,)", classes, sizeof classes)},
                    {"ids.npy", npy("<i8", "(5, 3)", ids, sizeof ids)}};
    for (int k = 0; k < 2; k++) {
        const bytes b = zip(all, 3, k == 1);
        write_bytes(k ? "deflated.npz" : "stored.npz", &b);
    }
    write_h5("set.h5");
    fixture_folder(folder, "files");
    fixture_folder(folder, "samples");
    fixture_folder(folder, "raw");
    char list[512] = "";
    for (int i = 0; i < SAMPLES; i++) {
        const member one[] = {{"mask.npy", npy("<f4", "(1, 3)", mask[i], sizeof mask[i])},
                              {"ids.npy", npy("<i8", "(3,)", ids[i], sizeof ids[i])}};
        bytes b = zip(one, 2, i % 2);
        snprintf(name, sizeof name, "files/%d.npz", i);
        write_bytes(name, &b);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s\t%d\n", name, classes[i]);
        snprintf(name, sizeof name, "samples/%d", i);
        fixture_folder(folder, name);
        for (int k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "samples/%d/%s", i, one[k].name);
            write_bytes(name, &one[k].content);
        }
        snprintf(name, sizeof name, "raw/%d", i);
        fixture_folder(folder, name);
        snprintf(name, sizeof name, "raw/%d/ids.bin", i);
        fixture_write(folder, name, ids[i], sizeof ids[i]);
        snprintf(name, sizeof name, "raw/%d/mask.bin", i);
        fixture_write(folder, name, mask[i], sizeof mask[i]);
    }
    fixture_text(folder, "list.txt", list);
    const qb_hash hash = check_set("stored.npz", "numpy", true);
    assert_true(qb_hash_equal(check_set("deflated.npz", "numpy", true), hash));
    assert_true(qb_hash_equal(check_set("set.h5", "hdf5", true), hash));
    assert_true(qb_hash_equal(check_set("list.txt", "list_file", true), hash));
    assert_true(qb_hash_equal(check_set("files", "tensor_folder", false), hash));
    assert_true(qb_hash_equal(check_set("samples", "sample_folder", false), hash));
    assert_true(qb_hash_equal(check_set("raw", "sample_folder", false), hash));
}

/* Folders whose files have different names are classes, not samples. */
static void class_folders_of_tensors(void **state) {
    (void)state;
    const float v[2] = {1, 2};
    const bytes b = npy("<f4", "(2,)", v, sizeof v);
    fixture_folder(folder, "set");
    fixture_folder(folder, "set/no");
    fixture_folder(folder, "set/yes");
    write_bytes("set/no/a.npy", &b);
    write_bytes("set/yes/b.npy", &b);
    write_bytes("set/yes/c.npy", &b);
    qb_ctx cx;
    qb_ctx_init(&cx);
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, "set");
    qb_dataset *set;
    assert_ok(&cx, qb_dataset_open(&cx, path, NULL, &set));
    assert_string_equal(qb_dataset_format_name(set), "class_folder");
    assert_int_equal(qb_dataset_count(set), 3);
    assert_int_equal(qb_dataset_label(set, 0), 0);
    assert_int_equal(qb_dataset_label(set, 2), 1);
    qb_image image;
    assert_fails(&cx, qb_dataset_read(&cx, set, 0, &image, NULL), QB_STATUS_INVALID);
    assert_message(&cx, "its samples are tensors, expected images");
    qb_dataset_close(set);
}

/* ONNX's test data: real files, the inputs in the order of their numbers. */
static void onnx_test_data(void **state) {
    (void)state;
    char path[QB_TEST_PATH];
    qb_test_need_shared(path, "models/testdata/mnist");
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set;
    assert_ok(&cx, qb_dataset_open(&cx, path, NULL, &set));
    assert_string_equal(qb_dataset_format_name(set), "test_data");
    assert_int_equal(qb_dataset_count(set), 10);
    assert_string_equal(qb_dataset_sample_name(set, 9), "test_data_set_9");
    qb_tensors tensors;
    assert_ok(&cx, qb_dataset_read_tensors(&cx, set, 9, &tensors));
    const qb_shape shape = qb_shape_of(4, 1, 1, 28, 28);
    assert_int_equal(tensors.n, 1);
    assert_true(qb_shape_equal(&tensors.item[0].tensor.desc.shape, &shape));
    qb_tensors_release(&tensors);
    qb_dataset_close(set);
}

/* ---- binding ---- */

typedef struct sample {
    qb_tensors tensors;
    qb_tensor bound[2];
} sample;

static qb_status bind(qb_ctx *cx, sample *s, const qb_input_spec *spec, int n, const bytes *file,
                      const char *name) {
    char path[QB_TEST_PATH];
    fixture_write(folder, name, file->data, file->size);
    qb_test_join(path, folder, name);
    *s = (sample){0};
    assert_ok(cx, qb_tensor_file_read(cx, path, &s->tensors));
    qb_status status = qb_tensors_bind(cx, spec, n, &s->tensors, s->bound);
    qb_tensors_release(&s->tensors);
    return status;
}

static void expect_bind_error(const qb_input_spec *spec, int n, const bytes *file, const char *name,
                              const char *message) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    sample s;
    assert_fails(&cx, bind(&cx, &s, spec, n, file, name), QB_STATUS_INVALID);
    assert_message(&cx, message);
}

static void misfits_name_both_sides(void **state) {
    (void)state;
    const float v[6] = {1, 2, 3, 4, 5, 6};
    const bytes a = npy("<f4", "(2, 3)", v, sizeof v);
    const qb_input_spec wrong = {"x", QB_DTYPE_F32, {2, {2, 4}}},
                        id = {"x", QB_DTYPE_S64, {2, {2, 3}}};
    expect_bind_error(&wrong, 1, &a, "a.npy", "input 'x': expected shape 2x4, got 2x3");
    expect_bind_error(&id, 1, &a, "a.npy", "input 'x': expected s64, got f32");
    expect_bind_error(specs, 2, &a, "a.npy", "the model has 2 inputs, the sample 1 tensors");
    const member other[] = {{"ids.npy", a}, {"masc.npy", a}};
    const bytes z = zip(other, 2, false);
    expect_bind_error(&specs[1], 1, &z, "z.npz",
                      "no tensor for the model's input 'mask'; the sample has: ids, masc");
    const bytes raw = {.data = {0}, .size = 20};
    expect_bind_error(&wrong, 1, &raw, "r.bin", "input 'x': expected 32 bytes (2x4 f32), got 20");
    const qb_input_spec open = {"x", QB_DTYPE_F32, {3, {-2, -3, -4}}};
    expect_bind_error(&open, 1, &raw, "r.bin", "raw bytes need a known shape");
    const int64_t large = 300;
    const bytes i64 = npy("<i8", "(1,)", &large, sizeof large);
    const qb_input_spec u8 = {"x", QB_DTYPE_U8, {1, {1}}};
    expect_bind_error(&u8, 1, &i64, "i.npy", "input 'x': 300 does not fit into u8");
}

static void values_convert_where_they_keep_their_meaning(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    sample s;
    const double f64[2] = {0.5, -3};
    const int32_t s32[2] = {-7, 1 << 30};
    const qb_input_spec real = {"x", QB_DTYPE_F32, {2, {-1, 2}}},
                        id = {"x", QB_DTYPE_S64, {1, {-2}}};
    const bytes a = npy("<f8", "(2,)", f64, sizeof f64), b = npy("<i4", "(2,)", s32, sizeof s32);
    assert_ok(&cx, bind(&cx, &s, &real, 1, &a, "a.npy"));
    const float expected[2] = {0.5f, -3};
    assert_memory_equal(s.bound[0].data, expected, sizeof expected);
    assert_int_equal(s.bound[0].desc.shape.rank, 2);
    qb_free(s.bound[0].data);
    assert_ok(&cx, bind(&cx, &s, &id, 1, &b, "b.npy"));
    const int64_t wide[2] = {-7, 1 << 30};
    assert_memory_equal(s.bound[0].data, wide, sizeof wide);
    qb_free(s.bound[0].data);
    const bytes raw = {.data = {0}, .size = 24};
    assert_ok(&cx, bind(&cx, &s, &real, 1, &(bytes){.data = {0}, .size = 8}, "r.bin"));
    qb_free(s.bound[0].data);
    assert_ok(&cx, bind(&cx, &s, &specs[1], 1, &raw, "r.bin")); /* the open axis follows */
    assert_int_equal(s.bound[0].desc.shape.dim[1], 6);
    qb_free(s.bound[0].data);
}

/* ---- damage ---- */

static void expect_file_error(const char *name, const bytes *b, qb_status status,
                              const char *message) {
    char path[QB_TEST_PATH];
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_tensors tensors = {0};
    write_bytes(name, b);
    qb_test_join(path, folder, name);
    assert_fails(&cx, qb_tensor_file_read(&cx, path, &tensors), status);
    assert_message(&cx, message);
    assert_int_equal(tensors.n, 0);
}

static void damaged_files_are_errors(void **state) {
    (void)state;
    fill();
    bytes a = npy("<f4", "(5, 3)", mask, sizeof mask);
    bytes cut = a;
    cut.size -= 4;
    expect_file_error("a.npy", &cut, QB_STATUS_FORMAT, "expected 60 bytes, got 56");
    cut.size = 40;
    expect_file_error("a.npy", &cut, QB_STATUS_FORMAT, "truncated");
    const bytes big = npy(">f4", "(5, 3)", mask, sizeof mask);
    expect_file_error("a.npy", &big, QB_STATUS_UNSUPPORTED, "little-endian");
    const bytes huge = npy("<f4", "(281474976710656, 281474976710656)", mask, sizeof mask);
    expect_file_error("a.npy", &huge, QB_STATUS_FORMAT, "got 60");
    for (int deflated = 0; deflated < 2; deflated++) {
        const member one = {"x.npy", a};
        bytes z = zip(&one, 1, deflated);
        z.data[60] ^= 1; /* in the array */
        expect_file_error("z.npz", &z, QB_STATUS_FORMAT, deflated ? "array 'x.npy'" : "checksum");
        z = zip(&one, 1, deflated);
        z.size -= 30;
        expect_file_error("z.npz", &z, QB_STATUS_FORMAT, "no directory at the end");
        const member twice[] = {one, one};
        z = zip(twice, 2, deflated);
        expect_file_error("z.npz", &z, QB_STATUS_FORMAT, "two arrays of one name");
    }
}

/* A header with any version and dictionary, before 24 bytes of elements. */
static bytes npy_of(uint8_t version, const char *dictionary) {
    bytes b = {.size = 0};
    append(&b, "\x93NUMPY", 6);
    append_number(&b, version, 2);
    append_number(&b, strlen(dictionary), version == 1 ? 2 : 4);
    append(&b, dictionary, strlen(dictionary));
    append_number(&b, 0, 24);
    return b;
}

static void headers_are_checked(void **state) {
    (void)state;
    static const struct {
        uint8_t version;
        const char *dictionary, *says; /* NULL: it is read */
    } rows[] = {
        {1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", NULL},
        {2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", NULL},
        {3, "{\"shape\" : (2L, 3L), \"descr\": \"<f4\", \"fortran_order\": False}", NULL},
        {1, "{'descr': '|i1', 'fortran_order': True, 'shape': (24,)}", NULL},
        {1, "{'descr': '<i1', 'fortran_order': False, 'shape': (24,)}", NULL},
        {1, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}", NULL},
        {0, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "unknown version"},
        {4, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "unknown version"},
        {1, "", "expected one 'descr'"},
        {1, "descr: '<f4'", "expected one 'descr'"},
        {1, "{'descr' '<f4', 'shape': (6,)}", "expected one 'descr'"},
        {1, "{'descr\": '<f4', 'shape': (6,)}", "expected one 'descr'"},
        {1, "{'descr': '<f4', 'descr': '<f4', 'shape': (6,)}", "expected one 'descr'"},
        {1, "{'descr': <f4, 'shape': (6,)}", "expected one 'descr'"},
        {1, "{'descr': '", "elements of type"},
        {1, "{'descr': '<f4\", 'shape': (6,)}", "elements of type '<f4\""},
        {1, "{'descr': '>i8', 'shape': (6,)}", "elements of type '>i8'"},
        {1, "{'descr': '>u1', 'shape': (24,)}", "elements of type '>u1'"},
        {1, "{'descr': '<c8', 'shape': (3,)}", "elements of type '<c8'"},
        {1, "{'descr': '<U1', 'shape': (6,)}", "elements of type '<U1'"},
        {1, "{'descr': '<f4'}", "expected one 'shape'"},
        {1, "{'descr': '<f4', 'shape': 6}", "expected one 'shape'"},
        {1, "{'descr': '<f4', 'shape': (", "no tuple of numbers"},
        {1, "{'descr': '<f4', 'shape': (6.0,)}", "no tuple of numbers"},
        {1, "{'descr': '<f4', 'shape': (+6,)}", "no tuple of numbers"},
        {1, "{'descr': '<f4', 'shape': (1,1,1,1,1,1,1,1,6)}", "more than 8 dimensions"},
        {1, "{'descr': '<f4', 'shape': (281474976710657,)}", "a dimension is too large"},
        {1, "{'descr': '<f4', 'shape': (99999999999999999999,)}", "a dimension is too large"},
        {1, "{'descr': '<f4', 'shape': (6,)}", "expected one 'fortran_order'"},
        {1, "{'descr': '<f4', 'shape': (6,), 'fortran_order': 0}", "neither True nor False"},
        {1, "{'descr': '<f4', 'shape': (6,), 'fortran_order': False_}", NULL},
        {1, "{'descr': '<f4', 'shape': (6,), 'fortran_order': Truer}", "neither True nor False"},
        {1, "{'descr': '<f4', 'shape': (6,), 'fortran_order': elsaF}", "neither True nor False"},
        {1, "{'descr': '<f4', 'shape': (2, 3), 'fortran_order': True}", "column-major"},
        {1, "{'descr': '<f4', 'shape': (7,), 'fortran_order': True}", "expected 28 bytes, got 24"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bytes b = npy_of(rows[i].version, rows[i].dictionary);
        char path[QB_TEST_PATH];
        qb_ctx cx;
        qb_tensors tensors = {0};
        qb_ctx_init(&cx);
        write_bytes("h.npy", &b);
        qb_test_join(path, folder, "h.npy");
        const qb_status status = qb_tensor_file_read(&cx, path, &tensors);
        if ((status == QB_OK) != (rows[i].says == NULL)) fail_msg("row %zu: %s", i, cx.message);
        if (status != QB_OK) assert_message(&cx, rows[i].says);
        if (status != QB_OK) assert_message(&cx, "h.npy");
        qb_tensors_release(&tensors);
    }
    const bytes small = {.data = {0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 1, 0}, .size = 10};
    expect_file_error("h.npy", &small, QB_STATUS_FORMAT, "unknown version");
    bytes long_one = npy_of(2, "{'descr': '<f4'}");
    long_one.data[10] = 1; /* a header of 64 KiB and more */
    expect_file_error("h.npy", &long_one, QB_STATUS_FORMAT, "truncated");
}

/* One byte, or more, of the directory's entry, or of what it leads to. */
static void entries_are_checked(void **state) {
    (void)state;
    fill();
    const member one = {"x.npy", npy("<f4", "(5, 3)", mask, sizeof mask)};
    for (int deflated = 0; deflated < 2; deflated++) {
        const bytes good = zip(&one, 1, deflated);
        const size_t end = good.size - 22, entry = end - 46 - strlen(one.name);
        const struct {
            size_t at;
            uint64_t value;
            int n;
            const char *says;
        } rows[] = {
            {0, 0, 1, "no local header where the directory says"},
            {entry, 0, 1, "truncated directory"},
            {entry + 8, 1, 1, "encrypted"},
            {entry + 10, 1, 2, "ZIP method 1"},      /* a method that nobody knows */
            {entry + 16, 1, 4, "array 'x"},          /* another checksum */
            {entry + 20, 0, 4, "array 'x"},          /* packed to nothing */
            {entry + 20, 1 << 20, 4, "truncated"},   /* packed beyond the file */
            {entry + 24, 0xfffffffe, 4, "array 'x"}, /* unpacked to 4 GB */
            {entry + 24, 4, 4, "array 'x"},          /* to less than a header */
            {entry + 28, 0xffff, 2, "truncated directory"},
            {entry + 30, 0xffff, 2, "truncated directory"},
            {entry + 32, 0xffff, 2, "truncated directory"},
            {entry + 42, 1, 4, "no local header where the directory says"},
            {entry + 42, 0xfffffff0, 4, "no local header where the directory says"},
            {entry + 46, 0, 1, "an array's name"},
            {26, 0xffff, 2, "truncated"}, /* the local name */
            {28, 0xffff, 2, "truncated"}, /* the local extra field */
            {end + 12, 0xffffff, 4, "directory"},
            {end + 16, 0xffffff, 4, "directory"},
            {end + 8, 9, 2, "directory"},
        };
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            bytes b = good, patch = {.size = 0};
            append_number(&patch, rows[i].value, rows[i].n);
            memcpy(b.data + rows[i].at, patch.data, patch.size);
            char path[QB_TEST_PATH];
            qb_ctx cx;
            qb_tensors tensors = {0};
            qb_ctx_init(&cx);
            write_bytes("e.npz", &b);
            qb_test_join(path, folder, "e.npz");
            if (qb_tensor_file_read(&cx, path, &tensors) == QB_OK)
                fail_msg("row %zu was read, deflated %d", i, deflated);
            assert_message(&cx, rows[i].says);
            assert_message(&cx, "e.npz");
        }
    }
}

/* Sizes of 64 bits, as numpy writes them for members that may be large, behind fields that are none
 * of ours. */
static void wide_sizes_are_read(void **state) {
    (void)state;
    fill();
    const member one = {"x.npy", npy("<f4", "(5, 3)", mask, sizeof mask)};
    const bytes plain = zip(&one, 1, false);
    const size_t end = plain.size - 22, entry = end - 46 - strlen(one.name);
    for (int fields = 0; fields <= 3; fields++) {
        bytes b = {.size = 0}, extra = {.size = 0};
        append_number(&extra, 0x5455, 2);
        append_number(&extra, 1, 2);
        append_number(&extra, 0, 1);
        append_number(&extra, 1, 2);
        append_number(&extra, (uint64_t)(8 * fields), 2);
        const uint64_t wide[] = {one.content.size, one.content.size, 0};
        for (int i = 0; i < fields; i++) append_number(&extra, wide[i], 8);
        append(&b, plain.data, end);
        memset(b.data + entry + 20, 0xff, 8); /* both sizes, and the offset */
        memset(b.data + entry + 42, 0xff, 4);
        b.data[entry + 30] = (uint8_t)extra.size;
        append(&b, extra.data, extra.size);
        append(&b, plain.data + end, 22);
        b.data[b.size - 10] = (uint8_t)(46 + strlen(one.name) + extra.size);
        char path[QB_TEST_PATH];
        qb_ctx cx;
        qb_tensors tensors = {0};
        qb_ctx_init(&cx);
        write_bytes("w.npz", &b);
        qb_test_join(path, folder, "w.npz");
        const qb_status status = qb_tensor_file_read(&cx, path, &tensors);
        if ((status == QB_OK) != (fields == 3)) fail_msg("%d fields: %s", fields, cx.message);
        if (fields == 3) assert_memory_equal(tensors.item[0].tensor.data, mask, sizeof mask);
        qb_tensors_release(&tensors);
    }
}

/* A damaged sample among others: named, counted and left out; with `strict` it ends the run. */
static void damaged_samples_are_skipped(void **state) {
    (void)state;
    fixture_folder(folder, "files");
    for (int i = 0; i < 4; i++) {
        const float v[2] = {(float)i, 1};
        bytes b = npy("<f4", "(1, 2)", v, sizeof v);
        if (i == 2) b.size -= 3;
        char name[32];
        snprintf(name, sizeof name, "files/%d.npy", i);
        write_bytes(name, &b);
    }
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, "files");
    for (int strict = 0; strict < 2; strict++) {
        qb_ctx cx;
        qb_ctx_init(&cx);
        qb_dataset *set;
        qb_loader *loader;
        qb_batch batch;
        assert_ok(&cx, qb_dataset_open(&cx, path, NULL, &set));
        qb_loader_options o = {.dataset = set,
                               .n_inputs = 1,
                               .input = {{"x", QB_DTYPE_F32, {2, {-2, 2}}}},
                               .batch = 4,
                               .threads = 2,
                               .prefetch = 1,
                               .strict = strict};
        assert_ok(&cx, qb_loader_create(&cx, &o, &loader));
        if (strict) {
            assert_fails(&cx, qb_loader_next(&cx, loader, &batch), QB_STATUS_FORMAT);
            assert_message(&cx, "sample '2.npy'");
        } else {
            assert_ok(&cx, qb_loader_next(&cx, loader, &batch));
            assert_int_equal(batch.n, 3);
            assert_int_equal(batch.index[2], 3);
            assert_int_equal(qb_loader_skipped(loader), 1);
        }
        qb_loader_free(loader);
        qb_dataset_close(set);
    }
}

static qb_status load_once(qb_ctx *cx, void *user) {
    char path[QB_TEST_PATH];
    qb_test_join(path, folder, user);
    qb_tensors tensors = {0};
    qb_tensor bound[2] = {{.data = NULL}, {.data = NULL}};
    qb_status status = qb_tensor_file_read(cx, path, &tensors);
    if (status == QB_OK) status = qb_tensors_bind(cx, specs, 2, &tensors, bound);
    for (int i = 0; i < 2; i++) qb_free(bound[i].data);
    qb_tensors_release(&tensors);
    return status;
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    fill();
    const member one[] = {{"mask.npy", npy("<f4", "(1, 3)", mask[0], sizeof mask[0])},
                          {"ids.npy", npy("<i4", "(3,)", ids[0], 12)}};
    const bytes b = zip(one, 2, true);
    write_bytes("x.npz", &b);
    assert_true(qb_test_alloc_sweep(load_once, "x.npz") >= 8);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(all_kinds_of_files_give_the_same, make_folder),
    cmocka_unit_test_setup(class_folders_of_tensors, make_folder),
    cmocka_unit_test(onnx_test_data),
    cmocka_unit_test_setup(misfits_name_both_sides, make_folder),
    cmocka_unit_test_setup(values_convert_where_they_keep_their_meaning, make_folder),
    cmocka_unit_test_setup(damaged_files_are_errors, make_folder),
    cmocka_unit_test_setup(headers_are_checked, make_folder),
    cmocka_unit_test_setup(entries_are_checked, make_folder),
    cmocka_unit_test_setup(wide_sizes_are_read, make_folder),
    cmocka_unit_test_setup(damaged_samples_are_skipped, make_folder),
    cmocka_unit_test_setup(every_failed_allocation_is_reported, make_folder),
};
QB_TEST_MAIN(tests)
