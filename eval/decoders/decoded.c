/* decoded: boxes, scores and classes as an export with suppression inside gives them; `box` and
 * `normalized` of the settings say in what form boxes are. */
#include <string.h>

#include "eval/detection.h"

typedef struct parts {
    const qb_tensor *boxes, *scores, *labels;
    int64_t n;
} parts;

static bool is_row(const qb_shape *s) {
    return s->rank == 1 || (s->rank == 2 && (s->dim[0] == 1 || s->dim[0] < 0));
}

/* N x 4 and two lists of N, each perhaps behind a batch of 1. Of the lists the one whose name
 * speaks of labels or classes has them, else the later one. */
static bool find(const qb_decode *in, parts *out) {
    const qb_tensor *row[2] = {NULL, NULL};
    const char *name[2] = {NULL, NULL};
    int rows = 0;
    *out = (parts){0};
    for (int32_t i = 0; i < in->n; i++) {
        const qb_shape *s = &in->output[i].desc.shape;
        const bool four = s->rank >= 2 && s->dim[s->rank - 1] == 4 &&
                          (s->rank == 2 || qb_is_batch_of(&in->output[i], 3));
        if (four && !out->boxes) {
            out->boxes = &in->output[i];
        } else if (is_row(s) && s->dim[s->rank - 1] != 1 && rows < 2) {
            row[rows] = &in->output[i];
            name[rows++] = in->name[i] ? in->name[i] : "";
        }
    }
    if (!out->boxes || rows < 2) return false;
    const bool first = (strstr(name[0], "label") || strstr(name[0], "class")) &&
                       !strstr(name[1], "label") && !strstr(name[1], "class");
    out->labels = row[!first];
    out->scores = row[first];
    const qb_shape *b = &out->boxes->desc.shape;
    out->n = b->dim[b->rank - 2];
    return row[0]->desc.shape.dim[row[0]->desc.shape.rank - 1] == out->n &&
           row[1]->desc.shape.dim[row[1]->desc.shape.rank - 1] == out->n;
}

static int32_t classes(const qb_decode *in) {
    parts p;
    return find(in, &p) ? 1 << 20 : 0;
}

/* To centre and size. */
static void convert(int32_t form, const float *b, double out[4]) {
    const bool swapped = form == 3, corners = form == 0 || swapped;
    const double x = b[swapped], y = b[!swapped], u = b[2 + swapped], v = b[2 + !swapped];
    out[2] = corners ? u - x : u;
    out[3] = corners ? v - y : v;
    out[0] = form == 2 ? x : x + out[2] / 2;
    out[1] = form == 2 ? y : y + out[3] / 2;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    parts p;
    find(in, &p);
    const float *b = p.boxes->data, *score = p.scores->data, *label = p.labels->data;
    const double width = in->settings->normalized ? in->width : 1;
    const double height = in->settings->normalized ? in->height : 1;
    for (int64_t i = 0; i < p.n; i++, b += 4) {
        double box[4];
        convert(in->settings->box, b, box);
        for (int k = 0; k < 4; k++) box[k] *= k % 2 ? height : width;
        if (label[i] >= 0 && label[i] < 1 << 20)
            QB_TRY(qb_decode_box(cx, in, box, score[i], (int32_t)label[i]));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_decoded = {
    .name = "decoded",
    .text = "outputs N x 4, N scores and N classes",
    .keeps_all = true,
    .classes = classes,
    .decode = decode,
};
