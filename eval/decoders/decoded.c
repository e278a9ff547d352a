/* decoded: boxes, scores and classes as an export with suppression inside gives them; `box` and
 * `normalized` of the settings say in what form boxes are; those of TensorFlow's object detection
 * have y before x. */
#include <string.h>

#include "eval/detection.h"

typedef struct parts {
    const qb_tensor *boxes, *scores, *labels;
    const char *name; /* of the boxes */
    int64_t n, each;  /* boxes, and values of each */
} parts;

static bool is_row(const qb_shape *s) {
    return s->rank == 1 || (s->rank == 2 && (s->dim[0] == 1 || s->dim[0] < 0));
}

static int64_t last_of(const qb_shape *s) { return s->dim[s->rank - 1]; }

/* Does the output hold classes? A declared integer does, a name may say so. */
static bool is_classes(const qb_decode *in, int32_t i) {
    const char *name = in->name[i] ? in->name[i] : "";
    return (in->whole && in->whole[i]) || strstr(name, "label") || strstr(name, "class");
}

/* N x 4 and two lists of N, each perhaps behind a batch of 1; or N x 5, the score behind the box,
 * and one list. Of two lists alike the later one has the classes. */
static bool find(const qb_decode *in, parts *out) {
    int32_t row[2] = {0, 0};
    int rows = 0;
    *out = (parts){0};
    for (int32_t i = 0; i < in->n; i++) {
        const qb_shape *s = &in->output[i].desc.shape;
        const bool boxes = s->rank >= 2 && (last_of(s) == 4 || last_of(s) == 5) &&
                           (s->rank == 2 || qb_is_batch_of(&in->output[i], 3));
        if (boxes && !out->boxes) {
            out->boxes = &in->output[i];
            out->name = in->name[i];
            out->each = last_of(s);
        } else if (is_row(s) && last_of(s) != 1 && rows < 2) {
            row[rows++] = i;
        }
    }
    if (!out->boxes || rows != 6 - out->each) return false;
    const bool first = rows == 1 || (is_classes(in, row[0]) && !is_classes(in, row[1]));
    out->labels = &in->output[row[!first]];
    out->scores = &in->output[row[first]];
    const qb_shape *b = &out->boxes->desc.shape;
    out->n = b->dim[b->rank - 2];
    for (int k = 0; k < rows; k++)
        if (last_of(&in->output[row[k]].desc.shape) != out->n) return false;
    return true;
}

static int32_t classes(const qb_decode *in) {
    parts p;
    return find(in, &p) ? QB_CLASSES_NOT_TOLD : 0;
}

static qb_status decode(qb_ctx *cx, const qb_decode *in) {
    parts p;
    find(in, &p);
    const float *b = p.boxes->data, *score = p.scores->data, *label = p.labels->data;
    const bool tensorflow =
        p.name && (strstr(p.name, "detection_boxes") || strstr(p.name, "Detection_PostProcess"));
    const qb_box_form form = qb_box_form_of(in, tensorflow ? 3 : 0, b, p.n, p.each, 1);
    for (int64_t i = 0; i < p.n; i++, b += p.each) {
        double box[4];
        qb_box_convert(&form, b, 1, box);
        if (label[i] >= 0 && label[i] < QB_CLASSES_NOT_TOLD)
            QB_TRY(qb_decode_box(cx, in, box, p.each == 5 ? b[4] : score[i], (int32_t)label[i]));
    }
    return QB_OK;
}

const qb_box_decoder qb_box_decoder_decoded = {
    .name = "decoded",
    .text = "outputs N x 4, N scores and N classes, or N x 5 and N classes",
    .words = "nms end2end postprocessed torchvision mmdet mmdeploy fasterrcnn",
    .keeps_all = true,
    .classes = classes,
    .decode = decode,
};
