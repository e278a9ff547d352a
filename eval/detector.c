#include "eval/detector.h"

qb_status qb_detector_guess(qb_ctx *cx, const qb_graph *graph, const qb_detector_hints *hints,
                            const qb_box_decoder **out) {
    qb_detect_settings settings = *hints->settings;
    const size_t n = (size_t)graph->n_outputs;
    QB_FREED qb_tensor *output = qb_alloc(cx, n, sizeof *output);
    QB_FREED const char **name = qb_alloc(cx, n, sizeof *name);
    QB_FREED bool *whole = qb_alloc(cx, n, sizeof *whole);
    settings.decoder = NULL;
    *out = NULL;
    for (size_t i = 0; output && name && whole && i < n; i++) {
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
    const qb_status status = output && name && whole ? QB_OK : cx->code;
    if (status == QB_OK) *out = qb_box_decoder_guess(&in);
    if (*out && hints->sure && (*out)->is_vague && (*out)->is_vague(&in)) *out = NULL;
    return status;
}
