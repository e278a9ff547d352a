#include "datasets/h5_chunks.h"

#include <stdio.h>

#include "datasets/h5_inside.h"

/* Filters 256 to 511 are for use within one program; this one stands in no file. */
#define SIZE_FILTER ((H5Z_filter_t)300)
#define FILTER_SETTINGS 64
#define COPY "copy"

/* The innermost reason that the library has for its last failure. */
static herr_t keep_text(unsigned n, const H5E_error2_t *error, void *text) {
    if (n == 0 && error->desc) snprintf(text, 128, "%s", error->desc);
    return 0;
}

qb_status qb_h5_fail_as(qb_ctx *cx, qb_status code, const char *what) {
    char text[128] = "unknown reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_text, text);
    return qb_fail(cx, code, "%s: %s", what, text);
}

/* A filter that changes nothing. It stands first, so it sees what all others have unpacked. */
static size_t check_size(unsigned flags, size_t n, const unsigned setting[], size_t bytes,
                         size_t *buffer_size, void **buffer) {
    (void)buffer_size;
    (void)buffer;
    if (!(flags & H5Z_FLAG_REVERSE) || (n == 1 && bytes == setting[0])) return bytes;
    H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_PLINE, H5E_BADSIZE,
             "a chunk of %u bytes unpacks to %zu", n == 1 ? setting[0] : 0, bytes);
    return 0;
}

static const H5Z_class2_t size_filter = {
    .version = H5Z_CLASS_T_VERS,
    .id = SIZE_FILTER,
    .encoder_present = 1,
    .decoder_present = 1,
    .name = "size of a chunk",
    .filter = check_size,
};

/* The creation properties of `set`, with the check as its first filter. Negative: failed. */
static hid_t checked_properties(hid_t plan, size_t chunk_bytes) {
    const unsigned size = (unsigned)chunk_bytes;
    const int n = H5Pget_nfilters(plan);
    hid_t out = H5Pcopy(plan);
    herr_t done = out < 0 || n < 0 ? -1 : H5Zregister(&size_filter);
    if (done >= 0 && n > 0) done = H5Premove_filter(out, H5Z_FILTER_ALL);
    if (done >= 0) done = H5Pset_filter(out, SIZE_FILTER, H5Z_FLAG_MANDATORY, 1, &size);
    for (int i = 0; i < n && done >= 0; i++) {
        unsigned flags, config, setting[FILTER_SETTINGS];
        size_t settings = FILTER_SETTINGS;
        const H5Z_filter_t filter =
            H5Pget_filter2(plan, (unsigned)i, &flags, &settings, setting, 0, NULL, &config);
        done = filter < 0 || settings > FILTER_SETTINGS
                   ? -1
                   : H5Pset_filter(out, filter, flags, settings, setting);
    }
    if (done >= 0) done = H5Pset_alloc_time(out, H5D_ALLOC_TIME_INCR);
    if (done >= 0) return out;
    qb_h5_close(&out);
    return -1;
}

/* An empty dataset in a file without a disk, which ends with its last open dataset. */
static hid_t create_in_memory(hid_t set, hid_t plan, size_t chunk_bytes, int rank,
                              const hsize_t *dim) {
    char name[40];
    /* The library takes files of one name for one file. */
    snprintf(name, sizeof name, "chunks of %lld", (long long)set);
    QB_RELEASED(qb_h5_close)
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), stored = H5Dget_type(set),
          type = H5Tcopy(stored), /* `stored` may be a named one, of its file */
        space = H5Screate_simple(rank, dim, NULL), checked = checked_properties(plan, chunk_bytes);
    if (access < 0 || type < 0 || space < 0 || checked < 0 ||
        H5Pset_fapl_core(access, (size_t)64 << 10, 0) < 0)
        return -1;
    QB_RELEASED(qb_h5_close) hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    return file < 0 ? -1 : H5Dcreate2(file, COPY, type, space, H5P_DEFAULT, checked, H5P_DEFAULT);
}

/* Opens it again: the library (1.10 and 2.0) forgets which filters the last chunk written did
 * without while it stays open. */
static hid_t reopen(hid_t *set, size_t cache) {
    QB_RELEASED(qb_h5_close)
    hid_t file = H5Iget_file_id(*set), access = H5Pcreate(H5P_DATASET_ACCESS);
    qb_h5_close(set);
    *set = -1;
    if (file < 0 || access < 0 ||
        H5Pset_chunk_cache(access, H5D_CHUNK_CACHE_NSLOTS_DEFAULT, cache, 1.0) < 0)
        return -1;
    return H5Dopen2(file, COPY, access);
}

/* The packed bytes of a chunk; one that was never written stays absent, which is the fill value. */
static qb_status copy_chunk(qb_ctx *cx, hid_t from, const hsize_t *at, hid_t to,
                            const hsize_t *place, size_t chunk_bytes) {
    haddr_t stored = HADDR_UNDEF;
    hsize_t packed = 0;
    unsigned mask = 0;
    uint32_t left_out = 0; /* filters that this chunk did without */
    if (H5Dget_chunk_info_by_coord(from, at, &mask, &stored, &packed) < 0)
        return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "chunk");
    if (stored == HADDR_UNDEF) return QB_OK;
    if (packed > 2 * (hsize_t)chunk_bytes + 1024)
        return qb_fail(cx, QB_STATUS_FORMAT, "a chunk of %zu bytes is packed to %llu", chunk_bytes,
                       (unsigned long long)packed);
    QB_FREED uint8_t *bytes = QB_NEW(cx, qb_alloc(cx, (size_t)packed, 1));
    if (H5Dread_chunk(from, H5P_DEFAULT, at, &left_out, bytes) < 0 ||
        H5Dwrite_chunk(to, H5P_DEFAULT, left_out << 1, place, (size_t)packed, bytes) < 0)
        return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "chunk");
    return QB_OK;
}

/* The next chunk, the last axis first; false: there is none. */
static bool next_chunk(int rank, const hsize_t *dim, const hsize_t *chunk, hsize_t *place) {
    for (int i = rank - 1; i >= 0; i--) {
        place[i] += chunk[i];
        if (place[i] < dim[i]) return true;
        place[i] = 0;
    }
    return false;
}

qb_status qb_h5_chunks_copy(qb_ctx *cx, hid_t set, hsize_t first, hsize_t n, size_t cache,
                            hid_t *out) {
    QB_RELEASED(qb_h5_close)
    hid_t plan = H5Dget_create_plist(set), space = H5Dget_space(set), type = H5Dget_type(set),
          copy = -1;
    hsize_t dim[H5S_MAX_RANK], chunk[H5S_MAX_RANK], place[H5S_MAX_RANK] = {0};
    const int rank = H5Sget_simple_extent_dims(space, dim, NULL);
    unsigned options = 0;
    if (rank < 1 || H5Pget_chunk(plan, H5S_MAX_RANK, chunk) != rank ||
        H5Pget_chunk_opts(plan, &options) < 0)
        return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "chunks");
    if (options != 0)
        return qb_fail(cx, QB_STATUS_UNSUPPORTED, "chunks at the edges are left unpacked");
    size_t bytes = H5Tget_size(type); /* HDF5 itself keeps chunks below 4 GiB */
    for (int i = 0; i < rank; i++) bytes *= (size_t)chunk[i];
    dim[0] = n;
    copy = create_in_memory(set, plan, bytes, rank, dim);
    if (copy < 0) return qb_h5_fail_as(cx, QB_STATUS_FORMAT, "chunks");
    bool more = true;
    for (int i = 0; i < rank; i++) more = more && dim[i] > 0;
    while (more) {
        hsize_t at[H5S_MAX_RANK];
        for (int i = 0; i < rank; i++) at[i] = place[i] + (i == 0 ? first : 0);
        QB_TRY(copy_chunk(cx, set, at, copy, place, bytes));
        more = next_chunk(rank, dim, chunk, place);
    }
    *out = reopen(&copy, cache);
    return *out < 0 ? qb_h5_fail_as(cx, QB_STATUS_FORMAT, "chunks") : QB_OK;
}
