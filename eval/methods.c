#include "eval/methods.h"

#include <math.h>
#include <string.h>

#include "eval/accuracy.h"
#include "quant/recover/judged.h"

/* A reference and the graphs that are held against it, by what is judged of them. */
typedef struct comparison {
    qb_judged judged;
    int32_t n; /* graphs, the reference first */
    int64_t samples;
    qb_stream_model *model;           /* [n] */
    qb_graph **graph;                 /* [n] */
    int32_t *scored;                  /* [n] zeros: the first judged value */
    float *(*wanted)[QB_JUDGED_MOST]; /* [samples] of the reference, until the last graph ran */
    double *error, *signal;           /* [n][samples][parts] */
} comparison;

static void comparison_release(comparison *c) {
    for (int32_t i = 0; c->graph && i < c->n; i++) qb_graph_free(c->graph[i]);
    for (int64_t i = 0; c->wanted && i < c->samples; i++)
        for (int32_t o = 0; o < c->judged.n; o++) qb_free(c->wanted[i][o]);
    QB_FREE_ALL(c->model, c->graph, c->scored, c->wanted, c->error, c->signal);
}

static qb_status comparison_add(qb_ctx *cx, comparison *c, const qb_graph *graph,
                                const qb_calib_options *options) {
    QB_TRY(qb_judged_expose(cx, &c->judged, graph, &c->graph[c->n]));
    c->model[c->n] = (qb_stream_model){
        .graph = c->graph[c->n], .spec = options->spec, .devices = options->devices};
    c->n++;
    return QB_OK;
}

/* With the reference; room for n graphs beside it. */
static qb_status comparison_create(qb_ctx *cx, const qb_graph *reference, int32_t n,
                                   const qb_calib_options *options, comparison *c) {
    const size_t graphs = (size_t)n + 1;
    *c = (comparison){.samples = qb_dataset_count(options->loader.dataset)};
    QB_TRY(qb_judged_find(cx, reference, &c->judged));
    const size_t values = graphs * (size_t)c->samples * (size_t)c->judged.n_parts;
    c->model = qb_alloc(cx, graphs, sizeof *c->model);
    c->graph = qb_alloc(cx, graphs, sizeof *c->graph);
    c->scored = qb_alloc(cx, graphs, sizeof *c->scored);
    c->wanted = qb_alloc(cx, (size_t)c->samples, sizeof *c->wanted);
    c->error = qb_alloc(cx, values, sizeof *c->error);
    c->signal = qb_alloc(cx, values, sizeof *c->signal);
    if (!c->model || !c->graph || !c->scored || !c->wanted || !c->error || !c->signal)
        return cx->code;
    return comparison_add(cx, c, reference, options);
}

/* A qb_outputs_fn: graphs come in their order for each sample. */
static qb_status compare(qb_ctx *cx, void *user, int32_t graph, int64_t index,
                         const qb_tensor *output, int32_t n) {
    comparison *c = user;
    float **wanted = c->wanted[index];
    const int64_t first = (graph * c->samples + index) * c->judged.n_parts;
    double *error = c->error + first, *signal = c->signal + first;
    for (int32_t o = 0; o < n; o++) {
        const qb_judged_value *value = &c->judged.value[o];
        const qb_shape *shape = &output[o].desc.shape;
        const size_t bytes = (size_t)qb_shape_count(shape) * sizeof **wanted;
        if (graph == 0) {
            QB_TRY_NEW(cx, wanted[o] = qb_alloc(cx, bytes + 1, 1));
            memcpy(wanted[o], output[o].data, bytes);
        } else {
            qb_judged_compare(value, shape, wanted[o], output[o].data, error, signal);
            error += value->n_parts;
            signal += value->n_parts;
        }
        if (graph == c->n - 1) qb_free(QB_MOVE(wanted[o]));
    }
    return QB_OK;
}

/* Closes the gaps between the samples that were seen. */
static void compact(const comparison *c, const qb_answers *answers, int32_t graph) {
    const size_t n = (size_t)c->judged.n_parts;
    double *const lists[] = {c->error, c->signal};
    for (int l = 0; l < 2; l++) {
        double *list = lists[l] + (size_t)(graph * c->samples) * n;
        for (int64_t i = 0; i < answers->n; i++)
            memmove(list + (size_t)i * n, list + (size_t)answers->index[i] * n, n * sizeof *list);
    }
}

/* Decibels of the mean over parts of error over signal; one part: its SQNR. */
static double decibels(const comparison *c, const double *error, int64_t samples) {
    double sum = 0;
    for (int64_t i = 0; i < samples; i++) sum += error[i];
    return -10 * log10(sum / c->judged.n_parts);
}

/* Runs all graphs and scores those beside the reference. */
static qb_status comparison_run(qb_ctx *cx, comparison *c, const qb_calib_options *options,
                                qb_method_scores *out) {
    QB_RELEASED(qb_answers_release) qb_answers answers = {0};
    const qb_collect_options held_back = {.loader = &options->loader,
                                          .workers = qb_threads(cx),
                                          .every = options->hold_back,
                                          .outputs = compare,
                                          .user = c};
    QB_TRY(qb_answers_collect(cx, c->model, c->scored, c->n, &held_back, &answers));
    const int64_t n = answers.n;
    out->samples = n;
    out->err_square = qb_alloc(cx, (size_t)((c->n - 1) * n), sizeof *out->err_square);
    if (!out->err_square) return cx->code;
    for (int32_t m = 0; m + 1 < c->n; m++) {
        const int64_t first = (m + 1) * c->samples * c->judged.n_parts;
        double *error = out->err_square + m * n;
        compact(c, &answers, m + 1);
        qb_judged_sum(&c->judged, n, c->error + first, c->signal + first, error, NULL);
        out->sqnr_db[m] = decibels(c, error, n);
        if (answers.kind & QB_OUTPUT_ANSWER)
            out->agreement[m] = qb_metric_find("agreement")
                                    ->value(answers.answer + (m + 1) * n, answers.answer, n)
                                    .value;
        else
            out->agreement[m] = NAN;
    }
    return QB_OK;
}

/* The graph quantized by one method of the table. */
static qb_status add_method(qb_ctx *cx, const qb_quant_options *quant, const qb_table *table,
                            int32_t method, const qb_graph *graph,
                            const qb_calib_options *calibration, comparison *c) {
    qb_quant_options options = *quant;
    options.method = table->method[method];
    qb_graph *quantized = NULL;
    qb_status status = qb_quantize(cx, graph, table, &options, &quantized, NULL);
    if (status == QB_OK) status = comparison_add(cx, c, quantized, calibration);
    qb_graph_free(quantized);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s", options.method);
}

qb_status qb_score_methods(qb_ctx *cx, const void *quant, const qb_graph *graph,
                           const qb_table *table, const qb_calib_options *options,
                           qb_method_scores *out) {
    QB_RELEASED(comparison_release) comparison c = {0};
    QB_TRY(comparison_create(cx, graph, table->n_methods, options, &c));
    for (int32_t m = 0; m < table->n_methods; m++)
        QB_TRY(add_method(cx, quant, table, m, graph, options, &c));
    return comparison_run(cx, &c, options, out);
}

qb_status qb_score_graph(qb_ctx *cx, const qb_graph *reference, const qb_graph *quantized,
                         const qb_calib_options *options, qb_graph_score *out) {
    QB_RELEASED(comparison_release) comparison c = {0};
    qb_method_scores scores = {0};
    QB_TRY(comparison_create(cx, reference, 1, options, &c));
    QB_TRY(comparison_add(cx, &c, quantized, options));
    QB_TRY(comparison_run(cx, &c, options, &scores));
    *out = (qb_graph_score){.sqnr_db = scores.sqnr_db[0],
                            .agreement = scores.agreement[0],
                            .samples = scores.samples,
                            .err_square = scores.err_square};
    return QB_OK;
}
