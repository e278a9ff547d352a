/* The stages, in one direction: load -> calibrate -> quantize -> build -> compare. Each takes const
 * artifacts and returns a new one. */
#ifndef QB_CLI_PIPELINE_H
#define QB_CLI_PIPELINE_H

#include "calib/calib.h"
#include "calib/distribute.h"
#include "calib/holdout.h"
#include "cli/settings/precision.h"
#include "cli/settings/project.h"
#include "cli/stages/build.h"
#include "eval/eval.h"
#include "graph/passes.h"
#include "quant/quant.h"
#include "quant/recover/recover.h"
#include "search/search.h"

/* Reads and optimizes the project's model, or a part of it (NULL: all). `report` may be NULL. */
qb_status qb_stage_load(qb_ctx *cx, const qb_project *project, const qb_onnx_part *part,
                        qb_graph **out, qb_optimize_report *report);
/* Opens a data set for the graph's input, or a part of it (see qb_project_split). Loader options
 * refer to *dataset, which the caller closes after use. */
qb_status qb_stage_data(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                        const char *path, qb_split part, qb_dataset **dataset,
                        qb_loader_options *loader);
/* --devices needs something that runs on one: QB_STATUS_USAGE when they are given and `on_device`
 * is false. */
qb_status qb_stage_check_devices(qb_ctx *cx, const qb_project *project, bool on_device);
/* How a calibration runs; all zero: alone, over all of the data, without checkpoints. */
typedef struct qb_calibrate_settings {
    const char *methods;    /* comma separated; NULL: the project's */
    int32_t shard, shards;  /* part 1..shards; 0: all of the data */
    const qb_ranks *ranks;  /* processes to share the data with; NULL: none */
    const char *checkpoint; /* see qb_calib_options */
    double checkpoint_s;
    bool resume;
    bool per_channel;
    qb_calib_memory *memory; /* what the statistics take; may be NULL */
} qb_calibrate_settings;
/* *out is NULL in other processes than the first one. When auto is among them, it is judged end to
 * end on held-back samples against each single method, and *holdout (may be NULL) gets the scores;
 * otherwise its n is 0. */
qb_status qb_stage_calibrate(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                             const qb_calibrate_settings *settings, qb_table **out,
                             qb_holdout *holdout);
/* Other methods from the statistics in the file `from`, which must be the model's: no data. */
qb_status qb_stage_choose(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                          const char *from, const char *methods, qb_table **out);
/* Loads the project's calibration table, from the output folder or else from the current one, and
 * checks that it belongs to the graph. */
qb_status qb_stage_table(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                         qb_table **out);
/* Warns where the project prepares images otherwise than those that the table was made from. */
void qb_stage_check_preparation(qb_ctx *cx, const qb_project *project, const qb_table *table);
/* Where the spec asks for floats in f16 and there is a calibration of the model, the graph's values
 * get its magnitudes (qb_table_note_largest). One that cannot be used is a warning. */
qb_status qb_stage_note_largest(qb_ctx *cx, const qb_project *project, const qb_build_spec *spec,
                                qb_graph *graph);
/* INT8 as the project says: what a precision leaves open. */
qb_precision qb_stage_precision(const qb_project *project);
/* How to quantize in a precision (NULL: as the project says); `method`: NULL for the table's chosen
 * one. */
qb_quant_options qb_stage_quantization(const qb_project *project, const qb_precision *precision,
                                       const char *method);

/* A model from which quantization takes less (quant/recover/recover.h), by the calibration data, as
 * STEM.recovered.onnx with its ranges, STEM.recovered.calib.h5, and what its layers are before they
 * are rounded, STEM.recovered.float.onnx, in the output folder. `list`: names of recoveries; NULL:
 * all that help. `resume`: go on from STEM.recovered.part. */
qb_status qb_stage_recover(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                           const char *methods, const char *list, bool resume, qb_recovered *out);

/* What is quantized: the model by the project's calibration, or the recovered model by its own. */
typedef struct qb_stage_source {
    const qb_graph *graph;
    qb_graph *recovered; /* NULL: `graph` is the caller's */
    qb_graph
        *unrounded; /* for layers of the recovered model that stay float; NULL: there is none */
    qb_table *table;
} qb_stage_source;

/* The recovered model must have been made of `graph`. What is quantized gets the magnitudes of the
 * table (qb_table_note_largest). */
qb_status qb_stage_source_load(qb_ctx *cx, const qb_project *project, qb_graph *graph, bool recover,
                               qb_stage_source *out);
void qb_stage_source_release(qb_stage_source *source); /* accepts zeroed */

/* The source in a precision, and the method that its ranges are by (the table's). */
qb_status qb_stage_quantize(qb_ctx *cx, const qb_project *project, const qb_stage_source *source,
                            const qb_precision *precision, qb_graph **out, const char **method);

/* Loads, quantizes where the precision says so (with the project's calibration), builds. */
qb_status qb_stage_build(qb_ctx *cx, const qb_project *project, const qb_build_settings *settings,
                         qb_built *out);

/* Compares precisions (see precision.h); the first one is the reference. Others that the backend
 * does not have are left out with a warning. */
typedef struct qb_compare_settings {
    const char *const *precision;
    int32_t n_precisions;
    double duration_s;    /* of the latency measurement, an engine; 0: default */
    const char *batches;  /* "1,8,32": throughput is measured at these as well; may be NULL */
    bool layers;          /* where accuracy goes, a layer a row */
    int64_t thumbnail;    /* largest side of the worst samples' pictures; 0: none */
    struct qb_part *part; /* its shard and shards: that part of the samples alone, without
                             intervals; gets what was measured (eval/part.h). NULL: all */
    qb_status (*before_latency)(qb_ctx *cx, void *user); /* see qb_compare_options */
    void *user;
} qb_compare_settings;
/* The model's classes, by its first output; 0: it has no such output. */
int64_t qb_stage_outputs(const qb_graph *graph);
/* Does nothing but the order of its folders number the data set's classes? */
bool qb_stage_numbers_folders(const qb_project *project, const qb_dataset *dataset);
/* Folders count in byte order where no labels say which class they are: a guess that is good enough
 * unless the model is known to have labels, and they are not there. Then samples cannot be scored.
 */
bool qb_stage_lacks_labels(const qb_project *project, const qb_dataset *dataset);
qb_status qb_stage_compare(qb_ctx *cx, const qb_project *project,
                           const qb_compare_settings *settings, qb_run **out);
/* Whether it can be asked for this: a precision, or an engine file or model that is there. */
qb_status qb_stage_check_precision(qb_ctx *cx, const qb_project *project, const char *text);

/* The same by several processes, each of which takes a part: *out is NULL in others than the first.
 */
qb_status qb_stage_compare_ranks(qb_ctx *cx, const qb_project *project,
                                 const qb_compare_settings *settings, const qb_ranks *ranks,
                                 qb_run **out);
/* The record of n parts, as of one machine. */
qb_status qb_stage_merge(qb_ctx *cx, const struct qb_part *part, int32_t n, qb_run **out);

/* What a search is asked for. */
typedef struct qb_search_settings {
    const char *precisions; /* int8[:METHOD][+VARIANT...],...: the ways to quantize */
    qb_search_limits limits;
    double time_budget_s; /* 0: none */
    bool resume;
} qb_search_settings;

/* A search and what it looked at. */
typedef struct qb_searched {
    qb_graph *graph;                /* optimized, float */
    struct qb_stage_source *source; /* [n_ways] what they are made of */
    qb_space_way *way;
    char **name; /* [n_ways] theirs, as they were asked for */
    int32_t n_ways;
    qb_space *space; /* of the shapes, batch and threads that latency was measured at */
    qb_shape *shapes;
    char *data; /* what was scored on */
    qb_search search;
} qb_searched;
qb_status qb_stage_search(qb_ctx *cx, const qb_project *project, const qb_search_settings *settings,
                          qb_searched *out);
void qb_searched_release(qb_searched *searched); /* accepts zeroed */

#endif
