/* What a model is for, and with it how it is scored: a row in tasks.def and a file in tasks/ each.
 * Agreement, SQNR and the like come from one output's answers (eval/eval.h) whatever the task is; a
 * task that needs all outputs and ground truth of its own has functions. */
#ifndef QB_EVAL_TASK_H
#define QB_EVAL_TASK_H

#include "base/pack.h"
#include "datasets/loader.h"
#include "eval/detection.h"
#include "eval/run.h"
#include "graph/graph.h"

struct qb_task;

/* What a sidecar's `segmentation`, or `segmentation:` in qbench.yaml, says. */
typedef struct qb_segment_settings {
    qb_labels classes; /* in the order of the model's channels; empty: the labels, the data's own */
    double threshold;  /* one channel: the second class above it; 0.5 */
} qb_segment_settings;

typedef struct qb_task_settings {
    const struct qb_task *task; /* NULL: told by the output */
    char *output;               /* the output that holds the answer; NULL: told by the shapes */
    qb_detect_settings detect;
    qb_segment_settings segment;
} qb_task_settings;
void qb_task_settings_default(qb_task_settings *settings);
void qb_task_settings_release(qb_task_settings *settings);

/* What is scored. Not owned; it outlives the state. */
typedef struct qb_task_data {
    const qb_task_settings *settings;
    const qb_loader_options *loader;
    const qb_graph *graph;     /* of the first engine, whose outputs all have */
    const qb_labels *labels;   /* may be NULL */
    const qb_dataset *targets; /* tensors that tell the truth, a sample each; NULL: none */
    int32_t n_engines;
} qb_task_data;

typedef struct qb_task {
    const char *name, *text;
    const char *words;  /* others that sidecars use for it, between spaces */
    const char *metric; /* the first one: what tables show and gates judge */
    const char *method; /* calibrates it where none is asked for; NULL: the usual one */
    /* Are the outputs and the ground truth of this task? NULL: not to be told from others. */
    bool (*fits)(qb_ctx *cx, const qb_task_data *data);
    /* All NULL: the answers have everything. */
    qb_status (*open)(qb_ctx *cx, const qb_task_data *data, void **state);
    /* As qb_outputs_fn, with the graph's own outputs. */
    qb_status (*outputs)(qb_ctx *cx, void *state, int32_t engine, int64_t index,
                         const qb_tensor *output, int32_t n);
    /* Adds metrics to every row of the record, and its drops. */
    qb_status (*finish)(qb_ctx *cx, void *state, qb_run *run);
    /* Writes what `finish` needs of the state (n is 1), or makes a state of n parts of one data
     * set: sample i is the next one of part i modulo n. Of `data` the data set (a list, see
     * datasets/listed.h), the labels and the number of engines are there. */
    qb_status (*pack)(qb_pack *part, int32_t n, const qb_task_data *data, void **state);
    /* How badly an engine does on a sample beside the first one, 0: as well; and what a page shows
     * of that. After `finish`. Both NULL: told by the answers. */
    double (*badness)(const void *state, int32_t engine, int64_t index);
    qb_status (*illustrate)(qb_ctx *cx, const void *state, int32_t engine, int64_t index,
                            qb_run_shown *shown, qb_run_worst *out);
    void (*close)(void *state); /* accepts NULL */
} qb_task;

extern const qb_task *const qb_tasks[]; /* ends with NULL */
/* The first one that fits, where nobody told it; NULL. */
const qb_task *qb_task_guess(qb_ctx *cx, const qb_task_data *data);
/* By its name, or by the last word of a sidecar's text ("face detection", "object-detection"). NULL
 * without an error when it is none of them. */
const qb_task *qb_task_find(const char *text);
/* The same; an error lists the names and the nearest. */
qb_status qb_task_of_word(qb_ctx *cx, const char *word, const qb_task **out);

typedef struct qb_metric_label {
    const char *name, *title, *unit, *definition;
} qb_metric_label;
/* Appends a metric to a row: the numbers of `numbers` under the label. */
qb_status qb_run_metric_add(qb_ctx *cx, qb_run_row *row, const qb_metric_label *label,
                            const qb_run_metric *numbers);
/* The same of a value that has no interval and no drop. */
qb_status qb_run_number_add(qb_ctx *cx, qb_run_row *row, const qb_metric_label *label,
                            double value);

/* Appends what the first metric is for one class. */
qb_status qb_run_class_score_add(qb_ctx *cx, qb_run_row *row, const char *name, double value,
                                 int64_t n);

/* A metric of a task and whether it gets an interval. */
typedef struct qb_task_metric {
    qb_metric_label label;
    bool interval;
} qb_task_metric;

enum { QB_TASK_METRICS = 16 };

/* What a task measures over many samples at once. */
typedef struct qb_task_scores {
    const qb_task_metric *metric; /* the first one is the task's own */
    int32_t n;                    /* at most QB_TASK_METRICS */
    int32_t n_engines;
    int64_t samples;
    const bool *seen; /* [samples]: those that could be read and that count */
    uint32_t falls;   /* bits of metrics of which less is better: their drop is a rise */
    /* All metrics of an engine (NaN: cannot be measured) where sample i counts weight[i] times. A
     * `draw` needs those with an interval only. */
    qb_status (*value)(qb_ctx *cx, const void *state, int32_t engine, const int32_t *weight,
                       bool draw, double value[QB_TASK_METRICS]);
    const void *state;
} qb_task_scores;

/* Adds the metrics to every row, with 95 % intervals by a paired bootstrap over samples: a draw
 * takes the same samples for every engine, so that drops have intervals, too. Sets the rows' drop
 * from the first metric. */
qb_status qb_task_score(qb_ctx *cx, const qb_task_scores *scores, qb_run *run);
#endif
