#include "datasets/h5_rows_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "datasets/h5_inside.h"
#include "datasets/h5_lock.h"

#define CHUNK_BYTES_MAX ((size_t)512 << 20)
#define CACHE_BYTES_MAX ((size_t)256 << 20)
#define CACHE_BYTES_USUAL ((size_t)1 << 20) /* the library's own */

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

/* The innermost reason that the library has for its last failure. */
static herr_t keep_text(unsigned n, const H5E_error2_t *error, void *text) {
    if (n == 0 && error->desc) snprintf(text, 128, "%s", error->desc);
    return 0;
}

qb_status qb_h5_rows_fail(qb_ctx *cx, qb_status code, const char *what) {
    char text[128] = "unknown reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_text, text);
    return qb_fail(cx, code, "%s: %s", what, text);
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

/* How the data lie in the file; *cache becomes what holds the chunks of two samples, so that a
 * chunk with many samples is unpacked once, not once a sample. */
static qb_status check_chunks(qb_ctx *cx, const char *name, qb_h5_rows *r, size_t *cache) {
    hid_t list = H5Dget_create_plist(r->set);
    H5D_layout_t layout = H5Pget_layout(list);
    hsize_t chunk[QB_MAX_RANK] = {0};
    int rank = layout == H5D_CHUNKED ? H5Pget_chunk(list, QB_MAX_RANK, chunk) : r->rank;
    H5Pclose(list);
    *cache = 0;
    if (layout != H5D_CHUNKED) return QB_OK;
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
    const double wanted = 2 * bytes * chunks;
    *cache = wanted > (double)CACHE_BYTES_MAX ? CACHE_BYTES_MAX : (size_t)wanted;
    r->most = *cache + 4 * (size_t)bytes; /* unpacking doubles its memory until it fits */
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
    if (set < 0) return qb_h5_rows_fail(cx, QB_STATUS_FORMAT, name);
    *out = set;
    if (qb_h5_stores_inside(set)) return QB_OK;
    H5Dclose(set);
    return qb_fail(cx, QB_STATUS_UNSUPPORTED, "%s: data outside the file", name);
}

static qb_status open_rows(qb_ctx *cx, hid_t file, const char *name, qb_h5_rows *r) {
    size_t cache;
    QB_TRY(qb_h5_open_inside(cx, file, name, &r->set));
    QB_TRY(find_type(cx, name, r));
    QB_TRY(find_shape(cx, name, r));
    QB_TRY(check_chunks(cx, name, r, &cache));
    r->offset = find_offset(r);
    if (cache <= CACHE_BYTES_USUAL) return QB_OK;
    H5Dclose(r->set);
    hid_t list = H5Pcreate(H5P_DATASET_ACCESS);
    H5Pset_chunk_cache(list, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, cache, 1.0);
    r->set = H5Dopen2(file, name, list);
    H5Pclose(list);
    return r->set < 0 ? qb_h5_rows_fail(cx, QB_STATUS_FORMAT, name) : QB_OK;
}

qb_status qb_h5_rows_open(qb_ctx *cx, hid_t file, const char *name, qb_h5_rows *out) {
    QB_RELEASED(qb_h5_rows_close) qb_h5_rows rows = {.set = -1, .memory = -1};
    QB_TRY(open_rows(cx, file, name, &rows));
    *out = rows;
    rows = (qb_h5_rows){.set = -1, .memory = -1};
    return QB_OK;
}

void qb_h5_rows_close(qb_h5_rows *rows) {
    if (rows->memory >= 0) H5Tclose(rows->memory);
    if (rows->set >= 0) H5Dclose(rows->set);
    rows->memory = rows->set = -1;
}

qb_desc qb_h5_rows_desc(const qb_h5_rows *rows) {
    qb_desc desc = {.dtype = rows->dtype, .shape = {.rank = rows->rank, .dim = {1}}};
    for (int i = 1; i < rows->rank; i++) desc.shape.dim[i] = (int64_t)rows->dim[i];
    return desc;
}

qb_status qb_h5_rows_read(qb_ctx *cx, const qb_h5_rows *rows, hsize_t at, void *out) {
    hsize_t start[QB_MAX_RANK] = {at}, count[QB_MAX_RANK] = {1};
    for (int i = 1; i < rows->rank; i++) count[i] = rows->dim[i];
    QB_RELEASED(qb_h5_close)
    hid_t from = H5Dget_space(rows->set), to = H5Screate_simple(rows->rank, count, NULL);
    if (from < 0 || to < 0 ||
        H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        H5Dread(rows->set, rows->memory, to, from, H5P_DEFAULT, out) < 0)
        return qb_h5_rows_fail(cx, QB_STATUS_FORMAT, "read");
    return QB_OK;
}
