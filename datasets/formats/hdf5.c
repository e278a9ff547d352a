/* hdf5: a file with `images`, unsigned bytes of shape [N,H,W] or [N,H,W,C] with C 1 or 3 (RGB), and
 * where there are any `labels`, integers of shape [N]. Sizes come from the file and are not
 * trusted: each is checked before memory depends on it. */
#include <pthread.h>
#include <string.h>

#include <hdf5.h>

#include "base/file.h"
#include "datasets/datasets_internal.h"

#define CHUNK_BYTES_MAX ((size_t)512 << 20)
#define CACHE_BYTES_MAX ((size_t)256 << 20)

typedef struct state {
    pthread_mutex_t lock; /* HDF5 handles are used by one thread at a time */
    hid_t file, images;   /* negative: not open */
    int rank;
    hsize_t dim[4];
} state;

static bool hdf5_probe(const char *path) {
    if (qb_path_is_dir(path)) return false;
    if (qb_has_suffix(path, ".h5") || qb_has_suffix(path, ".hdf5")) return true;
    static const char signature[8] = "\x89HDF\r\n\x1a\n";
    char begin[8];
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    bool same = fread(begin, sizeof begin, 1, file) == 1 && memcmp(begin, signature, 8) == 0;
    fclose(file);
    return same;
}

/* The innermost reason that the library has for its last failure. */
static herr_t keep_text(unsigned n, const H5E_error2_t *error, void *text) {
    if (n == 0 && error->desc) snprintf(text, 128, "%s", error->desc);
    return 0;
}

static qb_status fail_hdf5(qb_ctx *cx, qb_status code, const char *what) {
    char text[128] = "unknown reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_text, text);
    return qb_fail(cx, code, "%s: %s", what, text);
}

static qb_status check_shape(qb_ctx *cx, hid_t set, state *s) {
    hid_t space = H5Dget_space(set);
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank == 3 || rank == 4) H5Sget_simple_extent_dims(space, s->dim, NULL);
    H5Sclose(space);
    if (rank != 3 && rank != 4)
        return qb_fail(cx, QB_STATUS_FORMAT, "images: expected 3 or 4 dimensions, got %d", rank);
    s->rank = rank;
    if (rank == 3) s->dim[3] = 1;
    if (s->dim[0] > QB_SAMPLES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "images: %llu samples, the limit is %zu",
                       (unsigned long long)s->dim[0], QB_SAMPLES_MAX);
    if (s->dim[3] != 1 && s->dim[3] != 3)
        return qb_fail(cx, QB_STATUS_FORMAT, "images: expected 1 or 3 channels last, got %llu",
                       (unsigned long long)s->dim[3]);
    if (s->dim[1] > INT32_MAX || s->dim[2] > INT32_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "images of %llux%llu pixels",
                       (unsigned long long)s->dim[2], (unsigned long long)s->dim[1]);
    return qb_image_check_size(cx, "images", (int64_t)s->dim[2], (int64_t)s->dim[1]);
}

static qb_status check_type(qb_ctx *cx, hid_t set) {
    hid_t type = H5Dget_type(set);
    bool bytes = H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 1 &&
                 H5Tget_sign(type) == H5T_SGN_NONE;
    H5Tclose(type);
    return bytes
               ? QB_OK
               : qb_fail(cx, QB_STATUS_FORMAT, "images: expected unsigned bytes (uint8) elements");
}

/* How the data lie in the file; *cache becomes what holds the chunks of two samples, so that a
 * chunk with many samples is unpacked once, not once a sample. */
static qb_status check_storage(qb_ctx *cx, hid_t set, const state *s, size_t *cache) {
    hid_t list = H5Dget_create_plist(set);
    H5D_layout_t layout = H5Pget_layout(list);
    int external = H5Pget_external_count(list);
    hsize_t chunk[4] = {1, 1, 1, 1};
    int rank = layout == H5D_CHUNKED ? H5Pget_chunk(list, 4, chunk) : s->rank;
    H5Pclose(list);
    *cache = 0;
    if (external != 0 ||
        (layout != H5D_CHUNKED && layout != H5D_CONTIGUOUS && layout != H5D_COMPACT))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "images: data outside the file");
    if (layout != H5D_CHUNKED) return QB_OK;
    if (rank != s->rank)
        return qb_fail(cx, QB_STATUS_FORMAT, "images: chunks of %d dimensions, expected %d", rank,
                       s->rank);
    double bytes = 1, chunks = 1;
    for (int i = 0; i < rank; i++) {
        bytes *= (double)chunk[i];
        if (i > 0) chunks *= (double)((s->dim[i] + chunk[i] - 1) / chunk[i]);
    }
    if (bytes > (double)CHUNK_BYTES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "images: chunks of %.0f bytes, the limit is %zu",
                       bytes, CHUNK_BYTES_MAX);
    double wanted = 2 * bytes * chunks;
    *cache = wanted > (double)CACHE_BYTES_MAX ? CACHE_BYTES_MAX : (size_t)wanted;
    return QB_OK;
}

static qb_status open_images(qb_ctx *cx, state *s) {
    s->images = H5Dopen2(s->file, "images", H5P_DEFAULT);
    if (s->images < 0) return fail_hdf5(cx, QB_STATUS_FORMAT, "no data set 'images'");
    QB_TRY(check_shape(cx, s->images, s));
    QB_TRY(check_type(cx, s->images));
    size_t cache;
    QB_TRY(check_storage(cx, s->images, s, &cache));
    if (cache <= (size_t)1 << 20) return QB_OK; /* the library's own size will do */
    H5Dclose(s->images);
    hid_t list = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(list, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, cache, 1.0);
    s->images = H5Dopen2(s->file, "images", list);
    H5Pclose(list);
    return s->images < 0 ? fail_hdf5(cx, QB_STATUS_FORMAT, "images") : QB_OK;
}

/* *out: one number a sample, or NULL when the file has no labels. */
static qb_status read_labels(qb_ctx *cx, const state *s, int64_t **out) {
    *out = NULL;
    if (H5Lexists(s->file, "labels", H5P_DEFAULT) <= 0) return QB_OK;
    hid_t set = H5Dopen2(s->file, "labels", H5P_DEFAULT);
    if (set < 0) return fail_hdf5(cx, QB_STATUS_FORMAT, "labels");
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    hsize_t n = 0;
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank == 1) H5Sget_simple_extent_dims(space, &n, NULL);
    int64_t *labels = NULL;
    qb_status status = QB_OK;
    if (H5Tget_class(type) != H5T_INTEGER || rank != 1 || n != s->dim[0])
        QB_GO(qb_fail(cx, QB_STATUS_FORMAT,
                      "labels: expected %llu integers, got %s of rank %d with %llu elements",
                      (unsigned long long)s->dim[0],
                      H5Tget_class(type) == H5T_INTEGER ? "integers" : "another type", rank,
                      (unsigned long long)n));
    labels = qb_alloc(cx, (size_t)n, sizeof *labels);
    if (!labels) QB_GO(cx->code);
    if (H5Dread(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels) < 0)
        QB_GO(fail_hdf5(cx, QB_STATUS_FORMAT, "read labels"));
    *out = labels;
    labels = NULL;
out:
    qb_free(labels);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(set);
    return status;
}

static qb_status add_samples(qb_ctx *cx, qb_dataset *dataset, const state *s, const int64_t *label,
                             const qb_labels *labels) {
    int64_t highest = -1;
    for (hsize_t i = 0; i < s->dim[0]; i++) {
        if (i % 65536 == 0) QB_TRY(qb_check_cancel(cx));
        const char *name = qb_arena_format(cx, dataset->arena, "%s[%llu]",
                                           qb_path_base(dataset->path), (unsigned long long)i);
        if (!name) return cx->code;
        if (label) {
            QB_TRY(qb_label_check(cx, name, label[i], labels));
            if (label[i] > highest) highest = label[i];
        }
        QB_TRY(qb_dataset_add(cx, dataset, name, (int64_t)i, label ? (int32_t)label[i] : -1));
    }
    dataset->has_labels = label != NULL;
    dataset->n_classes = labels ? labels->n : (int32_t)highest + 1;
    return QB_OK;
}

static qb_status open_quiet(qb_ctx *cx, qb_dataset *dataset, state *s, const qb_labels *labels) {
    s->file = H5Fopen(dataset->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (s->file < 0) return fail_hdf5(cx, QB_STATUS_FORMAT, "not a readable HDF5 file");
    QB_TRY(open_images(cx, s));
    int64_t *label;
    QB_TRY(read_labels(cx, s, &label));
    qb_status status = add_samples(cx, dataset, s, label, labels);
    qb_free(label);
    return status;
}

static qb_status hdf5_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    state *s = qb_alloc(cx, 1, sizeof *s);
    if (!s) return cx->code;
    dataset->state = s;
    s->file = s->images = -1;
    pthread_mutex_init(&s->lock, NULL);
    qb_status status = QB_OK;
    /* Without the library's own printing of errors. */
    H5E_BEGIN_TRY { status = open_quiet(cx, dataset, s, labels); }
    H5E_END_TRY
    return status;
}

static qb_status read_sample(qb_ctx *cx, const state *s, const qb_sample *sample, uint8_t *pixel) {
    hsize_t start[4] = {(hsize_t)sample->position, 0, 0, 0};
    hsize_t count[4] = {1, s->dim[1], s->dim[2], s->dim[3]};
    hid_t from = H5Dget_space(s->images), to = H5Screate_simple(s->rank, count, NULL);
    qb_status status = QB_OK;
    if (from < 0 || to < 0 ||
        H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        H5Dread(s->images, H5T_NATIVE_UINT8, to, from, H5P_DEFAULT, pixel) < 0)
        status = fail_hdf5(cx, QB_STATUS_FORMAT, sample->name);
    if (from >= 0) H5Sclose(from);
    if (to >= 0) H5Sclose(to);
    return status;
}

static qb_status hdf5_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                           qb_image *out, qb_hash *hash) {
    state *s = dataset->state;
    qb_image image;
    QB_TRY(qb_image_create(cx, sample->name, (int64_t)s->dim[2], (int64_t)s->dim[1], (int)s->dim[3],
                           &image));
    qb_status status = QB_OK;
    pthread_mutex_lock(&s->lock);
    H5E_BEGIN_TRY { status = read_sample(cx, s, sample, image.pixel); }
    H5E_END_TRY
    pthread_mutex_unlock(&s->lock);
    if (status != QB_OK) {
        qb_image_release(&image);
        return status;
    }
    *hash = qb_hash_bytes(image.pixel, (size_t)(s->dim[1] * s->dim[2] * s->dim[3]));
    *out = image;
    return QB_OK;
}

static void hdf5_close(qb_dataset *dataset) {
    state *s = dataset->state;
    if (!s) return;
    if (s->images >= 0) H5Dclose(s->images);
    if (s->file >= 0) H5Fclose(s->file);
    pthread_mutex_destroy(&s->lock);
    qb_free(s);
}

const qb_dataset_format qb_format_hdf5 = {
    .name = "hdf5",
    .text = "an HDF5 file with images [N,H,W,C] (uint8) and, where known, labels [N]",
    .probe = hdf5_probe,
    .open = hdf5_open,
    .read = hdf5_read,
    .close = hdf5_close,
};
