/* centernet: peaks of a heat map a class, with sizes and offsets of the objects there, in cells of
 * the map (CenterNet, https://github.com/xingyizhou/CenterNet; TTFNet, CenterFace's form). A peak
 * is a cell that none of the eight around it exceeds: that is the suppression. */
#include <string.h>

#include "eval/detection.h"

typedef struct maps {
    const qb_tensor *heat, *size, *offset; /* offset NULL: centres of cells */
} maps;

static bool is_named(const qb_decode *in, const qb_tensor *tensor, const char *const *words) {
    for (; *words; words++)
        if (in->name && strstr(in->name[tensor - in->output], *words)) return true;
    return false;
}

/* Sizes are told from offsets by their names, else they come first. */
static bool find(const qb_decode *in, maps *out) {
    static const char *const words[] = {"reg", "off", NULL};
    *out = (maps){0};
    if (in->n < 2 || in->n > 3) return false;
    for (int32_t i = 0; i < in->n; i++) {
        const qb_tensor *t = &in->output[i];
        const int64_t *dim = t->desc.shape.dim, *first = in->output[0].desc.shape.dim;
        if (!qb_is_batch_of(t, 4) || dim[2] != first[2] || dim[3] != first[3]) return false;
        if (!out->heat && (dim[1] != 2 || in->n_labels == 2 || i + 2 == in->n))
            out->heat = t;
        else if (dim[1] != 2)
            return false;
        else if (!out->offset && (out->size || is_named(in, t, words)))
            out->offset = t;
        else if (!out->size)
            out->size = t;
        else
            return false;
    }
    return out->heat && out->size;
}

static int32_t classes(const qb_decode *in) {
    maps m;
    if (!find(in, &m)) return 0;
    const int64_t *dim = m.heat->desc.shape.dim;
    const bool fits = in->n_labels > 0 ? dim[1] == in->n_labels : m.offset != NULL;
    const bool fine = dim[3] < 0 || in->width <= 0 || dim[3] * 8 >= in->width;
    return dim[1] > 0 && fine && (fits || qb_decoder_is_told(in, classes)) ? (int32_t)dim[1] : 0;
}

static bool is_peak(const float *map, int64_t height, int64_t width, int64_t y, int64_t x) {
    const float own = map[y * width + x];
    for (int64_t v = y - 1; v <= y + 1; v++)
        for (int64_t u = x - 1; u <= x + 1; u++)
            if (v >= 0 && v < height && u >= 0 && u < width && map[v * width + u] > own)
                return false;
    return true;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    maps m;
    find(in, &m);
    const int64_t *dim = m.heat->desc.shape.dim, cells = dim[2] * dim[3];
    const float *size = m.size->data, *offset = m.offset ? m.offset->data : NULL;
    const bool logits = qb_needs_sigmoid(in, m.heat->data, cells, 1, dim[1], cells);
    const double sx = (double)in->width / (double)dim[3], sy = (double)in->height / (double)dim[2];
    for (int64_t c = 0; c < dim[1]; c++) {
        const float *map = (const float *)m.heat->data + c * cells;
        for (int64_t i = 0; i < cells; i++) {
            const double score = logits ? qb_sigmoid(map[i]) : map[i];
            const int64_t x = i % dim[3], y = i / dim[3];
            if (!(score > in->settings->score_threshold) || !is_peak(map, dim[2], dim[3], y, x))
                continue;
            const double box[] = {((double)x + (offset ? offset[i] : 0.5)) * sx,
                                  ((double)y + (offset ? offset[cells + i] : 0.5)) * sy,
                                  size[i] * sx, size[cells + i] * sy};
            QB_TRY(qb_decode_box(cx, in, box, score, (int32_t)c));
        }
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_centernet = {
    .name = "centernet",
    .text = "a heat map 1 x classes x H x W, and sizes and offsets 1 x 2 x H x W",
    .words = "ttfnet heatmap centermask objects_as_points",
    .keeps_all = true,
    .images = &(const qb_preprocess){.resize = QB_RESIZE_LETTERBOX,
                                     .color = QB_COLOR_BGR,
                                     .mean = {104.04F, 113.985F, 119.85F},
                                     .std = {73.695F, 69.87F, 70.89F}},
    .classes = classes,
    .decode = decode,
};
