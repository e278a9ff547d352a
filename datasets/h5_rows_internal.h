/* HDF5 datasets whose first axis counts samples, read a row at a time. Sizes and types come from
 * the file and are not trusted: each is checked before memory depends on it. Callers hold
 * qb_h5_lock. */
#ifndef QB_DATASETS_H5_ROWS_INTERNAL_H
#define QB_DATASETS_H5_ROWS_INTERNAL_H

#include <hdf5.h>

#include "kernels/tensor.h"

typedef struct qb_h5_rows {
    hid_t set, memory; /* the dataset; the type of its elements in memory. Negative: not open */
    qb_dtype dtype;
    int rank;
    hsize_t dim[QB_MAX_RANK];
    hsize_t chunk_rows; /* 0: no chunks */
    hid_t copy;         /* the chunks of rows from `copied` on (h5_chunks.h); negative: none yet */
    hsize_t copied;
    size_t cache; /* bytes of unpacked chunks that are kept: a chunk of many samples is unpacked
                     once, not once a sample */
    size_t most;  /* bytes that the library takes: packed chunks, cached ones, one being unpacked */
    int64_t offset; /* in the file, where rows lie one after the other as they are in memory; -1:
                       they do not */
} qb_h5_rows;

/* A dataset whose bytes lie in the file, by a path without links. The caller closes it. */
qb_status qb_h5_open_inside(qb_ctx *cx, hid_t file, const char *name, hid_t *out);
/* Opens a dataset of numbers of rank 1 to 8. Floats of any size up to 32 bits become f32; booleans
 * as h5py writes them are known. Links, external storage and chunks over 512 MiB are refused. */
qb_status qb_h5_rows_open(qb_ctx *cx, hid_t file, const char *name, qb_h5_rows *out);
void qb_h5_rows_close(qb_h5_rows *rows); /* accepts closed ones */
/* Type and shape of one row: [1, ...]. */
qb_desc qb_h5_rows_desc(const qb_h5_rows *rows);
/* Reads row `at` into memory of that size. */
qb_status qb_h5_rows_read(qb_ctx *cx, qb_h5_rows *rows, hsize_t at, void *out);

#endif
