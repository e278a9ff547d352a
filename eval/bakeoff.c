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

static qb_status add_model(qb_ctx *cx, kitchen *k, const qb_graph *graph, const char *backends) {
    const int32_t i = k->n++;
    QB_TRY(qb_expose_logits(cx, graph, &k->graph[i], &k->logits[i]));
    k->model[i] = (qb_stream_model){.graph = k->graph[i], .backends = backends};
    return QB_OK;
}

static qb_status add_method(qb_ctx *cx, kitchen *k, const qb_graph *graph, const qb_table *table,
                            const qb_quant_options *quant, int32_t method, const char *backends) {
    qb_quant_options options = *quant;
    options.method = table->method[method];
    qb_graph *quantized = NULL;
    QB_TRY(qb_quantize(cx, graph, table, &options, &quantized, NULL));
    qb_status status = add_model(cx, k, quantized, backends);
    qb_graph_free(quantized);
    return status;
}

static void score(const qb_answers *answers, const qb_table *table, qb_bakeoff *out) {
    const qb_answer *reference = answers->answer;
    out->n = table->n_methods;
    out->samples = answers->n;
    out->best = 0;
    for (int32_t m = 0; m < out->n; m++) {
        qb_bakeoff_item *item = &out->item[m];
        const qb_answer *answer = reference + (m + 1) * answers->n;
        strcpy(item->method, table->method[m]);
        item->sqnr_db = qb_metric_find("sqnr")->value(answer, reference, answers->n).value;
        item->agreement = qb_metric_find("agreement")->value(answer, reference, answers->n).value;
        if (item->sqnr_db > out->item[out->best].sqnr_db || isnan(out->item[out->best].sqnr_db))
            out->best = m;
    }
}

qb_status qb_bakeoff_run(qb_ctx *cx, const qb_graph *graph, const qb_table *table,
                         const qb_quant_options *quant, const char *backends,
                         const qb_loader_options *loader, int64_t every, qb_bakeoff *out) {
    kitchen k = {0};
    qb_answers answers = {0};
    qb_status status = QB_OK;
    QB_GO(add_model(cx, &k, graph, backends));
    for (int32_t m = 0; m < table->n_methods; m++) {
        status = add_method(cx, &k, graph, table, quant, m, backends);
        if (status != QB_OK) {
            qb_wrap(cx, "%s", table->method[m]);
            goto out;
        }
    }
    QB_GO(qb_answers_collect(cx, k.model, k.logits, k.n, loader, qb_threads(cx), every, &answers));
    score(&answers, table, out);
out:
    qb_answers_release(&answers);
    kitchen_release(&k);
    return status;
}
