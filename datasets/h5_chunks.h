/* Chunks of an HDF5 dataset, held to the size that they should unpack to. The library (1.10) does
 * not look at it: it takes a chunk that unpacks to less for a whole one and reads what lies behind
 * it in memory. Callers hold qb_h5_lock. */
#ifndef QB_DATASETS_H5_CHUNKS_H
#define QB_DATASETS_H5_CHUNKS_H

#include <hdf5.h>

#include "base/ctx.h"

/* Copies the packed chunks of rows first to first + n - 1 of a chunked dataset into one of n rows
 * in memory, of the same type, chunks and filters. Reading that one unpacks them, and fails with
 * the library's error "a chunk of B bytes unpacks to U" where sizes differ. `first` is the first
 * row of a chunk. `cache` bytes of unpacked chunks are kept (at least one chunk). The caller closes
 * *out. Memory: the packed bytes, with the largest chunk once more. Errors: FORMAT for what the
 * library cannot read or a chunk packed to more than twice its size, UNSUPPORTED for chunks at an
 * edge that are left unpacked. */
qb_status qb_h5_chunks_copy(qb_ctx *cx, hid_t set, hsize_t first, hsize_t n, size_t cache,
                            hid_t *out);

/* Fails with the library's own innermost reason. */
qb_status qb_h5_fail_as(qb_ctx *cx, qb_status code, const char *what);

#endif
