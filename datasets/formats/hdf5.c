/* hdf5: a file with `images`, unsigned bytes of shape [N,H,W] or [N,H,W,C] with C 1 or 3 (RGB); or
 * one whose datasets are named after the model's inputs, [N, ...] each. Where there are any,
 * `labels` are integers of shape [N], and `targets` images as well. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/apart.h"
#include "base/open.h"
#include "datasets/datasets_internal.h"
#include "datasets/h5_chunks.h"
#include "datasets/h5_inside.h"
#include "datasets/h5_lock.h"
#include "datasets/h5_rows_internal.h"

#define LIBRARY_BYTES ((size_t)256 << 20) /* memory of the library beside chunks and caches */
#define ROW_SECONDS 10                    /* of processor time, to unpack a chunk of 512 MiB */
#define TARGETS "targets"                 /* images that a model should make of `images` */

typedef struct column {
    char name[256];
    qb_h5_rows rows;
} column;

/* What the process that reads the file (base/apart.h) has found in it. */
typedef struct found {
    int32_t n; /* 1 for images */
    bool has_tensors, has_targets, has_labels;
    column column[QB_INPUTS_MAX];
} found;

typedef struct state {
    qb_apart *apart;
    qb_opened opened; /* the file, for what needs no library */
    /* That process's own, but for `found`: */
    const char *path, *images;
    hid_t file;  /* negative: not open */
    size_t most; /* bytes that reading a row may take */
    found found;
} state;

typedef enum question { ASK_OPEN, ASK_LABELS, ASK_ROW } question;

static bool hdf5_probe(const char *path) {
    if (qb_path_is_dir(path)) return false;
    if (qb_has_suffix(path, ".h5") || qb_has_suffix(path, ".hdf5")) return true;
    static const char signature[8] = "\x89HDF\r\n\x1a\n";
    char begin[8];
    qb_ctx quiet; /* what cannot be read is for others to tell */
    qb_opened file;
    qb_ctx_init(&quiet);
    if (qb_open_regular(&quiet, path, &file) != QB_OK) return false;
    const bool same = read(file.fd, begin, sizeof begin) == (ssize_t)sizeof begin &&
                      memcmp(begin, signature, sizeof begin) == 0;
    qb_opened_close(&file);
    return same;
}

static qb_status check_count(qb_ctx *cx, const column *c) {
    if (c->rows.dim[0] <= QB_SAMPLES_MAX) return QB_OK;
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: %llu samples, the limit is %zu", c->name,
                   (unsigned long long)c->rows.dim[0], QB_SAMPLES_MAX);
}

static hsize_t channels_of(const qb_h5_rows *r) { return r->rank == 4 ? r->dim[3] : 1; }

static qb_status check_images(qb_ctx *cx, const column *c) {
    const qb_h5_rows *r = &c->rows;
    if (r->rank != 3 && r->rank != 4)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected 3 or 4 dimensions, got %d", c->name,
                       r->rank);
    QB_TRY(check_count(cx, c));
    if (channels_of(r) != 1 && channels_of(r) != 3)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected 1 or 3 channels last, got %llu", c->name,
                       (unsigned long long)channels_of(r));
    if (r->dtype != QB_DTYPE_U8)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected unsigned bytes (uint8) elements",
                       c->name);
    if (r->dim[1] > INT32_MAX || r->dim[2] > INT32_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s of %llux%llu pixels", c->name,
                       (unsigned long long)r->dim[2], (unsigned long long)r->dim[1]);
    return qb_image_check_size(cx, c->name, (int64_t)r->dim[2], (int64_t)r->dim[1]);
}

/* `images` of bytes are images; anything else is tensors. */
static qb_status open_column(qb_ctx *cx, state *s, const char *name) {
    column *c = &s->found.column[s->found.n];
    if (s->found.n == QB_INPUTS_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "more than %d datasets", QB_INPUTS_MAX);
    if (snprintf(c->name, sizeof c->name, "%s", name) >= (int)sizeof c->name)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "the name %.40s... is too long", name);
    QB_TRY(qb_h5_rows_open(cx, s->file, name, &c->rows));
    s->most += c->rows.most;
    s->found.n++;
    return QB_OK;
}

static qb_status check_columns(qb_ctx *cx, const found *s) {
    for (int32_t i = 0; i < s->n; i++) {
        QB_TRY(check_count(cx, &s->column[i]));
        if (s->column[i].rows.dim[0] != s->column[0].rows.dim[0])
            return qb_fail(cx, QB_STATUS_FORMAT, "%s holds %llu samples, %s %llu",
                           s->column[i].name, (unsigned long long)s->column[i].rows.dim[0],
                           s->column[0].name, (unsigned long long)s->column[0].rows.dim[0]);
    }
    if (s->n > 0) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT,
                   "no data set 'images', nor one named after an input of the model");
}

/* The datasets of the file's top level, by name; groups are left alone. */
static qb_status open_columns(qb_ctx *cx, state *s) {
    H5G_info_t group;
    if (H5Gget_info(s->file, &group) < 0) return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "top level");
    for (hsize_t i = 0; i < group.nlinks; i++) {
        char name[256];
        const ssize_t length = H5Lget_name_by_idx(s->file, ".", H5_INDEX_NAME, H5_ITER_INC, i, name,
                                                  sizeof name, H5P_DEFAULT);
        H5O_info_t object;
        if (length < 0 || (size_t)length >= sizeof name || qb_name_is_label(name)) continue;
        if (qb_h5_place_of(s->file, name) != QB_H5_INSIDE ||
            H5Oget_info_by_name(s->file, name, &object, H5P_DEFAULT) < 0 ||
            object.type != H5O_TYPE_DATASET)
            continue;
        QB_TRY(open_column(cx, s, name));
    }
    return check_columns(cx, &s->found);
}

static qb_status open_data(qb_ctx *cx, state *s) {
    found *f = &s->found;
    if (qb_h5_place_of(s->file, s->images) != QB_H5_ABSENT) {
        QB_TRY(open_column(cx, s, s->images));
        f->has_targets = qb_h5_place_of(s->file, TARGETS) != QB_H5_ABSENT;
        if (!qb_dtype_is_float(f->column[0].rows.dtype)) return check_images(cx, &f->column[0]);
        f->has_targets = false;
        qb_h5_rows_close(&f->column[0].rows);
        f->n = 0;
    }
    f->has_tensors = true;
    return open_columns(cx, s);
}

/* The set of labels; negative when the file has none. */
static qb_status open_labels(qb_ctx *cx, const state *s, hid_t *out) {
    const char *name = qb_h5_place_of(s->file, "labels") != QB_H5_ABSENT ? "labels" : "label";
    hid_t set;
    *out = -1;
    if (qb_h5_place_of(s->file, name) == QB_H5_ABSENT) return QB_OK;
    QB_TRY(qb_h5_open_inside(cx, s->file, name, &set));
    hid_t type = H5Dget_type(set), space = H5Dget_space(set);
    hsize_t n = 0;
    const hsize_t expected = s->found.column[0].rows.dim[0];
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank == 1) H5Sget_simple_extent_dims(space, &n, NULL);
    if (H5Tget_class(type) == H5T_INTEGER && rank == 1 && n == expected)
        *out = set;
    else
        qb_fail(cx, QB_STATUS_FORMAT,
                "%s: expected %llu integers, got %s of rank %d with %llu elements", name,
                (unsigned long long)expected,
                H5Tget_class(type) == H5T_INTEGER ? "integers" : "another type", rank,
                (unsigned long long)n);
    H5Sclose(space);
    H5Tclose(type);
    if (*out >= 0) return QB_OK;
    H5Dclose(set);
    return cx->code;
}

/* ---- in the process that reads ---- */

static qb_status open_file(qb_ctx *cx, state *s) {
    hid_t labels;
    s->file = H5Fopen(s->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (s->file < 0) return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "not a readable HDF5 file");
    QB_TRY(open_data(cx, s));
    QB_TRY(open_labels(cx, s, &labels));
    s->found.has_labels = labels >= 0;
    if (labels >= 0) H5Dclose(labels);
    qb_apart_allow(LIBRARY_BYTES + s->most, ROW_SECONDS);
    return QB_OK;
}

static qb_status read_labels(qb_ctx *cx, const state *s, void *out) {
    QB_RELEASED(qb_h5_close) hid_t set = -1, plan = -1, copy = -1;
    QB_TRY(open_labels(cx, s, &set));
    plan = H5Dget_create_plist(set);
    if (H5Pget_layout(plan) == H5D_CHUNKED)
        QB_TRY(qb_h5_chunks_copy(cx, set, 0, s->found.column[0].rows.dim[0], 0, &copy));
    if (H5Dread(copy >= 0 ? copy : set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "read labels");
    return QB_OK;
}

static qb_status answer(qb_ctx *cx, state *s, const int64_t ask[QB_APART_ASK], void *out) {
    column *c = &s->found.column[ask[1]];
    switch ((question)ask[0]) {
    case ASK_OPEN:
        QB_TRY(open_file(cx, s));
        memcpy(out, &s->found, sizeof s->found);
        return QB_OK;
    case ASK_LABELS: return read_labels(cx, s, out);
    case ASK_ROW: break;
    }
    return qb_h5_rows_read(cx, &c->rows, (hsize_t)ask[2], out);
}

/* Without the library's own printing of errors. */
static qb_status answer_quietly(qb_ctx *cx, void *work, const int64_t ask[QB_APART_ASK], void *out,
                                size_t bytes) {
    qb_status status = QB_OK;
    (void)bytes;
    qb_h5_lock();
    H5E_BEGIN_TRY { status = answer(cx, work, ask, out); }
    H5E_END_TRY
    qb_h5_unlock();
    return status;
}

/* ---- in this process ---- */

static qb_status add_rows(qb_ctx *cx, qb_dataset *dataset, state *s, const qb_labels *labels) {
    const hsize_t n = s->found.column[0].rows.dim[0];
    const int64_t ask[QB_APART_ASK] = {ASK_LABELS};
    QB_FREED int64_t *label = NULL;
    if (s->found.has_labels) {
        QB_TRY_NEW(cx, label = qb_alloc(cx, (size_t)n, sizeof *label));
        QB_TRY(qb_apart_ask(cx, s->apart, ask, label, (size_t)n * sizeof *label));
    }
    return qb_dataset_add_rows(cx, dataset, (int64_t)n, label, labels);
}

static qb_status hdf5_open(qb_ctx *cx, qb_dataset *dataset, const qb_labels *labels) {
    static const int64_t ask[QB_APART_ASK] = {ASK_OPEN};
    state *s = QB_NEW(cx, qb_alloc(cx, 1, sizeof *s));
    dataset->state = s;
    s->path = dataset->path;
    s->images = dataset->images;
    s->file = s->opened.fd = -1;
    QB_TRY(qb_open_regular(cx, s->path, &s->opened)); /* a FIFO would make the library wait */
    QB_TRY(qb_apart_start(cx, s->path, answer_quietly, s, &s->apart));
    QB_TRY(qb_apart_ask(cx, s->apart, ask, &s->found, sizeof s->found));
    dataset->has_tensors = s->found.has_tensors;
    dataset->has_targets = s->found.has_targets;
    return add_rows(cx, dataset, s, labels);
}

static qb_status read_plain(qb_ctx *cx, const state *s, int64_t at, uint8_t *out, size_t bytes) {
    while (bytes > 0) {
        const ssize_t got = pread(s->opened.fd, out, bytes, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return qb_fail_errno(cx, "read %s", s->opened.path);
        if (got == 0)
            return qb_fail(cx, QB_STATUS_FORMAT, "%s ends at byte %lld", s->opened.path,
                           (long long)at);
        out += got;
        at += got;
        bytes -= (size_t)got;
    }
    return QB_OK;
}

static qb_status read_row(qb_ctx *cx, const state *s, int32_t i, const qb_sample *sample,
                          void *out) {
    const int64_t ask[QB_APART_ASK] = {ASK_ROW, i, sample->position};
    const qb_h5_rows *r = &s->found.column[i].rows;
    const qb_desc desc = qb_h5_rows_desc(r);
    const size_t bytes = qb_desc_bytes(&desc);
    int64_t at;
    const bool plain = r->offset >= 0 &&
                       !__builtin_mul_overflow(sample->position, (int64_t)bytes, &at) &&
                       !__builtin_add_overflow(at, r->offset, &at);
    if ((plain ? read_plain(cx, s, at, out, bytes) : qb_apart_ask(cx, s->apart, ask, out, bytes)) ==
        QB_OK)
        return QB_OK;
    return qb_wrap(cx, "%s", sample->name);
}

static qb_status hdf5_read(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                           qb_image *out, qb_hash *hash) {
    state *s = dataset->state;
    const qb_h5_rows *r = &s->found.column[0].rows;
    const hsize_t channels = channels_of(r);
    QB_RELEASED(qb_image_release) qb_image image = {0};
    QB_TRY(qb_image_create(cx, sample->name, (int64_t)r->dim[2], (int64_t)r->dim[1], (int)channels,
                           &image));
    QB_TRY(read_row(cx, s, 0, sample, image.pixel));
    *hash = qb_hash_bytes(image.pixel, (size_t)(r->dim[1] * r->dim[2] * channels));
    *out = QB_MOVE(image);
    return QB_OK;
}

static qb_status hdf5_read_tensors(qb_ctx *cx, const qb_dataset *dataset, const qb_sample *sample,
                                   qb_tensors *out) {
    state *s = dataset->state;
    for (int32_t i = 0; i < s->found.n; i++) {
        const column *c = &s->found.column[i];
        const qb_tensor row = {.desc = qb_h5_rows_desc(&c->rows)};
        QB_TRY(qb_tensors_add(cx, out, c->name, &row));
        QB_TRY(read_row(cx, s, i, sample, out->item[i].tensor.data));
    }
    return QB_OK;
}

static void hdf5_close(qb_dataset *dataset) {
    state *s = dataset->state;
    if (!s) return;
    qb_apart_end(s->apart);
    qb_opened_close(&s->opened);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    for (int32_t i = 0; i < s->found.n; i++) qb_h5_rows_close(&s->found.column[i].rows);
    if (s->file >= 0) H5Fclose(s->file);
#endif
    qb_free(s);
}

const qb_dataset_format qb_format_hdf5 = {
    .name = "hdf5",
    .text = "an HDF5 file with images [N,H,W,C] (uint8) or a dataset [N,...] for each input and, "
            "where known, labels [N]",
    .probe = hdf5_probe,
    .open = hdf5_open,
    .read = hdf5_read,
    .read_tensors = hdf5_read_tensors,
    .close = hdf5_close,
};
