/* What reading and writing of .calib.h5 share. The file is a user block of 512 bytes, then HDF5:
 *
 *   user block   "qbench calibration table 1\nxxh3 <hash of the rest, 32 digits>\n", zeros
 *   attributes   magic, version, model, dataset, model_hash, data_hash (text), samples, skipped
 *   method       text [methods]; the first is the chosen one
 *   name         text [tensors], ascending
 *   exponent, min, max, count, zeros, nan, pos_inf, neg_inf   [tensors], see qb_stats
 *   bins         u64 [tensors, QB_STATS_BINS], a chunk a tensor, shuffled and deflated
 *   range        f32 [tensors, methods, 2]
 *   sample       i64 [recorded], ascending; absent, with the next two, when nothing is recorded
 *   sample_min, sample_max   f32 [tensors, recorded]
 *   channels     i32 [tensors], see qb_channels; absent, with the next two, when not looked at
 *   channel_min, channel_max   f32 [all channels], tensor after tensor; absent when there are none
 */
#ifndef QB_CALIB_TABLE_H5_INTERNAL_H
#define QB_CALIB_TABLE_H5_INTERNAL_H

#include <hdf5.h>

#include "calib/table.h"

#define QB_H5_USER_BLOCK 512
#define QB_H5_TITLE "qbench calibration table "
#define QB_H5_VERSION 1
#define QB_H5_MAGIC "qbench.calib"
#define QB_H5_TEXT 4096 /* most bytes of a name, with its terminating zero */

/* A file being read or written. */
typedef struct qb_h5 {
    qb_ctx *cx;
    const char *name; /* of the file, for messages */
    hid_t file;
    size_t size; /* bytes of a file being read */
} qb_h5;

typedef enum qb_h5_type { QB_H5_I32, QB_H5_F32, QB_H5_U64, QB_H5_I64 } qb_h5_type;

/* A column of numbers, one a tensor. */
typedef struct qb_h5_column {
    const char *name;
    size_t offset; /* in qb_stats */
    size_t size;
    qb_h5_type type;
} qb_h5_column;

#define QB_H5_COLUMNS 8
extern const qb_h5_column qb_h5_columns[QB_H5_COLUMNS];

hid_t qb_h5_file_type(qb_h5_type type);
hid_t qb_h5_memory_type(qb_h5_type type);
/* A new type: text of `size` bytes. */
hid_t qb_h5_text_type(size_t size);
/* Records an error with HDF5's own message, taken from its error stack. */
qb_status qb_h5_fail(const qb_h5 *h, qb_status code, const char *field);
/* The user block for what follows it. */
void qb_h5_user_block(const uint8_t *rest, size_t size, char text[QB_H5_USER_BLOCK]);
/* Moves row `row` of an [n, width] dataset of numbers out of `out` or into `in`. `space` is the
 * dataset's, `memory` one of [width]: closing them here would clear the error that callers tell. */
herr_t qb_h5_row(hid_t set, hid_t space, hid_t memory, qb_h5_type type, int32_t row, hsize_t width,
                 const void *out, void *in);
/* An entry's row in a dataset [tensors, width]. */
typedef void *(*qb_h5_row_of)(const qb_table_entry *entry);
void *qb_h5_bins_of(const qb_table_entry *entry);
void *qb_h5_minima_of(const qb_table_entry *entry);
void *qb_h5_maxima_of(const qb_table_entry *entry);

#endif
