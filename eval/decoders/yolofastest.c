/* yolofastest: maps of two strides, https://github.com/dog-qiuqiu/Yolo-FastestV2 (predHandle): of
 * each cell the boxes of three anchors, their objectness, and a score a class that they share, all
 * through a sigmoid or softmax in the graph. */
#include "eval/detection.h"

enum { ANCHORS = 3, HEADS = 2, OTHERS = 5 * ANCHORS };

/* COCO's at 352 x 352, in pixels, for the strides 16, 32. */
static const double usual[] = {12.64,  19.39, 37.88,  51.48,  55.71,  138.31,
                               126.91, 78.23, 131.57, 214.55, 279.92, 258.87};

static bool find(const qb_decode *in, qb_cell_map head[HEADS]) {
    const int32_t told = in->settings->n_anchors;
    if (in->n != HEADS || (told > 0 && told != HEADS * 2 * ANCHORS)) return false;
    for (int32_t i = 0; i < HEADS; i++)
        if (!qb_cell_map_of(in, &in->output[i], &head[i])) return false;
    if (head[0].height < head[1].height) {
        const qb_cell_map coarse = head[0];
        head[0] = head[1];
        head[1] = coarse;
    }
    return head[0].channels == head[1].channels && head[0].channels > OTHERS &&
           head[0].height == 2 * head[1].height && head[0].width == 2 * head[1].width;
}

/* Backbones have two maps as well: only with as many classes as are known. */
static int32_t classes(const qb_decode *in) {
    qb_cell_map head[HEADS];
    if (!find(in, head)) return 0;
    const int32_t n = (int32_t)head[0].channels - OTHERS;
    const bool usual_number = n == (in->n_labels > 0 ? in->n_labels : 80);
    return usual_number || qb_decoder_is_told(in, classes) ? n : 0;
}

static qb_status decode_cell(qb_ctx *cx, const qb_decode *in, const qb_cell_map *m, int64_t i,
                             const double *anchor) {
    const float *p = m->data + i * m->next, *score = p + OTHERS * m->step;
    const double across = (double)in->width / (double)m->width,
                 down = (double)in->height / (double)m->height;
    for (int64_t a = 0; a < ANCHORS; a++, anchor += 2) {
        const float *t = p + 4 * a * m->step;
        const double w = 2 * t[2 * m->step], h = 2 * t[3 * m->step];
        const double box[] = {(2 * t[0] - 0.5 + (double)(i % m->width)) * across,
                              (2 * t[m->step] - 0.5 + (double)(i / m->width)) * down,
                              w * w * anchor[0], h * h * anchor[1]};
        QB_TRY(qb_decode_best(cx, in, box,
                              &(qb_box_scores){score, m->step, (int32_t)m->channels - OTHERS, false,
                                               p[(4 * ANCHORS + a) * m->step]}));
    }
    return QB_OK;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    const double *anchors = in->settings->n_anchors > 0 ? in->settings->anchor : usual;
    qb_cell_map head[HEADS];
    find(in, head);
    for (int32_t k = 0; k < HEADS; k++)
        for (int64_t i = 0; i < head[k].height * head[k].width; i++)
            QB_TRY(decode_cell(cx, in, &head[k], i, anchors + 2 * ANCHORS * k));
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_yolofastest = {
    .name = "yolofastest",
    .text = "two outputs 1 x H x W x (15 + classes), or channels first",
    .words = "yolo_fastestv2 yolo-fastestv2 yolo_fastest yolo-fastest",
    .images = &(const qb_preprocess){.resize = QB_RESIZE_STRETCH,
                                     .color = QB_COLOR_BGR,
                                     .std = {255, 255, 255}},
    .classes = classes,
    .decode = decode,
};
