/* fastestdet: one map of cells, https://github.com/dog-qiuqiu/FastestDet (handle_preds). */
#include <math.h>

#include "eval/detection.h"

/* Channels: objectness, tx ty tw th, probabilities of the classes. */
static bool find(const qb_decode *in, qb_cell_map *out) {
    return in->n == 1 && qb_cell_map_of(in, &in->output[0], out) && out->channels > 5;
}

static int32_t classes(const qb_decode *in) {
    qb_cell_map m;
    if (!find(in, &m)) return 0;
    /* Maps as fine as this are masks. */
    const bool fits = qb_decoder_is_told(in, classes) || m.height * 8 < in->height;
    return fits ? (int32_t)(m.channels - 5) : 0;
}

/* A backbone's features look like this, too. */
static bool is_vague(const qb_decode *in) {
    qb_cell_map m;
    return !find(in, &m) || (m.channels != 85 && m.channels != in->n_labels + 5);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    qb_cell_map m;
    find(in, &m);
    for (int64_t i = 0; i < m.height * m.width; i++) {
        const float *p = m.data + i * m.next, *score = p + 5 * m.step;
        const double x = (double)(i % m.width), y = (double)(i / m.width);
        int32_t best = 0;
        for (int32_t k = 1; k < m.channels - 5; k++)
            if (score[k * m.step] > score[best * m.step]) best = k;
        const double box[] = {(tanh(p[m.step]) + x) / (double)m.width * in->width,
                              (tanh(p[2 * m.step]) + y) / (double)m.height * in->height,
                              sigmoid(p[3 * m.step]) * in->width,
                              sigmoid(p[4 * m.step]) * in->height};
        QB_TRY(
            qb_decode_box(cx, in, box, powf(p[0], 0.6f) * powf(score[best * m.step], 0.4f), best));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_fastestdet = {
    .name = "fastestdet",
    .text = "one output 1 x (5 + classes) x H x W, or channels last",
    .classes = classes,
    .is_vague = is_vague,
    .decode = decode,
};
