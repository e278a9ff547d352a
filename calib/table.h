/* The calibration table: statistics and ranges by tensor name, stored as .calib.h5. */
#ifndef QB_CALIB_TABLE_H
#define QB_CALIB_TABLE_H

#include "base/hash.h"
#include "kernels/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QB_TABLE_METHODS 16
#define QB_TABLE_ENTRIES 16384 /* most that a file may hold: 1 GiB of statistics */
#define QB_TABLE_SAMPLES 8192  /* most whose extremes are recorded: 64 KiB a tensor */
#define QB_METHOD_TEXT 48

/* Real values that are represented without clipping, within what was seen. The quantizer widens it
 * to hold zero. */
typedef struct qb_range {
    float lo, hi;
} qb_range;

typedef struct qb_table_entry {
    char *name; /* value name in the optimized graph */
    qb_stats *stats;
    float *sample_min, *sample_max;   /* [n_recorded], NULL when that is 0: extremes of the finite
                                         values of each sample; +inf and -inf where it had none */
    qb_range range[QB_TABLE_METHODS]; /* by method, in the table's order */
} qb_table_entry;

typedef struct qb_table {
    int32_t n_entries, n_methods;
    qb_table_entry *entry;                         /* sorted by name */
    char method[QB_TABLE_METHODS][QB_METHOD_TEXT]; /* canonical spelling; [0] is the chosen one */
    char *model;                                   /* file name of the model, for messages */
    char *dataset;   /* path as given, for messages; files keep its last part */
    int64_t samples; /* used */
    int64_t skipped; /* unreadable */
    /* Samples whose extremes are recorded: all, or 0 when there were more than QB_TABLE_SAMPLES. */
    int64_t n_recorded;
    int64_t *sample; /* [n_recorded] their numbers in the dataset, ascending */
    qb_hash model_hash, data_hash;
} qb_table;

/* Entries with empty statistics and no names yet. */
qb_status qb_table_create(qb_ctx *cx, int32_t n_entries, qb_table **out);
/* Room for the extremes of n samples in every entry, all zero; at most QB_TABLE_SAMPLES. */
qb_status qb_table_record(qb_ctx *cx, qb_table *table, int64_t n_samples);
void qb_table_free(qb_table *table);                                          /* accepts NULL */
const qb_table_entry *qb_table_find(const qb_table *table, const char *name); /* NULL when absent */
/* Index of a method by canonical spelling, or by bare name when that is unambiguous; -1. */
int32_t qb_table_method(const qb_table *table, const char *text);

/* Sorts the entries by name, as files and qb_table_find want them. */
void qb_table_sort(qb_table *table);

/* The file is HDF5 behind a user block of 512 bytes that names the version and holds a hash of the
 * rest; h5dump and h5py open it. Without timestamps and folders: the same table gives the same
 * bytes. Atomic. HDF5 is not thread safe: no other thread may be reading a dataset. */
qb_status qb_table_save(qb_ctx *cx, const qb_table *table, const char *path);
/* Everything is checked (hash, types, shapes, counts, order, finite ranges) before it is used.
 * Errors name the file and the field. */
qb_status qb_table_load(qb_ctx *cx, const char *path, qb_table **out);
/* The same from memory; `name` for messages. */
qb_status qb_table_parse(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                         qb_table **out);
/* QB_STATUS_MISMATCH naming both sides unless the table was made from the model with this hash. */
qb_status qb_table_check_model(qb_ctx *cx, const qb_table *table, const char *model,
                               qb_hash model_hash);

#ifdef __cplusplus
}
#endif
#endif
