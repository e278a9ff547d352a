/* Statistics of what an FP32 engine computes, gathered by several workers. */
#ifndef QB_CALIB_GATHER_H
#define QB_CALIB_GATHER_H

#include "calib/calib.h"
#include "calib/table.h"
#include "calib/unions.h"
#include "stream/stream.h"

/* What one worker saw: a table of its own without ranges. Its samples are in the order they came,
 * and each entry's extremes have room for `capacity` of them; recording ends when there are more
 * than QB_TABLE_SAMPLES. */
typedef struct qb_gather_part {
    qb_table *table; /* unions are empty in it */
    uint64_t *key;
    size_t n, key_capacity;
    int64_t capacity;
} qb_gather_part;

typedef struct qb_gather {
    int32_t workers;
    bool per_channel; /* extremes of channels, too */
    int64_t channels; /* how many there are in values of known shape */
    qb_gather_part *part;
    qb_unions unions;  /* values that are not looked at */
    void **no_outputs; /* NULLs: outputs are not copied out */
} qb_gather;

/* Empty statistics of every float value of the graph that reaches memory, for each worker: nothing
 * but the samples' extremes grows later. `workers` becomes fewer, but no fewer than `least`, where
 * they would not fit into memory that is meant for them. */
qb_status qb_gather_init(qb_ctx *cx, const qb_graph *graph, int32_t workers, int32_t least,
                         bool per_channel, qb_gather *out);
/* What a run over n samples takes. */
qb_calib_memory qb_gather_memory(const qb_gather *gather, int64_t n_samples);
void qb_gather_release(qb_gather *gather); /* accepts zeroed */
/* Runs engine 0 on a sample and adds what its values hold; one call a worker at a time. */
qb_status qb_gather_sample(qb_ctx *cx, qb_gather *gather, const qb_stream_sample *sample);
/* Is this value gathered, or does it follow from others? */
bool qb_gather_wants(const qb_gather *gather, const char *value);
/* What a device gathered, as one of the workers: a sample (*at is its number with that worker), the
 * extremes of one value of it, and statistics of a value over samples. */
qb_status qb_gather_count(qb_ctx *cx, qb_gather *gather, int32_t worker, uint64_t key, int64_t *at);
qb_status qb_gather_extremes(qb_ctx *cx, qb_gather *gather, int32_t worker, const char *value,
                             int64_t at, qb_range own);
/* Where they are to be merged into; valid until the worker's next value that is new. */
qb_status qb_gather_stats(qb_ctx *cx, qb_gather *gather, int32_t worker, const char *value,
                          qb_stats **out);
/* Everything so far as one table: statistics (also of values with nothing finite yet) and samples
 * in ascending order. Nobody may be gathering meanwhile. */
qb_status qb_gather_table(qb_ctx *cx, const qb_gather *gather, qb_table **out);
/* Adds the statistics and samples of an earlier run to what is gathered. */
qb_status qb_gather_add(qb_ctx *cx, qb_gather *gather, const qb_table *table);
#endif
