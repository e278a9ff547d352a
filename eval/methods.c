#include "eval/methods.h"

#include "eval/evaluation_set.h"

/* The graph quantized by one method of the table. */
static qb_status add_method(qb_ctx *cx, const qb_quant_options *quant, const qb_table *table,
                            int32_t method, qb_stream_model model, qb_evaluation_set *set) {
    qb_quant_options options = *quant;
    options.method = table->method[method];
    qb_graph *quantized = NULL;
    qb_status status = qb_quantize(cx, model.graph, table, &options, &quantized, NULL);
    model.graph = quantized;
    if (status == QB_OK) status = qb_evaluation_set_add(cx, set, &model, false);
    qb_graph_free(quantized);
    return status == QB_OK ? QB_OK : qb_wrap(cx, "%s", options.method);
}

static qb_status fill(qb_ctx *cx, const qb_answers *answers, int32_t n_methods,
                      qb_method_scores *out) {
    const int64_t n = answers->n;
    out->samples = n;
    out->err_square = qb_alloc(cx, (size_t)(n_methods * n), sizeof *out->err_square);
    if (!out->err_square) return cx->code;
    for (int32_t m = 0; m < n_methods; m++) {
        const qb_answer *reference = answers->answer, *answer = reference + (m + 1) * n;
        out->sqnr_db[m] = qb_metric_find("sqnr")->value(answer, reference, n).value;
        out->agreement[m] = qb_metric_find("agreement")->value(answer, reference, n).value;
        for (int64_t i = 0; i < n; i++) out->err_square[m * n + i] = answer[i].err_square;
    }
    return QB_OK;
}

qb_status qb_score_methods(qb_ctx *cx, const void *quant, const qb_graph *graph,
                           const qb_table *table, const qb_calib_options *options,
                           qb_method_scores *out) {
    const qb_stream_model model = {
        .graph = graph, .spec = options->spec, .devices = options->devices};
    qb_evaluation_set set = {0};
    qb_answers answers = {0};
    qb_status status = QB_OK;
    QB_GO(qb_evaluation_set_create(cx, table->n_methods + 1, &set));
    QB_GO(qb_evaluation_set_add(cx, &set, &model, false));
    for (int32_t m = 0; m < table->n_methods; m++)
        QB_GO(add_method(cx, quant, table, m, model, &set));
    const qb_collect_options held_back = {
        .loader = &options->loader, .workers = qb_threads(cx), .every = options->hold_back};
    QB_GO(qb_answers_collect(cx, set.model, set.logits, set.n, &held_back, &answers));
    QB_GO(fill(cx, &answers, table->n_methods, out));
out:
    qb_answers_release(&answers);
    qb_evaluation_set_release(&set);
    return status;
}

qb_status qb_score_graph(qb_ctx *cx, const qb_graph *reference, const qb_graph *quantized,
                         const qb_calib_options *options, qb_graph_score *out) {
    qb_stream_model model = {
        .graph = reference, .spec = options->spec, .devices = options->devices};
    qb_evaluation_set set = {0};
    qb_answers answers = {0};
    qb_method_scores scores = {0};
    qb_status status = QB_OK;
    QB_GO(qb_evaluation_set_create(cx, 2, &set));
    QB_GO(qb_evaluation_set_add(cx, &set, &model, false));
    model.graph = quantized;
    QB_GO(qb_evaluation_set_add(cx, &set, &model, false));
    const qb_collect_options held_back = {
        .loader = &options->loader, .workers = qb_threads(cx), .every = options->hold_back};
    QB_GO(qb_answers_collect(cx, set.model, set.logits, set.n, &held_back, &answers));
    QB_GO(fill(cx, &answers, 1, &scores));
    *out = (qb_graph_score){.sqnr_db = scores.sqnr_db[0],
                            .agreement = scores.agreement[0],
                            .samples = scores.samples,
                            .err_square = scores.err_square};
out:
    qb_answers_release(&answers);
    qb_evaluation_set_release(&set);
    return status;
}
