/* The calibration table: statistics and ranges by tensor name, stored as .calib.h5. */
#ifndef QB_CALIB_TABLE_H
#define QB_CALIB_TABLE_H

#include "base/hash.h"
#include "calib/channels.h"
#include "kernels/stats.h"

#define QB_TABLE_METHODS 16
#define QB_TABLE_ENTRIES 16384 /* most that a file may hold: 1 GiB of statistics */
#define QB_TABLE_SAMPLES 8192  /* most whose extremes are recorded: 64 KiB a tensor */
#define QB_METHOD_TEXT 48
#define QB_TABLE_FINDINGS 60000 /* most bytes of `doctor`: HDF5's attributes take 64 KiB */
#define QB_TABLE_SHARDS 1024    /* most parts that a run can be divided into */

/* Floats that are represented without clipping, within what was seen. The quantizer widens it
 * to hold zero. */
typedef struct qb_range {
    float lo, hi;
} qb_range;

typedef struct qb_table_entry {
    char *name;      /* value name in the optimized graph */
    qb_stats *stats; /* of no values where the range was imported from another tool */
    float *sample_min, *sample_max;   /* [n_recorded], NULL when that is 0: extremes of the finite
                                         values of each sample; +inf and -inf where it had none */
    qb_channels channels;             /* n is 0 unless the table is `per_channel` */
    qb_range range[QB_TABLE_METHODS]; /* by method, in the table's order */
} qb_table_entry;

/* Which parts of the data a table was made from. n == 0: all of it. */
typedef struct qb_shards {
    int32_t n;
    bool has[QB_TABLE_SHARDS]; /* part i + 1 of n */
} qb_shards;
/* "2,3/4", "" for all; returns text. Only the first parts when there is no room. */
char *qb_shards_text(const qb_shards *shards, char *text, size_t n);
/* Reads that; false when it is something else. All parts of n are the same as "". */
bool qb_shards_parse(const char *text, qb_shards *out);

typedef struct qb_table {
    int32_t n_entries, n_methods;
    size_t capacity;
    qb_table_entry *entry;                         /* sorted by name */
    char method[QB_TABLE_METHODS][QB_METHOD_TEXT]; /* canonical spelling; [0] is the chosen one */
    char *model;                                   /* file name of the model, for messages */
    char *dataset;   /* path as given, for messages; files keep its last part */
    int64_t samples; /* used */
    int64_t skipped; /* unreadable */
    int64_t blank;   /* images that show nothing; 0 also where samples are tensors */
    /* Samples whose extremes are recorded: all, or 0 when there were more than QB_TABLE_SAMPLES. */
    int64_t n_recorded;
    char *doctor;     /* what `data doctor` found in the data before the run, as JSON; NULL: not
                         asked, or of merged tables */
    uint64_t *sample; /* [samples] used, ascending, each as the first 64 bits of its content's hash;
                         NULL: not known */
    qb_hash model_hash, data_hash;
    bool per_channel; /* extremes of channels were looked at; values that join or reorder others
                         have none of their own */
    qb_hash recovered_from; /* of the model that the table's own was recovered from
                               (quant/recover/recover.h); zero: none */
    /* What merging needs. */
    char *preprocess; /* how samples became inputs, as text; NULL: not known */
    qb_shards shards;
    qb_hash data_sum; /* sum of the samples' hashes, see qb_loader_progress */
} qb_table;

/* Entries with empty statistics and no names yet. */
qb_status qb_table_create(qb_ctx *cx, int32_t n_entries, qb_table **out);
/* Room for the extremes of n samples in every entry and for `sample` (unless it is there), all
 * zero; at most QB_TABLE_SAMPLES. */
qb_status qb_table_record(qb_ctx *cx, qb_table *table, int64_t n_samples);
void qb_table_free(qb_table *table); /* accepts NULL */
QB_RELEASE_AT(qb_table, qb_table_free)
const qb_table_entry *qb_table_find(const qb_table *table, const char *name); /* NULL when absent */
/* Index of a method by canonical spelling, or by bare name when that is unambiguous; -1. */
int32_t qb_table_method(const qb_table *table, const char *text);

void qb_table_entry_release(qb_table_entry *entry);
/* Sorts the entries by name, as files and qb_table_find want them. */
void qb_table_sort(qb_table *table);
/* The entry of this tensor, made empty and without extremes at its place when there is none. It
 * moves when the next one is made. */
qb_status qb_table_slot(qb_ctx *cx, qb_table *table, const char *name, qb_table_entry **out);
/* A new table of the tensors, samples and shards of x and y. Exact, and the order does not matter.
 * Both must come from one model and one preprocessing, and not share data: parts of the same run
 * differ, whole runs have no sample in common. Errors (QB_STATUS_MISMATCH) name the tables (`a` and
 * `b`: their files) and both sides. It has no methods and ranges yet: see qb_table_choose. */
qb_status qb_table_merge(qb_ctx *cx, const qb_table *x, const qb_table *y, const char *a,
                         const char *b, qb_table **out);

/* The file is HDF5 behind a user block of 512 bytes that names the version and holds a hash of the
 * rest; h5dump and h5py open it. Without timestamps and folders: the same table gives the same
 * bytes. Atomic. HDF5 is not thread safe: no other thread may be reading a dataset. */
qb_status qb_table_save(qb_ctx *cx, const qb_table *table, const char *path);
/* The same bytes as new memory. */
qb_status qb_table_write(qb_ctx *cx, const qb_table *table, uint8_t **bytes, size_t *size);
/* Everything is checked (hash, types, shapes, counts, order, finite ranges) before it is used.
 * Errors name the file and the field. */
qb_status qb_table_load(qb_ctx *cx, const char *path, qb_table **out);
/* The same from memory; `name` for messages. */
qb_status qb_table_parse(qb_ctx *cx, const char *name, const void *bytes, size_t size,
                         qb_table **out);
/* Ranges of another tool, without statistics: of the tensors that it gives a range, which need not
 * be all that integer layers read or write. */
bool qb_table_is_imported(const qb_table *table);
/* QB_STATUS_MISMATCH naming both sides unless the table was made from the model with this hash. */
qb_status qb_table_check_model(qb_ctx *cx, const qb_table *table, const char *model,
                               qb_hash model_hash);
#endif
