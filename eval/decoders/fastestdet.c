/* fastestdet: one map of cells, https://github.com/dog-qiuqiu/FastestDet (handle_preds). */
#include <math.h>
#include <string.h>

#include "eval/detection.h"

/* Of a cell: objectness, tx ty tw th, probabilities of the classes. */
typedef struct parts {
    qb_cell_map object, box, score;
    int32_t classes;
} parts;

/* Channels of a map from number `first` on. */
static qb_cell_map from_channel(qb_cell_map m, int64_t first) {
    m.data = m.data ? m.data + first * m.step : NULL;
    m.channels -= first;
    return m;
}

/* One map of all, or one each in any order. */
static bool find_maps(const qb_decode *in, parts *out) {
    qb_cell_map m[3];
    if (in->n != 1 && in->n != 3) return false;
    for (int32_t i = 0; i < in->n; i++)
        if (!qb_cell_map_of(in, &in->output[i], &m[i]) || m[i].height != m[0].height ||
            m[i].width != m[0].width)
            return false;
    if (in->n == 1) {
        *out =
            (parts){m[0], from_channel(m[0], 1), from_channel(m[0], 5), (int32_t)m[0].channels - 5};
        return out->classes > 0;
    }
    *out = (parts){0};
    for (int32_t i = 0; i < 3; i++) {
        const char *name = in->name[i] ? in->name[i] : "";
        const bool boxes = m[i].channels == 4 && !strstr(name, "cls") && !strstr(name, "class");
        qb_cell_map *slot = m[i].channels == 1 && out->object.channels == 0 ? &out->object
                            : boxes && out->box.channels == 0               ? &out->box
                                                                            : &out->score;
        *slot = m[i];
    }
    out->classes = (int32_t)out->score.channels;
    return out->object.channels == 1 && out->box.channels == 4 && out->classes > 0;
}

/* One map of all as rows, 1 x (H W) x (5 + classes). */
static bool find_rows(const qb_decode *in, parts *out) {
    qb_grid grid;
    if (in->n != 1 || !qb_is_batch_of(&in->output[0], 3)) return false;
    const int64_t n = in->output[0].desc.shape.dim[1], each = in->output[0].desc.shape.dim[2];
    if (each < 6 || !qb_grid_find(in, n, 0, &grid) || grid.n != 1) return false;
    const qb_cell_map m = {in->output[0].data, grid.height[0], grid.width[0], each, each, 1};
    *out = (parts){m, from_channel(m, 1), from_channel(m, 5), (int32_t)each - 5};
    return true;
}

/* Rows are YOLOX's to whoever sees shapes alone, and maps as fine as an eighth are masks. */
static int32_t classes(const qb_decode *in) {
    const bool told = qb_decoder_is_told(in, classes);
    parts p;
    const bool fits =
        find_maps(in, &p) ? told || p.object.height * 8 < in->height : told && find_rows(in, &p);
    return fits ? p.classes : 0;
}

/* A backbone's features look like one map, too. */
static bool is_vague(const qb_decode *in) {
    parts p;
    return !find_maps(in, &p) || (in->n == 1 && p.classes != 80 && p.classes != in->n_labels);
}

/* Some exports end before the sigmoid of the objectness and the softmax of the classes. */
static bool has_logits(const qb_decode *in, const qb_cell_map *m) {
    return qb_needs_sigmoid(in, m->data, m->height * m->width, m->next, m->channels, m->step);
}

static double softmax(const qb_cell_map *m, const float *at, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < m->channels; i++) sum += exp((double)at[i * m->step] - at[k * m->step]);
    return 1 / sum;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    parts p;
    if (!find_maps(in, &p)) find_rows(in, &p);
    p.object.channels = 1;
    const bool raw_object = has_logits(in, &p.object), raw_score = has_logits(in, &p.score);
    const int64_t width = p.object.width, height = p.object.height;
    for (int64_t i = 0; i < height * width; i++) {
        const float *t = p.box.data + i * p.box.next, *score = p.score.data + i * p.score.next;
        const int64_t step = p.box.step;
        const double x = (double)(i % width), y = (double)(i / width);
        int32_t best = 0;
        for (int32_t k = 1; k < p.classes; k++)
            if (score[k * p.score.step] > score[best * p.score.step]) best = k;
        const double box[] = {(tanh(t[0]) + x) / (double)width * in->width,
                              (tanh(t[step]) + y) / (double)height * in->height,
                              qb_sigmoid(t[2 * step]) * in->width,
                              qb_sigmoid(t[3 * step]) * in->height};
        const float object = p.object.data[i * p.object.next];
        const double sure = raw_object ? qb_sigmoid(object) : object;
        const double likely =
            raw_score ? softmax(&p.score, score, best) : score[best * p.score.step];
        QB_TRY(
            qb_decode_box(cx, in, box, powf((float)sure, 0.6f) * powf((float)likely, 0.4f), best));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_fastestdet = {
    .name = "fastestdet",
    .text = "one output 1 x (5 + classes) x H x W, or channels last; or its three parts",
    .images = &(const qb_preprocess){.resize = QB_RESIZE_STRETCH, /* as its author's tools do */
                                     .color = QB_COLOR_BGR,
                                     .std = {255, 255, 255}},
    .classes = classes,
    .is_vague = is_vague,
    .decode = decode,
};
