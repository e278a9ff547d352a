/* Mul, Div, Add or Sub by constants of a model's own image, its normalization, becomes a depthwise
 * Conv with windows of one pixel. fold-scale moves the rest of a mean, a deviation and a range of
 * pixels into it, and a GPU's engine runs it as the conversion of its input. */
#include <math.h>

#include "graph/passes_internal.h"

static bool all_finite(const double *numbers, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite((float)numbers[i])) return false;
    return true;
}

static qb_status try_side(qb_rewrite *rw, int32_t index, int32_t side, bool *done) {
    const qb_node *node = &rw->graph->nodes[index];
    const int64_t n = qb_image_channels(rw->graph, node->in[side]);
    double scale[QB_IMAGE_CHANNELS_MAX], shift[QB_IMAGE_CHANNELS_MAX],
        numbers[QB_IMAGE_CHANNELS_MAX];
    if (n == 0) return QB_OK;
    const qb_affine kind = qb_affine_numbers(rw->graph, node, side, 1, n, numbers);
    if (kind == QB_AFFINE_NONE || !all_finite(numbers, n)) return QB_OK;
    for (int64_t i = 0; i < n; i++) {
        scale[i] = kind == QB_AFFINE_SCALE ? numbers[i] : 1;
        shift[i] = kind == QB_AFFINE_SHIFT ? numbers[i] : 0;
    }
    QB_TRY(qb_affine_conv(rw, index, node->in[side], n, scale, shift));
    qb_rewrite_changed(rw);
    *done = true;
    return QB_OK;
}

static qb_status match(qb_rewrite *rw, int32_t index) {
    const qb_node *node = &rw->graph->nodes[index];
    bool done = false;
    if (qb_affine_of(node) == QB_AFFINE_NONE || !qb_value_is_plain(rw->graph, node->out[0]))
        return QB_OK;
    for (int32_t side = 0; side < 2 && !done; side++) QB_TRY(try_side(rw, index, side, &done));
    return QB_OK;
}

const qb_pass qb_pass_input_scale = {
    "input-scale", "makes the normalization of a model's image a depthwise Conv of one pixel",
    .match = match};
