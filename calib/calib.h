/* Calibration: from observed histograms to ranges. One row in methods.def and one file in methods/
 * each; a method is a pure function of what was observed of a tensor. */
#ifndef QB_CALIB_CALIB_H
#define QB_CALIB_CALIB_H

#include "calib/table.h"
#include "datasets/loader.h"
#include "engine/devices.h"

/* What a method may look at: one tensor. */
typedef struct qb_observed {
    const qb_stats *stats; /* has at least one finite value */
    /* Extremes of each sample in the order of their keys (low > high: nothing finite in it); NULL
     * where they were not recorded. */
    const float *sample_min, *sample_max;
    int64_t n_samples;
    /* Ranges of the table's other methods, in their order; only for methods that choose. */
    const qb_range *candidate;
    int32_t n_candidates;
} qb_observed;

typedef struct qb_method_choice qb_method_choice;

typedef struct qb_calib_method {
    const char *name;     /* "entropy" */
    const char *summary;  /* one line for the help */
    const char *argument; /* meaning of the number after the colon ("percent kept"), or NULL */
    double argument_default, argument_min, argument_max;
    const char *const *variants; /* words that may follow ("nvidia"), ending with NULL; the first is
                                    meant where none is given. NULL: no variants */
    bool needs_samples;          /* reads sample_min and sample_max */
    bool chooses;                /* picks among `candidate`; computed after the other methods */
    /* The range to quantize over, within [stats->min, stats->max]; zero need not be in it. */
    qb_status (*range)(qb_ctx *cx, const qb_observed *seen, const qb_method_choice *choice,
                       qb_range *out);
} qb_calib_method;

/* A method with its argument and variant, as "percentile:99.99:one-sided" spells it. */
struct qb_method_choice {
    const qb_calib_method *method;
    double argument;
    int32_t variant; /* index in method->variants; 0 without any */
};
/* Parses NAME[:NUMBER][:VARIANT]; an unknown name lists the known ones. */
qb_status qb_method_parse(qb_ctx *cx, const char *text, qb_method_choice *out);
/* The canonical spelling ("percentile:99.99"): with the number, without the first variant. */
char *qb_method_text(const qb_method_choice *choice, char *text, size_t n);
/* Does the method find the extremes of each sample that it reads, where so many are recorded? */
qb_status qb_method_check_samples(qb_ctx *cx, const qb_method_choice *choice, int64_t recorded,
                                  int64_t samples);
/* [lo, hi] moved into what was seen, in order whatever its ends are. */
qb_range qb_range_within(const qb_stats *stats, double lo, double hi);
/* The same for ends in units of the histogram's bins from zero. */
qb_range qb_range_of_bins(const qb_stats *stats, double lo, double hi);

/* What the statistics of a run take, which is known before it starts. */
typedef struct qb_calib_memory {
    int32_t tensors, threads;
    size_t histogram; /* bytes of a tensor's histogram and counts, for each thread */
    int64_t samples;  /* whose extremes are recorded, for each tensor */
    int64_t channels; /* whose extremes are kept, over all tensors of known shape; 0: none */
    size_t bytes;     /* all of it */
} qb_calib_memory;

typedef struct qb_calib_options {
    const qb_method_choice *methods; /* the first one is the table's chosen method */
    int32_t n_methods;
    qb_build_spec spec;       /* of the FP32 engine, but for shapes and what makes it observable */
    qb_devices devices;       /* for backends that begin with a device; none: spec.device */
    qb_loader_options loader; /* dataset, preprocessing, batch, threads, strict */
    int64_t hold_back;        /* above 1: of every so many samples the last one is left out */
    int32_t workers;          /* contexts running side by side; 0: qb_threads(cx) */
    qb_shards shards;         /* which part of a run the data set is; zeroed: all of it */
    const char *checkpoint;   /* file to save progress in; NULL: none. The caller removes it */
    double checkpoint_s;      /* seconds between saves */
    bool resume;              /* go on from the checkpoint where there is one */
    bool per_channel;         /* also the extremes of each channel, by the processor */
    qb_calib_memory *memory;  /* set and told before the first sample; may be NULL */
} qb_calib_options;

/* Streams the data through an FP32 engine of `graph` (optimized, float) once and fills a table with
 * the statistics of every value that reaches memory, here or in engines that fuse less (see
 * qb_keep_inner), and the ranges by each method. Every sample
 * runs alone on one thread, so the result is the same for any batch size and any number of workers
 * or devices. */
qb_status qb_calibrate(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                       qb_table **out);
/* The two halves of it: statistics only (no methods yet), which may be merged with others; and the
 * check that every tensor has finite values, and the choice. */
qb_status qb_calib_gather(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                          qb_table **out);
qb_status qb_calib_finish(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                          int32_t n_methods);
/* Chooses ranges again from the statistics in the table: no inference. The same ranges for any
 * number of threads. A method that needs what the table has not recorded is QB_STATUS_UNSUPPORTED.
 */
qb_status qb_table_choose(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                          int32_t n_methods);
#endif
