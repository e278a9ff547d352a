#include "eval/detector.h"

#include <stdio.h>

qb_status qb_detector_guess(qb_ctx *cx, const qb_graph *graph, const qb_detector_hints *hints,
                            const qb_box_decoder **out, int32_t *classes) {
    qb_detect_settings settings = *hints->settings;
    const size_t n = (size_t)graph->n_outputs;
    QB_FREED qb_tensor *output = QB_NEW(cx, qb_alloc(cx, n, sizeof *output));
    QB_FREED const char **name = QB_NEW(cx, qb_alloc(cx, n, sizeof *name));
    QB_FREED bool *whole = QB_NEW(cx, qb_alloc(cx, n, sizeof *whole));
    settings.decoder = NULL;
    *out = NULL;
    if (classes) *classes = 0;
    for (size_t i = 0; i < n; i++) {
        const qb_value *value = &graph->values[graph->outputs[i]];
        output[i] = qb_tensor_of(QB_DTYPE_F32, value->shape, NULL);
        name[i] = value->name;
        whole[i] = !qb_dtype_is_float(value->dtype);
    }
    const qb_decode in = {.settings = &settings,
                          .output = output,
                          .name = name,
                          .whole = whole,
                          .n = graph->n_outputs,
                          .width = hints->width,
                          .height = hints->height,
                          .n_labels = hints->n_labels,
                          .top_id = hints->top_id};
    *out = qb_box_decoder_guess(&in);
    if (*out && hints->sure && (*out)->is_vague && (*out)->is_vague(&in)) *out = NULL;
    if (classes && *out && (*out)->classes(&in) < QB_CLASSES_NOT_TOLD)
        *classes = (*out)->classes(&in);
    return QB_OK;
}

qb_class_rule qb_detector_class_rule(const qb_coco *truth, int32_t told, int32_t seen) {
    const int64_t top = qb_coco_top_id(truth);
    const bool some = truth->n_categories > 0;
    const bool ids = told > 0
                         ? some && told > truth->n_categories && (told == top || told == top + 1)
                         : some && seen > truth->n_categories;
    return (qb_class_rule){ids, ids && told == top ? 1 : 0};
}

void qb_detector_class_text(const qb_coco *truth, int32_t told, char *text, size_t n) {
    const qb_class_rule rule = qb_detector_class_rule(truth, told, 0);
    const long long top = (long long)qb_coco_top_id(truth);
    const int32_t categories = truth->n_categories;
    if (told == 0)
        snprintf(text, n, "classes stand in values: ids if any is above %d, else ranks",
                 (int)categories - 1);
    else if (rule.ids)
        snprintf(text, n, "%d classes, ids up to %lld: class %lld has id %lld (by id)", (int)told,
                 top, (long long)truth->category[0].id - rule.first,
                 (long long)truth->category[0].id);
    else if (told > categories)
        snprintf(text, n,
                 "%d classes, %d categories, ids up to %lld: cannot tell; name them (labels)",
                 (int)told, (int)categories, top);
    else
        snprintf(text, n, "%d classes, %d categories: class 0 is '%.64s', id %lld (by rank)",
                 (int)told, (int)categories, truth->category[0].name,
                 (long long)truth->category[0].id);
}
