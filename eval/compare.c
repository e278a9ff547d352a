/* qb_compare: accuracy of all engines in one pass over the data, then latency in alternating
 * rounds. */
#include <string.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "engine/backends.h"
#include "eval/bench.h"
#include "eval/compare_internal.h"
#include "eval/layers.h"
#include "eval/part.h"
#include "eval/warnings.h"

/* ---- accuracy ---- */

/* A row is one engine: at the samples' shapes each step does what it does in the row's own. */
static qb_build_spec spec_of_row(const qb_compare_options *o, const qb_row_engines *engines,
                                 int32_t row) {
    qb_build_spec spec = o->candidate[row].spec;
    if (engines && !o->candidate[row].file) spec.like = qb_row_engine(engines, row);
    return spec;
}

/* The models that answer the same samples: each as a graph with the value to score exposed, before
 * a final Softmax or ArgMax (see qb_expose_logits), or beside engine files the output. */
typedef struct evaluation_set {
    int32_t n;
    qb_graph **graph;
    qb_stream_model *model; /* of those graphs */
    int32_t *logits;        /* the output to score */
} evaluation_set;

static void evaluation_set_release(evaluation_set *set) {
    for (int32_t i = 0; set->graph && i < set->n; i++) qb_graph_free(set->graph[i]);
    QB_FREE_ALL(set->graph, set->model, set->logits);
}

static qb_status add_candidates(qb_ctx *cx, const qb_compare_options *o,
                                const qb_row_engines *engines, evaluation_set *set) {
    const size_t n = (size_t)o->n_candidates;
    bool files = false;
    QB_TRY_NEW(cx, set->graph = qb_alloc(cx, n, sizeof *set->graph));
    QB_TRY_NEW(cx, set->model = qb_alloc(cx, n, sizeof *set->model));
    QB_TRY_NEW(cx, set->logits = qb_alloc(cx, n, sizeof *set->logits));
    for (int32_t i = 0; i < o->n_candidates; i++) files = files || o->candidate[i].file;
    if (files)
        qb_info(cx, "with an engine file: outputs are compared as they are, after a Softmax");
    for (int32_t i = 0; i < o->n_candidates; i++) {
        const qb_candidate *c = &o->candidate[i];
        QB_TRY((files ? qb_expose_output : qb_expose_logits)(cx, c->graph, &set->graph[i],
                                                             &set->logits[i]));
        set->model[i] = (qb_stream_model){.graph = set->graph[i],
                                          .file = c->file,
                                          .spec = spec_of_row(o, engines, i),
                                          .devices = c->devices,
                                          .name = c->precision};
        set->n++;
    }
    return QB_OK;
}

/* A task that looks at outputs itself, while the engines run. */
typedef struct observer {
    const qb_task *task; /* NULL: nobody looks */
    void *state;
    int32_t n_outputs; /* of the model itself; what is exposed comes after them */
} observer;

static void observer_release(observer *o) {
    if (o->task) o->task->close(o->state);
}

static qb_status observe(qb_ctx *cx, void *user, int32_t engine, int64_t index,
                         const qb_tensor *output, int32_t n) {
    const observer *o = user;
    return o->task->outputs(cx, o->state, engine, index, output,
                            n < o->n_outputs ? n : o->n_outputs);
}

/* Targets that are no images are for the task. */
static bool has_tensors(const qb_dataset *targets) {
    return targets && qb_dataset_has_tensors(targets);
}

static qb_status open_task(qb_ctx *cx, const qb_compare_options *o, observer *out) {
    const qb_task_data data = {.settings = o->task,
                               .loader = &o->loader,
                               .graph = o->candidate[0].graph,
                               .labels = o->labels,
                               .targets = has_tensors(o->targets) ? o->targets : NULL,
                               .n_engines = o->n_candidates};
    const qb_task *task = o->task ? o->task->task : NULL;
    if (!task && o->task && o->loader.dataset) {
        task = qb_task_guess(cx, &data);
        if (task) qb_info(cx, "task %s (%s): --task says otherwise", task->name, task->text);
    }
    if (data.targets && (!task || !task->open))
        return qb_fail(cx, QB_STATUS_UNSUPPORTED,
                       "targets: expected images, got tensors, which task tokens takes");
    if (!task || !task->open) return QB_OK;
    *out = (observer){.task = task, .n_outputs = data.graph->n_outputs};
    return task->open(cx, &data, &out->state);
}

/* What the model is for, where nobody said: by what it puts out. */
static qb_status name_task(qb_ctx *cx, const qb_compare_options *o, const qb_task *guessed,
                           qb_output_kind kind, qb_run *run) {
    const qb_task *told = o->task && o->task->task ? o->task->task : guessed;
    run->task = qb_strdup(cx, told ? told->name : kind & QB_OUTPUT_ANSWER ? "classify" : "regress");
    return run->task ? QB_OK : cx->code;
}

static qb_status measure_accuracy(qb_ctx *cx, const qb_compare_options *o,
                                  const qb_row_engines *engines, qb_run *run) {
    QB_RELEASED(observer_release) observer watching = {0};
    QB_RELEASED(evaluation_set_release) evaluation_set set = {0};
    QB_RELEASED(qb_answers_release) qb_answers answers = {0};
    qb_collect_options collect = {.loader = &o->loader,
                                  .workers = o->workers > 0 ? o->workers : qb_threads(cx),
                                  .targets = has_tensors(o->targets) ? NULL : o->targets,
                                  .user = &watching};
    QB_TRY(open_task(cx, o, &watching));
    if (watching.task) collect.outputs = observe;
    QB_TRY(add_candidates(cx, o, engines, &set));
    QB_TRY(qb_answers_collect(cx, set.model, set.logits, set.n, &collect, &answers));
    /* A list of boxes may have the shape of a classifier's scores. */
    if (watching.task) answers.kind = QB_OUTPUT_TENSOR;
    if (o->part) QB_TRY(qb_part_pack(cx, o, &answers, watching.task, watching.state, o->part));
    QB_TRY(qb_score_fill(cx, &answers, run));
    QB_TRY(name_task(cx, o, watching.task, answers.kind, run));
    if (watching.task) QB_TRY(watching.task->finish(cx, watching.state, run));
    QB_TRY(qb_worst_fill(cx, o, &answers, watching.task, watching.state, run));
    const bool drawn = watching.task && watching.task->illustrate; /* on them */
    return qb_thumbnails_fill(cx, o->loader.dataset, (drawn ? 4 : 1) * o->thumbnail, run);
}

/* ---- environment ---- */

static qb_status fill_environment(qb_ctx *cx, const qb_compare_options *o, qb_run *run) {
    struct utsname os;
    const bool known = uname(&os) == 0;
    run->version = qb_strdup(cx, QB_VERSION);
    run->cpu = qb_processor_name(cx);
    run->host_os = qb_format(cx, "%s %s", known ? os.sysname : "unknown", known ? os.release : "");
    run->libraries = qb_engine_libraries(cx);
    if (!run->version || !run->cpu || !run->host_os || !run->libraries) return cx->code;
    for (int32_t i = 0; i < run->n_rows; i++) {
        qb_run_row *row = &run->row[i];
        row->precision = qb_strdup(cx, o->candidate[i].precision);
        row->calibration = qb_strdup(cx, o->candidate[i].calibration);
        row->scheme = qb_strdup(cx, o->candidate[i].scheme ? o->candidate[i].scheme : "");
        row->backend = qb_backends_name(cx, o->candidate[i].spec.backends);
        if (!row->precision || !row->calibration || !row->scheme || !row->backend) return cx->code;
    }
    return QB_OK;
}

/* Rows that are float have no layers to look at; values of samples of several shapes do not add up
 * to layers. */
static qb_status measure_layers(qb_ctx *cx, const qb_compare_options *o,
                                const qb_row_engines *engines, qb_run *run) {
    qb_candidate pair[2] = {o->candidate[0]};
    const int32_t workers = o->workers > 0 ? o->workers : qb_threads(cx);
    for (int32_t i = 1; i < run->n_rows && o->layers; i++) {
        if (o->candidate[i].file) continue; /* values inside it are not to be seen */
        pair[0].spec = spec_of_row(o, engines, 0);
        pair[1] = o->candidate[i];
        pair[1].spec = spec_of_row(o, engines, i);
        const qb_status status =
            qb_layers_measure(cx, &pair[0], &pair[1], &o->loader, workers, &run->row[i]);
        if (status == QB_STATUS_MISMATCH) {
            qb_warn(cx, "--layers needs samples of one shape: %s", cx->message);
            qb_ctx_clear(cx);
        } else if (status == QB_STATUS_UNSUPPORTED) { /* sizes that come with the data */
            qb_warn(cx, "--layers: left out: %s", cx->message);
            qb_ctx_clear(cx);
        } else {
            QB_TRY(status);
        }
    }
    return QB_OK;
}

static qb_status create_run(qb_ctx *cx, const qb_compare_options *o, qb_run **out) {
    QB_TRY(qb_run_create(cx, o->n_candidates, out));
    (*out)->points_only = o->points_only;
    return QB_OK;
}

qb_status qb_compare_accuracy(qb_ctx *cx, const qb_compare_options *options, qb_run **out) {
    QB_RELEASED(qb_run_free_at) qb_run *run = NULL;
    QB_TRY(create_run(cx, options, &run));
    QB_TRY(fill_environment(cx, options, run));
    QB_TRY(measure_accuracy(cx, options, NULL, run));
    *out = QB_MOVE(run);
    return QB_OK;
}

qb_status qb_compare(qb_ctx *cx, const qb_compare_options *options, qb_run **out) {
    qb_compare_options o = *options;
    if (o.batch < 1) o.batch = 1;
    QB_RELEASED(qb_run_free_at) qb_run *run = NULL;
    QB_RELEASED(qb_row_engines_free_at) qb_row_engines *engines = NULL;
    QB_TRY(create_run(cx, &o, &run));
    QB_TRY(fill_environment(cx, &o, run));
    QB_TRY(qb_row_engines_build(cx, &o, &engines));
    QB_TRY(measure_accuracy(cx, &o, engines, run));
    QB_TRY(measure_layers(cx, &o, engines, run));
    if (o.before_latency) QB_TRY(o.before_latency(cx, o.user));
    if (!o.no_latency) QB_TRY(qb_timing_fill(cx, &o, engines, run));
    qb_row_engines_free(QB_MOVE(engines)); /* the ceilings are the machine's alone */
    if (o.layers) QB_TRY(qb_ceilings_measure(cx, run->threads, &run->ceilings));
    QB_TRY(qb_warnings_derive(cx, run));
    *out = QB_MOVE(run);
    return QB_OK;
}
