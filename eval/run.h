/* The run record: what a comparison measured, on what, with which engines. Written as compare.json
 * (schema "qbench.compare/1"), read back by the gate and the reports; neither needs the model. */
#ifndef QB_EVAL_RUN_H
#define QB_EVAL_RUN_H

#include <stdint.h>

#include "base/hash.h"
#include "engine/engine.h"

/* Both ends of a 95 % confidence interval; NaN when it is not known. */
typedef struct qb_interval {
    double lo, hi;
} qb_interval;

/* Milliseconds a run (one batch), after warm-up. Percentile p of n sorted samples is element
 * max(n - 1 - floor((100 - p) n / 100), 0), no interpolation; the median of an even n is the mean
 * of the two middle ones. cv is standard deviation over mean. */
typedef struct qb_latency {
    int64_t runs;
    double mean, median, p90, p95, p99, min, max, cv;
    qb_interval median_ci; /* bootstrap over rounds, see eval/stats.h */
    qb_interval ratio_ci;  /* of this median over the first row's, from the same rounds */
} qb_latency;

/* One metric of one row; the names are those of eval/metrics.def, and of the task's own. */
typedef struct qb_run_metric {
    char *name, *title, *unit, *definition;
    double value; /* NaN: could not be measured */
    qb_interval ci;
    double drop; /* the first row's value minus this one, where the task tells; NaN */
    qb_interval drop_ci;
} qb_run_metric;

/* Labelled samples by who was right: the first row (the reference) and this one. */
typedef struct qb_paired {
    int64_t both, lost, gained, neither; /* lost: only the reference was right */
    double p_value;                      /* McNemar's exact test; NaN without labels */
    qb_interval drop_ci;                 /* of (lost - gained) / n, points */
} qb_paired;

/* Samples of one class and how many of them were answered right. */
typedef struct qb_run_recall {
    int32_t label;
    int64_t n, right;
} qb_run_recall;

/* What a task measures of one class, in percent. */
typedef struct qb_run_class_score {
    char *name;
    double value;
    int64_t n; /* objects, pixels or samples of the class in the ground truth */
} qb_run_class_score;

/* Samples of class `label` that were answered `answer`, another class. */
typedef struct qb_run_confusion {
    int32_t label, answer;
    int64_t n;
} qb_run_confusion;

/* A box that a row sees in a sample, in pixels of the image. */
typedef struct qb_run_box {
    double x, y, width, height, score;
    int32_t matched; /* 1: the other row has it as well */
    char *name;      /* of its class */
} qb_run_box;

/* A sample on which a row does badly. */
typedef struct qb_run_worst {
    int32_t shown; /* index in qb_run.shown */
    int32_t answer, reference_answer;
    double sqnr_db; /* of this sample's output alone */
    /* What this row and the first one see in it, where the task has pictures. */
    int32_t n_boxes, n_reference_boxes;
    qb_run_box *box, *reference_box;
    char *mask, *reference_mask; /* classes as colours, a PNG in base64; "": none */
} qb_run_worst;

/* One layer of an integer engine: where accuracy goes. Errors are relative to the FP32 value. */
typedef struct qb_run_layer {
    char *name, *op, *value;   /* node, fused operators, the value it writes */
    char *precision;           /* type it computes in: "s8", "f32" */
    double own_db;             /* SQNR of the layer alone, fed with FP32 values */
    double total_db;           /* SQNR of its value inside the whole engine */
    double saturated;          /* percent of the FP32 values outside the representable range */
    double range_lo, range_hi; /* what the quantized values can represent; NaN: not quantized */
    double seen_lo, seen_hi;   /* extremes of the FP32 value */
    int32_t unused_codes;      /* of 256, never taken over the data; -1: not quantized */
    char *method;              /* whose range it is; "" where that is not known */
    double float_db;           /* SQNR of the model's output when this layer alone is float, and */
    double float_drop;         /* the drop then; as qbench search measured them. NaN: it did not */
    double share;              /* percent of the noise power that all layers make by themselves,
                                  relative to their signals */
} qb_run_layer;

/* One step of an engine: where time goes. */
typedef struct qb_run_step {
    char *name, *op, *tactic, *dtype;
    char *reason;        /* of an integer engine: why it computes in float, or why no faster kernel
                            takes it; "" */
    double ms;           /* median over runs of a batch */
    double flops, bytes; /* of one run */
} qb_run_step;

/* Throughput at another batch size. */
typedef struct qb_run_batch {
    int64_t batch;
    double median, throughput;
} qb_run_batch;

/* Percent of a run's time in steps of a precision; NaN: not measured. */
typedef struct qb_time_shares {
    double int8, fp16, bf16, fp32;
} qb_time_shares;

/* Values that could not be measured are NaN (null in JSON), for example top-1 without labels. */
typedef struct qb_run_row {
    char *precision;       /* "fp32", "int8", "int8:percentile:99.99", "other.qdq.onnx" */
    char *backend;         /* "cpu" */
    char *calibration;     /* method for integer engines, else "" */
    double top1, top5;     /* percent */
    double agreement_top1; /* percent of samples with the first row's top-1 class */
    double sqnr_db;        /* against the first row, over all samples; +inf when equal */
    double drop;           /* of the task's first metric: the first row's minus this one, points */
    double speedup;        /* first row's median latency over this one's */
    double speedup_minima; /* of their least latencies; NaN unless the medians were disturbed */
    char *scheme;          /* how it is quantized, in words; "": not known, or float */
    char *suggestion;      /* which layers to keep in float, as qbench search measured it; "" */
    char *plan;            /* hash of the engine's plan, 32 hexadecimal digits; "": not known */
    qb_latency latency;
    double throughput; /* items a second: batch / mean latency */
    int64_t batch;
    int64_t weights_bytes, arena_bytes, engine_bytes;
    qb_layer_counts layers;
    qb_time_shares time;
    qb_paired paired;
    /* Lists; NULL and 0 when they were not measured. */
    int32_t n_metrics, n_per_class, n_recall, n_confusion, n_worst, n_layers, n_steps, n_batches,
        n_rounds, n_curve;
    qb_run_metric *metric;
    qb_run_class_score *per_class; /* of the task's first metric */
    qb_run_recall *recall;
    qb_run_confusion *confusion; /* the most frequent ones first */
    qb_run_worst *worst;         /* the worst first */
    qb_run_layer *layer;         /* in order of execution */
    qb_run_step *step;           /* in order of execution */
    qb_run_batch *batches;
    double *curve; /* of detectors: precision at recalls from 0 to 1, see qb_coco_curve */
    double *round; /* median of each round of the latency measurement, milliseconds */
} qb_run_row;

/* A class by its number. */
typedef struct qb_run_class {
    int32_t index;
    char *name;
} qb_run_class;

/* A sample that some row's `worst` names. */
typedef struct qb_run_shown {
    int64_t index; /* in the dataset */
    int32_t label; /* -1 unknown */
    char *name;
    char *thumbnail;       /* a PNG in base64; "" when none was asked for */
    int32_t width, height; /* of the image that boxes and masks are told for; 0: there are none */
} qb_run_shown;

/* What a reader should know before trusting numbers, see eval/warnings.h. */
typedef struct qb_run_warning {
    char *name;    /* "chance": a row of eval/warnings.def */
    char *touches; /* "accuracy", "latency", or "" for a note */
    char *row;     /* the precision that it is about; "": the whole record */
    char *text;
} qb_run_warning;

/* What this machine reaches, measured with the engines' own kernels; NaN: not measured. */
typedef struct qb_ceilings {
    double f32_gops, s8_gops; /* 10^9 operations a second, a multiply-add counts two */
    double memory_gbs;        /* 10^9 bytes a second */
} qb_ceilings;

/* What else went on while latencies were measured; NaN: not known. */
typedef struct qb_disturbance {
    double waited, stolen; /* shares of the time, see eval/contention.h */
    double minima;         /* how far the rounds' minima lie above the least of them, as a share:
                              the median over rounds, of the worst engine */
    qb_interval control;   /* the first engine's median over its own, both taken in every round */
} qb_disturbance;

typedef struct qb_run {
    char *model, *dataset; /* names as given */
    char *task;            /* a name of eval/tasks.def; NULL or "": an old record */
    char *made, *command;  /* when ("2026-11-23 14:30 UTC") and by which command; NULL or "" */
    char *calibrated_on;   /* what the ranges were chosen on; NULL or "": no row is calibrated */
    int64_t calibration_samples;
    char *part;    /* which part of the data, in words; NULL or "": all */
    char *decoder; /* of the images: "nvjpeg"; NULL or "": the processor */
    int64_t samples, skipped;
    qb_hash model_hash, data_hash;
    /* Environment. */
    char *version, *cpu, *host_os;
    int32_t threads;
    char *libraries; /* "oneDNN 2.6.3, ..." */
    qb_ceilings ceilings;
    qb_disturbance disturbance;
    bool points_only; /* while it is made: see qb_compare_options */
    /* likewise: of the samples' content (qb_batch), ascending; none: not known */
    uint64_t *sample_key;
    int64_t n_sample_keys;
    int32_t n_rows, n_classes, n_shown, n_warnings;
    qb_run_row *row;
    qb_run_warning *warning;
    qb_run_class *class_name; /* the classes that occur, by number */
    qb_run_shown *shown;
} qb_run;

qb_status qb_run_create(qb_ctx *cx, int32_t n_rows, qb_run **out);
void qb_run_free(qb_run *run); /* accepts NULL */
QB_RELEASE_AT(qb_run, qb_run_free)
/* Makes names and texts clean (base/text.h): they come from files and folders. */
qb_status qb_run_clean(qb_ctx *cx, qb_run *run);
/* The name of the task's own metric, which drops are of; NULL: top-1 (classes, old records). */
const char *qb_run_own_metric(const qb_run *run);
/* A metric of a row by name; NULL when the record has none. */
const qb_run_metric *qb_run_metric_find(const qb_run_row *row, const char *name);
/* Its value; NaN when there is none. */
double qb_run_metric_value(const qb_run_row *row, const char *name);
/* Its interval; NaN when there is none. */
qb_interval qb_run_metric_ci(const qb_run_row *row, const char *name);
/* "airplane", or the number where the record has no name. `text` holds the number. */
const char *qb_run_class_text(const qb_run *run, int32_t index, char text[16]);

/* What a warning touches, as it stands in the record. */
#define QB_TOUCHES_ACCURACY "accuracy"
#define QB_TOUCHES_LATENCY "latency"
#define QB_TOUCHES_NOTHING ""

/* The first warning that touches `what` (QB_TOUCHES_...) in the row `row` or the whole record and
 * that is not among `allowed` (n names); NULL: none. */
const qb_run_warning *qb_warning_find(const qb_run *run, const char *what, const char *row,
                                      const char *const *allowed, int32_t n);
/* Does the record have a warning of this name? */
bool qb_warning_has(const qb_run *run, const char *name);
/* What warnings of this kind mean, as eval/warnings.def says; of a kind that is not there the
 * warning's own text. Not a sentence: "the reference answers no better than guessing". */
const char *qb_warning_means(const qb_run_warning *warning);
/* Warning i as people read it: what several rows share in kind is said once, with the first row's
 * numbers and the others' names; NULL: it is said with an earlier one. The record holds all. */
enum { QB_WARNING_TEXT = 1024 };
const char *qb_warning_said(const qb_run *run, int32_t i, char text[QB_WARNING_TEXT]);

qb_status qb_run_save(qb_ctx *cx, const qb_run *run, const char *path);
/* Checks the schema, types and bounds; errors name the file and the field. */
qb_status qb_run_load(qb_ctx *cx, const char *path, qb_run **out);
/* The same from memory; `name` for messages. */
qb_status qb_run_parse(qb_ctx *cx, const char *name, const char *text, size_t size, qb_run **out);
/* Do the numbers of a record that was read fit each other? QB_STATUS_FORMAT with `name` (a file),
 * row and key. */
qb_status qb_run_check(qb_ctx *cx, const char *name, const qb_run *run);
/* The JSON text, new memory. */
qb_status qb_run_json(qb_ctx *cx, const qb_run *run, char **out);
#endif
