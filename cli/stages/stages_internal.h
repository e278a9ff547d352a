/* What the stages of cli/pipeline.c are made of. */
#ifndef QB_CLI_STAGES_STAGES_INTERNAL_H
#define QB_CLI_STAGES_STAGES_INTERNAL_H

#include "cli/pipeline.h"
#include "cli/stages/build.h"

/* ---- calibrate.c ---- */

/* Checks what is asked for before any data are read, and says how to calibrate, methods left out.
 */
qb_status qb_calibration_prepare(qb_ctx *cx, const qb_project *project,
                                 const qb_calibrate_settings *settings, qb_calib_options *out);
/* Can each method that is asked for choose from so many samples? */
qb_status qb_calibration_check_samples(qb_ctx *cx, const qb_project *project,
                                       const qb_calibrate_settings *settings, int64_t n);
/* The part of the data set that falls to this process, and its name in the table. */
void qb_calibration_take_share(const qb_calibrate_settings *settings, qb_dataset *dataset,
                               qb_shards *shards);
/* The statistics of all processes in the first one: *table stays NULL in the others. */
qb_status qb_calibration_gather(qb_ctx *cx, const qb_graph *graph, const qb_calib_options *options,
                                const qb_calibrate_settings *settings, qb_table **table);
/* Ranges from the statistics, by all methods asked for; auto by hold-out. */
qb_status qb_calibration_choose(qb_ctx *cx, const qb_project *project, const qb_graph *graph,
                                const qb_calibrate_settings *settings, qb_calib_options options,
                                qb_table *table, qb_holdout *holdout);

/* Names of model and data instead of paths: a table is moved about with its model. */
qb_status qb_calibration_describe(qb_ctx *cx, const qb_project *project, qb_table *table);

/* ---- build.c ---- */

/* What a build's spec points to. */
typedef struct qb_build_sizes {
    qb_shape *shapes;
    qb_profile *profiles;
} qb_build_sizes;
/* The sizes that the flags ask for become those of the spec. */
qb_status qb_build_sizes_parse(qb_ctx *cx, const qb_project *project, const qb_shape_flags *flags,
                               const qb_graph *graph, qb_build_spec *spec, qb_build_sizes *out);
void qb_build_sizes_release(qb_build_sizes *sizes); /* accepts zeroed */
/* The graph in a precision by the project's calibration takes the place of the float one. `spec` as
 * for qb_stage_quantize_for. */
qb_status qb_build_quantize(qb_ctx *cx, const qb_project *project, const qb_precision *precision,
                            qb_build_spec *spec, qb_graph **graph, qb_built *built);
/* The engine of a graph as the spec says. */
qb_status qb_build_graph(qb_ctx *cx, qb_build_spec spec, const qb_graph *graph, qb_engine **out);

/* ---- quantize.c ---- */

/* One way to quantize all of the model: as the precision says. */
qb_status qb_stage_way(qb_ctx *cx, const qb_project *project, const qb_stage_source *source,
                       const qb_precision *precision, qb_space_way *out);

/* qb_stage_quantize for an engine of this spec, which has its sizes and threads: of `best` the
 * groups that are faster in float stay so, and the spec gets the type of the floats. With a plan
 * in the spec it is that one which says what is float. */
qb_status qb_stage_quantize_for(qb_ctx *cx, const qb_project *project,
                                const qb_stage_source *source, const qb_precision *precision,
                                qb_build_spec *spec, qb_graph **out, const char **method);

/* ---- candidates.c ---- */

/* The graphs behind the precisions of one comparison. */
typedef struct qb_candidates {
    qb_graph *graph;                  /* optimized, float */
    qb_stage_source plain, recovered; /* zeroed until a precision needs them */
    qb_graph **quantized;
    qb_candidate *item;
    char **text;      /* what items say that nothing else keeps */
    qb_precision *of; /* [n] of the items: what qb_candidates_finalize needs */
    int32_t n, n_texts;
} qb_candidates;

/* `precision`: n words of a command line (see qb_compare_settings). */
qb_status qb_candidates_collect(qb_ctx *cx, const qb_project *project, const char *const *precision,
                                int32_t n, qb_candidates *out);
/* Items that are `best` get their graphs, now that the data say which shapes they have. */
qb_status qb_candidates_finalize(qb_ctx *cx, const qb_project *project,
                                 const qb_loader_options *loader, qb_candidates *candidates);
void qb_candidates_release(qb_candidates *candidates); /* accepts zeroed */

/* ---- compare.c ---- */

#define QB_COMPARE_BATCHES 32 /* most that --batches names */

/* At most QB_COMPARE_BATCHES of them. */
qb_status qb_compare_batches(qb_ctx *cx, const char *text, int64_t *batches, int32_t *n);
/* What to score on: the evaluation set, else the set that the calibration was made from. */
qb_status qb_compare_data(qb_ctx *cx, const qb_project *project, const qb_candidates *candidates,
                          const char **out);
/* Ground truth images; *out stays NULL where there are none. Labels that are known to be missing
 * are an error. */
qb_status qb_compare_truth(qb_ctx *cx, const qb_project *project, const char *data,
                           const qb_dataset *dataset, qb_dataset **out);
/* By the settings, or by what the calibration says it was made from: the same samples (their hash
 * is `scored`), or the same place. Rows without a calibration have nothing to flatter them. */
bool qb_stage_scores_on_calibration(const qb_project *project, const qb_table *table,
                                    const char *data, qb_hash scored);
/* Names of model, data, decoder and methods, as text that can be shown. */
qb_status qb_compare_describe(qb_ctx *cx, const qb_project *project,
                              const qb_candidates *candidates, const char *data,
                              const qb_loader_options *loader, qb_run *run);

/* The warning that ranges were chosen on the data that are scored. */
qb_status qb_compare_warn_of_calibration(qb_ctx *cx, const char *data, qb_run *run);
/* Of copies among run->sample_key, and of `shared` samples of the calibration among them. */
qb_status qb_compare_warn_of_samples(qb_ctx *cx, int64_t shared, qb_run *run);
/* An engine file knows what its ranges were chosen on; a zero hash: nothing to say. */
qb_status qb_compare_warn_of_file(qb_ctx *cx, const char *row, qb_hash calibrated_on, qb_run *run);

/* ---- parts.c ---- */

/* Where the settings ask for a part of the samples: says what the part is of, takes its samples
 * from the data set and its targets (may be NULL), and tells `options`. */
qb_status qb_compare_take_part(qb_ctx *cx, const qb_project *project,
                               const qb_compare_settings *settings, const qb_candidates *candidates,
                               qb_dataset *dataset, qb_dataset *targets,
                               qb_compare_options *options);

/* ---- suggest.c ---- */

/* Layers of rows get what an earlier search of the model measured of them, and rows the layers that
 * it keeps in float. */
qb_status qb_compare_suggest(qb_ctx *cx, const qb_project *project, qb_run *run);

/* A part of a data set, as it stands behind the set's name in a calibration: "[50 % by seed 1]". */
#define QB_PART_TEXT 64
void qb_part_text(qb_split part, char text[QB_PART_TEXT]);

#endif
