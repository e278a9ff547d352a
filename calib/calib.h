/* Calibration: from observed histograms to ranges. One row in methods.def and one file in methods/
 * each; a method is a pure function of a histogram. */
#ifndef QB_CALIB_CALIB_H
#define QB_CALIB_CALIB_H

#include "calib/table.h"
#include "datasets/loader.h"
#include "engine/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qb_calib_method {
    const char *name;     /* "entropy" */
    const char *summary;  /* one line for the help */
    const char *argument; /* meaning of what follows the colon ("percent kept"), or NULL */
    double argument_default, argument_min, argument_max;
    /* The range to quantize over, within [stats->min, stats->max]; zero need not be in it. `stats`
     * has at least one finite value. */
    qb_status (*range)(qb_ctx *cx, const qb_stats *stats, double argument, qb_range *out);
} qb_calib_method;

const qb_calib_method *const *qb_calib_methods(int32_t *n);

/* A method with its argument, as "percentile:99.99" spells it. */
typedef struct qb_method_choice {
    const qb_calib_method *method;
    double argument;
} qb_method_choice;
/* Parses "entropy" or "percentile:99.9"; an unknown name lists the known ones. */
qb_status qb_method_parse(qb_ctx *cx, const char *text, qb_method_choice *out);
/* The canonical spelling ("percentile:99.99"). */
char *qb_method_text(const qb_method_choice *choice, char *text, size_t n);

typedef struct qb_calib_options {
    const qb_method_choice *methods; /* the first one is the table's chosen method */
    int32_t n_methods;
    const char *backends;     /* of the FP32 engine, see qb_engine_options */
    qb_loader_options loader; /* dataset, preprocessing, batch, threads, strict */
    int32_t workers;          /* contexts running side by side; 0: qb_threads(cx) */
} qb_calib_options;

/* Streams the data through an FP32 engine of `graph` (optimized, float) once and fills a table with
 * the statistics of every value that reaches memory, here or in engines that fuse less (see
 * qb_keep_inner), and the ranges by each method. Every sample
 * runs alone on one thread, so the result is the same for any batch size and any number of workers.
 */
qb_status qb_calibrate(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                       qb_table **out);
/* Chooses ranges again from the statistics in the table: no inference. */
qb_status qb_table_choose(qb_ctx *cx, qb_table *table, const qb_method_choice *methods,
                          int32_t n_methods);

#ifdef __cplusplus
}
#endif
#endif
