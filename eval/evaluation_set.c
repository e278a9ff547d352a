#include "eval/evaluation_set.h"

qb_status qb_evaluation_set_create(qb_ctx *cx, int32_t capacity, qb_evaluation_set *out) {
    const size_t n = (size_t)capacity;
    *out = (qb_evaluation_set){.graph = qb_alloc(cx, n, sizeof *out->graph),
                               .model = qb_alloc(cx, n, sizeof *out->model),
                               .logits = qb_alloc(cx, n, sizeof *out->logits)};
    return out->graph && out->model && out->logits ? QB_OK : cx->code;
}

void qb_evaluation_set_release(qb_evaluation_set *set) {
    for (int32_t i = 0; set->graph && i < set->n; i++) qb_graph_free(set->graph[i]);
    QB_FREE_ALL(set->graph, set->model, set->logits);
}

qb_status qb_evaluation_set_add(qb_ctx *cx, qb_evaluation_set *set, const qb_stream_model *model,
                                bool as_it_is) {
    const int32_t i = set->n;
    QB_TRY((as_it_is ? qb_expose_output : qb_expose_logits)(cx, model->graph, &set->graph[i],
                                                            &set->logits[i]));
    set->model[i] = *model;
    set->model[i].graph = set->graph[i];
    set->n++;
    return QB_OK;
}
