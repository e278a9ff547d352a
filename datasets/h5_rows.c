#include "datasets/h5_rows_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "datasets/h5_chunks.h"
#include "datasets/h5_inside.h"
#include "datasets/h5_lock.h"

#define CHUNK_BYTES_MAX ((size_t)512 << 20)
#define CACHE_BYTES_MAX ((size_t)256 << 20)
#define CACHE_BYTES_USUAL ((size_t)1 << 20) /* the library's own */
#define PACKED_BYTES_MAX ((size_t)1 << 40)

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

void qb_h5_lock(void) { pthread_mutex_lock(&library_lock); }
void qb_h5_unlock(void) { pthread_mutex_unlock(&library_lock); }

/* A process that is forked (base/apart.h) finds the library in no thread's hands. */
__attribute__((constructor)) static void keep_whole(void) {
    pthread_atfork(qb_h5_lock, qb_h5_unlock, qb_h5_unlock);
}

qb_h5_place qb_h5_place_of(hid_t file, const char *path) {
    char begin[256];
    H5L_info_t link;
    size_t n = strspn(path, "/");
    do {
        n += strcspn(path + n, "/");
        if (n >= sizeof begin) return QB_H5_ABSENT;
        memcpy(begin, path, n);
        begin[n] = '\0';
        if (H5Lget_info(file, begin, &link, H5P_DEFAULT) < 0) return QB_H5_ABSENT;
        if (link.type != H5L_TYPE_HARD) return QB_H5_LINKED;
        n += strspn(path + n, "/");
    } while (path[n]);
    return QB_H5_INSIDE;
}

bool qb_h5_stores_inside(hid_t set) {
    QB_RELEASED(qb_h5_close) hid_t list = H5Dget_create_plist(set);
    const H5D_layout_t layout = H5Pget_layout(list);
    return H5Pget_external_count(list) == 0 &&
           (layout == H5D_CHUNKED || layout == H5D_CONTIGUOUS || layout == H5D_COMPACT);
}

static qb_dtype integer_type(size_t size, bool sign) {
    switch (size) {
    case 1: return sign ? QB_DTYPE_S8 : QB_DTYPE_U8;
    case 2: return sign ? QB_DTYPE_S16 : QB_DTYPE_U16;
    case 4: return sign ? QB_DTYPE_S32 : QB_DTYPE_U32;
    case 8: return sign ? QB_DTYPE_S64 : QB_DTYPE_U64;
    default: return QB_DTYPE_NONE;
    }
}

static hid_t native_type(qb_dtype dtype) {
    switch (dtype) {
    case QB_DTYPE_F32: return H5T_NATIVE_FLOAT;
    case QB_DTYPE_F64: return H5T_NATIVE_DOUBLE;
    case QB_DTYPE_U8: return H5T_NATIVE_UINT8;
    case QB_DTYPE_S8: return H5T_NATIVE_INT8;
    case QB_DTYPE_U16: return H5T_NATIVE_UINT16;
    case QB_DTYPE_S16: return H5T_NATIVE_INT16;
    case QB_DTYPE_U32: return H5T_NATIVE_UINT32;
    case QB_DTYPE_S32: return H5T_NATIVE_INT32;
    case QB_DTYPE_U64: return H5T_NATIVE_UINT64;
    case QB_DTYPE_S64: return H5T_NATIVE_INT64;
    default: return -1;
    }
}

static qb_status find_type(qb_ctx *cx, const char *name, qb_h5_rows *r) {
    hid_t type = H5Dget_type(r->set);
    const size_t size = H5Tget_size(type);
    switch (H5Tget_class(type)) {
    case H5T_INTEGER: r->dtype = integer_type(size, H5Tget_sign(type) == H5T_SGN_2); break;
    case H5T_FLOAT:
        r->dtype = size <= 4 ? QB_DTYPE_F32 : size == 8 ? QB_DTYPE_F64 : QB_DTYPE_NONE;
        break;
    case H5T_ENUM: r->dtype = size == 1 ? QB_DTYPE_BOOL : QB_DTYPE_NONE; break;
    default: r->dtype = QB_DTYPE_NONE; break;
    }
    r->memory = r->dtype == QB_DTYPE_BOOL ? H5Tcopy(type) : H5Tcopy(native_type(r->dtype));
    H5Tclose(type);
    if (r->dtype != QB_DTYPE_NONE) return QB_OK;
    return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected numbers of 8 to 64 bits", name);
}

static qb_status find_shape(qb_ctx *cx, const char *name, qb_h5_rows *r) {
    hid_t space = H5Dget_space(r->set);
    r->rank = H5Sget_simple_extent_ndims(space);
    const bool fits = r->rank >= 1 && r->rank <= QB_MAX_RANK &&
                      H5Sget_simple_extent_dims(space, r->dim, NULL) == r->rank;
    H5Sclose(space);
    if (!fits)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: expected 1 to %d dimensions, got %d", name,
                       QB_MAX_RANK, r->rank);
    for (int i = 0; i < r->rank; i++)
        if (r->dim[i] > (hsize_t)1 << 48)
            return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: dimension %d is %llu", name, i,
                           (unsigned long long)r->dim[i]);
    return QB_OK;
}

static size_t at_most(double bytes, size_t most) {
    return bytes < (double)most ? (size_t)bytes : most;
}

/* How the data lie in the file. */
static qb_status check_chunks(qb_ctx *cx, const char *name, qb_h5_rows *r) {
    QB_RELEASED(qb_h5_close) hid_t list = H5Dget_create_plist(r->set);
    hsize_t chunk[QB_MAX_RANK] = {0};
    if (H5Pget_layout(list) != H5D_CHUNKED) return QB_OK;
    const int rank = H5Pget_chunk(list, QB_MAX_RANK, chunk);
    if (rank != r->rank)
        return qb_fail(cx, QB_STATUS_FORMAT, "%s: chunks of %d dimensions, expected %d", name, rank,
                       r->rank);
    double bytes = (double)qb_dtype_size(r->dtype), chunks = 1;
    for (int i = 0; i < rank; i++) {
        bytes *= (double)chunk[i];
        if (i > 0) chunks *= (double)((r->dim[i] + chunk[i] - 1) / chunk[i]);
    }
    if (bytes > (double)CHUNK_BYTES_MAX)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: chunks of %.0f bytes, the limit is %zu",
                       name, bytes, CHUNK_BYTES_MAX);
    r->chunk_rows = chunk[0];
    r->cache = at_most(bytes * chunks, CACHE_BYTES_MAX);
    if (r->cache < CACHE_BYTES_USUAL) r->cache = CACHE_BYTES_USUAL;
    /* Packed chunks and unpacked ones; unpacking one doubles its memory until it fits. */
    r->most = at_most(bytes * chunks, PACKED_BYTES_MAX) + r->cache + 4 * (size_t)bytes;
    return QB_OK;
}

static int64_t find_offset(const qb_h5_rows *r) {
    hid_t list = H5Dget_create_plist(r->set), type = H5Dget_type(r->set);
    const haddr_t at = H5Pget_layout(list) == H5D_CONTIGUOUS && H5Tequal(type, r->memory) > 0
                           ? H5Dget_offset(r->set)
                           : HADDR_UNDEF;
    H5Tclose(type);
    H5Pclose(list);
    return at == HADDR_UNDEF || at > INT64_MAX ? -1 : (int64_t)at;
}

qb_status qb_h5_open_inside(qb_ctx *cx, hid_t file, const char *name, hid_t *out) {
    const qb_h5_place place = qb_h5_place_of(file, name);
    const hid_t set = place == QB_H5_INSIDE ? H5Dopen2(file, name, H5P_DEFAULT) : -1;
    if (place == QB_H5_LINKED)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: a link, expected data in the file itself",
                       name);
    if (set < 0) return qb_h5_fail_as(cx, QB_STATUS_FORMAT, name);
    *out = set;
    if (qb_h5_stores_inside(set)) return QB_OK;
    H5Dclose(set);
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: data outside the file", name);
}

static qb_status open_rows(qb_ctx *cx, hid_t file, const char *name, qb_h5_rows *r) {
    QB_TRY(qb_h5_open_inside(cx, file, name, &r->set));
    QB_TRY(find_type(cx, name, r));
    QB_TRY(find_shape(cx, name, r));
    QB_TRY(check_chunks(cx, name, r));
    r->offset = find_offset(r);
    return QB_OK;
}

qb_status qb_h5_rows_open(qb_ctx *cx, hid_t file, const char *name, qb_h5_rows *out) {
    static const qb_h5_rows closed = {.set = -1, .memory = -1, .copy = -1};
    QB_RELEASED(qb_h5_rows_close) qb_h5_rows rows = closed;
    QB_TRY(open_rows(cx, file, name, &rows));
    *out = rows;
    rows = closed;
    return QB_OK;
}

void qb_h5_rows_close(qb_h5_rows *rows) {
    if (rows->memory >= 0) H5Tclose(rows->memory);
    qb_h5_close(&rows->copy);
    qb_h5_close(&rows->set);
    rows->memory = rows->set = rows->copy = -1;
}

qb_desc qb_h5_rows_desc(const qb_h5_rows *rows) {
    qb_desc desc = {.dtype = rows->dtype, .shape = {.rank = rows->rank, .dim = {1}}};
    for (int i = 1; i < rows->rank; i++) desc.shape.dim[i] = (int64_t)rows->dim[i];
    return desc;
}

/* The chunks that hold row `at` are copied; *in becomes its place among their rows. */
static qb_status enter_chunks(qb_ctx *cx, qb_h5_rows *rows, hsize_t at, hsize_t *in) {
    const hsize_t first = at - at % rows->chunk_rows;
    *in = at - first;
    if (rows->copy >= 0 && rows->copied == first) return QB_OK;
    qb_h5_close(&rows->copy);
    rows->copy = -1;
    rows->copied = first;
    return qb_h5_chunks_copy(cx, rows->set, first, rows->chunk_rows, rows->cache, &rows->copy);
}

qb_status qb_h5_rows_read(qb_ctx *cx, qb_h5_rows *rows, hsize_t at, void *out) {
    if (rows->chunk_rows > 0) QB_TRY(enter_chunks(cx, rows, at, &at));
    const hid_t set = rows->chunk_rows > 0 ? rows->copy : rows->set;
    hsize_t start[QB_MAX_RANK] = {at}, count[QB_MAX_RANK] = {1};
    for (int i = 1; i < rows->rank; i++) count[i] = rows->dim[i];
    QB_RELEASED(qb_h5_close)
    hid_t from = H5Dget_space(set), to = H5Screate_simple(rows->rank, count, NULL);
    if (from < 0 || to < 0 ||
        H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        H5Dread(set, rows->memory, to, from, H5P_DEFAULT, out) < 0)
        return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "read");
    return QB_OK;
}
