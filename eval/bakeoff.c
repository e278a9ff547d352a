#include "eval/bakeoff.h"

#include <math.h>
#include <string.h>

#include "eval/accuracy.h"

#define ENGINES (QB_TABLE_METHODS + 1) /* the float graph is the first */

typedef struct kitchen {
    int32_t n;
    qb_graph *graph[ENGINES]; /* with logits exposed */
    qb_stream_model model[ENGINES];
    int32_t logits[ENGINES];
} kitchen;

static void kitchen_release(kitchen *k) {
    for (int32_t i = 0; i < k->n; i++) qb_graph_free(k->graph[i]);
}

static qb_status add_model(qb_ctx *cx, kitchen *k, const qb_graph *graph,
                           const qb_calib_options *calibration) {
    const int32_t i = k->n++;
    QB_TRY(qb_expose_logits(cx, graph, &k->graph[i], &k->logits[i]));
    k->model[i] = (qb_stream_model){
        .graph = k->graph[i], .backends = calibration->backends, .devices = calibration->devices};
    return QB_OK;
}

static qb_status add_method(qb_ctx *cx, kitchen *k, const qb_graph *graph, const qb_table *table,
                            const qb_quant_options *quant, int32_t method,
                            const qb_calib_options *calibration) {
    qb_quant_options options = *quant;
    options.method = table->method[method];
    qb_graph *quantized = NULL;
    QB_TRY(qb_quantize(cx, graph, table, &options, &quantized, NULL));
    qb_status status = add_model(cx, k, quantized, calibration);
    qb_graph_free(quantized);
    return status;
}

/* Is the squared error of `a` less than that of `b` by more than twice the difference's standard
 * error? */
static bool surely_beats(const qb_answer *a, const qb_answer *b, int64_t n) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const double gain = b[i].err_square - a[i].err_square;
        sum += gain;
        squares += gain * gain;
    }
    const double variance = fmax(0, squares / (double)n - sum / (double)n * (sum / (double)n));
    return sum > 2 * sqrt((double)n * variance);
}

static double sqnr(const qb_answer *answer, const qb_answer *reference, int64_t n) {
    return qb_metric_find("sqnr")->value(answer, reference, n).value;
}

static void score(const qb_answers *answers, const qb_table *table, int32_t standing,
                  qb_bakeoff *out) {
    const int64_t n = answers->n;
    const qb_answer *reference = answers->answer, *own = reference + (standing + 1) * n;
    const bool broken = isnan(sqnr(own, reference, n));
    double best = sqnr(own, reference, n);
    out->n = table->n_methods;
    out->samples = n;
    out->best = standing;
    for (int32_t m = 0; m < out->n; m++) {
        qb_bakeoff_item *item = &out->item[m];
        const qb_answer *answer = reference + (m + 1) * n;
        strcpy(item->method, table->method[m]);
        item->sqnr_db = sqnr(answer, reference, n);
        item->agreement = qb_metric_find("agreement")->value(answer, reference, n).value;
        if (!(item->sqnr_db > best || isnan(best))) continue;
        if (!broken && !surely_beats(answer, own, n)) continue;
        best = item->sqnr_db;
        out->best = m;
    }
}

qb_status qb_bakeoff_run(qb_ctx *cx, const qb_graph *graph, const qb_table *table,
                         const qb_quant_options *quant, const qb_calib_options *calibration,
                         int32_t standing, qb_bakeoff *out) {
    kitchen k = {0};
    qb_answers answers = {0};
    qb_status status = QB_OK;
    QB_GO(add_model(cx, &k, graph, calibration));
    for (int32_t m = 0; m < table->n_methods; m++) {
        status = add_method(cx, &k, graph, table, quant, m, calibration);
        if (status != QB_OK) {
            qb_wrap(cx, "%s", table->method[m]);
            goto out;
        }
    }
    QB_GO(qb_answers_collect(cx, k.model, k.logits, k.n, &calibration->loader, qb_threads(cx),
                             calibration->hold_back, NULL, &answers));
    score(&answers, table, standing, out);
out:
    qb_answers_release(&answers);
    kitchen_release(&k);
    return status;
}
