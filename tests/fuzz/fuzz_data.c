/* The readers of data sets and of tensor files: the bytes as a file of each kind, opened, listed
 * and read to the end. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hdf5.h>

#include "base/file.h"
#include "datasets/dataset.h"

#define SAMPLES_READ 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__lsan_default_suppressions(void);

/* HDF5 1.10 loses some memory where it fails to open a damaged file. */
__attribute__((constructor)) static void no_complaints(void) { H5dont_atexit(); }
const char *__lsan_default_suppressions(void) { return "leak:libhdf5"; }

static void read_samples(qb_ctx *cx, const qb_dataset *set) {
    int64_t n = qb_dataset_count(set);
    for (int64_t i = 0; i < n && i < SAMPLES_READ; i++) {
        qb_ctx_clear(cx);
        if (qb_dataset_label(set, i) < -1 || !qb_dataset_sample_name(set, i)) abort();
        if (qb_dataset_has_tensors(set)) {
            qb_tensors tensors = {0};
            if (qb_dataset_read_tensors(cx, set, i, &tensors) == QB_OK && tensors.n < 1) abort();
            qb_tensors_release(&tensors);
        } else {
            qb_image image = {0};
            qb_dataset_read(cx, set, i, &image, NULL);
            qb_image_release(&image);
        }
    }
}

static void try_file(const char *path) {
    qb_ctx cx;
    qb_ctx_init(&cx);
    qb_dataset *set = NULL;
    if (qb_dataset_open(&cx, path, NULL, &set) == QB_OK)
        read_samples(&cx, set);
    else if (set || cx.code == QB_OK || cx.message[0] == '\0')
        abort();
    qb_dataset_close(set);
    if (!qb_name_is_tensor(path)) return;
    qb_ctx_clear(&cx);
    qb_tensors tensors = {0};
    if (qb_tensor_file_read(&cx, path, &tensors) == QB_OK)
        qb_tensors_release(&tensors);
    else if (tensors.n != 0 || cx.message[0] == '\0')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const suffixes[] = {
        "npy", "npz", "h5", "txt", "pb", "csv", "tar", "tfrecord",
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
        "mdb", /* liblmdb faults on damaged files, which libFuzzer would take for ours: base/apart.h
                */
#endif
    };
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/fuzz_data.%d.%s", (int)getpid(), suffixes[i]);
        FILE *file = fopen(path, "wb");
        if (!file) abort();
        if (size > 0 && fwrite(data, size, 1, file) != 1) abort();
        fclose(file);
        try_file(path);
        unlink(path);
    }
    return 0;
}
