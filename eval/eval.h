/* Evaluation: accuracy of engines on labelled (or unlabelled) data and their latency, measured side
 * by side. The first engine is the reference for agreement, SQNR, drop and speed-up. */
#ifndef QB_EVAL_EVAL_H
#define QB_EVAL_EVAL_H

#include "datasets/loader.h"
#include "engine/devices.h"
#include "eval/task.h"

#define QB_NO_ANSWER (-1)

/* What the scored output is, told by its type and shape: N x classes (further sizes 1) holds class
 * scores, N x {1, 3} x H x W an image, one whole number a sample is a class; anything else, also
 * one float a sample, is a tensor without such a meaning. Open sizes hold more than one value. */
typedef enum qb_output_kind {
    QB_OUTPUT_CLASSES = 1,
    QB_OUTPUT_IMAGE = 2,
    QB_OUTPUT_TENSOR = 4,
    QB_OUTPUT_CLASS = 8 /* one whole number, the class itself: nothing is known of the others */
} qb_output_kind;
qb_output_kind qb_output_kind_of(qb_dtype dtype, const qb_shape *shape);

/* What one engine answered for one sample: enough for every per-sample metric, in fixed memory.
 * Sums run over the whole output (logits: the value before a final Softmax or ArgMax). An output
 * with a NaN or several +infinities in it is no answer: it is right about nothing and agrees with
 * nothing. */
typedef struct qb_answer {
    int32_t label;        /* -1 unknown */
    int32_t top1;         /* ties: the lower class index; QB_NO_ANSWER */
    int32_t label_rank;   /* classes ahead of the label (ties: lower index first); -1 label unknown,
                             INT32_MAX no answer */
    int64_t size;         /* values of the output */
    double ref_square;    /* sum of squares of the reference's output */
    double out_square;    /* of this output */
    double dot;           /* sum of products of both */
    double err_square;    /* sum of squared differences from the reference */
    double max_error;     /* largest absolute difference */
    double ref_max;       /* largest absolute value of the reference's output */
    double divergence;    /* Kullback-Leibler, nats, of the softmax of both; NaN: not of classes */
    double target_square; /* sum of squared differences from the target, in pixels of 0..255; NaN
                             without targets. See eval/targets.h */
} qb_answer;

/* The place of the largest of n scores, `step` apart (ties: the lower index). QB_NO_ANSWER where
 * one is NaN or several are +infinity: which of them is the answer is chance. */
int64_t qb_best_of(const float *score, int64_t n, int64_t step);

/* A metric's value with its 95 % confidence interval (NaN where there is none). */
typedef struct qb_estimate {
    double value; /* NaN: cannot be measured */
    qb_interval ci;
} qb_estimate;

typedef struct qb_metric {
    const char *name;       /* "top1" */
    const char *title;      /* "top-1" */
    const char *unit;       /* "%" or "dB" */
    const char *definition; /* one line, printed under the numbers */
    unsigned kinds;         /* qb_output_kind bits it makes sense for */
    /* The metric over n samples: `answer` of this engine, `reference` of the first one, in dataset
     * order. */
    qb_estimate (*value)(const qb_answer *answer, const qb_answer *reference, int64_t n);
} qb_metric;
#define QB_OUTPUT_ANSWER (QB_OUTPUT_CLASSES | QB_OUTPUT_CLASS)
#define QB_OUTPUT_ANY (QB_OUTPUT_CLASSES | QB_OUTPUT_IMAGE | QB_OUTPUT_TENSOR)
extern const qb_metric *const qb_metrics[]; /* ends with NULL */
const qb_metric *qb_metric_find(const char *name);
/* Not measured, and a value without an interval. */
qb_estimate qb_estimate_none(void);
qb_estimate qb_estimate_of(double value);

/* One engine to compare: a graph (float or quantized) and how to call it. Not owned. */
typedef struct qb_candidate {
    const char *precision, *calibration;
    const char *scheme; /* how it is quantized, in words; NULL: in no way that is known */
    const qb_graph *graph;
    const char *file; /* an engine file to load instead of building from the graph, whose inputs and
                         outputs it has; NULL: none */
    qb_hash
        calibrated_on; /* with it: of the samples that its ranges were chosen on; zero: unknown */
    const char *prepared; /* how those became inputs (qb_loader_text); NULL: not known */
    qb_build_spec spec;   /* but for shapes and threads */
    qb_devices devices;   /* for backends that begin with a device: accuracy is measured on all of
                             them (none: spec.device), the rest on spec.device */
} qb_candidate;

typedef struct qb_compare_options {
    const qb_candidate *candidate;
    int32_t n_candidates;
    qb_loader_options loader;     /* data for accuracy */
    const qb_dataset *targets;    /* ground truth for outputs that are images; NULL: none */
    const qb_task_settings *task; /* NULL: told by the output */
    int32_t workers;              /* accuracy: one-thread contexts side by side; 0: qb_threads */
    int64_t batch;                /* latency: samples a run */
    int threads;                  /* latency: threads of one run; 0: qb_threads */
    double warmup_s, duration_s;  /* latency: per engine; defaults 0.2 and 2 when 0 */
    int64_t min_runs;       /* latency: at least this many runs an engine; default 20 when 0 */
    const int64_t *batches; /* throughput is measured at these as well */
    int32_t n_batches;
    const qb_labels *labels; /* names of classes for the record; may be NULL */
    bool layers;             /* where accuracy goes, see eval/layers.h: two more passes a row */
    int32_t thumbnail;       /* largest side of the worst samples' pictures; 0: none */
    bool points_only;        /* accuracy: no intervals by bootstrap, which take their time */
    struct qb_part *part;    /* also gets what was measured of each sample (eval/part.h); NULL */
    bool no_latency;         /* another part has it */
    /* Called once accuracy is there, before latency is measured; may be NULL. */
    qb_status (*before_latency)(qb_ctx *cx, void *user);
    void *user;
} qb_compare_options;

/* Runs every sample through every engine (one at a time, one thread each, so that accuracies do not
 * depend on batch or threads), then measures latency in alternating rounds so that noise is shared.
 * Fills a record without model and dataset names (the caller's). */
qb_status qb_compare(qb_ctx *cx, const qb_compare_options *options, qb_run **out);

/* The same without latency, layers and warnings. */
qb_status qb_compare_accuracy(qb_ctx *cx, const qb_compare_options *options, qb_run **out);

/* A copy of the graph with the input of a final Softmax or ArgMax as an additional last output (or
 * the graph unchanged when there is none); *logits is the output's index to score on. */
qb_status qb_expose_logits(qb_ctx *cx, const qb_graph *graph, qb_graph **out, int32_t *logits);
/* The same copy without that: *logits is the first float output. */
qb_status qb_expose_output(qb_ctx *cx, const qb_graph *graph, qb_graph **out, int32_t *logits);

/* Percentiles and moments of n latencies in milliseconds (sorts `ms` in place). */
void qb_latency_of(double *ms, int64_t n, qb_latency *out);
#endif
