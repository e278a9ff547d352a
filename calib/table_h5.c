#include "calib/table_h5_internal.h"

#include <stdio.h>
#include <string.h>

const qb_h5_column qb_h5_columns[QB_H5_COLUMNS] = {
    {"exponent", offsetof(qb_stats, exponent), 4, QB_H5_I32},
    {"min", offsetof(qb_stats, min), 4, QB_H5_F32},
    {"max", offsetof(qb_stats, max), 4, QB_H5_F32},
    {"count", offsetof(qb_stats, count), 8, QB_H5_U64},
    {"zeros", offsetof(qb_stats, zeros), 8, QB_H5_U64},
    {"nan", offsetof(qb_stats, nan), 8, QB_H5_U64},
    {"pos_inf", offsetof(qb_stats, pos_inf), 8, QB_H5_U64},
    {"neg_inf", offsetof(qb_stats, neg_inf), 8, QB_H5_U64},
};

hid_t qb_h5_file_type(qb_h5_type type) {
    const hid_t types[] = {H5T_STD_I32LE, H5T_IEEE_F32LE, H5T_STD_U64LE, H5T_STD_I64LE};
    return types[type];
}

hid_t qb_h5_memory_type(qb_h5_type type) {
    const hid_t types[] = {H5T_NATIVE_INT32, H5T_NATIVE_FLOAT, H5T_NATIVE_UINT64, H5T_NATIVE_INT64};
    return types[type];
}

hid_t qb_h5_text_type(size_t size) {
    hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0) H5Tset_size(type, size);
    return type;
}

static herr_t keep_deepest(unsigned n, const H5E_error2_t *error, void *text) {
    (void)n;
    snprintf(text, 160, "%s", error->desc ? error->desc : "unknown");
    return 0;
}

qb_status qb_h5_fail(const qb_h5 *h, qb_status code, const char *field) {
    char text[160] = "unknown";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_deepest, text);
    return qb_fail(h->cx, code, "%s: %s: HDF5: %s", h->name, field, text);
}

void qb_h5_user_block(const uint8_t *rest, size_t size, char text[QB_H5_USER_BLOCK]) {
    char hash[33];
    qb_hash_hex(qb_hash_bytes(rest, size), hash);
    memset(text, 0, QB_H5_USER_BLOCK);
    snprintf(text, QB_H5_USER_BLOCK, QB_H5_TITLE "%d\nxxh3 %s\n", QB_H5_VERSION, hash);
}

herr_t qb_h5_row(hid_t set, hid_t space, hid_t memory, qb_h5_type type, int32_t row, hsize_t width,
                 const void *out, void *in) {
    const hsize_t start[2] = {(hsize_t)row, 0}, count[2] = {1, width};
    const hid_t number = qb_h5_memory_type(type);
    herr_t done = H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
    if (done >= 0)
        done = out ? H5Dwrite(set, number, memory, space, H5P_DEFAULT, out)
                   : H5Dread(set, number, memory, space, H5P_DEFAULT, in);
    return done;
}

void *qb_h5_bins_of(const qb_table_entry *entry) { return entry->stats->bin; }
void *qb_h5_minima_of(const qb_table_entry *entry) { return entry->sample_min; }
void *qb_h5_maxima_of(const qb_table_entry *entry) { return entry->sample_max; }
