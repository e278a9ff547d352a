#include <string.h>

#include "base/file.h"
#include "calib/table_h5_internal.h"
#include "datasets/h5_inside.h"
#include "datasets/h5_lock.h"

#define IMAGE_STEP 4096 /* by which the file grows in memory */
#define DEFLATE_LEVEL 6

static qb_status write_attribute(const qb_h5 *h, const char *name, hid_t type, hid_t memory,
                                 const void *value) {
    QB_RELEASED(qb_h5_close) hid_t space = H5Screate(H5S_SCALAR);
    QB_RELEASED(qb_h5_close)
    hid_t attribute = H5Acreate2(h->file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t done = H5Awrite(attribute, memory, value);
    return done < 0 ? qb_h5_fail(h, QB_STATUS_IO, name) : QB_OK;
}

static qb_status write_text(const qb_h5 *h, const char *name, const char *text) {
    QB_RELEASED(qb_h5_close) hid_t type = qb_h5_text_type(strlen(text) + 1);
    return write_attribute(h, name, type, type, text);
}

static qb_status write_hash(const qb_h5 *h, const char *name, qb_hash hash) {
    char text[33];
    qb_hash_hex(hash, text);
    return write_text(h, name, text);
}

static qb_status write_i64(const qb_h5 *h, const char *name, int64_t value) {
    return write_attribute(h, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

/* `data` NULL: the dataset is only made. `chunk` NULL: contiguous. */
static hid_t make_dataset(const qb_h5 *h, const char *name, hid_t type, int rank,
                          const hsize_t *dims, const hsize_t *chunk) {
    QB_RELEASED(qb_h5_close) hid_t plan = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(plan, false);
    if (chunk) {
        H5Pset_chunk(plan, rank, chunk);
        H5Pset_shuffle(plan);
        H5Pset_deflate(plan, DEFLATE_LEVEL);
    }
    QB_RELEASED(qb_h5_close) hid_t space = H5Screate_simple(rank, dims, NULL);
    return H5Dcreate2(h->file, name, type, space, H5P_DEFAULT, plan, H5P_DEFAULT);
}

static qb_status write_dataset(const qb_h5 *h, const char *name, hid_t type, hid_t memory, int rank,
                               const hsize_t *dims, const void *data) {
    QB_RELEASED(qb_h5_close) hid_t set = make_dataset(h, name, type, rank, dims, NULL);
    herr_t done = H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    return done < 0 ? qb_h5_fail(h, QB_STATUS_IO, name) : QB_OK;
}

static qb_status write_methods(const qb_h5 *h, const qb_table *table) {
    QB_RELEASED(qb_h5_close) hid_t type = qb_h5_text_type(QB_METHOD_TEXT);
    hsize_t n = (hsize_t)table->n_methods;
    return write_dataset(h, "method", type, type, 1, &n, table->method);
}

static qb_status write_names(const qb_h5 *h, const qb_table *table) {
    size_t size = 1;
    for (int32_t i = 0; i < table->n_entries; i++) {
        size_t length = strlen(table->entry[i].name) + 1;
        if (length > QB_H5_TEXT)
            return qb_fail(h->cx, QB_STATUS_UNSUPPORTED,
                           "%s: tensor name of %zu letters, at most %d can be stored: %.60s...",
                           h->name, length - 1, QB_H5_TEXT - 1, table->entry[i].name);
        size = length > size ? length : size;
    }
    QB_FREED char *names = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)table->n_entries, size));
    for (int32_t i = 0; i < table->n_entries; i++)
        strcpy(names + (size_t)i * size, table->entry[i].name);
    QB_RELEASED(qb_h5_close) hid_t type = qb_h5_text_type(size);
    hsize_t n = (hsize_t)table->n_entries;
    return write_dataset(h, "name", type, type, 1, &n, names);
}

static qb_status write_columns(const qb_h5 *h, const qb_table *table) {
    hsize_t n = (hsize_t)table->n_entries;
    QB_FREED uint8_t *data = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)n, sizeof(uint64_t)));
    for (int c = 0; c < QB_H5_COLUMNS; c++) {
        const qb_h5_column *col = &qb_h5_columns[c];
        for (size_t i = 0; i < n; i++)
            memcpy(data + i * col->size, (const uint8_t *)table->entry[i].stats + col->offset,
                   col->size);
        QB_TRY(write_dataset(h, col->name, qb_h5_file_type(col->type), qb_h5_memory_type(col->type),
                             1, &n, data));
    }
    return QB_OK;
}

static qb_status write_ranges(const qb_h5 *h, const qb_table *table) {
    const size_t methods = (size_t)table->n_methods;
    const hsize_t dims[3] = {(hsize_t)table->n_entries, methods, 2};
    QB_FREED qb_range *data = qb_alloc(h->cx, (size_t)table->n_entries * methods, sizeof *data);
    if (!data) return h->cx->code;
    for (size_t i = 0; i < (size_t)table->n_entries; i++)
        memcpy(data + i * methods, table->entry[i].range, methods * sizeof *data);
    return write_dataset(h, "range", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 3, dims, data);
}

/* One row an entry. Rows of bins are mostly zeros: packed, a chunk each. */
static qb_status write_rows(const qb_h5 *h, const char *name, qb_h5_type type,
                            const qb_table *table, hsize_t width, bool packed, qb_h5_row_of row) {
    const hsize_t dims[2] = {(hsize_t)table->n_entries, width}, chunk[2] = {1, width};
    QB_RELEASED(qb_h5_close)
    hid_t set = make_dataset(h, name, qb_h5_file_type(type), 2, dims, packed ? chunk : NULL);
    QB_RELEASED(qb_h5_close)
    hid_t space = H5Dget_space(set), memory = H5Screate_simple(1, &width, NULL);
    if (set < 0) return qb_h5_fail(h, QB_STATUS_IO, name);
    for (int32_t i = 0; i < table->n_entries; i++)
        if (qb_h5_row(set, space, memory, type, i, width, row(&table->entry[i]), NULL) < 0)
            return qb_h5_fail(h, QB_STATUS_IO, name);
    return QB_OK;
}

static qb_status write_samples(const qb_h5 *h, const qb_table *table) {
    const hsize_t n = (hsize_t)table->samples;
    if (!table->sample) return QB_OK;
    QB_TRY(write_dataset(h, "sample", H5T_STD_U64LE, H5T_NATIVE_UINT64, 1, &n, table->sample));
    if (table->n_recorded == 0) return QB_OK;
    QB_TRY(write_rows(h, "sample_min", QB_H5_F32, table, n, false, qb_h5_minima_of));
    return write_rows(h, "sample_max", QB_H5_F32, table, n, false, qb_h5_maxima_of);
}

/* The extremes of all tensors' channels as one list. */
static qb_status write_channels(const qb_h5 *h, const qb_table *table, const char *name,
                                hsize_t all, bool maxima) {
    QB_FREED float *data = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)all, sizeof *data));
    size_t at = 0;
    for (int32_t i = 0; i < table->n_entries; i++) {
        const qb_channels *c = &table->entry[i].channels;
        if (c->n <= 0) continue;
        memcpy(data + at, maxima ? c->max : c->min, (size_t)c->n * sizeof *data);
        at += (size_t)c->n;
    }
    return write_dataset(h, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, &all, data);
}

static qb_status write_all_channels(const qb_h5 *h, const qb_table *table) {
    const hsize_t n = (hsize_t)table->n_entries;
    hsize_t all = 0;
    if (!table->per_channel) return QB_OK;
    QB_FREED int32_t *count = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)n, sizeof *count));
    for (hsize_t i = 0; i < n; i++) {
        count[i] = table->entry[i].channels.n;
        all += count[i] > 0 ? (hsize_t)count[i] : 0;
    }
    QB_TRY(write_dataset(h, "channels", H5T_STD_I32LE, H5T_NATIVE_INT32, 1, &n, count));
    if (all > 0) QB_TRY(write_channels(h, table, "channel_min", all, false));
    if (all > 0) QB_TRY(write_channels(h, table, "channel_max", all, true));
    return QB_OK;
}

/* The last part of a path, without slashes at its end. */
static char *last_part(qb_ctx *cx, const char *path) {
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    return qb_format(cx, "%.*s", (int)(end - begin), path + begin);
}

static qb_status write_last_part(const qb_h5 *h, const char *name, const char *path) {
    QB_FREED char *part = QB_NEW(h->cx, last_part(h->cx, path ? path : ""));
    return write_text(h, name, part);
}

/* What merging needs, where it is known. */
static qb_status write_origin(const qb_h5 *h, const qb_table *table) {
    if (!table->preprocess) return QB_OK;
    char shards[QB_H5_TEXT];
    QB_TRY(write_text(h, "preprocess", table->preprocess));
    QB_TRY(write_i64(h, "blank", table->blank));
    if (table->doctor) QB_TRY(write_text(h, "doctor", table->doctor));
    QB_TRY(write_text(h, "shards", qb_shards_text(&table->shards, shards, sizeof shards)));
    return write_hash(h, "data_sum", table->data_sum);
}

static qb_status write_all(const qb_h5 *h, const qb_table *table) {
    QB_TRY(write_text(h, "magic", QB_H5_MAGIC));
    QB_TRY(write_i64(h, "version", QB_H5_VERSION));
    QB_TRY(write_last_part(h, "model", table->model));
    QB_TRY(write_last_part(h, "dataset", table->dataset));
    QB_TRY(write_hash(h, "model_hash", table->model_hash));
    QB_TRY(write_hash(h, "data_hash", table->data_hash));
    QB_TRY(write_i64(h, "samples", table->samples));
    QB_TRY(write_i64(h, "skipped", table->skipped));
    if (!qb_hash_is_zero(table->recovered_from))
        QB_TRY(write_hash(h, "recovered_from", table->recovered_from));
    QB_TRY(write_origin(h, table));
    QB_TRY(write_methods(h, table));
    QB_TRY(write_names(h, table));
    QB_TRY(write_columns(h, table));
    QB_TRY(write_ranges(h, table));
    QB_TRY(write_samples(h, table));
    QB_TRY(write_all_channels(h, table));
    return write_rows(h, "bins", QB_H5_U64, table, QB_STATS_BINS, true, qb_h5_bins_of);
}

/* Takes the bytes out of HDF5's memory, with the user block filled in. */
static qb_status take_image(const qb_h5 *h, uint8_t **bytes, size_t *n) {
    void *handle = NULL;
    hsize_t size = 0;
    if (H5Fflush(h->file, H5F_SCOPE_GLOBAL) < 0 || H5Fget_filesize(h->file, &size) < 0 ||
        H5Fget_vfd_handle(h->file, H5P_DEFAULT, &handle) < 0 || size < QB_H5_USER_BLOCK)
        return qb_h5_fail(h, QB_STATUS_INTERNAL, "file image");
    uint8_t *image = QB_NEW(h->cx, qb_alloc(h->cx, (size_t)size, 1));
    memcpy(image, *(void **)handle,
           (size_t)size); /* the core driver's handle: where its memory is */
    qb_h5_user_block(image + QB_H5_USER_BLOCK, (size_t)size - QB_H5_USER_BLOCK, (char *)image);
    *bytes = image;
    *n = (size_t)size;
    return QB_OK;
}

/* The format and the property lists are fixed, so that the bytes do not depend on the time or on
 * the library's choice. HDF5 works in memory: the disk's errors are ours to report. */
static qb_status write_hdf5(qb_h5 *h, const qb_table *table, uint8_t **bytes, size_t *size) {
    QB_RELEASED(qb_h5_close) hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    QB_RELEASED(qb_h5_close) hid_t create = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_fapl_core(access, IMAGE_STEP, false);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
    H5Pset_userblock(create, QB_H5_USER_BLOCK);
    H5Pset_obj_track_times(create, false);
    h->file = H5Fcreate("table", H5F_ACC_TRUNC, create, access);
    qb_status status =
        h->file < 0 ? qb_h5_fail(h, QB_STATUS_INTERNAL, "create") : write_all(h, table);
    if (status == QB_OK) status = take_image(h, bytes, size);
    if (h->file >= 0) H5Fclose(h->file);
    return status;
}

static qb_status write_table(qb_ctx *cx, const qb_table *table, const char *name, uint8_t **bytes,
                             size_t *size) {
    if (table->n_entries < 1 || table->n_methods < 1)
        return qb_fail(cx, QB_STATUS_INVALID,
                       "write %s: expected tensors and methods, got %d and %d", name,
                       table->n_entries, table->n_methods);
    qb_h5 h = {.cx = cx, .name = name, .file = -1};
    qb_status status;
    qb_h5_lock();
    H5E_BEGIN_TRY { status = write_hdf5(&h, table, bytes, size); }
    H5E_END_TRY
    qb_h5_unlock();
    return status;
}

qb_status qb_table_write(qb_ctx *cx, const qb_table *table, uint8_t **bytes, size_t *size) {
    return write_table(cx, table, "calibration", bytes, size);
}

qb_status qb_table_save(qb_ctx *cx, const qb_table *table, const char *path) {
    QB_FREED uint8_t *bytes = NULL;
    size_t size;
    QB_TRY(write_table(cx, table, path, &bytes, &size));
    return qb_file_write(cx, path, bytes, size);
}
