/* Files of other tools are named by what they begin with. */
#include <string.h>

#include "base/file_kind.h"
#include "qb_test.h"

#define BYTES(TEXT) TEXT, sizeof(TEXT) - 1

static void kinds_by_their_bytes(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } rows[] = {
        {BYTES("\x89QBE\r\n\x1a\n\3\0\0\0"), "an engine file of qbench"},
        {BYTES("qbench calibration table 1\n"), "a calibration of qbench"},
        {BYTES("ftrt\0\0\0\0\xef\0\0\0"), "an engine of TensorRT"},
        {BYTES("ptrt\0\0\0\0"), "an engine of an old TensorRT"},
        {BYTES("TRT-8601-EntropyCalibration2\ndata: 3c010a14\n"),
         "a calibration cache of TensorRT"},
        {BYTES("\x24\0\0\0ORTM\0\0"), "a model in onnxruntime's ORT format"},
        {BYTES("\x1c\0\0\0TFL3\x14\0"), "a TensorFlow Lite model"},
        {BYTES("<?xml version=\"1.0\"?>\n<net name=\"torch_jit\" version=\"11\">"),
         "an OpenVINO model"},
        {BYTES("7767517\n3 3\nInput data 0 1 data\n"), "an ncnn model"},
        {BYTES("GGUF\3\0\0\0"), "a GGUF model"},
        {BYTES("\x48\0\0\0\0\0\0\0{\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[2]"),
         "weights in safetensors form"},
        {BYTES("PK\3\4\0\0\x08\x08\0\0net/data.pkl"), "a PyTorch file"},
        {BYTES("\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M"), "a file of an old PyTorch"},
        {BYTES("PK\3\4\x14\0metadata.json ... model.weights.h5"), "a Keras model"},
        {BYTES("PK\3\4\x14\0x.npy"), "numpy arrays"},
        {BYTES("PK\3\4\x14\0readme.txt"), "a zip archive"},
        {BYTES("\x89HDF\r\n\x1a\n\0"), "an HDF5 file"},
        {BYTES("\x1f\x8b\x08\0"), "compressed with gzip"},
        {BYTES("\x28\xb5\x2f\xfd\4"), "compressed with zstd"},
        {BYTES("\xfd\x37zXZ\0\0"), "compressed with xz"},
        {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
         "a pointer of Git LFS instead of the file"},
        {BYTES("<!DOCTYPE html><html>"), "a web page"},
        {BYTES("{\"input\": \"data\"}"), "JSON text"},
        {BYTES("\x89PNG\r\n\x1a\n"), "an image"},
        {BYTES("\xff\xd8\xff\xe0"), "an image"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const qb_file_kind *kind = qb_file_kind_of(rows[i].bytes, rows[i].n);
        assert_non_null(kind);
        assert_string_equal(kind->what, rows[i].what);
        assert_true(strlen(kind->advice) > 0);
    }
}

/* An ONNX file has no mark of its own, so nothing that it can begin with may be one. */
static void models_noise_and_the_beginnings_of_marks_are_of_no_kind(void **state) {
    (void)state;
    assert_null(qb_file_kind_of(BYTES("\x08\x07\x12\x07pytorch\x1a\x05")));
    assert_null(qb_file_kind_of(BYTES("\x3a\x10\x0a\x04Relu")));
    assert_null(qb_file_kind_of(BYTES("<?xml version=\"1.0\"?><svg>")));
    assert_null(qb_file_kind_of(BYTES("ftr")));
    assert_null(qb_file_kind_of(NULL, 0));
}

static void errors_name_the_kind_where_it_is_known(void **state) {
    (void)state;
    qb_ctx cx;
    qb_ctx_init(&cx);
    assert_fails(&cx, qb_fail_kind(&cx, "no model", BYTES("\x1f\x8b\x08")), QB_STATUS_FORMAT);
    assert_message(&cx, "no model: it is compressed with gzip: unpack it: gunzip FILE");
    assert_fails(&cx, qb_fail_kind(&cx, "no model", BYTES("noise")), QB_STATUS_FORMAT);
    assert_string_equal(cx.message, "no model");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(kinds_by_their_bytes),
    cmocka_unit_test(models_noise_and_the_beginnings_of_marks_are_of_no_kind),
    cmocka_unit_test(errors_name_the_kind_where_it_is_known),
};
QB_TEST_MAIN(tests)
